/*
 * error.h - status codes and the message that goes with them.
 *
 * A function that can fail returns enum b2_status and takes a struct b2_err last.
 * The place that knows the fact sets the message (what, where, what to do); each
 * level that knows more puts its context in front: "m.gguf: tensor a: cut short".
 * An err pointer may always be NULL. Nothing here allocates.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/util.h"
#include "bonsai2.h" /* enum b2_status, struct b2_err: the one definition */

/* Control bytes become '?': names from a file must not steer a terminal or break a line.
 * err_set, err_wrap and log_line do this to all they make. */
void err_one_line(char *msg);

/* Sets status and message, returns status, so that callers can return it. */
enum b2_status err_set(struct b2_err *err, enum b2_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Puts "<context>: " in front of the message. Keeps the status. */
void err_wrap(struct b2_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A short name for a status: "corrupt", "truncated", … Never NULL. */
const char *err_status_name(enum b2_status status);

#endif
