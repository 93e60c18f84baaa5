/*
 * log.h - where the library's notes go.
 *
 * The library never prints: whoever calls it passes a struct log with a sink, and
 * cli/ gives one that writes to stderr. A NULL log is silent.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/util.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log {
    enum log_level level; /* messages above it are dropped before formatting */
    void (*sink)(void *ctx, enum log_level level, const char *line);
    void *ctx;
    bool strict; /* --strict: callers turn "slower or different path" notes to errors */
};

/* One line, no newline at the end. log may be NULL. */
void log_line(const struct log *log, enum log_level level, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

#endif
