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

enum b2_status {
    B2_OK = 0,
    B2_EARG = -1,      /* the caller's argument is wrong (shape, range, option) */
    B2_ENOMEM = -2,    /* out of memory, or over a limit that was set */
    B2_EIO = -3,       /* the operating system refused: open, read, write, disk full */
    B2_EFORMAT = -4,   /* the bytes break the rules of their format: corrupt */
    B2_ETRUNC = -5,    /* the file ends before the bytes its header promises */
    B2_EUNSUP = -6,    /* well-formed, but of a kind this program does not know */
    B2_ELAYOUT = -7,   /* a known type in a layout that must be converted first */
    B2_ENOTFOUND = -8, /* a named thing (file, tensor, key) is absent */
    B2_ECANCEL = -9,   /* interrupted by the user */
    B2_EEXIST = -10,   /* would overwrite something */
};

enum { B2_ERR_MAX = 1024 };

struct b2_err {
    enum b2_status status;
    char msg[B2_ERR_MAX]; /* always terminated; cut with "…" when too long */
};

/* Sets status and message, returns status, so that callers can return it. */
enum b2_status err_set(struct b2_err *err, enum b2_status status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* Puts "<context>: " in front of the message. Keeps the status. */
void err_wrap(struct b2_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A short name for a status: "corrupt", "truncated", … Never NULL. */
const char *err_status_name(enum b2_status status);

#endif
