/*
 * jinja_exec.c - statements: scopes, loops, macros, output.
 *
 * Scopes follow Jinja2: a loop's body, a macro, a set block, a filter block and a with
 * have their own; an if has not. A set writes into the innermost scope, so what a loop
 * sets is gone after each turn; only a namespace carries values out.
 */
#include "base/mem.h"
#include "text/jinja_int.h"

#include <string.h>

enum {
    DEFAULT_STEPS = 20 * 1000 * 1000,
    DEFAULT_OUTPUT = 64 << 20,
    DEFAULT_MEMORY = 256 << 20,
    DEFAULT_DEPTH = 1000,
    /* Levels of C calls for one evaluation stay below 1 KB of stack in all builds. */
    MAX_DEPTH = 1000,
};

struct var {
    const struct jstr *name;
    struct jval val;
};

struct jscope {
    struct jscope *parent;
    struct var *vars; /* [n]; few, so looked through */
    int64_t n, cap;
};

/* ---- variables ---- */

static struct jval *find_var(const struct jscope *s, const struct jstr *name)
{
    for (int64_t i = 0; i < s->n; i++) {
        const struct jstr *v = s->vars[i].name;
        if (v->n == name->n && memcmp(v->data, name->data, name->n) == 0)
            return &s->vars[i].val;
    }
    return NULL;
}

static bool set_var(struct jx *x, const struct jstr *name, struct jval v)
{
    struct jscope *s = x->scope;
    struct jval *old = find_var(s, name);

    if (old) {
        *old = v;
        return true;
    }
    if (s->n == s->cap) {
        int64_t cap = s->cap ? 2 * s->cap : 4;
        struct var *p = jx_alloc(x, (size_t)cap, sizeof *p);
        if (!p)
            return false;
        if (s->n)
            memcpy(p, s->vars, (size_t)s->n * sizeof *p);
        s->vars = p;
        s->cap = cap;
    }
    s->vars[s->n++] = (struct var){name, v};
    return true;
}

bool jx_lookup(struct jx *x, const struct jnode *name, struct jval *out)
{
    struct jval *v = NULL;

    for (struct jscope *s = x->scope; s && !v; s = s->parent) {
        v = find_var(s, name->val.v.s);
        if (!jx_charge(x, (size_t)s->n * 8))
            return false;
    }
    if (!v)
        v = jdict_find_str(x->vars->root.v.d, name->val.v.s->data, name->val.v.s->n);
    if (v) {
        *out = *v;
        return true;
    }
    const struct jfunc *f = jinja_global(name->name);
    if (!f)
        return jv_undef(x, out, NULL, name->name);
    *out = (struct jval){.type = JT_FUNC, .v.fn = f};
    return true;
}

static struct jscope *push_scope(struct jx *x, struct jscope *parent)
{
    struct jscope *s = jx_alloc(x, 1, sizeof *s);

    if (s) {
        s->parent = parent;
        x->scope = s;
    }
    return s;
}

/* Assigns to a name, an attribute of a namespace, or each name of a tuple. */
static bool assign(struct jx *x, const struct jnode *target, struct jval v)
{
    struct jval obj;
    struct jseq *q;
    int64_t n = 0;

    if (target->kind == N_NAME)
        return set_var(x, target->val.v.s, v);
    if (target->kind == N_NSREF) {
        if (!jx_lookup(x, target->a, &obj))
            return false;
        if (obj.type != JT_NAMESPACE)
            return jx_fail(x, "TemplateRuntimeError",
                           "cannot assign attribute on non-namespace object");
        return jdict_put(x, &obj.v.ns->d, target->val, v);
    }
    if (v.type != JT_SEQ && v.type != JT_STR && v.type != JT_DICT && v.type != JT_UNDEF)
        return jx_fail(x, "TypeError", "cannot unpack non-iterable %s object",
                       jv_type_name(v));
    if (!jv_iter(x, v, &q))
        return false;
    for (const struct jnode *t = target->a; t; t = t->next)
        n++;
    if (q->n > n)
        return jx_fail(x, "ValueError", "too many values to unpack (expected %lld)",
                       (long long)n);
    if (q->n < n)
        return jx_fail(x, "ValueError",
                       "not enough values to unpack (expected %lld, got %lld)",
                       (long long)n, (long long)q->n);
    n = 0;
    for (const struct jnode *t = target->a; t; t = t->next)
        if (!assign(x, t, q->at[n++]))
            return false;
    return true;
}

/* ---- output ---- */

static bool put_text(struct jx *x, const char *s, size_t n)
{
    if (x->out->len + n > x->max_output)
        return jx_limit(x, "output");
    str_putn(x->out, s, n);
    return str_ok(x->out) ? jx_charge(x, n) : jx_nomem(x);
}

static bool put_value(struct jx *x, struct jval v)
{
    struct str s = {0};

    if (v.type == JT_STR)
        return put_text(x, v.v.s->data, v.v.s->n);
    bool ok = jv_put_str(x, &s, v) && put_text(x, s.data ? s.data : "", s.len);
    str_free(&s);
    return ok;
}

/* Runs statements in a scope of their own and gives their output as a string. */
static bool capture(struct jx *x, const struct jnode *body, struct jval *out)
{
    struct str text = {0}, *before = x->out;
    struct jscope *scope = x->scope;

    x->out = &text;
    bool ok = jx_exec(x, body);
    x->out = before;
    x->scope = scope;
    if (ok)
        return jv_take(x, out, &text);
    str_free(&text);
    return false;
}

/* ---- loops ---- */

static bool loop_body(struct jx *x, const struct jnode *n, struct jval loop,
                      struct jscope *scope, struct jval item)
{
    scope->n = 0;
    x->scope = scope;
    return set_var(x, n->val.v.s, loop) && assign(x, n->a, item) && jx_exec(x, n->c);
}

/* The items that pass the loop's own test, which sees the target alone. */
static bool filter_items(struct jx *x, const struct jnode *n, struct jseq **q)
{
    struct jscope *outer = x->scope, *inner = push_scope(x, outer);
    struct jval list, is;
    bool ok = inner && jv_seq(x, &list, SEQ_LIST, 0);

    for (int64_t i = 0; ok && i < (*q)->n; i++) {
        inner->n = 0;
        ok = assign(x, n->a, (*q)->at[i]) && jx_eval(x, n->d->a, &is) &&
             (!jv_truth(is) || jseq_add(x, list.v.q, (*q)->at[i]));
    }
    x->scope = outer;
    if (ok)
        *q = list.v.q;
    return ok;
}

static bool run_loop(struct jx *x, const struct jnode *n, struct jval items, int depth0)
{
    struct jscope *outer = x->scope, *scope;
    struct jseq *q;
    bool ok = true;

    if (!jv_iter(x, items, &q) || (n->d->a && !filter_items(x, n, &q)))
        return false;
    struct jloop *l = jx_alloc(x, 1, sizeof *l);
    scope = l ? push_scope(x, outer) : NULL;
    if (!scope)
        return false;
    *l = (struct jloop){
        .items = q, .depth0 = depth0, .node = n->op ? n : NULL, .scope = outer};
    const struct jval loop = {.type = JT_LOOP, .v.loop = l};
    for (; ok && l->index0 < q->n; l->index0++) {
        ok = loop_body(x, n, loop, scope, q->at[l->index0]);
        int how = x->break_or_continue;
        x->break_or_continue = 0;
        if (how == N_BREAK)
            break;
    }
    x->scope = outer;
    /* else: when there was nothing to do; it has a scope of its own too. */
    if (ok && q->n == 0 && n->d->b) {
        ok = push_scope(x, outer) && jx_exec(x, n->d->b);
        x->scope = outer;
    }
    return ok;
}

bool jx_call_loop(struct jx *x, struct jloop *l, struct jval items, struct jval *out)
{
    struct str text = {0}, *before = x->out;
    struct jscope *scope = x->scope;

    if (!l->node)
        return jx_fail(x, "TypeError",
                       "The loop must have the 'recursive' marker to be called "
                       "recursively.");
    if (!jx_enter(x))
        return false;
    x->out = &text;
    x->scope = l->scope;
    bool ok = run_loop(x, l->node, items, l->depth0 + 1);
    x->out = before;
    x->scope = scope;
    x->depth--;
    if (ok)
        return jv_take(x, out, &text);
    str_free(&text);
    return false;
}

static bool exec_for(struct jx *x, const struct jnode *n)
{
    struct jval items;

    return jx_eval(x, n->b, &items) && run_loop(x, n, items, 0);
}

/* ---- macros ---- */

static const struct jkw *find_kw(const struct jargs *a, const char *name)
{
    for (int i = 0; i < a->n_kw; i++)
        if (strcmp(a->kw[i].name, name) == 0)
            return &a->kw[i];
    return NULL;
}

static bool check_macro_args(struct jx *x, const struct jnode *n, const struct jargs *a)
{
    int n_params = 0;

    for (const struct jnode *p = n->a; p; p = p->next)
        n_params++;
    for (int i = 0; i < a->n_kw; i++) {
        int at = 0;
        const struct jnode *p = n->a;
        for (; p && strcmp(p->name, a->kw[i].name) != 0; p = p->next)
            at++;
        if (!p || at < a->n)
            return jx_fail(x, "TypeError", "macro '%s' takes no keyword argument '%s'",
                           n->name, a->kw[i].name);
    }
    if (a->n > n_params)
        return jx_fail(x, "TypeError", "macro '%s' takes not more than %d argument(s)",
                       n->name, n_params);
    return true;
}

static bool bind_macro(struct jx *x, const struct jnode *n, const struct jargs *a)
{
    int i = 0;

    for (const struct jnode *p = n->a; p; p = p->next, i++) {
        const struct jkw *kw = find_kw(a, p->name);
        struct jval v;
        if (i < a->n) {
            v = a->pos[i];
        } else if (kw) {
            v = kw->val;
        } else if (p->a) {
            if (!jx_eval(x, p->a, &v))
                return false;
        } else {
            struct str s = {0};
            str_printf(&s, "parameter '%s' was not provided", p->name);
            const char *hint = str_ok(&s) ? arena_strdup(x->arena, s.data) : NULL;
            str_free(&s);
            if (!hint)
                return jx_nomem(x);
            if (!jv_undef(x, &v, hint, p->name))
                return false;
        }
        if (!set_var(x, p->val.v.s, v))
            return false;
    }
    return true;
}

bool jx_call_macro(struct jx *x, struct jmacro *m, const struct jargs *a,
                   struct jval *out)
{
    struct jscope *scope = x->scope;

    if (!check_macro_args(x, m->node, a) || !jx_enter(x))
        return false;
    bool ok = push_scope(x, m->scope) && bind_macro(x, m->node, a) &&
              capture(x, m->node->c, out);
    x->scope = scope;
    x->depth--;
    return ok;
}

static bool exec_macro(struct jx *x, const struct jnode *n)
{
    struct jmacro *m = jx_alloc(x, 1, sizeof *m);

    if (!m)
        return false;
    *m = (struct jmacro){.node = n, .scope = x->scope};
    return set_var(x, n->val.v.s, (struct jval){.type = JT_MACRO, .v.m = m});
}

/* ---- the other statements ---- */

/* Filters of a block, innermost first; their chain ends with no value. */
static bool apply_filters(struct jx *x, const struct jnode *f, struct jval v,
                          struct jval *out)
{
    struct jnode value = {.kind = N_CONST, .val = v}, with_value;

    *out = v;
    if (!f)
        return true;
    if (f->a && !apply_filters(x, f->a, v, &value.val))
        return false;
    with_value = *f;
    with_value.a = &value;
    return jx_eval(x, &with_value, out);
}

static bool exec_capture(struct jx *x, const struct jnode *n)
{
    struct jscope *scope = x->scope;
    struct jval text;
    const struct jnode *filters = n->kind == N_SETBLOCK ? n->b : n->a;
    bool ok = push_scope(x, scope) && capture(x, n->c, &text);

    x->scope = scope;
    if (!ok || !apply_filters(x, filters, text, &text))
        return false;
    return n->kind == N_SETBLOCK ? assign(x, n->a, text) : put_value(x, text);
}

static bool exec_with(struct jx *x, const struct jnode *n)
{
    struct jscope *outer = x->scope, *inner = push_scope(x, outer);
    bool ok = inner != NULL;

    for (const struct jnode *s = n->a; ok && s; s = s->next) {
        struct jval v;
        x->scope = outer; /* values are those of outside */
        ok = jx_eval(x, s->b, &v);
        x->scope = inner;
        ok = ok && assign(x, s->a, v);
    }
    ok = ok && jx_exec(x, n->c);
    x->scope = outer;
    return ok;
}

static bool exec_if(struct jx *x, const struct jnode *n)
{
    for (; n; n = n->c) {
        struct jval test = jv_bool(true);
        if (n->a && !jx_eval(x, n->a, &test))
            return false;
        if (jv_truth(test))
            return jx_exec(x, n->b);
    }
    return true;
}

static bool exec_node(struct jx *x, const struct jnode *n)
{
    struct jval v;

    switch (n->kind) {
    case N_TEXT:
        return put_text(x, n->val.v.s->data, n->val.v.s->n);
    case N_OUT:
        return jx_eval(x, n->a, &v) && put_value(x, v);
    case N_FOR:
        return exec_for(x, n);
    case N_IF:
        return exec_if(x, n);
    case N_SET:
        return jx_eval(x, n->b, &v) && assign(x, n->a, v);
    case N_SETBLOCK:
    case N_FILTERBLOCK:
        return exec_capture(x, n);
    case N_MACRO:
        return exec_macro(x, n);
    case N_WITH:
        return exec_with(x, n);
    default:
        x->break_or_continue = (int)n->kind;
        return true;
    }
}

bool jx_exec(struct jx *x, const struct jnode *list)
{
    bool ok = true;

    if (!jx_enter(x))
        return false;
    for (const struct jnode *n = list; ok && n && !x->break_or_continue; n = n->next)
        ok = jx_charge(x, 0) && exec_node(x, n);
    x->depth--;
    return ok;
}

enum b2_status jinja_render(const struct jinja *t, const struct jinja_vars *v,
                            const struct jinja_limits *lim, struct str *out,
                            struct b2_err *err)
{
    const struct jinja_limits l = lim ? *lim : (struct jinja_limits){0};
    struct jscope root = {0};
    struct jx x = {
        .err = err,
        .max_steps = l.max_steps ? l.max_steps : DEFAULT_STEPS,
        .max_depth =
            l.max_depth > 0 && l.max_depth < MAX_DEPTH ? l.max_depth : DEFAULT_DEPTH,
        .max_output = l.max_output ? l.max_output : DEFAULT_OUTPUT,
        .now_s = l.now_s,
        .strict = l.strict,
        .scope = &root,
        .vars = v,
    };
    struct str text = {0};

    if (!jinja_vars_ok(v))
        return err_set(err, B2_ENOMEM, "out of memory for the template's values");
    x.arena = arena_new(l.max_memory ? l.max_memory : DEFAULT_MEMORY);
    if (!x.arena)
        return err_set(err, B2_ENOMEM, "out of memory");
    x.out = &text;
    if (jx_exec(&x, t->body)) {
        str_putn(out, text.data ? text.data : "", text.len);
        if (!str_ok(out))
            (void)jx_nomem(&x);
    }
    str_free(&text);
    arena_free(x.arena);
    return x.rc;
}
