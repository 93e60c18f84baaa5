/*
 * terminal.c - the standard streams and signal handlers.
 */
#define _POSIX_C_SOURCE 200809L
#include "cli/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

/* A signal handler gets no argument of ours: this is the state it works on. Written
 * only while the signals are blocked. */
static void (*volatile on_signal)(void *ctx);
static void *volatile on_signal_ctx;
static volatile sig_atomic_t n_signals;

bool terminal_stdin_is_tty(void)
{
    return isatty(STDIN_FILENO);
}

bool terminal_stdout_is_tty(void)
{
    return isatty(STDOUT_FILENO);
}

bool terminal_stderr_is_tty(void)
{
    return isatty(STDERR_FILENO);
}

void terminal_fill_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1) /* open takes the lowest free number: this one */
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void terminal_ignore_closed_pipes(void)
{
    struct sigaction sa = {.sa_handler = SIG_IGN};

    sigemptyset(&sa.sa_mask);
    sigaction(SIGPIPE, &sa, NULL);
}

void terminal_limit_memory(uint64_t bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_DATA, &limit))
        return;
    if (bytes < limit.rlim_cur)
        limit.rlim_cur = (rlim_t)bytes;
    (void)setrlimit(RLIMIT_DATA, &limit);
}

static void explain_bus_error(int sig)
{
    static const char text[] =
        "bonsai2: a file was shortened, or its disk failed, while "
        "it was being read\n";

    (void)sig; /* SA_RESETHAND: the same access faults again and ends the process */
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
}

void terminal_explain_bus_errors(void)
{
    struct sigaction sa = {.sa_handler = explain_bus_error,
                           .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&sa.sa_mask);
    sigaction(SIGBUS, &sa, NULL);
}

static void handle(int sig)
{
    (void)sig; /* SA_RESETHAND has made the next one deadly */
    n_signals = 1;
    if (on_signal)
        on_signal(on_signal_ctx);
}

void terminal_on_interrupt(void (*fn)(void *ctx), void *ctx)
{
    struct sigaction sa = {.sa_handler = fn ? handle : SIG_DFL, .sa_flags = SA_RESTART};
    sigset_t both, old;

    if (fn) /* each signal counts for itself: Ctrl-C after SIGTERM is a first one */
        sa.sa_flags |= (int)SA_RESETHAND;
    sigemptyset(&sa.sa_mask);
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, &old);
    on_signal = fn;
    on_signal_ctx = ctx;
    if (fn)
        n_signals = 0;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

bool terminal_interrupted(void)
{
    return n_signals != 0;
}

void terminal_on_ctrl_c(void (*fn)(void *ctx), void *ctx, bool ignore)
{
    struct sigaction sa = {.sa_handler = fn       ? handle
                                         : ignore ? SIG_IGN
                                                  : SIG_DFL,
                           .sa_flags = SA_RESTART};
    sigset_t interrupt, old;

    sigemptyset(&sa.sa_mask);
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &old);
    on_signal = fn;
    on_signal_ctx = ctx;
    if (fn)
        n_signals = 0;
    sigaction(SIGINT, &sa, NULL);
    sigprocmask(SIG_SETMASK, &old, NULL);
}
