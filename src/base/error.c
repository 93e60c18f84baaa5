/*
 * error.c - formatting of error messages into their fixed buffer.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Ends a cut message with an ellipsis, on a UTF-8 boundary. */
static void mark_cut(char *msg, size_t size)
{
    static const char dots[] = "\xe2\x80\xa6";
    size_t end = size - sizeof dots;

    while (end > 0 && ((unsigned char)msg[end] & 0xc0) == 0x80)
        end--;
    memcpy(msg + end, dots, sizeof dots);
}

void err_one_line(char *msg)
{
    for (; *msg; msg++)
        if ((unsigned char)*msg < 0x20 || *msg == 0x7f)
            *msg = '?';
}

enum b2_status err_set(struct b2_err *err, enum b2_status status, const char *fmt, ...)
{
    if (!err)
        return status;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    err->status = status;
    if (n >= (int)sizeof err->msg)
        mark_cut(err->msg, sizeof err->msg);
    err_one_line(err->msg);
    return status;
}

void err_wrap(struct b2_err *err, const char *fmt, ...)
{
    if (!err)
        return;
    char old[B2_ERR_MAX];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n < 0)
        n = 0;
    err_one_line(err->msg);
    if ((size_t)n >= sizeof err->msg) {
        mark_cut(err->msg, sizeof err->msg);
        return;
    }
    int m = snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", old);
    if (m >= (int)(sizeof err->msg - (size_t)n))
        mark_cut(err->msg, sizeof err->msg);
}

const char *err_status_name(enum b2_status status)
{
    switch (status) {
    case B2_OK:
        return "ok";
    case B2_EARG:
        return "bad argument";
    case B2_ENOMEM:
        return "out of memory";
    case B2_EIO:
        return "input/output";
    case B2_EFORMAT:
        return "corrupt";
    case B2_ETRUNC:
        return "truncated";
    case B2_EUNSUP:
        return "unsupported";
    case B2_ELAYOUT:
        return "wrong layout";
    case B2_ENOTFOUND:
        return "not found";
    case B2_ECANCEL:
        return "interrupted";
    case B2_EEXIST:
        return "exists";
    }
    return "unknown status";
}
