/*
 * jinja_case.c - upper, lower and title case, as Python's str has them.
 *
 * Single code points come from utf8proc; those that become several stand in the table,
 * which is Unicode's SpecialCasing.txt without conditions. The one conditional rule of
 * lower() is the final sigma.
 */
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

struct special {
    uint16_t cp;
    const char *upper, *title;
};

static const struct special specials[] = {
    {0x00df, "\x53\x53", "\x53\x73"},
    {0x0149, "\xca\xbc\x4e", "\xca\xbc\x4e"},
    {0x01f0, "\x4a\xcc\x8c", "\x4a\xcc\x8c"},
    {0x0390, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x03b0, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x0587, "\xd4\xb5\xd5\x92", "\xd4\xb5\xd6\x82"},
    {0x1e96, "\x48\xcc\xb1", "\x48\xcc\xb1"},
    {0x1e97, "\x54\xcc\x88", "\x54\xcc\x88"},
    {0x1e98, "\x57\xcc\x8a", "\x57\xcc\x8a"},
    {0x1e99, "\x59\xcc\x8a", "\x59\xcc\x8a"},
    {0x1e9a, "\x41\xca\xbe", "\x41\xca\xbe"},
    {0x1f50, "\xce\xa5\xcc\x93", "\xce\xa5\xcc\x93"},
    {0x1f52, "\xce\xa5\xcc\x93\xcc\x80", "\xce\xa5\xcc\x93\xcc\x80"},
    {0x1f54, "\xce\xa5\xcc\x93\xcc\x81", "\xce\xa5\xcc\x93\xcc\x81"},
    {0x1f56, "\xce\xa5\xcc\x93\xcd\x82", "\xce\xa5\xcc\x93\xcd\x82"},
    {0x1f80, "\xe1\xbc\x88\xce\x99", "\xe1\xbe\x88"},
    {0x1f81, "\xe1\xbc\x89\xce\x99", "\xe1\xbe\x89"},
    {0x1f82, "\xe1\xbc\x8a\xce\x99", "\xe1\xbe\x8a"},
    {0x1f83, "\xe1\xbc\x8b\xce\x99", "\xe1\xbe\x8b"},
    {0x1f84, "\xe1\xbc\x8c\xce\x99", "\xe1\xbe\x8c"},
    {0x1f85, "\xe1\xbc\x8d\xce\x99", "\xe1\xbe\x8d"},
    {0x1f86, "\xe1\xbc\x8e\xce\x99", "\xe1\xbe\x8e"},
    {0x1f87, "\xe1\xbc\x8f\xce\x99", "\xe1\xbe\x8f"},
    {0x1f88, "\xe1\xbc\x88\xce\x99", "\xe1\xbe\x88"},
    {0x1f89, "\xe1\xbc\x89\xce\x99", "\xe1\xbe\x89"},
    {0x1f8a, "\xe1\xbc\x8a\xce\x99", "\xe1\xbe\x8a"},
    {0x1f8b, "\xe1\xbc\x8b\xce\x99", "\xe1\xbe\x8b"},
    {0x1f8c, "\xe1\xbc\x8c\xce\x99", "\xe1\xbe\x8c"},
    {0x1f8d, "\xe1\xbc\x8d\xce\x99", "\xe1\xbe\x8d"},
    {0x1f8e, "\xe1\xbc\x8e\xce\x99", "\xe1\xbe\x8e"},
    {0x1f8f, "\xe1\xbc\x8f\xce\x99", "\xe1\xbe\x8f"},
    {0x1f90, "\xe1\xbc\xa8\xce\x99", "\xe1\xbe\x98"},
    {0x1f91, "\xe1\xbc\xa9\xce\x99", "\xe1\xbe\x99"},
    {0x1f92, "\xe1\xbc\xaa\xce\x99", "\xe1\xbe\x9a"},
    {0x1f93, "\xe1\xbc\xab\xce\x99", "\xe1\xbe\x9b"},
    {0x1f94, "\xe1\xbc\xac\xce\x99", "\xe1\xbe\x9c"},
    {0x1f95, "\xe1\xbc\xad\xce\x99", "\xe1\xbe\x9d"},
    {0x1f96, "\xe1\xbc\xae\xce\x99", "\xe1\xbe\x9e"},
    {0x1f97, "\xe1\xbc\xaf\xce\x99", "\xe1\xbe\x9f"},
    {0x1f98, "\xe1\xbc\xa8\xce\x99", "\xe1\xbe\x98"},
    {0x1f99, "\xe1\xbc\xa9\xce\x99", "\xe1\xbe\x99"},
    {0x1f9a, "\xe1\xbc\xaa\xce\x99", "\xe1\xbe\x9a"},
    {0x1f9b, "\xe1\xbc\xab\xce\x99", "\xe1\xbe\x9b"},
    {0x1f9c, "\xe1\xbc\xac\xce\x99", "\xe1\xbe\x9c"},
    {0x1f9d, "\xe1\xbc\xad\xce\x99", "\xe1\xbe\x9d"},
    {0x1f9e, "\xe1\xbc\xae\xce\x99", "\xe1\xbe\x9e"},
    {0x1f9f, "\xe1\xbc\xaf\xce\x99", "\xe1\xbe\x9f"},
    {0x1fa0, "\xe1\xbd\xa8\xce\x99", "\xe1\xbe\xa8"},
    {0x1fa1, "\xe1\xbd\xa9\xce\x99", "\xe1\xbe\xa9"},
    {0x1fa2, "\xe1\xbd\xaa\xce\x99", "\xe1\xbe\xaa"},
    {0x1fa3, "\xe1\xbd\xab\xce\x99", "\xe1\xbe\xab"},
    {0x1fa4, "\xe1\xbd\xac\xce\x99", "\xe1\xbe\xac"},
    {0x1fa5, "\xe1\xbd\xad\xce\x99", "\xe1\xbe\xad"},
    {0x1fa6, "\xe1\xbd\xae\xce\x99", "\xe1\xbe\xae"},
    {0x1fa7, "\xe1\xbd\xaf\xce\x99", "\xe1\xbe\xaf"},
    {0x1fa8, "\xe1\xbd\xa8\xce\x99", "\xe1\xbe\xa8"},
    {0x1fa9, "\xe1\xbd\xa9\xce\x99", "\xe1\xbe\xa9"},
    {0x1faa, "\xe1\xbd\xaa\xce\x99", "\xe1\xbe\xaa"},
    {0x1fab, "\xe1\xbd\xab\xce\x99", "\xe1\xbe\xab"},
    {0x1fac, "\xe1\xbd\xac\xce\x99", "\xe1\xbe\xac"},
    {0x1fad, "\xe1\xbd\xad\xce\x99", "\xe1\xbe\xad"},
    {0x1fae, "\xe1\xbd\xae\xce\x99", "\xe1\xbe\xae"},
    {0x1faf, "\xe1\xbd\xaf\xce\x99", "\xe1\xbe\xaf"},
    {0x1fb2, "\xe1\xbe\xba\xce\x99", "\xe1\xbe\xba\xcd\x85"},
    {0x1fb3, "\xce\x91\xce\x99", "\xe1\xbe\xbc"},
    {0x1fb4, "\xce\x86\xce\x99", "\xce\x86\xcd\x85"},
    {0x1fb6, "\xce\x91\xcd\x82", "\xce\x91\xcd\x82"},
    {0x1fb7, "\xce\x91\xcd\x82\xce\x99", "\xce\x91\xcd\x82\xcd\x85"},
    {0x1fbc, "\xce\x91\xce\x99", "\xe1\xbe\xbc"},
    {0x1fc2, "\xe1\xbf\x8a\xce\x99", "\xe1\xbf\x8a\xcd\x85"},
    {0x1fc3, "\xce\x97\xce\x99", "\xe1\xbf\x8c"},
    {0x1fc4, "\xce\x89\xce\x99", "\xce\x89\xcd\x85"},
    {0x1fc6, "\xce\x97\xcd\x82", "\xce\x97\xcd\x82"},
    {0x1fc7, "\xce\x97\xcd\x82\xce\x99", "\xce\x97\xcd\x82\xcd\x85"},
    {0x1fcc, "\xce\x97\xce\x99", "\xe1\xbf\x8c"},
    {0x1fd2, "\xce\x99\xcc\x88\xcc\x80", "\xce\x99\xcc\x88\xcc\x80"},
    {0x1fd3, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x1fd6, "\xce\x99\xcd\x82", "\xce\x99\xcd\x82"},
    {0x1fd7, "\xce\x99\xcc\x88\xcd\x82", "\xce\x99\xcc\x88\xcd\x82"},
    {0x1fe2, "\xce\xa5\xcc\x88\xcc\x80", "\xce\xa5\xcc\x88\xcc\x80"},
    {0x1fe3, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x1fe4, "\xce\xa1\xcc\x93", "\xce\xa1\xcc\x93"},
    {0x1fe6, "\xce\xa5\xcd\x82", "\xce\xa5\xcd\x82"},
    {0x1fe7, "\xce\xa5\xcc\x88\xcd\x82", "\xce\xa5\xcc\x88\xcd\x82"},
    {0x1ff2, "\xe1\xbf\xba\xce\x99", "\xe1\xbf\xba\xcd\x85"},
    {0x1ff3, "\xce\xa9\xce\x99", "\xe1\xbf\xbc"},
    {0x1ff4, "\xce\x8f\xce\x99", "\xce\x8f\xcd\x85"},
    {0x1ff6, "\xce\xa9\xcd\x82", "\xce\xa9\xcd\x82"},
    {0x1ff7, "\xce\xa9\xcd\x82\xce\x99", "\xce\xa9\xcd\x82\xcd\x85"},
    {0x1ffc, "\xce\xa9\xce\x99", "\xe1\xbf\xbc"},
    {0xfb00, "\x46\x46", "\x46\x66"},
    {0xfb01, "\x46\x49", "\x46\x69"},
    {0xfb02, "\x46\x4c", "\x46\x6c"},
    {0xfb03, "\x46\x46\x49", "\x46\x66\x69"},
    {0xfb04, "\x46\x46\x4c", "\x46\x66\x6c"},
    {0xfb05, "\x53\x54", "\x53\x74"},
    {0xfb06, "\x53\x54", "\x53\x74"},
    {0xfb13, "\xd5\x84\xd5\x86", "\xd5\x84\xd5\xb6"},
    {0xfb14, "\xd5\x84\xd4\xb5", "\xd5\x84\xd5\xa5"},
    {0xfb15, "\xd5\x84\xd4\xbb", "\xd5\x84\xd5\xab"},
    {0xfb16, "\xd5\x8e\xd5\x86", "\xd5\x8e\xd5\xb6"},
    {0xfb17, "\xd5\x84\xd4\xbd", "\xd5\x84\xd5\xad"},
};

static const struct special *find_special(uint32_t cp)
{
    size_t low = 0, high = countof(specials);

    while (low < high) {
        size_t mid = (low + high) / 2;
        if (specials[mid].cp == cp)
            return &specials[mid];
        if (specials[mid].cp < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

enum letter { NO_LETTER, LOWER_LETTER, UPPER_LETTER, TITLE_LETTER };

static enum letter letter_case(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
        return UPPER_LETTER;
    case UTF8PROC_CATEGORY_LL:
        return LOWER_LETTER;
    case UTF8PROC_CATEGORY_LT:
        return TITLE_LETTER;
    default:
        return NO_LETTER;
    }
}

/* Sigma at the end of a word: a letter before it, none behind (marks do not count). */
static bool final_sigma(const struct jstr *s, size_t at, size_t behind)
{
    bool before = false;
    size_t used;

    for (size_t i = at; i > 0 && !before;) {
        while (i > 0 && ((unsigned char)s->data[--i] & 0xc0) == 0x80)
            ;
        uint32_t cp = utf8_next(s->data + i, s->n - i, &used);
        before = letter_case(cp) != NO_LETTER;
        if (!before &&
            utf8proc_category((utf8proc_int32_t)cp) != UTF8PROC_CATEGORY_MN &&
            cp != '\'' && cp != '.')
            return false;
    }
    for (size_t i = behind; i < s->n; i += used) {
        uint32_t cp = utf8_next(s->data + i, s->n - i, &used);
        if (letter_case(cp) != NO_LETTER)
            return false;
        if (utf8proc_category((utf8proc_int32_t)cp) != UTF8PROC_CATEGORY_MN &&
            cp != '\'' && cp != '.')
            break;
    }
    return before;
}

static void put_cased(struct str *out, const struct jstr *s, size_t at, size_t used,
                      uint32_t cp, enum jcase how)
{
    char buf[4];
    utf8proc_int32_t c = (utf8proc_int32_t)cp;

    if (how == CASE_LOWER) {
        if (cp == 0x130) {
            str_put(out, "i\xcc\x87");
            return;
        }
        if (cp == 0x3a3)
            c = final_sigma(s, at, at + used) ? 0x3c2 : 0x3c3;
        else
            c = utf8proc_tolower(c);
    } else {
        const struct special *sp = find_special(cp);
        if (sp) {
            str_put(out, how == CASE_UPPER ? sp->upper : sp->title);
            return;
        }
        c = how == CASE_UPPER ? utf8proc_toupper(c) : utf8proc_totitle(c);
    }
    str_putn(out, buf, (size_t)utf8_put(buf, (uint32_t)c));
}

bool jstr_case(struct jx *x, struct jval v, enum jcase how, struct jval *out)
{
    const struct jstr *s = v.v.s;
    struct str r = {0};
    bool in_word = false; /* a letter stood before */

    if (!jx_charge(x, s->n * 8))
        return false;
    for (size_t i = 0, used; i < s->n; i += used) {
        uint32_t cp = utf8_next(s->data + i, s->n - i, &used);
        enum jcase now = how;
        if (how == CASE_CAPITALIZE)
            now = i == 0 ? CASE_TITLE : CASE_LOWER;
        else if (how == CASE_TITLE && in_word)
            now = CASE_LOWER;
        put_cased(&r, s, i, used, cp, now);
        in_word = letter_case(cp) != NO_LETTER;
    }
    bool ok = jv_take(x, out, &r);
    out->markup = v.markup;
    return ok;
}

bool jstr_is_case(const struct jstr *s, bool upper)
{
    bool any = false;

    for (size_t i = 0, used; i < s->n; i += used) {
        enum letter l = letter_case(utf8_next(s->data + i, s->n - i, &used));
        if (l == NO_LETTER)
            continue;
        if (l != (upper ? UPPER_LETTER : LOWER_LETTER))
            return false;
        any = true;
    }
    return any;
}
