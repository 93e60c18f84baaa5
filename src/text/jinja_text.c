/*
 * jinja_text.c - filters of text and numbers.
 */
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBER = 400 };

static bool f_trim(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval s;

    return jv_to_str(x, a->pos[0], &s) && jstr_strip(x, s, a->pos[1], true, true, out);
}

static bool changed_case(struct jx *x, const struct jargs *a, enum jcase how,
                         struct jval *out)
{
    struct jval s;

    return jv_to_str(x, a->pos[0], &s) && jstr_case(x, s, how, out);
}

static bool f_upper(struct jx *x, const struct jargs *a, struct jval *out)
{
    return changed_case(x, a, CASE_UPPER, out);
}

static bool f_lower(struct jx *x, const struct jargs *a, struct jval *out)
{
    return changed_case(x, a, CASE_LOWER, out);
}

static bool f_capitalize(struct jx *x, const struct jargs *a, struct jval *out)
{
    return changed_case(x, a, CASE_CAPITALIZE, out);
}

/* Words start behind white space and - ( { [ <; unlike str.title(). */
static bool f_title(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval s, piece, cased;
    struct str r = {0};

    if (!jv_to_str(x, a->pos[0], &s))
        return false;
    bool ok = true, start = true;
    for (size_t i = 0, used; ok && i < s.v.s->n; i += used) {
        uint32_t cp = utf8_next(s.v.s->data + i, s.v.s->n - i, &used);
        if (jinja_is_space(cp) || (cp < 128 && strchr("-({[<", (int)cp) && cp)) {
            str_putn(&r, s.v.s->data + i, used);
            start = true;
            continue;
        }
        ok = jv_str(x, &piece, s.v.s->data + i, used) &&
             jstr_case(x, piece, start ? CASE_UPPER : CASE_LOWER, &cased);
        if (ok)
            str_putn(&r, cased.v.s->data, cased.v.s->n);
        start = false;
    }
    if (ok)
        return jv_take(x, out, &r);
    str_free(&r);
    return false;
}

/* s, old, new, count */
static bool f_replace(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval s, old, new_s, count = a->pos[3];
    int64_t n;

    if (count.type == JT_NONE)
        count = JARG_MISSING;
    return jv_to_str(x, a->pos[0], &s) && jv_to_str(x, a->pos[1], &old) &&
           jv_to_str(x, a->pos[2], &new_s) && jarg_int(x, count, -1, &n) &&
           jstr_replace(x, s, old, new_s, n, out);
}

static bool f_string(struct jx *x, const struct jargs *a, struct jval *out)
{
    return jv_to_str(x, a->pos[0], out);
}

static bool f_safe(struct jx *x, const struct jargs *a, struct jval *out)
{
    if (!jv_to_str(x, a->pos[0], out))
        return false;
    out->markup = true;
    return true;
}

static bool f_escape(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct str s = {0};
    bool ok = jv_put_html(x, &s, a->pos[0]) && jv_take(x, out, &s);

    str_free(&s);
    out->markup = true;
    return ok;
}

static bool f_forceescape(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval plain = a->pos[0];
    struct jargs b = {.n = 1, .pos = &plain};

    plain.markup = false;
    return f_escape(x, &b, out);
}

/* s, width, first, blank */
static bool f_indent(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval s = a->pos[0], width = a->pos[1];
    struct str pad = {0}, r = {0};
    int64_t n = 4;
    bool ok = true, first = jv_truth(a->pos[2]), blank = jv_truth(a->pos[3]);

    if (s.type == JT_UNDEF)
        return jv_undef_fail(x, s);
    if (s.type == JT_SEQ && s.v.q->kind == SEQ_LIST) /* Python extends it first */
        return jx_fail(x, "AttributeError",
                       "'list' object has no attribute 'splitlines'");
    if (s.type != JT_STR)
        return jx_fail(x, "TypeError",
                       "unsupported operand type(s) for +=: '%s' and 'str'",
                       jv_type_name(s));
    if (width.type == JT_STR)
        str_putn(&pad, width.v.s->data, width.v.s->n);
    else if (!jarg_int(x, width, 4, &n))
        return false;
    else
        for (int64_t i = 0; i < n && i < 1000; i++)
            str_put(&pad, " ");
    const char *p = s.v.s->data;
    for (bool line_1 = true;; line_1 = false) {
        size_t len = strcspn(p, "\r\n");
        if (line_1 ? first : blank || len)
            str_putn(&r, pad.data ? pad.data : "", pad.len);
        str_putn(&r, p, len);
        ok = ok && jx_charge(x, len + pad.len);
        p += len;
        if (!*p || !ok || r.len > x->max_output)
            break;
        p += p[0] == '\r' && p[1] == '\n' ? 2 : 1;
        str_put(&r, "\n");
    }
    str_free(&pad);
    ok = ok && (r.len <= x->max_output || jx_limit(x, "output"));
    if (ok)
        return jv_take(x, out, &r);
    str_free(&r);
    return false;
}

/* s, length, killwords, end, leeway */
static bool f_truncate(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval s = a->pos[0], end = a->pos[3], cut, space, parts;
    struct jval part[3] = {{0}, {.type = JT_INT}, {0}};
    int64_t length, leeway, n;

    if (!jarg_given(end) && !jv_str(x, &end, "...", 3))
        return false;
    if (end.type != JT_STR)
        return jx_fail(x, "TypeError", "the end must be a string");
    if (a->pos[4].type == JT_NONE ? (leeway = 5, false)
                                  : !jarg_int(x, a->pos[4], 5, &leeway))
        return false;
    if (!jarg_int(x, a->pos[1], 255, &length))
        return false;
    if (length < (int64_t)end.v.s->chars)
        return jx_fail(x, "AssertionError", "expected length >= %zu, got %lld",
                       end.v.s->chars, (long long)length);
    if (leeway < 0)
        return jx_fail(x, "AssertionError", "expected leeway >= 0, got %lld",
                       (long long)leeway);
    *out = s;
    if (!jv_len(x, s, &n))
        return false;
    if (leeway > INT64_MAX - length || n <= length + leeway)
        return true;
    if (s.type != JT_STR)
        return jx_fail(x, "TypeError", "only strings can be truncated, not %s",
                       jv_type_name(s));
    part[1].v.i = length - (int64_t)end.v.s->chars;
    if (!jv_slice(x, s, part, &cut))
        return false;
    if (!jv_truth(a->pos[2])) {
        if (!jv_str(x, &space, " ", 1) || !jstr_split(x, cut, space, 1, true, &parts))
            return false;
        cut = parts.v.q->at[0];
    }
    return jv_binary(x, T_ADD, cut, end, out);
}

static bool f_center(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval s;
    struct str r = {0};
    int64_t width;

    if (!jv_to_str(x, a->pos[0], &s) || !jarg_int(x, a->pos[1], 80, &width))
        return false;
    int64_t pad = max_i64(width - (int64_t)s.v.s->chars, 0);
    if (pad > (int64_t)x->max_output)
        return jx_limit(x, "output");
    int64_t left = pad / 2 + (pad & width & 1);
    for (int64_t i = 0; i < left; i++)
        str_put(&r, " ");
    str_putn(&r, s.v.s->data, s.v.s->n);
    for (int64_t i = left; i < pad; i++)
        str_put(&r, " ");
    return jv_take(x, out, &r);
}

static bool f_format(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval s, dict = {0};

    if (a->n < 1 || !jv_to_str(x, a->pos[0], &s))
        return false;
    if (a->n_kw) {
        if (a->n > 1)
            return jx_fail(x, "FilterArgumentError",
                           "can't handle positional and keyword arguments at the same "
                           "time");
        if (!jv_dict(x, &dict))
            return false;
        for (int i = 0; i < a->n_kw; i++) {
            struct jval key;
            if (!jv_str(x, &key, a->kw[i].name, strlen(a->kw[i].name)) ||
                !jdict_put(x, dict.v.d, key, a->kw[i].val))
                return false;
        }
        return jstr_percent(x, s, &dict, 1, dict, out);
    }
    return jstr_percent(x, s, a->pos + 1, a->n - 1, dict, out);
}

/* ---- numbers ---- */

/* A string as Python's int() and float() take it: trimmed, without underscores between
 * digits; empty when it is none. */
static void number_word(const struct jstr *s, char buf[MAX_NUMBER])
{
    const char *p = s->data, *end = s->data + s->n;
    size_t n = 0, used;

    while (p < end && jinja_is_space(utf8_next(p, (size_t)(end - p), &used)))
        p += used;
    while (end > p && (unsigned char)end[-1] <= ' ')
        end--;
    for (; p < end && n + 1 < MAX_NUMBER; p++) {
        bool between =
            n && buf[n - 1] >= '0' && buf[n - 1] <= '9' && p[1] >= '0' && p[1] <= '9';
        if (*p != '_' || !between)
            buf[n++] = *p;
    }
    buf[p < end ? 0 : n] = '\0';
}

static bool parse_int(const struct jstr *s, int64_t base, int64_t *out)
{
    char buf[MAX_NUMBER];
    const char *p = buf;
    bool minus;
    int64_t v = 0;

    number_word(s, buf);
    minus = *p == '-';
    p += *p == '-' || *p == '+';
    char prefix = base == 16 ? 'x' : base == 8 ? 'o' : 'b';
    if ((base == 16 || base == 8 || base == 2) && p[0] == '0' &&
        (p[1] | 0x20) == prefix)
        p += 2;
    if (!*p)
        return false;
    for (; *p; p++) {
        int d = *p >= '0' && *p <= '9'                     ? *p - '0'
                : (*p | 0x20) >= 'a' && (*p | 0x20) <= 'z' ? (*p | 0x20) - 'a' + 10
                                                           : 99;
        if (d >= base || __builtin_mul_overflow(v, base, &v) ||
            __builtin_sub_overflow(v, d, &v)) /* downwards: INT64_MIN is a value too */
            return false;
    }
    return minus ? (*out = v, true) : !__builtin_sub_overflow(0, v, out);
}

static bool parse_float(const struct jstr *s, double *out)
{
    static const char *const words[] = {"inf", "infinity", "nan"};
    char buf[MAX_NUMBER], *end;
    const char *p = buf;
    bool is_word = false;

    number_word(s, buf);
    p += *p == '-' || *p == '+';
    for (size_t i = 0; i < countof(words); i++) {
        size_t k = 0;
        while (p[k] && (p[k] | 0x20) == words[i][k])
            k++;
        is_word = is_word || (!p[k] && !words[i][k]);
    }
    if (!is_word && (!*p || p[strspn(p, "0123456789.eE+-")]))
        return false;
    *out = strtod(buf, &end);
    return *end == '\0';
}

/* int(float): false when it does not fit. */
static bool float_to_int(double f, struct jval *out)
{
    if (!(f > -9.2e18 && f < 9.2e18))
        return false;
    *out = jv_int((int64_t)f);
    return true;
}

/* value, default, base */
static bool f_int(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0];
    int64_t base, i;
    double f;

    if (!jarg_int(x, a->pos[2], 10, &base))
        return false;
    if (v.type == JT_UNDEF)
        return jv_undef_fail(x, v);
    *out = jarg_given(a->pos[1]) ? a->pos[1] : jv_int(0);
    if (v.type == JT_INT || v.type == JT_BOOL)
        *out = jv_int(jv_as_int(v));
    else if (v.type == JT_FLOAT)
        (void)float_to_int(v.v.f, out);
    else if (v.type == JT_STR && parse_int(v.v.s, base, &i))
        *out = jv_int(i);
    else if (v.type == JT_STR && parse_float(v.v.s, &f))
        (void)float_to_int(f, out);
    return true;
}

/* value, default */
static bool f_float(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0];
    double f;

    if (v.type == JT_UNDEF)
        return jv_undef_fail(x, v);
    *out = jarg_given(a->pos[1]) ? a->pos[1] : jv_float(0.0);
    if (jv_is_num(v))
        *out = jv_float(jv_num(v));
    else if (v.type == JT_STR && parse_float(v.v.s, &f))
        *out = jv_float(f);
    return true;
}

static bool f_abs(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0];

    if (!jv_is_num(v))
        return jx_fail(x, "TypeError", "bad operand type for abs(): '%s'",
                       jv_type_name(v));
    if (v.type == JT_FLOAT) {
        *out = jv_float(fabs(v.v.f));
        return true;
    }
    return jv_negate(x, v, v.type == JT_BOOL || v.v.i >= 0, out);
}

/* value, precision, method */
static bool f_round(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval v = a->pos[0], m = a->pos[2];
    const char *method = m.type == JT_STR ? m.v.s->data : "common";
    char buf[MAX_NUMBER];
    int64_t prec;

    if (!jarg_int(x, a->pos[1], 0, &prec))
        return false;
    if (strcmp(method, "common") != 0 && strcmp(method, "ceil") != 0 &&
        strcmp(method, "floor") != 0)
        return jx_fail(x, "FilterArgumentError",
                       "method must be common, ceil or floor");
    if (!jv_is_num(v))
        return jx_fail(x, "TypeError", "type %s doesn't define __round__ method",
                       jv_type_name(v));
    double f = jv_num(v);
    if (strcmp(method, "common") != 0) {
        double scale = pow(10.0, (double)prec);
        double r = (strcmp(method, "ceil") == 0 ? ceil(f * scale) : floor(f * scale));
        *out = jv_float(r / scale);
        return true;
    }
    if (v.type != JT_FLOAT && prec >= 0) {
        *out = jv_int(jv_as_int(v));
        return true;
    }
    if (prec >= 0 && prec <= 30 && fabs(f) < 1e22) {
        (void)snprintf(buf, sizeof buf, "%.*f", (int)prec, f);
        f = strtod(buf, NULL); /* rounds the exact value, half to even */
    } else if (prec < 0 && prec > -20) {
        double scale = pow(10.0, (double)-prec);
        f = rint(f / scale) * scale;
    }
    if (v.type != JT_FLOAT)
        return float_to_int(f, out) ||
               jx_fail(x, "OverflowError", "an integer of more than 64 bits");
    *out = jv_float(f);
    return true;
}

const struct jfunc *jinja_text_filter(const char *name)
{
    static const struct jfunc table[] = {
        {"abs", "x", 1, f_abs},
        {"capitalize", "s", 1, f_capitalize},
        {"center", "value width", 1, f_center},
        {"e", "s", 1, f_escape},
        {"escape", "s", 1, f_escape},
        {"float", "value default", 1, f_float},
        {"forceescape", "value", 1, f_forceescape},
        {"format", "*", 1, f_format},
        {"indent", "s width first blank", 1, f_indent},
        {"int", "value default base", 1, f_int},
        {"lower", "s", 1, f_lower},
        {"replace", "s old new count", 3, f_replace},
        {"round", "value precision method", 1, f_round},
        {"safe", "value", 1, f_safe},
        {"string", "object", 1, f_string},
        {"title", "s", 1, f_title},
        {"trim", "value chars", 1, f_trim},
        {"truncate", "s length killwords end leeway", 1, f_truncate},
        {"upper", "s", 1, f_upper},
    };

    for (size_t i = 0; i < countof(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
