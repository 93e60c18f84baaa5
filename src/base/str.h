/*
 * str.h - a growable string for messages, tables and JSON-free output.
 *
 * Appends never fail one by one: after an allocation failure the string is bad, later
 * appends do nothing, and str_ok() says so once at the end.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/util.h"

struct str {
    char *data; /* terminated; NULL only before the first append */
    size_t len, cap;
    bool bad;
};

void str_put(struct str *s, const char *text);
void str_putn(struct str *s, const void *bytes, size_t n);
void str_printf(struct str *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool str_ok(const struct str *s);
void str_clear(struct str *s); /* keeps the memory */
void str_free(struct str *s);  /* NULL and never-used strings are fine */

/* "5.95 GB", "98.4 MB", "512 B": decimal units, three significant digits. */
void str_put_bytes(struct str *s, uint64_t n_bytes);

#endif
