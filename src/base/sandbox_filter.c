/*
 * sandbox_filter.c - the system calls that an untrusted program may make.
 *
 * A list of what Python needs to compute and print; everything else fails with EPERM
 * (clone3 with ENOSYS, so that libraries try clone and get their answer). Opening for
 * writing is refused here too, although the file system is read-only already.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#include "base/sandbox_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef FILTER_ARCH

static const int allowed[] = {
    /* files, for reading */
    SYS_read, SYS_pread64, SYS_readv, SYS_write, SYS_writev, SYS_close, SYS_lseek,
    SYS_fstat, SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_getdents64, SYS_readlinkat,
    SYS_getcwd, SYS_chdir, SYS_dup, SYS_dup3, SYS_fcntl, SYS_ioctl, SYS_statfs,
    SYS_fstatfs, SYS_pipe2, SYS_ppoll, SYS_pselect6, SYS_eventfd2, SYS_epoll_create1,
    SYS_umask,
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
#ifdef SYS_open /* not on arm64 */
    SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_dup2, SYS_poll, SYS_select,
    SYS_getpgrp, SYS_arch_prctl, SYS_time, SYS_epoll_create,
#endif
    /* memory */
    SYS_mmap, SYS_mprotect, SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk,
    /* the process itself */
    SYS_execve, SYS_exit, SYS_exit_group, SYS_getpid, SYS_getppid, SYS_gettid,
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getgroups, SYS_getpgid,
    SYS_getsid, SYS_getrusage, SYS_times, SYS_sysinfo, SYS_uname, SYS_prlimit64,
    SYS_set_tid_address, SYS_set_robust_list, SYS_sched_getaffinity, SYS_sched_yield,
    SYS_kill, SYS_tgkill, SYS_futex, SYS_getrandom, SYS_membarrier, SYS_getpriority,
#ifdef SYS_rseq
    SYS_rseq,
#endif
    /* signals and time */
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep,
    SYS_gettimeofday, SYS_restart_syscall, SYS_setitimer, SYS_getitimer};

enum { ROOM = countof(allowed) * 2 + 24 };

/* A program being written. */
struct code {
    struct sock_filter op[ROOM];
    unsigned short n;
};

static void put(struct code *c, struct sock_filter op)
{
    c->op[c->n++] = op;
}

static void put_return(struct code *c, uint32_t what)
{
    put(c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static void put_load(struct code *c, size_t offset)
{
    put(c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* The next n instructions run only when the loaded word is (is not) value. */
static void put_if(struct code *c, uint32_t value, unsigned char skip)
{
    put(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
}

/* An open call whose flags stand in argument `arg`: read-only ones pass. */
static void put_open(struct code *c, int call, int arg)
{
    const uint32_t writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
    size_t at = offsetof(struct seccomp_data, args) + (size_t)arg * 8;

    put_if(c, (uint32_t)call, 4); /* little-endian: the low half of the argument */
    put_load(c, at);
    put(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, writing, 1, 0));
    put_return(c, SECCOMP_RET_ALLOW);
    put_return(c, SECCOMP_RET_ERRNO | EROFS);
}

bool sandbox_filter(void)
{
    struct code c = {.n = 0};

    put_load(&c, offsetof(struct seccomp_data, arch));
    put_if(&c, FILTER_ARCH, 1);
    put(&c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0));
    put_return(&c, SECCOMP_RET_KILL_PROCESS); /* calls of another architecture */
    put_load(&c, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < countof(allowed); i++) {
        put_if(&c, (uint32_t)allowed[i], 1);
        put_return(&c, SECCOMP_RET_ALLOW);
    }
#ifdef SYS_open
    put_open(&c, SYS_open, 1);
#endif
    put_open(&c, SYS_openat, 2);
#ifdef SYS_clone3
    put_if(&c, SYS_clone3, 1);
    put_return(&c, SECCOMP_RET_ERRNO | ENOSYS);
#endif
    put_return(&c, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {.len = c.n, .filter = c.op};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

#else

bool sandbox_filter(void)
{
    errno = ENOSYS; /* no list of calls for this processor */
    return false;
}

#endif
#else
typedef int sandbox_filter_is_empty; /* C wants a file to hold something */
#endif
