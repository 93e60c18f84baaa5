/*
 * jinja_item.c - parts of values: attributes, items, slices.
 *
 * Jinja2's order: x.name is a method or attribute first, then a key; x['name'] is a key
 * first. What is not there is undefined, and says so when it is used.
 */
#include "text/jinja_int.h"

#include <string.h>

size_t jstr_offset(const struct jstr *s, size_t i)
{
    size_t at = 0;

    if (s->chars == s->n)
        return i < s->n ? i : s->n;
    for (; at < s->n && i > 0; i--) {
        at++;
        while (at < s->n && ((unsigned char)s->data[at] & 0xc0) == 0x80)
            at++;
    }
    return at;
}

/* A method bound to its value; *found false: no such method. */
static bool method(struct jx *x, struct jval v, const char *name, struct jval *out,
                   bool *found)
{
    bool known = false, unsafe = false;
    const struct jfunc *fn = jinja_method(v, name, &known, &unsafe);

    *found = known;
    if (!known)
        return true;
    if (unsafe) {
        struct jundef *u = jx_alloc(x, 1, sizeof *u);
        if (!u)
            return false;
        *u = (struct jundef){.name = name, .obj = v, .has_obj = true, .unsafe = true};
        *out = (struct jval){.type = JT_UNDEF, .v.u = u};
        return true;
    }
    struct jmethod *me = jx_alloc(x, 1, sizeof *me);
    if (!me)
        return false;
    *me = (struct jmethod){.self = v, .fn = fn, .name = name};
    *out = (struct jval){.type = JT_METHOD, .v.me = me};
    return true;
}

/* What getattr() of Python gives. */
static bool attribute(struct jx *x, struct jval v, struct jval name, struct jval *out,
                      bool *found)
{
    const char *s = name.v.s->data;
    struct jval *item;

    *found = false;
    if (v.type == JT_NAMESPACE) {
        item = jdict_find_str(&v.v.ns->d, s, name.v.s->n);
        *found = item != NULL;
        if (item)
            *out = *item;
        return true;
    }
    if (v.type == JT_LOOP)
        return jloop_attr(x, v.v.loop, s, out, found);
    if (v.type == JT_MACRO && strcmp(s, "name") == 0) {
        *found = true;
        *out = v.v.m->node->val;
        return true;
    }
    return method(x, v, s, out, found);
}

/* Index i of n, counted from the end when negative; false: outside. */
static bool index_in(int64_t i, int64_t n, int64_t *out)
{
    if (i < 0)
        i += n;
    *out = i;
    return i >= 0 && i < n;
}

/* What v[key] of Python gives; *found false for a TypeError or LookupError. */
static bool subscript(struct jx *x, struct jval v, struct jval key, struct jval *out,
                      bool *found)
{
    int64_t i;
    struct jval *item = NULL;
    bool is_index = key.type == JT_INT || key.type == JT_BOOL;
    int64_t k = jv_as_int(key);

    *found = false;
    if (v.type == JT_DICT) {
        bool can;
        if (!jv_hashable(x, key, &can) || (can && !jdict_find(x, v.v.d, key, &item)))
            return false;
        *found = item != NULL;
        if (item)
            *out = *item;
        return true;
    }
    if (v.type == JT_STR && is_index) {
        if (!index_in(k, (int64_t)v.v.s->chars, &i))
            return true;
        size_t at = jstr_offset(v.v.s, (size_t)i), end = at + 1;
        while (end < v.v.s->n && ((unsigned char)v.v.s->data[end] & 0xc0) == 0x80)
            end++;
        *found = true;
        if (!jx_charge(x, v.v.s->n) || !jv_str(x, out, v.v.s->data + at, end - at))
            return false;
        out->markup = v.markup;
        return true;
    }
    if (v.type == JT_SEQ && is_index && v.v.q->kind <= SEQ_RANGE &&
        index_in(k, v.v.q->n, &i)) {
        *found = true;
        *out = v.v.q->at[i];
    }
    return true;
}

bool jv_attr(struct jx *x, struct jval v, struct jval name, struct jval *out)
{
    bool found;

    if (v.type == JT_UNDEF)
        return jv_undef_fail(x, v);
    if (!attribute(x, v, name, out, &found))
        return false;
    if (!found && !subscript(x, v, name, out, &found))
        return false;
    return found || jv_undef_key(x, out, v, name);
}

bool jv_item(struct jx *x, struct jval v, struct jval key, struct jval *out)
{
    bool found;

    if (v.type == JT_UNDEF)
        return jv_undef_fail(x, v);
    if (!subscript(x, v, key, out, &found))
        return false;
    if (!found && key.type == JT_STR && !attribute(x, v, key, out, &found))
        return false;
    return found || jv_undef_key(x, out, v, key);
}

/* ---- slices ---- */

/* A bound of a slice as Python clips it. */
static int64_t clip(struct jval v, int64_t def, int64_t n, int64_t step)
{
    int64_t i, low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;

    if (v.type == JT_NONE)
        return def;
    i = jv_as_int(v);
    if (i < 0)
        i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

static bool slice_str(struct jx *x, const struct jstr *s, int64_t from, int64_t count,
                      int64_t step, struct jval *out)
{
    struct str r = {0};

    if (!jx_charge(x, s->n))
        return false;
    if (step == 1) {
        size_t a = jstr_offset(s, (size_t)from);
        size_t b = a;
        for (int64_t i = 0; i < count; i++) {
            b++;
            while (b < s->n && ((unsigned char)s->data[b] & 0xc0) == 0x80)
                b++;
        }
        return jv_str(x, out, s->data + a, b - a);
    }
    /* Positions of all code points, then the chosen ones. */
    uint32_t *at = s->n < UINT32_MAX ? jx_alloc(x, s->chars + 1, sizeof *at) : NULL;
    size_t k = 0;
    if (!at)
        return jx_nomem(x);
    for (size_t i = 0; i < s->n; i++)
        if (((unsigned char)s->data[i] & 0xc0) != 0x80)
            at[k++] = (uint32_t)i;
    at[k] = (uint32_t)s->n;
    for (int64_t i = 0; i < count; i++, from += step)
        str_putn(&r, s->data + at[from], at[from + 1] - at[from]);
    return jv_take(x, out, &r);
}

bool jv_slice(struct jx *x, struct jval v, const struct jval part[3], struct jval *out)
{
    int64_t n, step = 1, from, to, count = 0;

    if (v.type == JT_UNDEF)
        return jv_undef_fail(x, v);
    if (v.type == JT_DICT)
        return jx_fail(x, "TypeError", "unhashable type: 'slice'");
    if (v.type != JT_STR && (v.type != JT_SEQ || v.v.q->kind > SEQ_RANGE))
        return jx_fail(x, "TypeError", "'%s' object is not subscriptable",
                       jv_type_name(v));
    for (int i = 0; i < 3; i++)
        if (part[i].type != JT_NONE && part[i].type != JT_INT &&
            part[i].type != JT_BOOL)
            return jx_fail(x, "TypeError",
                           "slice indices must be integers or None or have an "
                           "__index__ method");
    if (part[2].type != JT_NONE)
        step = jv_as_int(part[2]);
    if (step == 0)
        return jx_fail(x, "ValueError", "slice step cannot be zero");
    n = v.type == JT_STR ? (int64_t)v.v.s->chars : v.v.q->n;
    if (step == INT64_MIN)
        step++;
    from = clip(part[0], step < 0 ? n - 1 : 0, n, step);
    to = clip(part[1], step < 0 ? -1 : n, n, step);
    if (step > 0 && to > from)
        count = (to - from - 1) / step + 1;
    else if (step < 0 && from > to)
        count = (from - to - 1) / -step + 1;
    if (v.type == JT_STR) {
        bool ok = slice_str(x, v.v.s, from, count, step, out);
        out->markup = v.markup;
        return ok;
    }
    if (!jv_seq(x, out, v.v.q->kind, count))
        return false;
    for (int64_t i = 0; i < count; i++)
        out->v.q->at[out->v.q->n++] = v.v.q->at[from + i * step];
    return true;
}
