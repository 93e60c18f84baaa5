/*
 * jinja_repr.c - values as text: str(), repr(), tojson, HTML escapes.
 */
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* More text than any output may have is not gathered first. */
static bool fits(struct jx *x, const struct str *s)
{
    if (!str_ok(s))
        return jx_nomem(x);
    return s->len <= x->max_output || jx_limit(x, "output");
}

/* The shortest digits that read back the same, as Python prints them. */
void jv_put_float(struct str *s, double f)
{
    char digits[40];
    int prec = 1, exp;

    if (!isfinite(f)) {
        str_put(s, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    do {
        (void)snprintf(digits, sizeof digits, "%.*e", prec - 1, f);
        for (char *c = digits; *c; c++)
            if (*c == ',') /* the locale of the program around us */
                *c = '.';
    } while (strtod(digits, NULL) != f && ++prec <= 17);
    char *e = strchr(digits, 'e');
    if (!e)
        return;
    exp = (int)strtol(e + 1, NULL, 10);
    if (exp < -4 || exp >= 16) {
        *e = '\0';
        str_printf(s, "%se%c%02d", digits, exp < 0 ? '-' : '+', abs(exp));
        return;
    }
    int decimals = prec - 1 - exp;
    size_t at = s->len;
    str_printf(s, "%.*f", decimals > 1 ? decimals : 1, f);
    for (size_t i = at; str_ok(s) && i < s->len; i++)
        if (s->data[i] == ',')
            s->data[i] = '.';
}

/* ---- repr ---- */

/* What Python's repr shows as it is: no separators, controls, unassigned. */
static bool printable(uint32_t cp)
{
    if (cp < 0x7f)
        return cp >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

static void put_str_repr(struct str *s, const struct jstr *v)
{
    bool single = memchr(v->data, '\'', v->n) != NULL;
    bool dbl = memchr(v->data, '"', v->n) != NULL;
    char quote = single && !dbl ? '"' : '\'';

    str_putn(s, &quote, 1);
    for (size_t i = 0, used; i < v->n; i += used) {
        uint32_t cp = utf8_next(v->data + i, v->n - i, &used);
        if (cp == (uint32_t)(unsigned char)quote || cp == '\\')
            str_printf(s, "\\%c", (int)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            str_put(s, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
        else if (printable(cp))
            str_putn(s, v->data + i, used);
        else
            str_printf(s,
                       cp < 0x100     ? "\\x%02x"
                       : cp < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                       (unsigned)cp);
    }
    str_putn(s, &quote, 1);
}

static bool put_items(struct jx *x, struct str *s, const struct jval *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (i)
            str_put(s, ", ");
        if (!jv_put_repr(x, s, at[i]))
            return false;
    }
    return true;
}

static bool put_seq(struct jx *x, struct str *s, struct jval v)
{
    static const char *const open[] = {[SEQ_LIST] = "[",
                                       [SEQ_TUPLE] = "(",
                                       [SEQ_RANGE] = "range(",
                                       [SEQ_KEYS] = "dict_keys([",
                                       [SEQ_VALUES] = "dict_values([",
                                       [SEQ_ITEMS] = "dict_items([",
                                       [SEQ_REVERSED] = NULL};
    const struct jseq *q = v.v.q;

    if (jv_is_iter(v)) { /* Python shows an address */
        str_printf(s, "<%s object>", jv_type_name(v));
        return true;
    }
    str_put(s, open[q->kind]);
    if (q->kind == SEQ_RANGE) { /* its bounds are told by its items */
        int64_t first = q->n ? q->at[0].v.i : 0;
        int64_t step = q->n > 1 ? q->at[1].v.i - first : 1;
        int64_t end = q->n ? q->at[q->n - 1].v.i + step : first;
        str_printf(s, step == 1 ? "%lld, %lld)" : "%lld, %lld, %lld)", (long long)first,
                   (long long)end, (long long)step);
        return true;
    }
    if (!put_items(x, s, q->at, q->n))
        return false;
    str_put(s, q->kind == SEQ_LIST    ? "]"
               : q->kind != SEQ_TUPLE ? "])"
               : q->n == 1            ? ",)"
                                      : ")");
    return true;
}

static bool put_dict(struct jx *x, struct str *s, const struct jdict *d)
{
    str_put(s, "{");
    for (int64_t i = 0; i < d->n; i++) {
        if (i)
            str_put(s, ", ");
        if (!jv_put_repr(x, s, d->at[i].key))
            return false;
        str_put(s, ": ");
        if (!jv_put_repr(x, s, d->at[i].val))
            return false;
    }
    str_put(s, "}");
    return true;
}

static void put_plain(struct str *s, struct jval v)
{
    switch (v.type) {
    case JT_NONE:
        str_put(s, "None");
        break;
    case JT_UNDEF:
        str_put(s, "Undefined");
        break;
    case JT_BOOL:
        str_put(s, v.v.b ? "True" : "False");
        break;
    case JT_INT:
        str_printf(s, "%lld", (long long)v.v.i);
        break;
    case JT_FLOAT:
        jv_put_float(s, v.v.f);
        break;
    case JT_MACRO:
        str_printf(s, "<Macro '%s'>", v.v.m->node->name);
        break;
    case JT_LOOP:
        str_printf(s, "<LoopContext %lld/%lld>", (long long)v.v.loop->index0 + 1,
                   (long long)v.v.loop->items->n);
        break;
    case JT_METHOD:
        str_printf(s, "<built-in method %s>", v.v.me->name);
        break;
    default:
        str_printf(s, "<function %s>", v.v.fn->name);
        break;
    }
}

bool jv_put_repr(struct jx *x, struct str *s, struct jval v)
{
    bool ok = true;

    if (!jx_enter(x))
        return false;
    if (v.type == JT_STR) {
        if (v.markup)
            str_put(s, "Markup(");
        put_str_repr(s, v.v.s);
        if (v.markup)
            str_put(s, ")");
        ok = jx_charge(x, v.v.s->n);
    } else if (v.type == JT_SEQ) {
        ok = put_seq(x, s, v);
    } else if (v.type == JT_DICT) {
        ok = put_dict(x, s, v.v.d);
    } else if (v.type == JT_NAMESPACE) {
        str_put(s, "<Namespace ");
        ok = put_dict(x, s, &v.v.ns->d);
        str_put(s, ">");
    } else {
        put_plain(s, v);
    }
    x->depth--;
    return ok && fits(x, s);
}

bool jv_put_str(struct jx *x, struct str *s, struct jval v)
{
    if (v.type == JT_UNDEF)
        return x->strict ? jv_undef_fail(x, v) : true;
    if (v.type != JT_STR)
        return jv_put_repr(x, s, v);
    str_putn(s, v.v.s->data, v.v.s->n);
    return jx_charge(x, v.v.s->n) && fits(x, s);
}

bool jv_to_str(struct jx *x, struct jval v, struct jval *out)
{
    struct str s = {0};

    if (v.type == JT_STR) {
        *out = v;
        return true;
    }
    bool ok = jv_put_str(x, &s, v);
    if (ok)
        return jv_take(x, out, &s);
    str_free(&s);
    return false;
}

bool jv_put_html(struct jx *x, struct str *s, struct jval v)
{
    struct jval text;

    if (v.markup)
        return jv_put_str(x, s, v);
    if (!jv_to_str(x, v, &text))
        return false;
    for (size_t i = 0; i < text.v.s->n; i++) {
        switch (text.v.s->data[i]) {
        case '&':
            str_put(s, "&amp;");
            break;
        case '<':
            str_put(s, "&lt;");
            break;
        case '>':
            str_put(s, "&gt;");
            break;
        case '"':
            str_put(s, "&#34;");
            break;
        case '\'':
            str_put(s, "&#39;");
            break;
        default:
            str_putn(s, text.v.s->data + i, 1);
            break;
        }
    }
    return fits(x, s);
}

/* ---- tojson: json.dumps ---- */

struct dump {
    struct jx *x;
    struct str s;
    bool ascii, sort;
    int level;
    const char *indent; /* of one level; NULL: on one line */
    const char *item_sep, *key_sep;
};

static void put_json_str(struct dump *d, const struct jstr *v)
{
    str_put(&d->s, "\"");
    for (size_t i = 0, used; i < v->n; i += used) {
        static const char *const escapes[] = {
            ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f",
            ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\"};
        uint32_t cp = utf8_next(v->data + i, v->n - i, &used);
        if (cp < countof(escapes) && escapes[cp])
            str_put(&d->s, escapes[cp]);
        else if (cp >= 0x20 && (cp < 0x7f || !d->ascii))
            str_putn(&d->s, v->data + i, used);
        else if (cp < 0x10000)
            str_printf(&d->s, "\\u%04x", (unsigned)cp);
        else
            str_printf(&d->s, "\\u%04x\\u%04x",
                       (unsigned)(0xd800 + ((cp - 0x10000) >> 10)),
                       (unsigned)(0xdc00 + ((cp - 0x10000) & 0x3ff)));
    }
    str_put(&d->s, "\"");
}

static void new_line(struct dump *d)
{
    if (!d->indent)
        return;
    str_put(&d->s, "\n");
    for (int i = 0; i < d->level; i++)
        str_put(&d->s, d->indent);
}

static bool dump(struct dump *d, struct jval v);

/* Keys that JSON does not have become strings. */
static bool put_key(struct dump *d, struct jval key)
{
    if (key.type == JT_STR) {
        put_json_str(d, key.v.s);
        return true;
    }
    if (!jv_is_num(key) && key.type != JT_NONE)
        return jx_fail(d->x, "TypeError",
                       "keys must be str, int, float, bool or None, not %s",
                       jv_type_name(key));
    str_put(&d->s, "\"");
    bool ok = dump(d, key);
    str_put(&d->s, "\"");
    return ok;
}

static bool sorted_keys(struct dump *d, const struct jdict *in, struct jval *out)
{
    if (!jv_dict(d->x, out))
        return false;
    for (int64_t i = 0; i < in->n; i++)
        if (!jdict_put(d->x, out->v.d, in->at[i].key, in->at[i].val))
            return false;
    struct jpair *at = out->v.d->at;
    for (int64_t i = 1; i < in->n; i++) /* few keys, and no hash is needed any more */
        for (int64_t k = i; k > 0; k--) {
            int order;
            if (!jv_order(d->x, at[k].key, at[k - 1].key, "<", &order))
                return false;
            if (order >= 0)
                break;
            struct jpair p = at[k];
            at[k] = at[k - 1];
            at[k - 1] = p;
        }
    return true;
}

static bool dump_dict(struct dump *d, struct jval v)
{
    if (d->sort && !sorted_keys(d, v.v.d, &v))
        return false;
    str_put(&d->s, "{");
    d->level++;
    for (int64_t i = 0; i < v.v.d->n; i++) {
        if (i)
            str_put(&d->s, d->item_sep);
        new_line(d);
        if (!put_key(d, v.v.d->at[i].key))
            return false;
        str_put(&d->s, d->key_sep);
        if (!dump(d, v.v.d->at[i].val))
            return false;
    }
    d->level--;
    if (v.v.d->n)
        new_line(d);
    str_put(&d->s, "}");
    return true;
}

static bool dump_list(struct dump *d, const struct jseq *q)
{
    str_put(&d->s, "[");
    d->level++;
    for (int64_t i = 0; i < q->n; i++) {
        if (i)
            str_put(&d->s, d->item_sep);
        new_line(d);
        if (!dump(d, q->at[i]))
            return false;
    }
    d->level--;
    if (q->n)
        new_line(d);
    str_put(&d->s, "]");
    return true;
}

static bool dump(struct dump *d, struct jval v)
{
    bool ok = true;

    if (!jx_enter(d->x))
        return false;
    if (v.type == JT_NONE)
        str_put(&d->s, "null");
    else if (v.type == JT_BOOL)
        str_put(&d->s, v.v.b ? "true" : "false");
    else if (v.type == JT_FLOAT && !isfinite(v.v.f))
        str_put(&d->s, isnan(v.v.f) ? "NaN" : v.v.f < 0 ? "-Infinity" : "Infinity");
    else if (jv_is_num(v))
        put_plain(&d->s, v);
    else if (v.type == JT_STR)
        put_json_str(d, v.v.s);
    else if (v.type == JT_SEQ && v.v.q->kind <= SEQ_TUPLE)
        ok = dump_list(d, v.v.q);
    else if (v.type == JT_DICT)
        ok = dump_dict(d, v);
    else
        ok = jx_fail(d->x, "TypeError", "Object of type %s is not JSON serializable",
                     jv_type_name(v));
    d->x->depth--;
    return ok && jx_charge(d->x, 0) && fits(d->x, &d->s);
}

/* indent: a number of spaces, a text, or none. */
static bool set_indent(struct dump *d, struct jval v)
{
    static const char spaces[] = "                                ";

    if (v.type == JT_STR) {
        d->indent = v.v.s->data;
    } else if (v.type == JT_INT || v.type == JT_BOOL) {
        int64_t n = jv_as_int(v);
        n = n < 0 ? 0 : n < (int64_t)sizeof spaces ? n : (int64_t)sizeof spaces - 1;
        d->indent = spaces + sizeof spaces - 1 - n;
    } else if (v.type != JT_NONE && jarg_given(v)) {
        return jx_fail(d->x, "TypeError",
                       "can't multiply sequence by non-int of type '%s'",
                       jv_type_name(v));
    }
    return true;
}

/* args: the value, ensure_ascii, indent, separators, sort_keys */
static bool tojson(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct dump d = {.x = x, .item_sep = ", ", .key_sep = ": "};
    struct jval sep = a->pos[3];

    d.ascii = jv_truth(a->pos[1]);
    d.sort = jv_truth(a->pos[4]);
    if (!set_indent(&d, a->pos[2]))
        return false;
    if (d.indent)
        d.item_sep = ",";
    if (sep.type == JT_SEQ && sep.v.q->n == 2 && sep.v.q->at[0].type == JT_STR &&
        sep.v.q->at[1].type == JT_STR) {
        d.item_sep = sep.v.q->at[0].v.s->data;
        d.key_sep = sep.v.q->at[1].v.s->data;
    } else if (sep.type != JT_NONE && jarg_given(sep)) {
        return jx_fail(x, "TypeError", "separators must be two strings");
    }
    bool ok = dump(&d, a->pos[0]);
    if (ok)
        return jv_take(x, out, &d.s);
    str_free(&d.s);
    return false;
}

const struct jfunc jinja_tojson = {
    "tojson", "value ensure_ascii indent separators sort_keys", 1, tojson};
