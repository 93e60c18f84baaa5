/*
 * terminal.h - the terminal and its signals.
 *
 * terminal*.c are the only files of cli/ that call the operating system.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

bool terminal_stdin_is_tty(void);
bool terminal_stdout_is_tty(void);
bool terminal_stderr_is_tty(void);

/* Opens what is missing of standard input, output and error, so that no file takes
 * their numbers: reading from it, and writing to it, fails as on a closed one. Call it
 * before any file is opened. */
void terminal_fill_closed_streams(void);

/* A reader that goes away makes writes fail instead of killing the process, so that
 * the failure is reported like any other. */
void terminal_ignore_closed_pipes(void);

/* Allocations above this many bytes fail from here on (RLIMIT_DATA: the heap and stacks
 * of threads, not mapped files). For commands without a plan of their memory. */
void terminal_limit_memory(uint64_t bytes);

/* A mapped file that is shortened, or whose disk fails, while it is read ends the
 * process (SIGBUS). This makes it say why first. */
void terminal_explain_bus_errors(void);

/* On the first Ctrl-C (or SIGTERM) calls fn(ctx) inside the signal handler, where only
 * setting flags is safe; the second one kills. fn == NULL: back to dying at once. */
void terminal_on_interrupt(void (*fn)(void *ctx), void *ctx);
bool terminal_interrupted(void); /* has there been one? */

/* For a program that goes on after Ctrl-C: every one of them calls fn(ctx) in the signal
 * handler. fn == NULL: Ctrl-C ends the program again, or with ignore does nothing. */
void terminal_on_ctrl_c(void (*fn)(void *ctx), void *ctx, bool ignore);

/* ---- terminal_line.c: keys one by one ---- */

/* Keys come as bytes, unechoed, Ctrl-C too. False: standard input is no terminal. The
 * terminal gets its settings back from terminal_keys_end. */
bool terminal_keys_begin(void);
void terminal_keys_end(void);

enum { TERMINAL_EOF = -1, TERMINAL_TIMEOUT = -2 };

/* The next byte, 0..255; waits at most wait_ms, -1: as long as it takes. */
int terminal_key(int wait_ms);
/* A byte has come that terminal_key can give at once? */
bool terminal_key_waits(void);
int terminal_columns(void); /* of standard output; 80 when it does not tell */

#endif
