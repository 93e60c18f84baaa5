/*
 * sandbox.c - namespaces, a read-only root, limits, a filter, a clock.
 *
 * One clone makes the first process of new namespaces. It waits until this side has
 * written its user map, builds its root, and forks the program; so the program is not
 * process 1, whose signals would be ignored. Everything behind the clone makes system
 * calls only: other threads of this process may hold any lock.
 */
#define _GNU_SOURCE
#include "base/sandbox.h"

#include "base/clock.h"
#include "base/sandbox_int.h"

#include <stdlib.h>
#include <string.h>

void sandbox_result_free(struct sandbox_result *r)
{
    str_free(&r->output);
}

#if defined(__linux__)

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, MAX_FILES = 64, MAX_PROCESSES = 16, MAX_INHERITED = 4096 };

/* What the inner side tells: a step that failed, or how the program ended. */
struct report {
    int step;   /* enum sandbox_step; STEP_NONE: the program ran */
    int number; /* errno, or waitpid's status */
};

/* Everything that the inner side needs, made before the clone. */
struct inside {
    const char *const *argv;
    const struct sandbox_limits *limits;
    int go[2], tell[2], out[2], input;
};

static _Noreturn void fail_inside(const struct inside *in, enum sandbox_step step)
{
    struct report r = {(int)step, errno};
    ssize_t n = write(in->tell[1], &r, sizeof r);

    _exit(n == (ssize_t)sizeof r ? 1 : 2);
}

/* Binds a folder read-only under the new root; one that is not there is left out, a
 * symbolic link (/lib on a merged system) is copied as such. */
static bool bind_folder(const char *from)
{
    char to[64] = ".", link[256];
    struct stat st;
    struct statvfs fs;
    unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV;
    ssize_t n;

    if (lstat(from, &st) != 0)
        return true;
    memcpy(to + 1, from, strlen(from) + 1);
    if (S_ISLNK(st.st_mode)) {
        n = readlink(from, link, sizeof link - 1);
        if (n < 0)
            return false;
        link[n] = '\0';
        return symlink(link, to) == 0;
    }
    if (mkdir(to, 0755) != 0 || mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0 ||
        statvfs(to, &fs) != 0)
        return false;
    /* Flags that the outer system locked must be named again. */
    if (fs.f_flag & ST_NOEXEC)
        flags |= MS_NOEXEC;
    if (fs.f_flag & ST_NOATIME)
        flags |= MS_NOATIME;
    else if (fs.f_flag & ST_RELATIME)
        flags |= MS_RELATIME;
    return mount(NULL, to, NULL, flags, NULL) == 0;
}

/* A read-only root with the system's programs and libraries in it. */
static void build_root(const struct inside *in)
{
    static const char *const folders[] = {"/usr", "/bin",   "/sbin",
                                          "/lib", "/lib64", "/lib32"};

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=755") !=
            0 ||
        chdir("/tmp") != 0)
        fail_inside(in, STEP_MOUNT);
    for (size_t i = 0; i < countof(folders); i++)
        if (!bind_folder(folders[i]))
            fail_inside(in, STEP_MOUNT);
    /* The old root is stacked on the new one and then taken off. */
    if (syscall(SYS_pivot_root, ".", ".") != 0 || umount2(".", MNT_DETACH) != 0 ||
        chdir("/") != 0 ||
        mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV,
              NULL) != 0)
        fail_inside(in, STEP_ROOT);
}

/* Closes, at the exec to come, whatever this process had open. */
static bool hide_files(void)
{
#ifdef SYS_close_range
    const unsigned cloexec = 1u << 2; /* CLOSE_RANGE_CLOEXEC, Linux 5.11 */
    if (syscall(SYS_close_range, 3u, ~0u, cloexec) == 0)
        return true;
#endif
    for (int fd = 3; fd < MAX_INHERITED; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 && errno != EBADF)
            return false;
    return true;
}

static bool limit(int what, uint64_t n)
{
    const struct rlimit r = {.rlim_cur = (rlim_t)n, .rlim_max = (rlim_t)n};

    return setrlimit((__rlimit_resource_t)what, &r) == 0;
}

/* The program itself: gives everything up, then becomes argv. */
static _Noreturn void become(const struct inside *in)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8",
                                      "OPENBLAS_NUM_THREADS=1", NULL};
    const struct sandbox_limits *l = in->limits;
    union {
        const char *const *in;
        char *const *out;
    } argv = {.in = in->argv}, envp = {.in = env}; /* execve changes neither */

    if (dup2(in->input, 0) < 0 || dup2(in->out[1], 1) < 0 || dup2(in->out[1], 2) < 0)
        fail_inside(in, STEP_LIMITS);
    if (!hide_files() || !limit(RLIMIT_AS, l->memory_bytes) ||
        !limit(RLIMIT_CPU, (uint64_t)(l->cpu_s + 0.999)) || !limit(RLIMIT_FSIZE, 0) ||
        !limit(RLIMIT_CORE, 0) || !limit(RLIMIT_NOFILE, MAX_FILES) ||
        !limit(RLIMIT_NPROC, MAX_PROCESSES) || !limit(RLIMIT_MEMLOCK, 0) ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        fail_inside(in, STEP_LIMITS);
    if (!sandbox_filter())
        fail_inside(in, STEP_FILTER);
    execve(argv.out[0], argv.out, envp.out); /* capabilities end here: not user 0 */
    fail_inside(in, STEP_EXEC);
}

/* Takes back what this process did with signals: a handler of its own would let the
 * program reach process 1, which no signal from inside can do otherwise. */
static void forget_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int s = 1; s <= SIGRTMAX; s++)
        (void)sigaction(s, &plain, NULL); /* KILL, STOP and libc's own two refuse */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Process 1 of the new namespaces. */
static _Noreturn void run_inside(const struct inside *in)
{
    char byte;
    struct report r = {STEP_NONE, 0};
    pid_t program, ended;

    forget_signals();
    close(in->go[1]);
    close(in->tell[0]);
    close(in->out[0]);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 ||
        read(in->go[0], &byte, 1) != 1)
        _exit(2); /* the other side is gone */
    if (setpgid(0, 0) != 0 || syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) != 0 ||
        syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) != 0)
        fail_inside(in, STEP_USER);
    build_root(in);
    /* A raw clone again: fork() would run the handlers of this process's threads. */
    program = (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, 0UL, 0UL, 0UL, 0UL);
    if (program == 0)
        become(in);
    if (program < 0)
        fail_inside(in, STEP_FORK);
    close(in->out[1]);
    do
        ended = waitpid(program, &r.number, 0);
    while (ended < 0 && errno == EINTR);
    if (ended != program || write(in->tell[1], &r, sizeof r) != (ssize_t)sizeof r)
        _exit(2);
    _exit(0);
}

/* ---- this side ---- */

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t n = strlen(text);
    bool ok = fd >= 0 && write(fd, text, n) == (ssize_t)n;

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Inside, the only user is NOBODY; outside it is this one, or NOBODY too for root. */
static bool map_user(pid_t pid)
{
    char path[64], text[64];
    unsigned uid = geteuid() ? geteuid() : NOBODY, gid = geteuid() ? getegid() : NOBODY;

    (void)snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    (void)snprintf(text, sizeof text, "%d %u 1", NOBODY, uid);
    if (!write_file(path, text))
        return false;
    (void)snprintf(path, sizeof path, "/proc/%d/setgroups", (int)pid);
    if (!write_file(path, "deny"))
        return false;
    (void)snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    (void)snprintf(text, sizeof text, "%d %u 1", NOBODY, gid);
    return write_file(path, text);
}

static enum b2_status input_file(int *fd, const char *input, size_t n,
                                 struct b2_err *err)
{
    size_t at = 0;

    *fd = memfd_create("input", MFD_CLOEXEC);
    while (*fd >= 0 && at < n) {
        ssize_t k = write(*fd, input + at, n - at);
        if (k <= 0)
            break;
        at += (size_t)k;
    }
    if (*fd < 0 || at < n || lseek(*fd, 0, SEEK_SET) != 0)
        return err_set(err, B2_EIO, "sandbox: no room for its input: %s",
                       strerror(errno));
    return B2_OK;
}

static void close_all(struct inside *in)
{
    int *const all[] = {&in->go[0],  &in->go[1],  &in->tell[0], &in->tell[1],
                        &in->out[0], &in->out[1], &in->input};

    for (size_t i = 0; i < countof(all); i++)
        if (*all[i] >= 0)
            close(*all[i]);
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static enum b2_status open_all(struct inside *in, const char *input, size_t n,
                               struct b2_err *err)
{
    if (pipe2(in->go, O_CLOEXEC) != 0 || pipe2(in->tell, O_CLOEXEC) != 0 ||
        pipe2(in->out, O_CLOEXEC) != 0)
        return err_set(err, B2_EIO, "sandbox: no pipe: %s", strerror(errno));
    return input_file(&in->input, input, n, err);
}

static enum b2_status refused(const struct report *r, const char *program,
                              struct b2_err *err)
{
    static const char *const what[] = {[STEP_USER] = "an unprivileged user",
                                       [STEP_MOUNT] = "a read-only file system",
                                       [STEP_ROOT] = "a root folder of its own",
                                       [STEP_FORK] = "a process",
                                       [STEP_LIMITS] = "limits",
                                       [STEP_FILTER] = "a filter of system calls"};

    if (r->step == STEP_EXEC)
        return err_set(err, B2_EIO, "sandbox: %s cannot be started: %s", program,
                       strerror(r->number));
    return err_set(
        err, B2_EUNSUP, "this system gives a sandbox no %s (%s), so no code is run",
        r->step > 0 && r->step < (int)countof(what) && what[r->step] ? what[r->step]
                                                                     : "place",
        strerror(r->number));
}

/* Drops the beginning; the end of an output tells how its program ended. */
static void keep_end(struct str *out, size_t keep)
{
    if (out->len <= keep || out->bad)
        return;
    memmove(out->data, out->data + (out->len - keep), keep);
    out->len = keep;
    out->data[keep] = '\0';
}

/* Takes output until it ends or the time is over. True: it ended. */
static bool collect(struct str *out, int fd, double end_s, size_t keep)
{
    char buf[4096];

    for (;;) {
        double left_s = end_s - clock_s();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;
        if (left_s <= 0.0)
            return false;
        if (poll(&p, 1, (int)(left_s * 1000.0) + 1) <= 0)
            continue; /* time, or a signal: the clock decides */
        n = read(fd, buf, sizeof buf);
        if (n == 0)
            return true;
        if (n > 0)
            str_putn(out, buf, (size_t)n);
        if (out->len > 2 * keep + sizeof buf) /* each byte is moved once */
            keep_end(out, keep);
    }
}

/* Waits for the end of the program; whatever is left of it is killed. */
static enum b2_status follow(struct sandbox_result *out, struct inside *in, pid_t pid,
                             struct b2_err *err)
{
    double end_s = clock_s() + in->limits->wall_s;
    struct report r = {0};
    bool over = !collect(&out->output, in->out[0], end_s, in->limits->output_bytes);
    struct pollfd p = {.fd = in->tell[0], .events = POLLIN};
    ssize_t n = 0;

    keep_end(&out->output, in->limits->output_bytes);
    /* A program may close its output and go on: the report is what ends it. */
    while (!over && clock_s() < end_s) {
        if (poll(&p, 1, 50) > 0) {
            n = read(in->tell[0], &r, sizeof r);
            break;
        }
    }
    if (n != (ssize_t)sizeof r && !over)
        over = clock_s() >= end_s;
    (void)kill(pid, SIGKILL); /* process 1 takes all others with it */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (n == (ssize_t)sizeof r && r.step != STEP_NONE)
        return refused(&r, in->argv[0], err);
    if (n != (ssize_t)sizeof r && !over)
        return err_set(err, B2_EIO, "sandbox: it ended without a word");
    if (over) {
        out->end = SANDBOX_TIMEOUT;
        out->code = 0;
    } else if (WIFSIGNALED(r.number)) {
        out->end = SANDBOX_SIGNAL;
        out->code = WTERMSIG(r.number);
    } else {
        out->end = SANDBOX_EXIT;
        out->code = WEXITSTATUS(r.number);
    }
    str_put(&out->output, "");
    return str_ok(&out->output) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

enum b2_status sandbox_run(struct sandbox_result *out, const char *const *argv,
                           const char *input, size_t n,
                           const struct sandbox_limits *limits, struct b2_err *err)
{
    const unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD;
    struct inside in = {.argv = argv,
                        .limits = limits,
                        .go = {-1, -1},
                        .tell = {-1, -1},
                        .out = {-1, -1},
                        .input = -1};
    pid_t pid;
    enum b2_status rc = open_all(&in, input, n, err);

    *out = (struct sandbox_result){0};
    if (rc) {
        close_all(&in);
        return rc;
    }
    pid = (pid_t)syscall(SYS_clone, flags, 0UL, 0UL, 0UL, 0UL);
    if (pid == 0)
        run_inside(&in);
    if (pid < 0) {
        rc = err_set(err, B2_EUNSUP,
                     "this system lets nobody make a sandbox (namespaces: %s), so no "
                     "code is run; in a container allow user namespaces, elsewhere see "
                     "sysctl user.max_user_namespaces",
                     strerror(errno));
        close_all(&in);
        return rc;
    }
    close_one(&in.go[0]);
    close_one(&in.tell[1]);
    close_one(&in.out[1]);
    if (!map_user(pid) || write(in.go[1], "", 1) != 1) {
        rc = err_set(err, B2_EUNSUP,
                     "this system gives a sandbox no user of its own (%s), so no code "
                     "is run",
                     strerror(errno));
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    } else {
        rc = follow(out, &in, pid, err);
    }
    close_all(&in);
    return rc;
}

enum b2_status sandbox_python(char *buf, size_t n, struct b2_err *err)
{
    static const char *const places[] = {"/usr/bin/python3", "/usr/local/bin/python3",
                                         "/bin/python3"};

    for (size_t i = 0; i < countof(places); i++)
        if (access(places[i], X_OK) == 0 && strlen(places[i]) < n) {
            memcpy(buf, places[i], strlen(places[i]) + 1);
            return B2_OK;
        }
    return err_set(err, B2_ENOTFOUND,
                   "code is tested by running it, and there is no /usr/bin/python3: "
                   "install python3");
}

#else

enum b2_status sandbox_run(struct sandbox_result *out, const char *const *argv,
                           const char *input, size_t n,
                           const struct sandbox_limits *limits, struct b2_err *err)
{
    (void)argv;
    (void)input;
    (void)n;
    (void)limits;
    *out = (struct sandbox_result){0};
    return err_set(err, B2_EUNSUP,
                   "the sandbox needs Linux, so no code is run on this system");
}

enum b2_status sandbox_python(char *buf, size_t n, struct b2_err *err)
{
    (void)buf;
    (void)n;
    return err_set(err, B2_EUNSUP,
                   "the sandbox needs Linux, so no code is run on this system");
}

#endif
