/*
 * oom.c - runs the unit test it is linked with while the n-th allocation fails.
 *
 * A constructor takes over before main(): it forks one child per n, the child goes on
 * into the test's main(), the parent reads its output and waits. Two ways for each n:
 * only that allocation fails, or that one and all after it. An assertion that fails
 * for want of memory is fine; a signal, a report of a sanitizer or a hang is a bug.
 *
 * Only allocations of our own code and of cJSON fail: the linker's --wrap does not reach
 * into shared libraries, which keeps the test framework out of it.
 *
 *   B2_OOM_AT=n      run once, the n-th allocation fails; B2_OOM_ALL=1: all from there
 *   B2_OOM_SECONDS=s time for all runs; when it is short, fewer n are tried [8]
 */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EVERY_N = 300, OUTPUT_MAX = 64 * 1024 };

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **out, size_t align, size_t n);

/* Absent from a test that does not use cJSON. */
extern void cJSON_InitHooks(cJSON_Hooks *hooks) __attribute__((weak));

static atomic_long n_calls;
static long fail_at; /* 0: never */
static bool fail_all;
static int count_fd = -1; /* where a counting run leaves its number of allocations */

void oom_failing(void);

/* A place for a breakpoint: its caller's caller is the allocation that fails. */
__attribute__((noinline)) void oom_failing(void)
{
    __asm__ volatile("");
}

static bool fails(void)
{
    long n = 1 + atomic_fetch_add(&n_calls, 1);

    if (fail_at == 0 || n < fail_at || (n > fail_at && !fail_all))
        return false;
    oom_failing();
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(align, n);
}

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
    return fails() ? ENOMEM : __real_posix_memalign(out, align, n);
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_count(void)
{
    long n = atomic_load(&n_calls);

    if (count_fd >= 0 && write(count_fd, &n, sizeof n) != (ssize_t)sizeof n)
        _exit(99);
}

/* What one run left. */
struct run {
    char output[OUTPUT_MAX]; /* its end is cut when longer */
    int status;              /* of waitpid */
    bool hung;
    long n_calls; /* of a counting run */
    double spent_s;
};

/* Parent: gathers output until the child closes it or the time is up. */
static void collect(struct run *r, int fd, pid_t pid, double limit_s)
{
    size_t len = 0;
    double start = now_s();
    char drop[4096];

    for (;;) {
        double left_s = start + limit_s - now_s();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left_s <= 0.0) {
            r->hung = true;
            kill(pid, SIGKILL);
            break;
        }
        if (poll(&p, 1, (int)(left_s * 1000.0) + 1) <= 0)
            continue;
        bool room = len + 1 < sizeof r->output;
        ssize_t n = read(fd, room ? r->output + len : drop,
                         room ? sizeof r->output - 1 - len : sizeof drop);
        if (n <= 0)
            break;
        len += room ? (size_t)n : 0;
    }
    r->output[len] = '\0';
    waitpid(pid, &r->status, 0);
    r->spent_s = now_s() - start;
}

/* Each run works in a folder of its own, which goes with it: a test that dies leaves its
 * files, and hundreds of runs would fill the disk. */
static char scratch[200];

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *at)
{
    (void)st;
    (void)type;
    return at->level > 0 ? remove(path) : 0; /* the folder itself stays */
}

static void scratch_make(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(scratch, sizeof scratch, "%s/b2-oom-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch) || setenv("TMPDIR", scratch, 1)) {
        perror("oom: scratch folder");
        _exit(1);
    }
}

static void scratch_empty(void)
{
    nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* True in the child, which goes on into the test; false in the parent when it ended. */
static bool run_child(struct run *r, long at, bool all, double limit_s)
{
    int out[2], count[2];

    if (pipe(out) || pipe(count)) {
        perror("oom: pipe");
        _exit(1);
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        perror("oom: fork");
        _exit(1);
    }
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        close(out[1]);
        close(count[0]);
        if (chdir(scratch))
            _exit(98);
        fail_at = at;
        fail_all = all;
        count_fd = count[1];
        atomic_store(&n_calls, 0);
        atexit(write_count);
        return true;
    }
    close(out[1]);
    close(count[1]);
    *r = (struct run){0};
    collect(r, out[0], pid, limit_s);
    scratch_empty();
    if (read(count[0], &r->n_calls, sizeof r->n_calls) != (ssize_t)sizeof r->n_calls)
        r->n_calls = 0;
    close(out[0]);
    close(count[0]);
    return false;
}

/* What is wrong with a run, or NULL. */
static const char *verdict(const struct run *r)
{
    static const char *const reports[] = {
        "Test failed with exception", /* cmocka catches SIGSEGV and the like */
        "ERROR: AddressSanitizer",    "runtime error:",
        "WARNING: ThreadSanitizer",   "WARNING: MemorySanitizer",
    };

    if (r->hung)
        return "hangs";
    if (WIFSIGNALED(r->status))
        return strsignal(WTERMSIG(r->status));
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++)
        if (strstr(r->output, reports[i]))
            return reports[i];
    /* An assertion jumps out of the test and leaves what the test had allocated. */
    if (strstr(r->output, "ERROR: LeakSanitizer") && !strstr(r->output, "FAILED"))
        return "leaks";
    return NULL;
}

/* The n after this one: every n at first, then in steps of an eighth; thinned (> 1)
 * multiplies the steps when time is short. */
static long next_n(long n, long thinned)
{
    return n + (n < EVERY_N ? 1 : n / 8) * thinned;
}

static long count_runs(long total, long thinned)
{
    long n_runs = 0;

    for (long n = 1; n <= total; n = next_n(n, thinned))
        n_runs += 2;
    return n_runs;
}

/* Ends the process with what the runs showed. */
static void finish(int code)
{
    fflush(stdout);
    rmdir(scratch);
    _exit(code);
}

/* True in a child, which goes on into the test. Ends the process when the test does not
 * even pass with all the memory there is. */
static bool run_plain(struct run *r)
{
    if (run_child(r, 0, false, 100.0))
        return true;
    bool skipped = WIFEXITED(r->status) && WEXITSTATUS(r->status) == 77;
    if (!verdict(r) && WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0)
        return false;
    printf("%s\noom: the test %s without failing allocations\n", r->output,
           skipped ? "skips itself" : "does not pass");
    finish(skipped ? 77 : 1);
    return false;
}

__attribute__((constructor)) static void oom_main(void)
{
    static struct run r;
    const char *at = getenv("B2_OOM_AT"), *seconds = getenv("B2_OOM_SECONDS");
    double budget_s = seconds ? strtod(seconds, NULL) : 8.0;
    int n_bad = 0;

    if (cJSON_InitHooks)
        cJSON_InitHooks(&(cJSON_Hooks){__wrap_malloc, free});
    if (at) {
        fail_at = strtol(at, NULL, 10);
        fail_all = getenv("B2_OOM_ALL") != NULL;
        return; /* into the test */
    }
    scratch_make();
    if (run_plain(&r))
        return;
    long total = r.n_calls, thinned = 1;
    double limit_s = 5.0 + 20.0 * r.spent_s, due_s = now_s() + budget_s;
    while ((double)count_runs(total, thinned) * r.spent_s > budget_s && thinned < 1024)
        thinned *= 2;
    if (thinned > 1)
        printf("oom: %ld allocations, %.2f s a run: every %ldth n\n", total, r.spent_s,
               thinned);
    for (long n = 1; n <= total && n_bad < 5; n = next_n(n, thinned)) {
        if (now_s() > due_s) { /* runs with a failure take longer than the first one */
            thinned *= 4;
            due_s += budget_s;
        }
        for (int all = 0; all < 2; all++) {
            if (run_child(&r, n, all, limit_s))
                return;
            const char *bad = verdict(&r);
            if (!bad)
                continue;
            n_bad++;
            printf("%s\noom: %s; repeat with B2_OOM_AT=%ld%s\n", r.output, bad, n,
                   all ? " B2_OOM_ALL=1" : "");
        }
    }
    finish(n_bad > 0);
}
