/*
 * jinja_ops.c - operators: truth, equality, order, arithmetic, length, iteration.
 *
 * Python's rules and messages. Integers have 64 bits here, so what leaves them is an
 * OverflowError.
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
                   ? (a.type == JT_INT ? a.v.i : a.v.b) ==
                         (b.type == JT_INT ? b.v.i : b.v.b)
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
            int64_t i = a.type == JT_INT ? a.v.i : a.v.b;
            int64_t k = b.type == JT_INT ? b.v.i : b.v.b;
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

/* ---- arithmetic ---- */

static bool overflow(struct jx *x)
{
    return jx_fail(x, "OverflowError", "an integer of more than 64 bits");
}

static bool zero_division(struct jx *x, bool floats, int op)
{
    if (op == T_DIV)
        return jx_fail(x, "ZeroDivisionError",
                       floats ? "float division by zero" : "division by zero");
    if (!floats)
        return jx_fail(x, "ZeroDivisionError",
                       op == T_MOD ? "integer modulo by zero"
                                   : "integer division or modulo by zero");
    return jx_fail(x, "ZeroDivisionError",
                   op == T_MOD ? "float modulo" : "float floor division by zero");
}

static bool int_pow(struct jx *x, int64_t base, int64_t exp, struct jval *out)
{
    int64_t r = 1;

    if (exp < 0) {
        if (base == 0)
            return jx_fail(x, "ZeroDivisionError",
                           "0.0 cannot be raised to a negative power");
        *out = jv_float(pow((double)base, (double)exp));
        return true;
    }
    while (exp > 0) {
        if ((exp & 1) && __builtin_mul_overflow(r, base, &r))
            return overflow(x);
        exp >>= 1;
        if (exp && __builtin_mul_overflow(base, base, &base))
            return overflow(x);
    }
    *out = jv_int(r);
    return true;
}

/* Division rounds towards minus infinity, and a remainder has the divisor's sign. */
static bool int_op(struct jx *x, int op, int64_t a, int64_t b, struct jval *out)
{
    int64_t r = 0;
    bool bad = false;

    switch (op) {
    case T_ADD:
        bad = __builtin_add_overflow(a, b, &r);
        break;
    case T_SUB:
        bad = __builtin_sub_overflow(a, b, &r);
        break;
    case T_MUL:
        bad = __builtin_mul_overflow(a, b, &r);
        break;
    case T_POW:
        return int_pow(x, a, b, out);
    default:
        if (b == 0)
            return zero_division(x, false, op);
        if (op == T_DIV) {
            *out = jv_float((double)a / (double)b);
            return true;
        }
        if (b == -1) { /* INT64_MIN / -1 */
            bad = op == T_FLOORDIV && __builtin_sub_overflow(0, a, &r);
            break;
        }
        r = op == T_MOD ? a % b : a / b;
        if (a % b != 0 && (a < 0) != (b < 0))
            r += op == T_MOD ? b : -1;
        break;
    }
    if (bad)
        return overflow(x);
    *out = jv_int(r);
    return true;
}

static double float_mod(double a, double b)
{
    double r = fmod(a, b);

    if (r != 0.0 && (r < 0.0) != (b < 0.0))
        r += b;
    return r == 0.0 ? copysign(0.0, b) : r;
}

static bool float_op(struct jx *x, int op, double a, double b, struct jval *out)
{
    double r = 0.0;

    if ((op == T_DIV || op == T_FLOORDIV || op == T_MOD) && b == 0.0)
        return zero_division(x, true, op);
    switch (op) {
    case T_ADD:
        r = a + b;
        break;
    case T_SUB:
        r = a - b;
        break;
    case T_MUL:
        r = a * b;
        break;
    case T_DIV:
        r = a / b;
        break;
    case T_MOD:
        r = float_mod(a, b);
        break;
    case T_FLOORDIV: /* as CPython: from the exact remainder */
        r = (a - float_mod(a, b)) / b;
        r = floor(r) + (r - floor(r) > 0.5 ? 1.0 : 0.0);
        break;
    default:
        if (a == 0.0 && b < 0.0)
            return jx_fail(x, "ZeroDivisionError",
                           "0.0 cannot be raised to a negative power");
        r = pow(a, b);
        if (isinf(r) && isfinite(a) && isfinite(b))
            return jx_fail(x, "OverflowError", "(34, 'Numerical result out of range')");
        break;
    }
    *out = jv_float(r);
    return true;
}

static bool concat_strs(struct jx *x, struct jval a, struct jval b, struct jval *out)
{
    struct str s = {0};

    if (a.markup || b.markup) { /* Markup escapes what is not safe */
        bool ok = jv_put_html(x, &s, a) && jv_put_html(x, &s, b) && jv_take(x, out, &s);
        str_free(&s);
        out->markup = true;
        return ok;
    }
    struct jstr *r = a.v.s->n < SIZE_MAX / 4 && b.v.s->n < SIZE_MAX / 4
                         ? jx_alloc(x, sizeof *r + a.v.s->n + b.v.s->n + 1, 1)
                         : NULL;
    if (!r)
        return jx_nomem(x);
    memcpy(r->data, a.v.s->data, a.v.s->n);
    memcpy(r->data + a.v.s->n, b.v.s->data, b.v.s->n);
    r->n = a.v.s->n + b.v.s->n;
    r->chars = a.v.s->chars + b.v.s->chars;
    *out = (struct jval){.type = JT_STR, .v.s = r};
    return true;
}

static bool add(struct jx *x, struct jval a, struct jval b, struct jval *out)
{
    if (a.type == JT_STR) {
        if (b.type == JT_STR)
            return concat_strs(x, a, b, out);
        return jx_fail(x, "TypeError", "can only concatenate str (not \"%s\") to str",
                       jv_type_name(b));
    }
    if (a.type == JT_SEQ && a.v.q->kind <= SEQ_TUPLE) {
        const char *kind = jv_type_name(a);
        if (b.type != JT_SEQ || b.v.q->kind != a.v.q->kind)
            return jx_fail(x, "TypeError", "can only concatenate %s (not \"%s\") to %s",
                           kind, jv_type_name(b), kind);
        if (!jv_seq(x, out, a.v.q->kind, a.v.q->n + b.v.q->n))
            return false;
        for (int64_t i = 0; i < a.v.q->n; i++)
            out->v.q->at[out->v.q->n++] = a.v.q->at[i];
        for (int64_t i = 0; i < b.v.q->n; i++)
            out->v.q->at[out->v.q->n++] = b.v.q->at[i];
        return true;
    }
    return jx_fail(x, "TypeError", "unsupported operand type(s) for +: '%s' and '%s'",
                   jv_type_name(a), jv_type_name(b));
}

/* "ab" * 3, [1] * 2. */
static bool repeat(struct jx *x, struct jval v, int64_t n, struct jval *out)
{
    struct str s = {0};

    if (n < 0)
        n = 0;
    if (v.type == JT_SEQ) {
        int64_t total;
        if (__builtin_mul_overflow(v.v.q->n, n, &total))
            return jx_nomem(x);
        if (!jv_seq(x, out, v.v.q->kind, total))
            return false;
        for (int64_t i = 0; i < total; i++)
            out->v.q->at[i] = v.v.q->at[i % v.v.q->n];
        out->v.q->n = total;
        return true;
    }
    size_t bytes;
    if (__builtin_mul_overflow(v.v.s->n, (size_t)n, &bytes) || bytes > x->max_output)
        return jx_nomem(x);
    for (int64_t i = 0; v.v.s->n && i < n; i++) {
        if (!jx_charge(x, v.v.s->n)) {
            str_free(&s);
            return false;
        }
        str_putn(&s, v.v.s->data, v.v.s->n);
    }
    bool ok = jv_take(x, out, &s);
    out->markup = v.markup;
    return ok;
}

static bool is_int(struct jval v)
{
    return v.type == JT_INT || v.type == JT_BOOL;
}

static bool can_repeat(struct jval v)
{
    return v.type == JT_STR || (v.type == JT_SEQ && v.v.q->kind <= SEQ_TUPLE);
}

static bool percent(struct jx *x, struct jval a, struct jval b, struct jval *out)
{
    const struct jval none = {0};

    if (b.type == JT_SEQ && b.v.q->kind == SEQ_TUPLE)
        return jstr_percent(x, a, b.v.q->at, b.v.q->n, none, out);
    return jstr_percent(x, a, &b, 1, b.type == JT_DICT ? b : none, out);
}

bool jv_binary(struct jx *x, int op, struct jval a, struct jval b, struct jval *out)
{
    static const char *const sign[] = {
        [T_ADD] = "+",       [T_SUB] = "-", [T_MUL] = "*",          [T_DIV] = "/",
        [T_FLOORDIV] = "//", [T_MOD] = "%", [T_POW] = "** or pow()"};

    if (op == T_MOD && a.type == JT_STR)
        return percent(x, a, b, out);
    if (a.type == JT_UNDEF || b.type == JT_UNDEF)
        return jv_undef_fail(x, a.type == JT_UNDEF ? a : b);
    if (is_int(a) && is_int(b))
        return int_op(x, op, a.type == JT_INT ? a.v.i : a.v.b,
                      b.type == JT_INT ? b.v.i : b.v.b, out);
    if (jv_is_num(a) && jv_is_num(b))
        return float_op(x, op, jv_num(a), jv_num(b), out);
    if (op == T_ADD)
        return add(x, a, b, out);
    if (op == T_MUL && (can_repeat(a) || can_repeat(b))) {
        struct jval box = can_repeat(a) ? a : b, n = can_repeat(a) ? b : a;
        if (!is_int(n))
            return jx_fail(x, "TypeError",
                           "can't multiply sequence by non-int of type '%s'",
                           jv_type_name(n));
        return repeat(x, box, n.type == JT_INT ? n.v.i : n.v.b, out);
    }
    return jx_fail(x, "TypeError", "unsupported operand type(s) for %s: '%s' and '%s'",
                   sign[op], jv_type_name(a), jv_type_name(b));
}

bool jv_negate(struct jx *x, struct jval a, bool plus, struct jval *out)
{
    int64_t i = a.type == JT_BOOL ? a.v.b : a.v.i;

    if (a.type == JT_UNDEF)
        return jv_undef_fail(x, a);
    if (a.type == JT_FLOAT) {
        *out = jv_float(plus ? a.v.f : -a.v.f);
        return true;
    }
    if (!is_int(a))
        return jx_fail(x, "TypeError", "bad operand type for unary %c: '%s'",
                       plus ? '+' : '-', jv_type_name(a));
    if (!plus && __builtin_sub_overflow(0, i, &i))
        return overflow(x);
    *out = jv_int(i);
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
