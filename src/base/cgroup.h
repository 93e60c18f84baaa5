/*
 * cgroup.h - the control groups of this process, and the processor time they allow.
 *
 * Linux containers limit a process by a quota of microseconds per period: version 2 in
 * cpu.max, version 1 in cpu.cfs_quota_us and cpu.cfs_period_us, at every level of the
 * group's path. Kernel documentation: admin-guide/cgroup-v2.rst, section "CPU", and
 * scheduler/sched-bwc.rst.
 */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdbool.h>

/* visit(ctx, folder, is version 2) for every level of the group's path, tightest first. */
struct cgroup_walk {
    const char *root; /* "/sys/fs/cgroup"; tests pass another */
    void (*visit)(void *ctx, const char *dir, bool v2);
    void *ctx;
};

/* names: the controller, then other folders where version 1 mounts it; ends with NULL. */
void cgroup_visit(const char *proc_file, const char *const *names,
                  const struct cgroup_walk *w);

/* Processors' worth of time that the tightest level allows, 0.0: no limit. proc_file
 * and root are "/proc/self/cgroup" and "/sys/fs/cgroup"; tests pass others. What
 * cannot be read limits nothing. */
double cgroup_cpu_quota(const char *proc_file, const char *root);

#endif
