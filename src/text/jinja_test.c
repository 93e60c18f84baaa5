/*
 * jinja_test.c - what stands behind "is".
 */
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <string.h>

static bool yes(struct jval *out, bool b)
{
    *out = jv_bool(b);
    return true;
}

/* Asking about something that the sandbox refuses is not an error, using it is. */
static bool t_defined(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type != JT_UNDEF);
}

static bool t_undefined(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_UNDEF);
}

static bool t_none(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_NONE);
}

static bool t_boolean(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_BOOL);
}

static bool t_true(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_BOOL && a->pos[0].v.b);
}

static bool t_false(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_BOOL && !a->pos[0].v.b);
}

static bool t_integer(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_INT);
}

static bool t_float(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_FLOAT);
}

static bool t_number(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, jv_is_num(a->pos[0]));
}

static bool t_string(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_STR);
}

static bool t_mapping(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_DICT);
}

/* What has a length and items: strings, dicts and undefined values too. */
static bool t_sequence(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0];

    (void)x;
    return yes(out, v.type == JT_STR || v.type == JT_DICT || v.type == JT_UNDEF ||
                        (v.type == JT_SEQ && v.v.q->kind <= SEQ_RANGE));
}

static bool t_iterable(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0];

    (void)x;
    return yes(out, v.type == JT_STR || v.type == JT_DICT || v.type == JT_SEQ ||
                        v.type == JT_UNDEF || v.type == JT_LOOP);
}

static bool t_callable(struct jx *x, const struct jargs *a, struct jval *out)
{
    enum jtype t = a->pos[0].type;

    (void)x;
    return yes(out, t == JT_FUNC || t == JT_METHOD || t == JT_MACRO || t == JT_LOOP ||
                        t == JT_UNDEF);
}

/* The same object: small numbers and equal short strings are one object in Python too. */
static bool t_sameas(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval l = a->pos[0], r = a->pos[1];
    bool same = l.type == r.type;

    if (same && (l.type == JT_STR || jv_is_num(l)))
        return jv_equal(x, l, r, &same) && yes(out, same);
    return yes(out, same && (l.type == JT_NONE || l.v.d == r.v.d));
}

static bool mod_is(struct jx *x, struct jval v, struct jval by, int64_t want,
                   struct jval *out)
{
    struct jval rest;
    bool same;

    return jv_binary(x, T_MOD, v, by, &rest) &&
           jv_equal(x, rest, jv_int(want), &same) && yes(out, same);
}

static bool t_even(struct jx *x, const struct jargs *a, struct jval *out)
{
    return mod_is(x, a->pos[0], jv_int(2), 0, out);
}

static bool t_odd(struct jx *x, const struct jargs *a, struct jval *out)
{
    return mod_is(x, a->pos[0], jv_int(2), 1, out);
}

static bool t_divisibleby(struct jx *x, const struct jargs *a, struct jval *out)
{
    return mod_is(x, a->pos[0], a->pos[1], 0, out);
}

static bool compare(struct jx *x, const struct jargs *a, int op, struct jval *out)
{
    bool is;

    return jv_compare(x, op, a->pos[0], a->pos[1], &is) && yes(out, is);
}

static bool t_eq(struct jx *x, const struct jargs *a, struct jval *out)
{
    return compare(x, a, T_EQ, out);
}

static bool t_ne(struct jx *x, const struct jargs *a, struct jval *out)
{
    return compare(x, a, T_NE, out);
}

static bool t_lt(struct jx *x, const struct jargs *a, struct jval *out)
{
    return compare(x, a, T_LT, out);
}

static bool t_le(struct jx *x, const struct jargs *a, struct jval *out)
{
    return compare(x, a, T_LE, out);
}

static bool t_gt(struct jx *x, const struct jargs *a, struct jval *out)
{
    return compare(x, a, T_GT, out);
}

static bool t_ge(struct jx *x, const struct jargs *a, struct jval *out)
{
    return compare(x, a, T_GE, out);
}

static bool t_in(struct jx *x, const struct jargs *a, struct jval *out)
{
    return compare(x, a, T_IN, out);
}

static bool case_is(struct jx *x, struct jval v, bool upper, struct jval *out)
{
    struct jval s;

    return jv_to_str(x, v, &s) && jx_charge(x, s.v.s->n) &&
           yes(out, jstr_is_case(s.v.s, upper));
}

static bool t_lower(struct jx *x, const struct jargs *a, struct jval *out)
{
    return case_is(x, a->pos[0], false, out);
}

static bool t_upper(struct jx *x, const struct jargs *a, struct jval *out)
{
    return case_is(x, a->pos[0], true, out);
}

static bool t_escaped(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].markup);
}

static bool t_filter(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_STR && jinja_filter(a->pos[0].v.s->data));
}

static bool t_test(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    return yes(out, a->pos[0].type == JT_STR && jinja_test(a->pos[0].v.s->data));
}

const struct jfunc *jinja_test(const char *name)
{
    static const struct jfunc table[] = {
        {"!=", "value other", 2, t_ne},
        {"<", "value other", 2, t_lt},
        {"<=", "value other", 2, t_le},
        {"==", "value other", 2, t_eq},
        {">", "value other", 2, t_gt},
        {">=", "value other", 2, t_ge},
        {"boolean", "value", 1, t_boolean},
        {"callable", "value", 1, t_callable},
        {"defined", "value", 1, t_defined},
        {"divisibleby", "value num", 2, t_divisibleby},
        {"eq", "value other", 2, t_eq},
        {"equalto", "value other", 2, t_eq},
        {"escaped", "value", 1, t_escaped},
        {"even", "value", 1, t_even},
        {"false", "value", 1, t_false},
        {"filter", "value", 1, t_filter},
        {"float", "value", 1, t_float},
        {"ge", "value other", 2, t_ge},
        {"greaterthan", "value other", 2, t_gt},
        {"gt", "value other", 2, t_gt},
        {"in", "value seq", 2, t_in},
        {"integer", "value", 1, t_integer},
        {"iterable", "value", 1, t_iterable},
        {"le", "value other", 2, t_le},
        {"lessthan", "value other", 2, t_lt},
        {"lower", "value", 1, t_lower},
        {"lt", "value other", 2, t_lt},
        {"mapping", "value", 1, t_mapping},
        {"ne", "value other", 2, t_ne},
        {"none", "value", 1, t_none},
        {"number", "value", 1, t_number},
        {"odd", "value", 1, t_odd},
        {"sameas", "value other", 2, t_sameas},
        {"sequence", "value", 1, t_sequence},
        {"string", "value", 1, t_string},
        {"test", "value", 1, t_test},
        {"true", "value", 1, t_true},
        {"undefined", "value", 1, t_undefined},
        {"upper", "value", 1, t_upper},
    };

    for (size_t i = 0; i < countof(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
