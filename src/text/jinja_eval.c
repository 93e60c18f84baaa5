/*
 * jinja_eval.c - expressions, and calls of what can be called.
 */
#include "text/jinja_int.h"

#include <string.h>

enum { ARGS_FEW = 8 };

/* ---- arguments ---- */

static bool add_pos(struct jx *x, struct jargs *a, int *cap, struct jval v)
{
    if (a->n == *cap) {
        struct jval *p = jx_alloc(x, 2 * (size_t)*cap + ARGS_FEW, sizeof *p);
        if (!p)
            return false;
        if (a->n)
            memcpy(p, a->pos, (size_t)a->n * sizeof *p);
        a->pos = p;
        *cap = 2 * *cap + ARGS_FEW;
    }
    a->pos[a->n++] = v;
    return true;
}

static bool add_kw(struct jx *x, struct jargs *a, const char *name, struct jval v)
{
    struct jkw *p = jx_alloc(x, (size_t)a->n_kw + 1, sizeof *p);

    if (!p)
        return false;
    for (int i = 0; i < a->n_kw; i++) {
        if (strcmp(a->kw[i].name, name) == 0)
            return jx_fail(x, "TypeError",
                           "got multiple values for keyword argument '%s'", name);
        p[i] = a->kw[i];
    }
    p[a->n_kw++] = (struct jkw){name, v};
    a->kw = p;
    return true;
}

/* *list and **dict of a call. */
static bool add_star(struct jx *x, struct jargs *a, int *cap, enum jkind kind,
                     struct jval v)
{
    struct jseq *q;

    if (kind == N_STAR) {
        if (!jv_iter(x, v, &q))
            return false;
        for (int64_t i = 0; i < q->n && i < INT32_MAX / 2; i++)
            if (!add_pos(x, a, cap, q->at[i]))
                return false;
        return true;
    }
    if (v.type != JT_DICT)
        return jx_fail(x, "TypeError", "argument after ** must be a mapping, not %s",
                       jv_type_name(v));
    for (int64_t i = 0; i < v.v.d->n; i++) {
        if (v.v.d->at[i].key.type != JT_STR)
            return jx_fail(x, "TypeError", "keywords must be strings");
        if (!add_kw(x, a, v.v.d->at[i].key.v.s->data, v.v.d->at[i].val))
            return false;
    }
    return true;
}

/* Evaluates a list of arguments behind those that a has. */
static bool eval_args(struct jx *x, const struct jnode *list, struct jargs *a)
{
    int cap = a->n;

    for (const struct jnode *n = list; n; n = n->next) {
        struct jval v = {0};
        bool star = n->kind == N_STAR || n->kind == N_STARSTAR;
        bool named = n->kind == N_KEYWORD;
        if (!jx_eval(x, star || named ? n->a : n, &v))
            return false;
        if (star    ? !add_star(x, a, &cap, n->kind, v)
            : named ? !add_kw(x, a, n->name, v)
                    : !add_pos(x, a, &cap, v))
            return false;
    }
    return true;
}

/* Length of the word at s; *next behind the space after it. */
static size_t word(const char *s, const char **next)
{
    size_t n = strcspn(s, " ");

    *next = s[n] ? s + n + 1 : s + n;
    return n;
}

/* Puts every argument at its place in pos[JARGS_MAX]. */
static bool bind(struct jx *x, const struct jfunc *f, const struct jargs *a,
                 struct jval *pos)
{
    const char *p = f->params, *next;
    int n = 0;

    for (int i = 0; i < JARGS_MAX; i++)
        pos[i] = JARG_MISSING;
    for (int i = 0; *p; p = next, i++)
        n += word(p, &next) > 0;
    if (a->n > n)
        return jx_fail(x, "TypeError", "%s() takes at most %d arguments (%d given)",
                       f->name, n, a->n);
    for (int i = 0; i < a->n; i++)
        pos[i] = a->pos[i];
    for (int k = 0; k < a->n_kw; k++) {
        int at = 0;
        for (p = f->params; *p; p = next, at++) {
            size_t len = word(p, &next);
            if (strlen(a->kw[k].name) == len && memcmp(p, a->kw[k].name, len) == 0)
                break;
        }
        if (at == n)
            return jx_fail(x, "TypeError",
                           "%s() got an unexpected keyword argument '%s'", f->name,
                           a->kw[k].name);
        if (at < a->n)
            return jx_fail(x, "TypeError", "%s() got multiple values for argument '%s'",
                           f->name, a->kw[k].name);
        pos[at] = a->kw[k].val;
    }
    for (int i = 0; i < f->min; i++)
        if (!jarg_given(pos[i]))
            return jx_fail(x, "TypeError",
                           "%s() missing %d required positional argument", f->name,
                           f->min - i);
    return true;
}

bool jx_call_builtin(struct jx *x, const struct jfunc *f, const struct jargs *a,
                     struct jval *out)
{
    struct jval pos[JARGS_MAX];
    const struct jargs bound = {.n = JARGS_MAX, .pos = pos};

    if (!jx_enter(x))
        return false;
    bool ok = f->params[0] == '*' ? f->fn(x, a, out)
                                  : bind(x, f, a, pos) && f->fn(x, &bound, out);
    x->depth--;
    return ok;
}

static bool call_method(struct jx *x, const struct jmethod *me, const struct jargs *a,
                        struct jval *out)
{
    struct jargs with_self = {.n_kw = a->n_kw, .kw = a->kw};

    if (!me->fn)
        return jx_fail(x, "NotImplementedError",
                       "%s.%s() is not supported in templates", jv_type_name(me->self),
                       me->name);
    if (a->n_kw && me->self.type != JT_LOOP && !strstr(me->name, "split"))
        return jx_fail(x, "TypeError", "%s.%s() takes no keyword arguments",
                       jv_type_name(me->self), me->name);
    with_self.pos = jx_alloc(x, (size_t)a->n + 1, sizeof *with_self.pos);
    if (!with_self.pos)
        return false;
    with_self.pos[with_self.n++] = me->self;
    for (int i = 0; i < a->n; i++)
        with_self.pos[with_self.n++] = a->pos[i];
    return jx_call_builtin(x, me->fn, &with_self, out);
}

bool jx_call(struct jx *x, struct jval f, const struct jargs *a, struct jval *out)
{
    switch (f.type) {
    case JT_FUNC:
        return jx_call_builtin(x, f.v.fn, a, out);
    case JT_METHOD:
        return call_method(x, f.v.me, a, out);
    case JT_MACRO:
        return jx_call_macro(x, f.v.m, a, out);
    case JT_LOOP:
        if (a->n != 1 || a->n_kw)
            return jx_fail(x, "TypeError", "a recursive loop takes one argument");
        return jx_call_loop(x, f.v.loop, a->pos[0], out);
    case JT_UNDEF:
        return jv_undef_fail(x, f);
    default:
        return jx_fail(x, "TypeError", "'%s' object is not callable", jv_type_name(f));
    }
}

static bool eval_call(struct jx *x, const struct jnode *n, struct jval *out)
{
    struct jargs a = {0};
    struct jval f;

    return jx_eval(x, n->a, &f) && eval_args(x, n->b, &a) && jx_call(x, f, &a, out);
}

static bool eval_filter(struct jx *x, const struct jnode *n, struct jval *out)
{
    struct jval value;
    struct jargs a = {.n = 1, .pos = &value};

    if (!jx_eval(x, n->a, &value))
        return false;
    if (!n->fn)
        return jx_fail(x, "TemplateRuntimeError", "No %s named '%s' found.",
                       n->kind == N_TEST ? "test" : "filter", n->name);
    return eval_args(x, n->b, &a) && jx_call_builtin(x, n->fn, &a, out);
}

/* ---- the rest ---- */

static bool eval_items(struct jx *x, const struct jnode *n, struct jval *out)
{
    if (!jv_seq(x, out, n->kind == N_TUPLE ? SEQ_TUPLE : SEQ_LIST, 0))
        return false;
    for (const struct jnode *i = n->a; i; i = i->next) {
        struct jval v;
        if (!jx_eval(x, i, &v) || !jseq_add(x, out->v.q, v))
            return false;
    }
    return true;
}

static bool eval_dict(struct jx *x, const struct jnode *n, struct jval *out)
{
    if (!jv_dict(x, out))
        return false;
    for (const struct jnode *i = n->a; i; i = i->next) {
        struct jval key, val;
        if (!jx_eval(x, i->a, &key) || !jx_eval(x, i->b, &val) ||
            !jdict_put(x, out->v.d, key, val))
            return false;
    }
    return true;
}

/* a < b < c: each pair once, until one fails. */
static bool eval_compare(struct jx *x, const struct jnode *n, struct jval *out)
{
    struct jval left, right;
    bool is = true;

    if (!jx_eval(x, n->a, &left))
        return false;
    for (const struct jnode *o = n->b; o && is; o = o->next) {
        if (!jx_eval(x, o->a, &right) || !jv_compare(x, o->op, left, right, &is))
            return false;
        left = right;
    }
    *out = jv_bool(is);
    return true;
}

static bool eval_concat(struct jx *x, const struct jnode *n, struct jval *out)
{
    struct jval a, b;
    struct str s = {0};
    bool ok = jx_eval(x, n->a, &a) && jx_eval(x, n->b, &b) && jv_put_str(x, &s, a) &&
              jv_put_str(x, &s, b);

    if (ok)
        return jv_take(x, out, &s);
    str_free(&s);
    return false;
}

static bool eval_cond(struct jx *x, const struct jnode *n, struct jval *out)
{
    struct jval test;

    if (!jx_eval(x, n->a, &test))
        return false;
    if (jv_truth(test))
        return jx_eval(x, n->b, out);
    if (n->c)
        return jx_eval(x, n->c, out);
    struct str s = {0};
    str_printf(&s,
               "the inline if-expression on line %d evaluated to false and no else "
               "section was defined.",
               n->line);
    const char *hint = str_ok(&s) ? arena_strdup(x->arena, s.data) : NULL;
    str_free(&s);
    return hint ? jv_undef(x, out, hint, NULL) : jx_nomem(x);
}

static bool eval_item(struct jx *x, const struct jnode *n, struct jval *out)
{
    struct jval v, key, part[3] = {{0}};

    if (!jx_eval(x, n->a, &v))
        return false;
    if (n->b->kind != N_SLICE)
        return jx_eval(x, n->b, &key) && jv_item(x, v, key, out);
    const struct jnode *const parts[] = {n->b->a, n->b->b, n->b->c};
    for (size_t i = 0; i < countof(parts); i++)
        if (parts[i] && !jx_eval(x, parts[i], &part[i]))
            return false;
    return jv_slice(x, v, part, out);
}

static bool eval_logic(struct jx *x, const struct jnode *n, struct jval *out)
{
    if (!jx_eval(x, n->a, out))
        return false;
    return jv_truth(*out) == (n->kind == N_OR) || jx_eval(x, n->b, out);
}

static bool eval_node(struct jx *x, const struct jnode *n, struct jval *out)
{
    struct jval a = {0}, b = {0};

    switch (n->kind) {
    case N_CONST:
        *out = n->val;
        return true;
    case N_NAME:
        return jx_lookup(x, n, out);
    case N_LIST:
    case N_TUPLE:
        return eval_items(x, n, out);
    case N_DICT:
        return eval_dict(x, n, out);
    case N_BINARY:
        return jx_eval(x, n->a, &a) && jx_eval(x, n->b, &b) &&
               jv_binary(x, n->op, a, b, out);
    case N_AND:
    case N_OR:
        return eval_logic(x, n, out);
    case N_NOT:
        if (!jx_eval(x, n->a, &a))
            return false;
        *out = jv_bool(!jv_truth(a));
        return true;
    case N_NEG:
    case N_POS:
        return jx_eval(x, n->a, &a) && jv_negate(x, a, n->kind == N_POS, out);
    case N_COMPARE:
        return eval_compare(x, n, out);
    case N_CONCAT:
        return eval_concat(x, n, out);
    case N_COND:
        return eval_cond(x, n, out);
    case N_ATTR:
        return jx_eval(x, n->a, &a) && jv_attr(x, a, n->val, out);
    case N_ITEM:
        return eval_item(x, n, out);
    case N_CALL:
        return eval_call(x, n, out);
    case N_FILTER:
    case N_TEST:
        return eval_filter(x, n, out);
    default: /* a slice inside a tuple key */
        return jx_fail(x, "TypeError", "a slice cannot be used here");
    }
}

bool jx_eval(struct jx *x, const struct jnode *n, struct jval *out)
{
    *out = jinja_none();
    if (!jx_enter(x))
        return false;
    bool ok = eval_node(x, n, out);
    x->depth--;
    return ok;
}
