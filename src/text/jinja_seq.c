/*
 * jinja_seq.c - filters over sequences and dicts, and the table of all filters.
 *
 * Lazy filters of Jinja2 (map, select, unique, …) give generators: they can be walked
 * once, have no length and no items. Here the work is done at once.
 */
#include "text/jinja_int.h"

#include <string.h>

bool jarg_int(struct jx *x, struct jval v, int64_t def, int64_t *out)
{
    *out = def;
    if (v.type == JT_INT || v.type == JT_BOOL)
        *out = jv_as_int(v);
    else if (jarg_given(v))
        return v.type == JT_UNDEF
                   ? jv_undef_fail(x, v)
                   : jx_fail(x, "TypeError",
                             "'%s' object cannot be interpreted as an integer",
                             jv_type_name(v));
    return true;
}

/* ---- paths ---- */

/* A part of a path: digits are an index. */
static bool path_part(struct jx *x, const char *s, size_t n, struct jval *out)
{
    int64_t i = 0;

    if (n == 0 || n > 18 || strspn(s, "0123456789") < n)
        return jv_str(x, out, s, n);
    for (size_t k = 0; k < n; k++)
        i = i * 10 + (s[k] - '0');
    *out = jv_int(i);
    return true;
}

bool jinja_get_path(struct jx *x, struct jval v, struct jval path, struct jval *out)
{
    *out = v;
    if (!jarg_given(path) || path.type == JT_NONE)
        return true;
    if (path.type != JT_STR)
        return jv_item(x, v, path, out);
    for (const char *s = path.v.s->data;;) {
        struct jval key;
        size_t n = strcspn(s, ".");
        if (!path_part(x, s, n, &key) || !jv_item(x, *out, key, out))
            return false;
        if (!s[n])
            return true;
        s += n + 1;
    }
}

/* What to compare by: the path's value, strings in lower case unless they count. */
static bool sort_key(struct jx *x, struct jval item, struct jval path,
                     bool case_sensitive, struct jval *out)
{
    if (!jinja_get_path(x, item, path, out))
        return false;
    return case_sensitive || out->type != JT_STR || jstr_case(x, *out, CASE_LOWER, out);
}

/* ---- sorting ---- */

struct keyed {
    struct jval key, item;
};

/* Stable merge sort of [from, to) through tmp. */
static bool merge_sort(struct jx *x, struct keyed *at, struct keyed *tmp, int64_t n,
                       bool reverse)
{
    int64_t half = n / 2, i = 0, k = half;

    if (n < 2)
        return true;
    if (!jx_enter(x))
        return false;
    bool ok = merge_sort(x, at, tmp, half, reverse) &&
              merge_sort(x, at + half, tmp, n - half, reverse);
    for (int64_t o = 0; ok && o < n; o++) {
        int order = 0;
        if (i < half && k < n)
            ok = reverse ? jv_order(x, at[i].key, at[k].key, "<", &order)
                         : jv_order(x, at[k].key, at[i].key, "<", &order);
        bool right = i == half || (k < n && order < 0);
        tmp[o] = right ? at[k++] : at[i++];
    }
    if (ok)
        memcpy(at, tmp, (size_t)n * sizeof *at);
    x->depth--;
    return ok && jx_charge(x, 0);
}

static bool sort_keyed(struct jx *x, struct keyed *at, int64_t n, bool reverse,
                       struct jval *out)
{
    struct keyed *tmp = jx_alloc(x, (size_t)n, sizeof *tmp);

    if (!tmp || !merge_sort(x, at, tmp, n, reverse) || !jv_seq(x, out, SEQ_LIST, n))
        return false;
    for (int64_t i = 0; i < n; i++)
        out->v.q->at[out->v.q->n++] = at[i].item;
    return true;
}

/* value, reverse, case_sensitive, attribute ("a,b": by a, then b) */
static bool f_sort(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jseq *q;
    struct keyed *at;

    if (!jv_iter(x, a->pos[0], &q))
        return false;
    at = jx_alloc(x, (size_t)q->n, sizeof *at);
    for (int64_t i = 0; i < q->n; i++) {
        struct jval attr = a->pos[3], paths, key;
        if (!at || !jv_seq(x, &at[i].key, SEQ_LIST, 1))
            return false;
        at[i].item = q->at[i];
        if (attr.type != JT_STR) {
            if (!sort_key(x, q->at[i], attr, jv_truth(a->pos[2]), &key) ||
                !jseq_add(x, at[i].key.v.q, key))
                return false;
            continue;
        }
        struct jval comma;
        if (!jv_str(x, &comma, ",", 1) ||
            !jstr_split(x, attr, comma, -1, false, &paths))
            return false;
        for (int64_t k = 0; k < paths.v.q->n; k++)
            if (!sort_key(x, q->at[i], paths.v.q->at[k], jv_truth(a->pos[2]), &key) ||
                !jseq_add(x, at[i].key.v.q, key))
                return false;
    }
    return at && sort_keyed(x, at, q->n, jv_truth(a->pos[1]), out);
}

/* A pair (key, value) of a dict as a tuple. */
static bool pair(struct jx *x, const struct jpair *p, struct jval *out)
{
    return jv_seq(x, out, SEQ_TUPLE, 2) && jseq_add(x, out->v.q, p->key) &&
           jseq_add(x, out->v.q, p->val);
}

/* value, case_sensitive, by, reverse */
static bool f_dictsort(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval d = a->pos[0], by = a->pos[2];
    bool by_value = by.type == JT_STR && strcmp(by.v.s->data, "value") == 0;

    if (by.type == JT_STR ? !by_value && strcmp(by.v.s->data, "key") != 0
                          : jarg_given(by))
        return jx_fail(x, "FilterArgumentError",
                       "You can only sort by either \"key\" or \"value\"");
    if (d.type == JT_UNDEF)
        return jv_undef_fail(x, d);
    if (d.type != JT_DICT)
        return jx_fail(x, "AttributeError", "'%s' object has no attribute 'items'",
                       jv_type_name(d));
    struct keyed *at = jx_alloc(x, (size_t)d.v.d->n, sizeof *at);
    for (int64_t i = 0; i < d.v.d->n; i++) {
        const struct jpair *p = &d.v.d->at[i];
        if (!at || !pair(x, p, &at[i].item) ||
            !sort_key(x, by_value ? p->val : p->key, JARG_MISSING, jv_truth(a->pos[1]),
                      &at[i].key))
            return false;
    }
    return at && sort_keyed(x, at, d.v.d->n, jv_truth(a->pos[3]), out);
}

static bool min_max(struct jx *x, const struct jargs *a, int sign, struct jval *out)
{
    struct jseq *q;
    struct jval best, key;

    if (!jv_iter(x, a->pos[0], &q))
        return false;
    if (q->n == 0)
        return jv_undef(x, out, "No aggregated item, sequence was empty.", NULL);
    for (int64_t i = 0; i < q->n; i++) {
        int order = sign;
        if (!sort_key(x, q->at[i], a->pos[2], jv_truth(a->pos[1]), &key) ||
            (i && !jv_order(x, key, best, sign < 0 ? "<" : ">", &order)))
            return false;
        if (order * sign <= 0)
            continue;
        best = key;
        *out = q->at[i];
    }
    return true;
}

static bool f_min(struct jx *x, const struct jargs *a, struct jval *out)
{
    return min_max(x, a, -1, out);
}

static bool f_max(struct jx *x, const struct jargs *a, struct jval *out)
{
    return min_max(x, a, 1, out);
}

static bool f_unique(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jseq *q;
    struct jval seen, key, *old;

    if (!jv_iter(x, a->pos[0], &q) || !jv_seq(x, out, SEQ_GENERATOR, 0) ||
        !jv_dict(x, &seen))
        return false;
    for (int64_t i = 0; i < q->n; i++) {
        if (!sort_key(x, q->at[i], a->pos[2], jv_truth(a->pos[1]), &key) ||
            !jdict_find(x, seen.v.d, key, &old))
            return false;
        if (!old && (!jdict_put(x, seen.v.d, key, jinja_none()) ||
                     !jseq_add(x, out->v.q, q->at[i])))
            return false;
    }
    return true;
}

/* ---- choosing and mapping; these take any arguments ---- */

/* A filter or test with the value in front of further arguments. */
static bool call_named(struct jx *x, const struct jfunc *f, struct jval v,
                       const struct jargs *a, int from, struct jval *out)
{
    struct jargs inner = {.n = 0, .n_kw = a->n_kw, .kw = a->kw};

    inner.pos = jx_alloc(x, (size_t)(a->n - from) + 1, sizeof *inner.pos);
    if (!inner.pos)
        return false;
    inner.pos[inner.n++] = v;
    for (int i = from; i < a->n; i++)
        inner.pos[inner.n++] = a->pos[i];
    return jx_call_builtin(x, f, &inner, out);
}

static bool choose(struct jx *x, const struct jargs *a, bool keep, bool by_attr,
                   struct jval *out)
{
    struct jseq *q;
    int at = by_attr ? 2 : 1; /* where the test's name stands */
    const struct jfunc *test = NULL;

    if (!jv_truth(a->pos[0])) /* nothing is even looked at */
        return jv_seq(x, out, SEQ_GENERATOR, 0);
    if (by_attr && a->n < 2)
        return jx_fail(x, "FilterArgumentError",
                       "Missing parameter for attribute name");
    if (a->n > at) {
        const char *name = a->pos[at].type == JT_STR ? a->pos[at].v.s->data : "";
        test = jinja_test(name);
        if (!test)
            return jx_fail(x, "TemplateRuntimeError", "No test named '%s'.", name);
    }
    if (!jv_iter(x, a->pos[0], &q) || !jv_seq(x, out, SEQ_GENERATOR, 0))
        return false;
    for (int64_t i = 0; i < q->n; i++) {
        struct jval v = q->at[i], is;
        if (by_attr && !jinja_get_path(x, v, a->pos[1], &v))
            return false;
        if (test ? !call_named(x, test, v, a, at + 1, &is) : (is = v, false))
            return false;
        if (jv_truth(is) == keep && !jseq_add(x, out->v.q, q->at[i]))
            return false;
    }
    return true;
}

static bool f_select(struct jx *x, const struct jargs *a, struct jval *out)
{
    return choose(x, a, true, false, out);
}

static bool f_reject(struct jx *x, const struct jargs *a, struct jval *out)
{
    return choose(x, a, false, false, out);
}

static bool f_selectattr(struct jx *x, const struct jargs *a, struct jval *out)
{
    return choose(x, a, true, true, out);
}

static bool f_rejectattr(struct jx *x, const struct jargs *a, struct jval *out)
{
    return choose(x, a, false, true, out);
}

static bool map_attr(struct jx *x, const struct jargs *a, const struct jseq *q,
                     struct jval *out)
{
    struct jval path = JARG_MISSING, def = JARG_MISSING, v;

    for (int i = 0; i < a->n_kw; i++) {
        if (strcmp(a->kw[i].name, "attribute") == 0)
            path = a->kw[i].val;
        else if (strcmp(a->kw[i].name, "default") == 0)
            def = a->kw[i].val;
        else
            return jx_fail(x, "FilterArgumentError", "Unexpected keyword argument '%s'",
                           a->kw[i].name);
    }
    if (!jarg_given(path))
        return jx_fail(x, "FilterArgumentError", "map requires a filter argument");
    for (int64_t i = 0; i < q->n; i++) {
        if (!jinja_get_path(x, q->at[i], path, &v))
            return false;
        if (v.type == JT_UNDEF && jarg_given(def) && def.type != JT_NONE)
            v = def;
        if (!jseq_add(x, out->v.q, v))
            return false;
    }
    return true;
}

static bool f_map(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jseq *q;
    const struct jfunc *f;
    struct jval v;

    if (!jv_truth(a->pos[0]))
        return jv_seq(x, out, SEQ_GENERATOR, 0);
    if (!jv_iter(x, a->pos[0], &q) || !jv_seq(x, out, SEQ_GENERATOR, q->n))
        return false;
    if (a->n < 2)
        return map_attr(x, a, q, out);
    const char *name = a->pos[1].type == JT_STR ? a->pos[1].v.s->data : "";
    f = jinja_filter(name);
    if (!f)
        return jx_fail(x, "TemplateRuntimeError", "No filter named '%s'.", name);
    for (int64_t i = 0; i < q->n; i++)
        if (!call_named(x, f, q->at[i], a, 2, &v) || !jseq_add(x, out->v.q, v))
            return false;
    return true;
}

/* ---- the simple ones ---- */

static bool f_list(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jseq *q;

    if (!jv_iter(x, a->pos[0], &q) || !jv_seq(x, out, SEQ_LIST, q->n))
        return false;
    for (int64_t i = 0; i < q->n; i++)
        out->v.q->at[out->v.q->n++] = q->at[i];
    return true;
}

static bool f_length(struct jx *x, const struct jargs *a, struct jval *out)
{
    int64_t n;

    if (!jv_len(x, a->pos[0], &n))
        return false;
    *out = jv_int(n);
    return true;
}

static bool f_first(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0];
    struct jseq *q;

    if (jv_is_iter(v)) { /* takes one and leaves the rest */
        if (v.v.q->pos >= v.v.q->n)
            return jv_undef(x, out, "No first item, sequence was empty.", NULL);
        *out = v.v.q->at[v.v.q->pos++];
        return true;
    }
    if (!jv_iter(x, v, &q))
        return false;
    if (q->n == 0)
        return jv_undef(x, out, "No first item, sequence was empty.", NULL);
    *out = q->at[0];
    return true;
}

static bool f_last(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0];
    struct jseq *q;

    if (v.type == JT_UNDEF)
        return jv_undef(x, out, "No last item, sequence was empty.", NULL);
    if (jv_is_iter(v) || (v.type != JT_SEQ && v.type != JT_STR && v.type != JT_DICT))
        return jx_fail(x, "TypeError", "'%s' object is not reversible",
                       jv_type_name(v));
    if (!jv_iter(x, v, &q))
        return false;
    if (q->n == 0)
        return jv_undef(x, out, "No last item, sequence was empty.", NULL);
    *out = q->at[q->n - 1];
    return true;
}

static bool f_reverse(struct jx *x, const struct jargs *a, struct jval *out)
{
    const struct jval back[3] = {{0}, {0}, {.type = JT_INT, .v.i = -1}};
    struct jseq *q;

    if (a->pos[0].type == JT_STR)
        return jv_slice(x, a->pos[0], back, out);
    if (a->pos[0].type < JT_STR && a->pos[0].type != JT_UNDEF)
        return jx_fail(x, "FilterArgumentError", "argument must be iterable");
    if (!jv_iter(x, a->pos[0], &q) || !jv_seq(x, out, SEQ_REVERSED, q->n))
        return false;
    for (int64_t i = q->n - 1; i >= 0; i--)
        out->v.q->at[out->v.q->n++] = q->at[i];
    if (jv_is_iter(a->pos[0])) /* made a list first, and that is what comes out */
        out->v.q->kind = SEQ_LIST;
    return true;
}

/* value, d, attribute */
static bool f_join(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct str s = {0};
    struct jseq *q;
    bool ok = jv_iter(x, a->pos[0], &q);

    for (int64_t i = 0; ok && i < q->n; i++) {
        struct jval v;
        ok = (i == 0 || !jarg_given(a->pos[1]) || jv_put_str(x, &s, a->pos[1])) &&
             jinja_get_path(x, q->at[i], a->pos[2], &v) && jv_put_str(x, &s, v);
    }
    if (ok)
        return jv_take(x, out, &s);
    str_free(&s);
    return false;
}

static bool f_items(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval d = a->pos[0], p;

    if (d.type != JT_DICT && d.type != JT_UNDEF)
        return jx_fail(x, "TypeError", "Can only get item pairs from a mapping.");
    if (!jv_seq(x, out, SEQ_GENERATOR, 0))
        return false;
    for (int64_t i = 0; d.type == JT_DICT && i < d.v.d->n; i++)
        if (!pair(x, &d.v.d->at[i], &p) || !jseq_add(x, out->v.q, p))
            return false;
    return true;
}

/* value, attribute, start */
static bool f_sum(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jseq *q;
    struct jval v;

    *out = jarg_given(a->pos[2]) ? a->pos[2] : jv_int(0);
    if (!jv_iter(x, a->pos[0], &q))
        return false;
    for (int64_t i = 0; i < q->n; i++)
        if (!jinja_get_path(x, q->at[i], a->pos[1], &v) ||
            !jv_binary(x, T_ADD, *out, v, out))
            return false;
    return true;
}

/* value, linecount, fill_with */
static bool f_batch(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jseq *q;
    struct jval part = {0};
    int64_t size;

    if (!jv_iter(x, a->pos[0], &q) || !jarg_int(x, a->pos[1], 0, &size) ||
        !jv_seq(x, out, SEQ_GENERATOR, 0))
        return false;
    if (size < 1)
        return jx_fail(x, "ValueError", "batch of less than one");
    for (int64_t i = 0; i < q->n; i++) {
        if (i % size == 0 &&
            (!jv_seq(x, &part, SEQ_LIST, 0) || !jseq_add(x, out->v.q, part)))
            return false;
        if (!jseq_add(x, part.v.q, q->at[i]))
            return false;
    }
    while (q->n && jarg_given(a->pos[2]) && a->pos[2].type != JT_NONE &&
           part.v.q->n < size)
        if (!jseq_add(x, part.v.q, a->pos[2]))
            return false;
    return true;
}

static bool f_default(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0];

    *out = v;
    if (v.type != JT_UNDEF && !(jv_truth(a->pos[2]) && !jv_truth(v)))
        return true;
    *out = a->pos[1];
    return jarg_given(*out) || jv_str(x, out, "", 0);
}

static bool f_attr(struct jx *x, const struct jargs *a, struct jval *out)
{
    if (a->pos[1].type != JT_STR)
        return jx_fail(x, "TypeError", "attribute name must be string, not '%s'",
                       jv_type_name(a->pos[1]));
    if (a->pos[0].type == JT_DICT || a->pos[0].type == JT_UNDEF) /* no keys here */
        return jv_undef_key(x, out, a->pos[0], a->pos[1]);
    return jv_attr(x, a->pos[0], a->pos[1], out);
}

const struct jfunc *jinja_seq_filter(const char *name)
{
    static const struct jfunc table[] = {
        {"attr", "obj name", 2, f_attr},
        {"batch", "value linecount fill_with", 2, f_batch},
        {"count", "value", 1, f_length},
        {"d", "value default_value boolean", 1, f_default},
        {"default", "value default_value boolean", 1, f_default},
        {"dictsort", "value case_sensitive by reverse", 1, f_dictsort},
        {"first", "seq", 1, f_first},
        {"items", "value", 1, f_items},
        {"join", "value d attribute", 1, f_join},
        {"last", "seq", 1, f_last},
        {"length", "value", 1, f_length},
        {"list", "value", 1, f_list},
        {"map", "*", 1, f_map},
        {"max", "value case_sensitive attribute", 1, f_max},
        {"min", "value case_sensitive attribute", 1, f_min},
        {"reject", "*", 1, f_reject},
        {"rejectattr", "*", 1, f_rejectattr},
        {"reverse", "value", 1, f_reverse},
        {"select", "*", 1, f_select},
        {"selectattr", "*", 1, f_selectattr},
        {"sort", "value reverse case_sensitive attribute", 1, f_sort},
        {"sum", "iterable attribute start", 1, f_sum},
        {"unique", "value case_sensitive attribute", 1, f_unique},
    };

    for (size_t i = 0; i < countof(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return strcmp(name, "tojson") == 0 ? &jinja_tojson : NULL;
}

const struct jfunc *jinja_filter(const char *name)
{
    const struct jfunc *f = jinja_seq_filter(name);

    return f ? f : jinja_text_filter(name);
}
