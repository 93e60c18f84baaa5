/*
 * jinja_arith.c - arithmetic on numbers, text and lists.
 *
 * Python's rules and messages. Integers have 64 bits here, so what leaves them is an
 * OverflowError.
 */
#include "text/jinja_int.h"

#include <math.h>
#include <string.h>

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
    /* What has items, and is no tuple or text, may stay unused. */
    bool items = b.type == JT_DICT || b.type == JT_UNDEF ||
                 (b.type == JT_SEQ && b.v.q->kind <= SEQ_RANGE);
    return jstr_percent(x, a, &b, 1, items ? b : none, out);
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
        return int_op(x, op, jv_as_int(a), jv_as_int(b), out);
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
        return repeat(x, box, jv_as_int(n), out);
    }
    return jx_fail(x, "TypeError", "unsupported operand type(s) for %s: '%s' and '%s'",
                   sign[op], jv_type_name(a), jv_type_name(b));
}

bool jv_negate(struct jx *x, struct jval a, bool plus, struct jval *out)
{
    int64_t i = jv_as_int(a);

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
