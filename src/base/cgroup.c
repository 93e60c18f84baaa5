/*
 * cgroup.c - walks up the path of the control group and keeps the smallest quota.
 */
#include "base/cgroup.h"

#include "base/util.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* Reads two words that the kernel wrote ("max 100000"); false: no such file. */
static bool read_line(const char *path, char *line, int size)
{
    FILE *f = fopen(path, "r");

    if (!f)
        return false;
    bool ok = fgets(line, size, f) != NULL;
    fclose(f);
    return ok;
}

/* Digits at *p as a number; false ("max", "-1"): no limit. Moves *p behind them. */
static bool take_number(const char **p, double *out)
{
    const char *s = *p + strspn(*p, " ");

    if (*s < '0' || *s > '9')
        return false;
    for (*out = 0.0; *s >= '0' && *s <= '9'; s++)
        *out = *out * 10.0 + (*s - '0');
    *p = s;
    return true;
}

/* Lowers the quota at ctx to the limit that folder dir sets. */
static void apply_dir(void *ctx, const char *dir, bool v2)
{
    double *quota = ctx;
    char path[PATH_BYTES + 32], line[128];
    const char *p = line;
    double use_us, period_us;

    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_line(path, line, sizeof line) || !take_number(&p, &use_us))
        return;
    if (!v2) {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        if (!read_line(path, line, sizeof line))
            return;
        p = line;
    }
    if (!take_number(&p, &period_us) || period_us <= 0.0)
        return;
    if (*quota == 0.0 || use_us / period_us < *quota)
        *quota = use_us / period_us;
}

/* Applies the limits of root/sub/group and of every folder above it down to root/sub.
 * Inside a container the group's path may name folders of the host that are not mounted
 * here; those are passed over, and root/sub is then the container's own group. */
static void walk_up(const struct cgroup_walk *w, const char *sub, const char *group,
                    bool v2)
{
    const char *root = w->root;
    char dir[PATH_BYTES];
    int base = snprintf(dir, sizeof dir, "%s%s", root, sub);
    int n = base < 0 ? base : snprintf(dir, sizeof dir, "%s%s%s", root, sub, group);

    if (n < 0 || n >= (int)sizeof dir)
        return;
    for (;;) {
        w->visit(w->ctx, dir, v2);
        while (n > base && dir[n - 1] != '/')
            n--;
        while (n > base && dir[n - 1] == '/')
            n--;
        if (n <= base)
            break;
        dir[n] = '\0';
    }
    dir[base] = '\0';
    w->visit(w->ctx, dir, v2);
}

/* Is word one of the comma-separated names in list, which ends at end? */
static bool in_list(const char *list, const char *end, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; p < end; p++) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - p) == n && memcmp(p, word, n) == 0)
            return true;
        p = stop;
    }
    return false;
}

void cgroup_visit(const char *proc_file, const char *const *names,
                  const struct cgroup_walk *w)
{
    char line[PATH_BYTES], sub[64];
    FILE *f = fopen(proc_file, "r");

    if (!f)
        return;
    /* Each line is "hierarchy:controllers:path"; version 2 is hierarchy 0 with none. */
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        list++;
        if (list == group) {
            walk_up(w, "", group + 1, true);
            walk_up(w, "/unified", group + 1, true);
        } else if (in_list(list, group, names[0])) {
            for (int i = 0; names[i]; i++) {
                snprintf(sub, sizeof sub, "/%s", names[i]);
                walk_up(w, sub, group + 1, false);
            }
        }
    }
    fclose(f);
}

double cgroup_cpu_quota(const char *proc_file, const char *root)
{
    static const char *const names[] = {"cpu", "cpu,cpuacct", NULL};
    double quota = 0.0;
    const struct cgroup_walk w = {root, apply_dir, &quota};

    cgroup_visit(proc_file, names, &w);
    return quota;
}
