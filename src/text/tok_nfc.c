/*
 * tok_nfc.c - Unicode normalisation form C on utf8proc's tables.
 *
 * Decompose every character, put runs of combining marks in canonical order, compose.
 * utf8proc orders marks by insertion, which takes n^2 steps on a hostile run of marks;
 * here a run is ordered by a stable counting sort on the 255 combining classes.
 */
#include "base/mem.h"
#include "base/str.h"
#include "text/tok_int.h"
#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

static const utf8proc_option_t decompose_options =
    (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
static const utf8proc_option_t compose_options =
    (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

bool tok_nfc_is_plain(const char *s, size_t n)
{
    /* The first code point that NFC may touch is U+0300, whose lead byte is 0xCC. */
    for (size_t i = 0; i < n; i++) {
        if ((uint8_t)s[i] >= 0xCC)
            return false;
    }
    return true;
}

static int class_of(int32_t cp)
{
    return utf8proc_get_property(cp)->combining_class & 0xFF;
}

/* Stable order by combining class of n marks; tmp has room for n. */
static void order_run(int32_t *cp, size_t n, int32_t *tmp)
{
    size_t start[257] = {0};
    bool sorted = true;

    for (size_t i = 0; i < n; i++) {
        start[class_of(cp[i]) + 1]++;
        sorted = sorted && (i == 0 || class_of(cp[i - 1]) <= class_of(cp[i]));
    }
    if (sorted)
        return;
    for (int c = 1; c < 257; c++)
        start[c] += start[c - 1];
    for (size_t i = 0; i < n; i++)
        tmp[start[class_of(cp[i])]++] = cp[i];
    memcpy(cp, tmp, n * sizeof *cp);
}

static void order_marks(int32_t *cp, size_t n, int32_t *tmp)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && class_of(cp[end]) != 0)
            end++;
        if (end - i > 1)
            order_run(cp + i, end - i, tmp);
        i = end + 1;
    }
}

/* Decomposes into cp (or only counts, cp == NULL). Returns the number of code points. */
static size_t decompose(int32_t *cp, const char *s, size_t n)
{
    size_t n_cp = 0;

    for (size_t i = 0; i < n;) {
        size_t used;
        int32_t buf[32]; /* the longest canonical decomposition has 4 characters */
        int boundary = 0;
        int32_t c = (int32_t)utf8_next(s + i, n - i, &used);
        utf8proc_ssize_t got =
            utf8proc_decompose_char(c, buf, 32, decompose_options, &boundary);
        if (got < 1 || got > 32) { /* not assigned in these tables: kept as it is */
            buf[0] = c;
            got = 1;
        }
        if (cp)
            memcpy(cp + n_cp, buf, (size_t)got * sizeof *cp);
        n_cp += (size_t)got;
        i += used;
    }
    return n_cp;
}

enum b2_status tok_nfc_put(struct str *out, const char *s, size_t n, struct b2_err *err)
{
    size_t n_cp = decompose(NULL, s, n);
    int32_t *cp = mem_calloc(n_cp + 1, 2 * sizeof *cp);

    if (!cp)
        return err_set(err, B2_ENOMEM, "out of memory normalising %zu bytes", n);
    decompose(cp, s, n);
    order_marks(cp, n_cp, cp + n_cp);
    utf8proc_ssize_t got =
        utf8proc_normalize_utf32(cp, (utf8proc_ssize_t)n_cp, compose_options);
    for (utf8proc_ssize_t i = 0; i < got; i++) {
        char buf[4];
        str_putn(out, buf, (size_t)utf8_put(buf, (uint32_t)cp[i]));
    }
    mem_free(cp);
    if (!str_ok(out))
        return err_set(err, B2_ENOMEM, "out of memory normalising %zu bytes", n);
    return B2_OK;
}
