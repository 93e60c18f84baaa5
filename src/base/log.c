/*
 * log.c - formats a line and hands it to the sink.
 */
#include "base/log.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

void log_line(const struct log *log, enum log_level level, const char *fmt, ...)
{
    char line[1024]; /* a longer note is cut: it is for a person to read */
    va_list ap;

    if (!log || !log->sink || level > log->level)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    err_one_line(line);
    log->sink(log->ctx, level, line);
}
