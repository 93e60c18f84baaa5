/*
 * jinja_ops.c - truth, equality, order, length, iteration; Python's rules and messages.
 */
#include "text/jinja_int.h"

#include <math.h>
#include <string.h>

const char *jv_type_name(struct jval v)
{
    static const char *const seq[] = {
        [SEQ_LIST] = "list",
        [SEQ_TUPLE] = "tuple",
        [SEQ_RANGE] = "range",
        [SEQ_GENERATOR] = "generator",
        [SEQ_REVERSED] = "list_reverseiterator",
        [SEQ_KEYS] = "dict_keys",
        [SEQ_VALUES] = "dict_values",
        [SEQ_ITEMS] = "dict_items",
    };
    static const char *const names[] = {
        [JT_NONE] = "NoneType",
        [JT_UNDEF] = "Undefined",
        [JT_BOOL] = "bool",
        [JT_INT] = "int",
        [JT_FLOAT] = "float",
        [JT_STR] = "str",
        [JT_DICT] = "dict",
        [JT_NAMESPACE] = "Namespace",
        [JT_MACRO] = "Macro",
        [JT_LOOP] = "LoopContext",
        [JT_METHOD] = "builtin_function_or_method",
        [JT_FUNC] = "function",
    };

    if (v.type == JT_SEQ)
        return seq[v.v.q->kind];
    return v.markup ? "Markup" : names[v.type];
}

bool jv_truth(struct jval v)
{
    switch (v.type) {
    case JT_NONE:
    case JT_UNDEF:
        return false;
    case JT_BOOL:
        return v.v.b;
    case JT_INT:
        return v.v.i != 0;
    case JT_FLOAT:
        return v.v.f != 0.0;
    case JT_STR:
        return v.v.s->n > 0;
    case JT_SEQ:
        return jv_is_iter(v) || v.v.q->n > 0;
    case JT_DICT:
        return v.v.d->n > 0;
    case JT_LOOP:
        return v.v.loop->items->n > 0;
    default:
        return true;
    }
}

/* ---- undefined ---- */

/* "'list object'" of Jinja2's messages, without the quotes. */
static void put_object_type(struct str *s, struct jval v)
{
    if (v.type == JT_NONE) {
        str_put(s, "None");
        return;
    }
    if (v.markup)
        str_put(s, "markupsafe.");
    else if (v.type == JT_NAMESPACE)
        str_put(s, "jinja2.utils.");
    else if (v.type == JT_MACRO || v.type == JT_LOOP)
        str_put(s, "jinja2.runtime.");
    str_printf(s, "%s object", jv_type_name(v));
}

bool jv_undef_fail(struct jx *x, struct jval v)
{
    const struct jundef *u = v.v.u;
    struct str s = {0};

    if (u->unsafe) {
        str_printf(&s, "access to attribute '%s' of '%s' object is unsafe.", u->name,
                   jv_type_name(u->obj));
    } else if (u->hint) {
        str_put(&s, u->hint);
    } else if (!u->has_obj) {
        str_printf(&s, "'%s' is undefined", u->name ? u->name : "?");
    } else if (u->key.type == JT_STR) {
        str_put(&s, "'");
        put_object_type(&s, u->obj);
        str_put(&s, "' has no attribute ");
        (void)jv_put_repr(x, &s, u->key);
    } else {
        put_object_type(&s, u->obj);
        str_put(&s, " has no element ");
        (void)jv_put_repr(x, &s, u->key);
    }
    (void)jx_fail(x, u->unsafe ? "SecurityError" : "UndefinedError", "%s",
                  str_ok(&s) && s.data ? s.data : "undefined");
    str_free(&s);
    return false;
}

/* ---- equality and order ---- */

static bool equal_seqs(struct jx *x, const struct jseq *a, const struct jseq *b,
                       bool *out)
{
    bool same_kind = a->kind == b->kind;

    *out = a == b || (same_kind && a->n == b->n &&
                      (a->kind <= SEQ_RANGE || a->kind == SEQ_ITEMS));
    if (!*out || a == b)
        return true;
    for (int64_t i = 0; *out && i < a->n; i++)
        if (!jv_equal(x, a->at[i], b->at[i], out))
            return false;
    return true;
}

static bool equal_dicts(struct jx *x, const struct jdict *a, const struct jdict *b,
                        bool *out)
{
    *out = a->n == b->n;
    for (int64_t i = 0; a != b && *out && i < a->n; i++) {
        struct jval *other;
        if (!jdict_find(x, b, a->at[i].key, &other))
            return false;
        *out = other != NULL;
        if (other && !jv_equal(x, a->at[i].val, *other, out))
            return false;
    }
    return true;
}

bool jv_equal(struct jx *x, struct jval a, struct jval b, bool *out)
{
    bool ok = true;

    *out = false;
    if (jv_is_num(a) && jv_is_num(b)) {
        *out = a.type != JT_FLOAT && b.type != JT_FLOAT
                   ? (jv_as_int(a)) == (jv_as_int(b))
                   : jv_num(a) == jv_num(b);
        return true;
    }
    if (a.type != b.type)
        return true;
    if (!jx_enter(x))
        return false;
    switch (a.type) {
    case JT_NONE:
    case JT_UNDEF:
        *out = true;
        break;
    case JT_STR:
        *out = a.v.s->n == b.v.s->n && memcmp(a.v.s->data, b.v.s->data, a.v.s->n) == 0;
        ok = jx_charge(x, a.v.s->n);
        break;
    case JT_SEQ:
        ok = equal_seqs(x, a.v.q, b.v.q, out);
        break;
    case JT_DICT:
        ok = equal_dicts(x, a.v.d, b.v.d, out);
        break;
    case JT_METHOD: /* made anew at each access */
        *out = a.v.me->fn == b.v.me->fn && a.v.me->self.v.d == b.v.me->self.v.d;
        break;
    default:
        *out = a.v.d == b.v.d; /* the same object */
        break;
    }
    x->depth--;
    return ok;
}

static bool order_seqs(struct jx *x, const struct jseq *a, const struct jseq *b,
                       const char *op, int *out)
{
    for (int64_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        if (!jv_equal(x, a->at[i], b->at[i], &same))
            return false;
        if (!same)
            return jv_order(x, a->at[i], b->at[i], op, out);
    }
    *out = (a->n > b->n) - (a->n < b->n);
    return true;
}

bool jv_order(struct jx *x, struct jval a, struct jval b, const char *op, int *out)
{
    if (a.type == JT_UNDEF || b.type == JT_UNDEF)
        return jv_undef_fail(x, a.type == JT_UNDEF ? a : b);
    if (jv_is_num(a) && jv_is_num(b)) {
        if (a.type != JT_FLOAT && b.type != JT_FLOAT) {
            int64_t i = jv_as_int(a);
            int64_t k = jv_as_int(b);
            *out = (i > k) - (i < k);
            return true;
        }
        *out = (jv_num(a) > jv_num(b)) - (jv_num(a) < jv_num(b));
        return true;
    }
    if (a.type == JT_STR && b.type == JT_STR) {
        size_t n = a.v.s->n < b.v.s->n ? a.v.s->n : b.v.s->n;
        *out = memcmp(a.v.s->data, b.v.s->data, n); /* UTF-8 sorts like code points */
        if (*out == 0)
            *out = (a.v.s->n > b.v.s->n) - (a.v.s->n < b.v.s->n);
        return jx_charge(x, n);
    }
    if (a.type == JT_SEQ && b.type == JT_SEQ && a.v.q->kind == b.v.q->kind &&
        a.v.q->kind <= SEQ_TUPLE) {
        if (!jx_enter(x))
            return false;
        bool ok = order_seqs(x, a.v.q, b.v.q, op, out);
        x->depth--;
        return ok;
    }
    return jx_fail(x, "TypeError",
                   "'%s' not supported between instances of '%s' and '%s'", op,
                   jv_type_name(a), jv_type_name(b));
}

bool jv_contains(struct jx *x, struct jval box, struct jval item, bool *out)
{
    struct jval *found;

    *out = false;
    switch (box.type) {
    case JT_UNDEF:
        return true; /* as empty */
    case JT_STR:
        if (item.type != JT_STR)
            return jx_fail(x, "TypeError",
                           "'in <string>' requires string as left operand, not %s",
                           jv_type_name(item));
        *out = jstr_find(x, box.v.s, 0, item.v.s) >= 0;
        return x->rc == B2_OK;
    case JT_SEQ: {
        struct jseq *q;
        if (!jv_iter(x, box, &q))
            return false;
        for (int64_t i = 0; !*out && i < q->n; i++)
            if (!jv_equal(x, q->at[i], item, out))
                return false;
        return true;
    }
    case JT_DICT:
        if (!jdict_find(x, box.v.d, item, &found))
            return false;
        *out = found != NULL;
        return true;
    default:
        return jx_fail(x, "TypeError", "argument of type '%s' is not iterable",
                       jv_type_name(box));
    }
}

bool jv_compare(struct jx *x, int op, struct jval a, struct jval b, bool *out)
{
    int order = 0;
    bool nan = jv_is_num(a) && jv_is_num(b) && (isnan(jv_num(a)) || isnan(jv_num(b)));

    switch (op) {
    case T_EQ:
        return jv_equal(x, a, b, out);
    case T_NE:
        if (!jv_equal(x, a, b, out))
            return false;
        *out = !*out;
        return true;
    case T_IN:
        return jv_contains(x, b, a, out);
    case T_NOT_IN:
        if (!jv_contains(x, b, a, out))
            return false;
        *out = !*out;
        return true;
    case T_LT:
        if (!jv_order(x, a, b, "<", &order))
            return false;
        *out = order < 0;
        break;
    case T_LE:
        if (!jv_order(x, a, b, "<=", &order))
            return false;
        *out = order <= 0;
        break;
    case T_GT:
        if (!jv_order(x, a, b, ">", &order))
            return false;
        *out = order > 0;
        break;
    default:
        if (!jv_order(x, a, b, ">=", &order))
            return false;
        *out = order >= 0;
        break;
    }
    *out = *out && !nan;
    return true;
}

/* ---- length and iteration ---- */

bool jv_len(struct jx *x, struct jval v, int64_t *out)
{
    *out = 0;
    switch (v.type) {
    case JT_UNDEF:
        return true;
    case JT_STR:
        *out = (int64_t)v.v.s->chars;
        return true;
    case JT_DICT:
        *out = v.v.d->n;
        return true;
    case JT_LOOP:
        *out = v.v.loop->items->n;
        return true;
    case JT_SEQ:
        *out = v.v.q->n;
        if (!jv_is_iter(v))
            return true;
        break;
    default:
        break;
    }
    return jx_fail(x, "TypeError", "object of type '%s' has no len()", jv_type_name(v));
}

static bool iter_str(struct jx *x, const struct jstr *s, struct jval *out)
{
    if (!jv_seq(x, out, SEQ_LIST, (int64_t)s->chars))
        return false;
    for (size_t i = 0, n; i < s->n; i += n) {
        struct jval c;
        for (n = 1; i + n < s->n && ((unsigned char)s->data[i + n] & 0xc0) == 0x80;)
            n++;
        if (!jv_str(x, &c, s->data + i, n) || !jseq_add(x, out->v.q, c))
            return false;
    }
    return true;
}

bool jv_iter(struct jx *x, struct jval v, struct jseq **out)
{
    struct jval list;

    switch (v.type) {
    case JT_SEQ:
        if (!jv_is_iter(v)) {
            *out = v.v.q;
            return true;
        }
        if (!jv_seq(x, &list, SEQ_LIST, v.v.q->n - v.v.q->pos))
            return false;
        while (v.v.q->pos < v.v.q->n)
            if (!jseq_add(x, list.v.q, v.v.q->at[v.v.q->pos++]))
                return false;
        break;
    case JT_UNDEF:
        if (!jv_seq(x, &list, SEQ_LIST, 0))
            return false;
        break;
    case JT_STR:
        if (!iter_str(x, v.v.s, &list))
            return false;
        break;
    case JT_DICT:
        if (!jv_seq(x, &list, SEQ_LIST, v.v.d->n))
            return false;
        for (int64_t i = 0; i < v.v.d->n; i++)
            if (!jseq_add(x, list.v.q, v.v.d->at[i].key))
                return false;
        break;
    default:
        return jx_fail(x, "TypeError", "'%s' object is not iterable", jv_type_name(v));
    }
    *out = list.v.q;
    return true;
}
