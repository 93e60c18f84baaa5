/*
 * jinja_str.c - strings: finding, splitting, stripping, replacing.
 */
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <string.h>

bool jinja_is_space(uint32_t cp)
{
    return utf8_is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

int64_t jstr_find(struct jx *x, const struct jstr *s, size_t from,
                  const struct jstr *what)
{
    if (what->n == 0)
        return from <= s->n ? (int64_t)from : -1;
    for (size_t at = from; at + what->n <= s->n; at++) {
        const char *p = memchr(s->data + at, what->data[0], s->n - what->n + 1 - at);
        if (!p) {
            (void)jx_charge(x, s->n - from);
            return -1;
        }
        at = (size_t)(p - s->data);
        if (!jx_charge(x, what->n))
            return -1;
        if (memcmp(p, what->data, what->n) == 0) {
            (void)jx_charge(x, at - from);
            return (int64_t)at;
        }
    }
    (void)jx_charge(x, s->n);
    return -1;
}

/* The last place before end; -1: none. */
static int64_t find_last(struct jx *x, const struct jstr *s, size_t end,
                         const struct jstr *what)
{
    for (size_t at = end; at >= what->n;) {
        if (!jx_charge(x, what->n / 8))
            return -1;
        if (memcmp(s->data + at - what->n, what->data, what->n) == 0)
            return (int64_t)(at - what->n);
        if (at-- == 0)
            break;
    }
    return -1;
}

/* ---- splitting ---- */

static bool add_piece(struct jx *x, struct jval *list, const struct jstr *s,
                      size_t from, size_t to, bool markup)
{
    struct jval v;

    if (!jv_str(x, &v, s->data + from, to - from))
        return false;
    v.markup = markup;
    return jseq_add(x, list->v.q, v);
}

static void reverse_list(struct jseq *q)
{
    for (int64_t i = 0, k = q->n - 1; i < k; i++, k--) {
        struct jval v = q->at[i];
        q->at[i] = q->at[k];
        q->at[k] = v;
    }
}

/* By runs of white space; none at the ends. */
static bool split_space(struct jx *x, struct jval s, int64_t max, struct jval *out)
{
    const struct jstr *t = s.v.s;
    size_t at = 0, used;

    for (int64_t n = 0;; n++) {
        while (at < t->n && jinja_is_space(utf8_next(t->data + at, t->n - at, &used)))
            at += used;
        if (at >= t->n)
            return jx_charge(x, t->n);
        size_t end = at;
        if (n == max) { /* the rest, with white space at its end */
            return add_piece(x, out, t, at, t->n, s.markup);
        }
        while (end < t->n &&
               !jinja_is_space(utf8_next(t->data + end, t->n - end, &used)))
            end += used;
        if (!add_piece(x, out, t, at, end, s.markup))
            return false;
        at = end;
    }
}

/* Start of the code point that ends before at. */
static size_t before(const struct jstr *s, size_t at)
{
    while (at > 0 && ((unsigned char)s->data[--at] & 0xc0) == 0x80)
        ;
    return at;
}

static bool space_before(const struct jstr *s, size_t at)
{
    size_t from = before(s, at), used;

    return at > 0 && jinja_is_space(utf8_next(s->data + from, at - from, &used));
}

static bool rsplit_space(struct jx *x, struct jval s, int64_t max, struct jval *out)
{
    const struct jstr *t = s.v.s;
    size_t end = t->n;

    for (int64_t n = 0;; n++) {
        while (space_before(t, end))
            end = before(t, end);
        if (end == 0)
            break;
        size_t from = end;
        if (n == max)
            from = 0;
        while (from > 0 && !space_before(t, from))
            from = before(t, from);
        if (!add_piece(x, out, t, from, end, s.markup))
            return false;
        end = from;
    }
    reverse_list(out->v.q);
    return jx_charge(x, t->n);
}

bool jstr_split(struct jx *x, struct jval s, struct jval sep, int64_t max, bool right,
                struct jval *out)
{
    const struct jstr *t = s.v.s;
    size_t at = 0, end = t->n;

    if (!jv_seq(x, out, SEQ_LIST, 0))
        return false;
    if (!jarg_given(sep) || sep.type == JT_NONE)
        return right ? rsplit_space(x, s, max, out) : split_space(x, s, max, out);
    if (sep.type != JT_STR)
        return jx_fail(x, "TypeError", "must be str or None, not %s",
                       jv_type_name(sep));
    if (sep.v.s->n == 0)
        return jx_fail(x, "ValueError", "empty separator");
    for (int64_t n = 0; n != max; n++) {
        int64_t found =
            right ? find_last(x, t, end, sep.v.s) : jstr_find(x, t, at, sep.v.s);
        if (found < 0)
            break;
        size_t f = (size_t)found;
        if (right ? !add_piece(x, out, t, f + sep.v.s->n, end, s.markup)
                  : !add_piece(x, out, t, at, f, s.markup))
            return false;
        end = right ? f : end;
        at = right ? at : f + sep.v.s->n;
    }
    if (x->rc || !add_piece(x, out, t, at, end, s.markup))
        return false;
    if (right)
        reverse_list(out->v.q);
    return true;
}

/* ---- stripping and replacing ---- */

static bool among(const struct jstr *chars, uint32_t cp)
{
    for (size_t i = 0, used; i < chars->n; i += used)
        if (utf8_next(chars->data + i, chars->n - i, &used) == cp)
            return true;
    return false;
}

bool jstr_strip(struct jx *x, struct jval s, struct jval chars, bool left, bool right,
                struct jval *out)
{
    const struct jstr *t = s.v.s, *set = NULL;
    size_t from = 0, to = t->n, used;

    if (jarg_given(chars) && chars.type != JT_NONE) {
        if (chars.type != JT_STR)
            return jx_fail(x, "TypeError", "strip arg must be None or str");
        set = chars.v.s;
    }
    while (left && from < to) {
        uint32_t cp = utf8_next(t->data + from, to - from, &used);
        if (set ? !among(set, cp) : !jinja_is_space(cp))
            break;
        from += used;
    }
    while (right && from < to) {
        size_t prev = before(t, to);
        uint32_t cp = utf8_next(t->data + prev, to - prev, &used);
        if (set ? !among(set, cp) : !jinja_is_space(cp))
            break;
        to = prev;
    }
    if (!jx_charge(x, (t->n - (to - from)) * (set ? 1 + set->n : 1)))
        return false;
    if (from == 0 && to == t->n) {
        *out = s;
        return true;
    }
    bool ok = jv_str(x, out, t->data + from, to - from);
    out->markup = s.markup;
    return ok;
}

/* An empty old stands before every code point and at the end. */
static bool put_between(struct jx *x, struct str *r, const struct jstr *t,
                        const struct jstr *new_s, int64_t max)
{
    size_t i = 0;

    for (int64_t n = 0; n != max; n++) {
        str_putn(r, new_s->data, new_s->n);
        if (i >= t->n || !jx_charge(x, new_s->n) || r->len > x->max_output)
            break;
        size_t from = i++;
        while (i < t->n && ((unsigned char)t->data[i] & 0xc0) == 0x80)
            i++;
        str_putn(r, t->data + from, i - from);
    }
    str_putn(r, t->data + i, t->n - i);
    return x->rc == B2_OK;
}

bool jstr_replace(struct jx *x, struct jval s, struct jval old, struct jval new_s,
                  int64_t max, struct jval *out)
{
    struct str r = {0};
    size_t at = 0;

    if (old.v.s->n == 0) {
        (void)put_between(x, &r, s.v.s, new_s.v.s, max);
    } else {
        for (int64_t n = 0; n != max && r.len <= x->max_output; n++) {
            int64_t found = jstr_find(x, s.v.s, at, old.v.s);
            if (found < 0 || !jx_charge(x, new_s.v.s->n))
                break;
            str_putn(&r, s.v.s->data + at, (size_t)found - at);
            str_putn(&r, new_s.v.s->data, new_s.v.s->n);
            at = (size_t)found + old.v.s->n;
        }
        str_putn(&r, s.v.s->data + at, s.v.s->n - at);
    }
    if (r.len > x->max_output)
        (void)jx_limit(x, "output");
    if (x->rc) {
        str_free(&r);
        return false;
    }
    bool ok = jv_take(x, out, &r);
    out->markup = s.markup;
    return ok;
}
