/*
 * utf8_width.c - characters as a reader counts them, and the columns they take.
 */
#include "text/utf8.h"

#include <utf8proc.h>

size_t utf8_cluster(const char *s, size_t n, int *width)
{
    utf8proc_int32_t state = 0;
    size_t at, used;
    uint32_t cp = utf8_next(s, n, &at);

    *width = utf8proc_charwidth((utf8proc_int32_t)cp);
    while (at < n) {
        uint32_t next = utf8_next(s + at, n - at, &used);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp,
                                             (utf8proc_int32_t)next, &state))
            break;
        /* A selector for the emoji form, or the second half of a flag. */
        if (next == 0xfe0f || (cp >= 0x1f1e6 && cp <= 0x1f1ff))
            *width = 2;
        at += used;
        cp = next;
    }
    return at;
}
