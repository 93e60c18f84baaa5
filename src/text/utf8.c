/*
 * utf8.c - see utf8.h. The tables of well-formed sequences are Unicode 15, table 3-7.
 */
#include "text/utf8.h"

/* What a lead byte promises: bytes in all and the range of the second byte. The range
 * excludes overlong forms, surrogates and code points above U+10FFFF. need == 0: the
 * byte cannot start a sequence. */
struct lead {
    int need;
    uint8_t low, high;
};

static struct lead lead_of(uint8_t b)
{
    if (b < 0x80)
        return (struct lead){1, 0, 0};
    if (b < 0xC2)
        return (struct lead){0, 0, 0};
    if (b < 0xE0)
        return (struct lead){2, 0x80, 0xBF};
    if (b < 0xF0)
        return (struct lead){3, b == 0xE0 ? 0xA0 : 0x80, b == 0xED ? 0x9F : 0xBF};
    if (b < 0xF5)
        return (struct lead){4, b == 0xF0 ? 0x90 : 0x80, b == 0xF4 ? 0x8F : 0xBF};
    return (struct lead){0, 0, 0};
}

/* Length of the longest prefix of s (n > 0 bytes) that starts a well-formed sequence;
 * *need gets the length of that whole sequence, 0 for an impossible first byte. */
static size_t prefix_len(const uint8_t *s, size_t n, int *need)
{
    struct lead lead = lead_of(s[0]);
    size_t len = 1;

    *need = lead.need;
    while (len < (size_t)lead.need && len < n) {
        uint8_t low = len == 1 ? lead.low : 0x80, high = len == 1 ? lead.high : 0xBF;
        if (s[len] < low || s[len] > high)
            break;
        len++;
    }
    return len;
}

uint32_t utf8_next(const char *s, size_t n, size_t *used)
{
    const uint8_t *b = (const uint8_t *)s;
    int need;

    *used = prefix_len(b, n, &need);
    if (need == 0 || *used < (size_t)need)
        return 0xFFFD;
    switch (need) {
    case 1:
        return b[0];
    case 2:
        return (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
    case 3:
        return (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
    default:
        return (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 |
               (b[3] & 0x3Fu);
    }
}

int utf8_put(char buf[4], uint32_t cp)
{
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        cp = 0xFFFD;
    if (cp < 0x80) {
        buf[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        buf[0] = (char)(0xC0 | cp >> 6);
        buf[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        buf[0] = (char)(0xE0 | cp >> 12);
        buf[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        buf[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    buf[0] = (char)(0xF0 | cp >> 18);
    buf[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    buf[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    buf[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

bool utf8_valid(const char *s, size_t n)
{
    const uint8_t *b = (const uint8_t *)s;
    size_t i = 0;

    while (i < n) {
        int need;
        if (b[i] < 0x80) {
            i++;
            continue;
        }
        size_t len = prefix_len(b + i, n - i, &need);
        if (need == 0 || len < (size_t)need)
            return false;
        i += len;
    }
    return true;
}

size_t utf8_complete(const char *s, size_t n)
{
    const uint8_t *b = (const uint8_t *)s;

    /* An incomplete sequence has at most three bytes, and it starts with its lead. */
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        int need;
        if ((b[n - back] & 0xC0) == 0x80)
            continue;
        size_t len = prefix_len(b + n - back, back, &need);
        return len == back && len < (size_t)need ? n - back : n;
    }
    return n;
}

bool utf8_is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0D) || cp == 0x20 || cp == 0x85 || cp == 0xA0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}
