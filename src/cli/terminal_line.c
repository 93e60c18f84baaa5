/*
 * terminal_line.c - a terminal that gives every key at once.
 */
#define _DEFAULT_SOURCE /* struct winsize */
#include "cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* What the terminal was before; a process has one terminal, so one of these. */
static struct termios saved;
static volatile sig_atomic_t is_saved;
static int typed_before; /* bytes that came while the terminal still gave lines */

/* A signal that ends the program finds the terminal as it was (tcsetattr is safe here);
 * SA_RESETHAND has put the deadly action back. */
static void restore_and_die(int sig)
{
    if (is_saved)
        tcsetattr(STDIN_FILENO, TCSANOW, &saved);
    raise(sig);
}

static void on_deadly_signals(void (*handler)(int))
{
    static const int deadly[] = {SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        sigaction(deadly[i], &sa, NULL);
}

bool terminal_keys_begin(void)
{
    struct termios raw;

    if (is_saved)
        return true;
    if (tcgetattr(STDIN_FILENO, &saved) != 0)
        return false;
    raw = saved;
    raw.c_iflag &= ~(tcflag_t)(ICRNL | IXON | INLCR | IGNCR | ISTRIP);
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0)
        return false;
    if (ioctl(STDIN_FILENO, FIONREAD, &typed_before) != 0)
        typed_before = 0;
    is_saved = true;
    on_deadly_signals(restore_and_die);
    return true;
}

void terminal_keys_end(void)
{
    if (!is_saved)
        return;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    is_saved = false;
    on_deadly_signals(SIG_DFL);
}

/* Ctrl-D among what was typed before lies there as a zero. */
static int as_typed(unsigned char c)
{
    const bool before = typed_before > 0;

    typed_before -= before;
    return before && c == 0 ? 4 : c;
}

int terminal_key(int wait_ms)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char c;

    for (;;) {
        int ready = poll(&p, 1, wait_ms);
        if (ready == 0)
            return TERMINAL_TIMEOUT;
        if (ready > 0) {
            ssize_t n = read(STDIN_FILENO, &c, 1);
            if (n == 1)
                return as_typed(c);
            if (n == 0)
                return TERMINAL_EOF;
        }
        if (errno != EINTR)
            return TERMINAL_EOF;
    }
}

bool terminal_key_waits(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

int terminal_columns(void)
{
    struct winsize w;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col < 2)
        return 80;
    return w.ws_col;
}
