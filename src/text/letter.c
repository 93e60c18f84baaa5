/*
 * letter.c - utf8proc's properties.
 */
#include "text/letter.h"

#include "text/utf8.h"

#include <utf8proc.h>

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool letter_is_alpha(uint32_t cp)
{
    utf8proc_category_t c = category(cp);

    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool letter_is_digit(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

bool letter_is_mark(uint32_t cp)
{
    utf8proc_category_t c = category(cp);

    return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool letter_is_punct(uint32_t cp)
{
    utf8proc_category_t c = category(cp);

    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool letter_is_upper(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LU;
}

bool letter_is_lower(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LL;
}

uint32_t letter_lower(uint32_t cp)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

uint32_t letter_upper(uint32_t cp)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
}

static void put_mapped(struct str *out, const char *text, size_t n,
                       uint32_t (*map)(uint32_t))
{
    char buf[4];

    for (size_t at = 0, used; at < n; at += used) {
        uint32_t cp = utf8_next(text + at, n - at, &used);
        str_putn(out, buf, (size_t)utf8_put(buf, map(cp)));
    }
}

void letter_put_lower(struct str *out, const char *text, size_t n)
{
    put_mapped(out, text, n, letter_lower);
}

void letter_put_upper(struct str *out, const char *text, size_t n)
{
    put_mapped(out, text, n, letter_upper);
}

uint32_t letter_base(uint32_t cp, uint32_t *mark)
{
    utf8proc_int32_t parts[8];
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 8,
                                                 UTF8PROC_DECOMPOSE, NULL);

    *mark = n > 1 && n <= 8 ? (uint32_t)parts[n - 1] : 0;
    return n >= 1 && n <= 8 ? (uint32_t)parts[0] : cp;
}

int64_t letter_count(const char *text, size_t n)
{
    int64_t count = 0;

    for (size_t at = 0, used; at < n; at += used, count++)
        (void)utf8_next(text + at, n - at, &used);
    return count;
}
