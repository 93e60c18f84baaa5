/*
 * jinja_func.c - global functions, and the loop variable's attributes.
 */
#include "text/jinja_int.h"

#include <string.h>

enum { MAX_RANGE = 100000 };

static bool g_range(struct jx *x, const struct jargs *a, struct jval *out)
{
    int64_t v[3] = {0, 0, 1}, n = 0;

    for (int i = 0; i < 3; i++)
        if (!jarg_int(x, a->pos[i], v[i], &v[i]))
            return false;
    if (!jarg_given(a->pos[1])) { /* range(stop) */
        v[1] = v[0];
        v[0] = 0;
    }
    if (v[2] == 0)
        return jx_fail(x, "ValueError", "range() arg 3 must not be zero");
    /* In doubles: only whether it is too big matters. */
    double span = ((double)v[1] - (double)v[0]) / (double)v[2];
    if (span > MAX_RANGE)
        return jx_fail(x, "OverflowError",
                       "Range too big. The sandbox blocks ranges larger than MAX_RANGE "
                       "(%d).",
                       MAX_RANGE);
    if (span > 0)
        n = v[2] > 0 ? (v[1] - v[0] - 1) / v[2] + 1 : (v[0] - v[1] - 1) / -v[2] + 1;
    if (!jv_seq(x, out, SEQ_RANGE, n))
        return false;
    for (int64_t i = 0; i < n; i++)
        out->v.q->at[out->v.q->n++] = jv_int(v[0] + i * v[2]);
    return true;
}

/* dict(pairs or dict, key=value, …) */
static bool fill_dict(struct jx *x, const struct jargs *a, const char *name,
                      struct jdict *d)
{
    struct jseq *q;

    if (a->n > 1)
        return jx_fail(x, "TypeError", "%s expected at most 1 argument, got %d", name,
                       a->n);
    if (a->n && a->pos[0].type == JT_DICT) {
        const struct jdict *from = a->pos[0].v.d;
        for (int64_t i = 0; i < from->n; i++)
            if (!jdict_put(x, d, from->at[i].key, from->at[i].val))
                return false;
    } else if (a->n) {
        if (!jv_iter(x, a->pos[0], &q))
            return false;
        for (int64_t i = 0; i < q->n; i++) {
            struct jseq *p;
            if (!jv_iter(x, q->at[i], &p))
                return false;
            if (p->n != 2)
                return jx_fail(x, "ValueError",
                               "dictionary update sequence element #%lld has length "
                               "%lld; 2 is required",
                               (long long)i, (long long)p->n);
            if (!jdict_put(x, d, p->at[0], p->at[1]))
                return false;
        }
    }
    for (int i = 0; i < a->n_kw; i++) {
        struct jval key;
        if (!jv_str(x, &key, a->kw[i].name, strlen(a->kw[i].name)) ||
            !jdict_put(x, d, key, a->kw[i].val))
            return false;
    }
    return true;
}

static bool g_dict(struct jx *x, const struct jargs *a, struct jval *out)
{
    return jv_dict(x, out) && fill_dict(x, a, "dict", out->v.d);
}

static bool g_namespace(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jnamespace *ns = jx_alloc(x, 1, sizeof *ns);

    if (!ns)
        return false;
    *out = (struct jval){.type = JT_NAMESPACE, .v.ns = ns};
    return fill_dict(x, a, "dict", &ns->d);
}

static bool g_raise_exception(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct str s = {0};

    (void)out;
    if (jv_put_str(x, &s, a->pos[0]))
        (void)jx_fail(x, "TemplateError", "%s", s.data ? s.data : "");
    str_free(&s);
    return false;
}

static bool g_strftime_now(struct jx *x, const struct jargs *a, struct jval *out)
{
    if (a->pos[0].type != JT_STR)
        return jx_fail(x, "TypeError", "strftime() argument 1 must be str, not %s",
                       jv_type_name(a->pos[0]));
    return jinja_strftime(x, a->pos[0].v.s, x->now_s, out);
}

const struct jfunc *jinja_global(const char *name)
{
    static const struct jfunc table[] = {
        {"dict", "*", 0, g_dict},
        {"namespace", "*", 0, g_namespace},
        {"raise_exception", "message", 1, g_raise_exception},
        {"range", "start stop step", 1, g_range},
        {"strftime_now", "format", 1, g_strftime_now},
    };

    for (size_t i = 0; i < countof(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* ---- loop.… ---- */

static bool l_cycle(struct jx *x, const struct jargs *a, struct jval *out)
{
    if (a->n < 2)
        return jx_fail(x, "TypeError", "no items for cycling given");
    *out = a->pos[1 + a->pos[0].v.loop->index0 % (a->n - 1)];
    return true;
}

/* True the first time, and when the arguments differ from the last call's. */
static bool l_changed(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jloop *l = a->pos[0].v.loop;
    struct jval now;
    bool same = false;

    if (!jv_seq(x, &now, SEQ_TUPLE, a->n))
        return false;
    for (int i = 1; i < a->n; i++)
        if (!jseq_add(x, now.v.q, a->pos[i]))
            return false;
    if (l->has_changed && !jv_equal(x, l->changed, now, &same))
        return false;
    l->changed = now;
    l->has_changed = true;
    *out = jv_bool(!same);
    return true;
}

static bool neighbour(struct jx *x, const struct jloop *l, int64_t i, const char *hint,
                      struct jval *out)
{
    if (i < 0 || i >= l->items->n)
        return jv_undef(x, out, hint, NULL);
    *out = l->items->at[i];
    return true;
}

bool jloop_attr(struct jx *x, struct jloop *l, const char *name, struct jval *out,
                bool *found)
{
    static const struct jfunc methods[] = {{"cycle", "*", 1, l_cycle},
                                           {"changed", "*", 1, l_changed}};
    const int64_t n = l->items->n, i = l->index0;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"index", i + 1},
        {"index0", i},
        {"length", n},
        {"revindex", n - i},
        {"revindex0", n - i - 1},
        {"depth", l->depth0 + 1},
        {"depth0", l->depth0},
    };

    *found = true;
    for (size_t k = 0; k < countof(numbers); k++)
        if (strcmp(name, numbers[k].name) == 0) {
            *out = jv_int(numbers[k].value);
            return true;
        }
    for (size_t k = 0; k < countof(methods); k++)
        if (strcmp(name, methods[k].name) == 0) {
            struct jmethod *me = jx_alloc(x, 1, sizeof *me);
            if (!me)
                return false;
            *me = (struct jmethod){.self = {.type = JT_LOOP, .v.loop = l},
                                   .fn = &methods[k],
                                   .name = name};
            *out = (struct jval){.type = JT_METHOD, .v.me = me};
            return true;
        }
    if (strcmp(name, "first") == 0) {
        *out = jv_bool(i == 0);
    } else if (strcmp(name, "last") == 0) {
        *out = jv_bool(i + 1 >= n);
    } else if (strcmp(name, "previtem") == 0) {
        return neighbour(x, l, i - 1, "there is no previous item", out);
    } else if (strcmp(name, "nextitem") == 0) {
        return neighbour(x, l, i + 1, "there is no next item", out);
    } else {
        *found = false;
    }
    return true;
}
