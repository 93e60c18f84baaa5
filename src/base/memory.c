/*
 * memory.c - free memory of the machine and of the control group, whichever is less.
 */
#include "base/memory.h"

#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PATH_BYTES = 4200, LINE_BYTES = 256 };

struct search {
    uint64_t least; /* bytes; UINT64_MAX: nothing known yet */
    bool group;     /* a control group said so */
};

/* The number behind key in a file of lines "key number", 0 if it is not there. An empty key
 * takes the first number of the file. */
static uint64_t number_in(const char *dir, const char *name, const char *key)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    size_t len = strlen(key);
    uint64_t n = 0;
    FILE *f;

    if (snprintf(path, sizeof path, "%s%s%s", dir, *name ? "/" : "", name) >=
        (int)sizeof path)
        return 0;
    f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *p = line + len + strspn(line + (strlen(line) < len ? 0 : len), " ");
        if (strncmp(line, key, len) != 0 || *p < '0' || *p > '9')
            continue;
        n = strtoull(p, NULL, 10);
        break;
    }
    if (f)
        fclose(f);
    return n;
}

/* A level's limit less what it uses; cached files count as free, since the system takes
 * them back before it fails. */
static void visit(void *ctx, const char *dir, bool v2)
{
    struct search *s = ctx;
    uint64_t limit = number_in(dir, v2 ? "memory.max" : "memory.limit_in_bytes", "");
    uint64_t used = number_in(dir, v2 ? "memory.current" : "memory.usage_in_bytes", "");
    uint64_t cached =
        number_in(dir, "memory.stat", v2 ? "inactive_file " : "total_inactive_file ") +
        number_in(dir, "memory.stat", v2 ? "active_file " : "total_active_file ");

    if (limit == 0) /* none, or "max" */
        return;
    used = used > cached ? used - cached : 0;
    uint64_t left = limit > used ? limit - used : 1;
    if (left < s->least)
        *s = (struct search){left, true};
}

uint64_t memory_available_at(const char *meminfo, const char *proc_file,
                             const char *root, char *why, size_t why_size)
{
    static const char *const names[] = {"memory", NULL};
    struct search s = {UINT64_MAX, false};
    const struct cgroup_walk w = {root, visit, &s};
    uint64_t kib = number_in(meminfo, "", "MemAvailable:");

    if (kib > 0)
        s.least = kib * 1024;
    cgroup_visit(proc_file, names, &w);
    if (why_size > 0)
        snprintf(why, why_size, "%s",
                 s.group                 ? "the control group's limit"
                 : s.least == UINT64_MAX ? "not known"
                                         : "what the machine has free");
    return s.least == UINT64_MAX ? 0 : s.least;
}

uint64_t memory_available(char *why, size_t why_size)
{
    return memory_available_at("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup",
                               why, why_size);
}

void memory_allow_unused(uint64_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_DATA, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return;
    if (limit.rlim_max - limit.rlim_cur > bytes)
        limit.rlim_cur += (rlim_t)bytes;
    else
        limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_DATA, &limit);
}
