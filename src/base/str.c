/*
 * str.c - growing by doubling, so that n appends cost O(n) in all.
 */
#include "base/str.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { STR_FIRST = 64 };

/* Makes room for n more bytes and the terminator; false marks the string bad. */
static bool reserve(struct str *s, size_t n)
{
    if (s->bad)
        return false;
    if (s->data && n < s->cap - s->len)
        return true;
    size_t need;
    if (__builtin_add_overflow(s->len, n, &need) || need >= SIZE_MAX / 2) {
        s->bad = true;
        return false;
    }
    size_t cap = s->cap ? s->cap : STR_FIRST;
    while (cap <= need)
        cap *= 2;
    char *data = mem_realloc(s->data, cap, 1);
    if (!data) {
        s->bad = true;
        return false;
    }
    s->data = data;
    s->cap = cap;
    return true;
}

void str_putn(struct str *s, const void *bytes, size_t n)
{
    if (!reserve(s, n))
        return;
    if (n)
        memcpy(s->data + s->len, bytes, n);
    s->len += n;
    s->data[s->len] = '\0';
}

void str_put(struct str *s, const char *text)
{
    str_putn(s, text, strlen(text));
}

void str_printf(struct str *s, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        s->bad = true; /* a wide character that the locale cannot write */
    else if (reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

bool str_ok(const struct str *s)
{
    return !s->bad;
}

void str_clear(struct str *s)
{
    s->len = 0;
    s->bad = false;
    if (s->data)
        s->data[0] = '\0';
}

void str_free(struct str *s)
{
    if (!s)
        return;
    mem_free(s->data);
    *s = (struct str){0};
}

void str_put_bytes(struct str *s, uint64_t n_bytes)
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)n_bytes;
    size_t u = 0;

    /* 999.5 would round to the four digits "1000", so it already takes the next unit. */
    while (v >= 999.5 && u + 1 < countof(unit)) {
        v /= 1000.0;
        u++;
    }
    if (u == 0)
        str_printf(s, "%d B", (int)n_bytes);
    else
        str_printf(s, "%.*f %s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, unit[u]);
}
