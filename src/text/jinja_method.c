/*
 * jinja_method.c - methods of str, dict, list and the loop.
 *
 * All method names of Python's types are known: those that change the value are unsafe,
 * as in Jinja2's immutable sandbox, and the few that are not here say so when called.
 */
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <string.h>

/* A string argument; TypeError for another type. */
static bool str_arg(struct jx *x, struct jval v)
{
    if (v.type == JT_UNDEF && jarg_given(v))
        return jx_fail(x, "TypeError", "must be str, not Undefined");
    return v.type == JT_STR ||
           jx_fail(x, "TypeError", "must be str, not %s", jv_type_name(v));
}

static bool m_case(struct jx *x, const struct jargs *a, enum jcase how,
                   struct jval *out)
{
    return jstr_case(x, a->pos[0], how, out);
}

static bool m_lower(struct jx *x, const struct jargs *a, struct jval *out)
{
    return m_case(x, a, CASE_LOWER, out);
}

static bool m_upper(struct jx *x, const struct jargs *a, struct jval *out)
{
    return m_case(x, a, CASE_UPPER, out);
}

static bool m_title(struct jx *x, const struct jargs *a, struct jval *out)
{
    return m_case(x, a, CASE_TITLE, out);
}

static bool m_capitalize(struct jx *x, const struct jargs *a, struct jval *out)
{
    return m_case(x, a, CASE_CAPITALIZE, out);
}

static bool m_strip(struct jx *x, const struct jargs *a, struct jval *out)
{
    return jstr_strip(x, a->pos[0], a->pos[1], true, true, out);
}

static bool m_lstrip(struct jx *x, const struct jargs *a, struct jval *out)
{
    return jstr_strip(x, a->pos[0], a->pos[1], true, false, out);
}

static bool m_rstrip(struct jx *x, const struct jargs *a, struct jval *out)
{
    return jstr_strip(x, a->pos[0], a->pos[1], false, true, out);
}

static bool m_split(struct jx *x, const struct jargs *a, struct jval *out)
{
    int64_t max;

    return jarg_int(x, a->pos[2], -1, &max) &&
           jstr_split(x, a->pos[0], a->pos[1], max, false, out);
}

static bool m_rsplit(struct jx *x, const struct jargs *a, struct jval *out)
{
    int64_t max;

    return jarg_int(x, a->pos[2], -1, &max) &&
           jstr_split(x, a->pos[0], a->pos[1], max, true, out);
}

static bool m_splitlines(struct jx *x, const struct jargs *a, struct jval *out)
{
    const struct jstr *s = a->pos[0].v.s;
    bool keep = jv_truth(a->pos[1]);
    struct jval line;

    if (!jv_seq(x, out, SEQ_LIST, 0))
        return false;
    for (size_t from = 0, at = 0, used; at < s->n;) {
        uint32_t cp = utf8_next(s->data + at, s->n - at, &used);
        size_t end = at;
        at += used;
        bool is_end = (cp >= '\n' && cp <= '\r') || (cp >= 0x1c && cp <= 0x1e) ||
                      cp == 0x85 || cp == 0x2028 || cp == 0x2029;
        if (!is_end && at < s->n)
            continue;
        if (cp == '\r' && at < s->n && s->data[at] == '\n')
            at++;
        if (!is_end || keep)
            end = at;
        if (!jv_str(x, &line, s->data + from, end - from))
            return false;
        line.markup = a->pos[0].markup;
        if (!jseq_add(x, out->v.q, line))
            return false;
        from = at;
    }
    return true;
}

/* startswith and endswith, of a string or any of a tuple. */
static bool has_end(struct jx *x, const struct jargs *a, bool start, struct jval *out)
{
    struct jval v = a->pos[1];
    const struct jstr *s = a->pos[0].v.s;
    const struct jval *at = &v;
    int64_t n = 1;

    if (v.type == JT_SEQ && v.v.q->kind == SEQ_TUPLE) {
        at = v.v.q->at;
        n = v.v.q->n;
    }
    *out = jv_bool(false);
    for (int64_t i = 0; i < n; i++) {
        if (at[i].type != JT_STR)
            return jx_fail(x, "TypeError",
                           "%s first arg must be str or a tuple of str, not %s",
                           start ? "startswith" : "endswith", jv_type_name(at[i]));
        const struct jstr *p = at[i].v.s;
        if (p->n <= s->n &&
            memcmp(start ? s->data : s->data + s->n - p->n, p->data, p->n) == 0)
            *out = jv_bool(true);
    }
    return true;
}

static bool m_startswith(struct jx *x, const struct jargs *a, struct jval *out)
{
    return has_end(x, a, true, out);
}

static bool m_endswith(struct jx *x, const struct jargs *a, struct jval *out)
{
    return has_end(x, a, false, out);
}

static bool m_replace(struct jx *x, const struct jargs *a, struct jval *out)
{
    int64_t max;

    return str_arg(x, a->pos[1]) && str_arg(x, a->pos[2]) &&
           jarg_int(x, a->pos[3], -1, &max) &&
           jstr_replace(x, a->pos[0], a->pos[1], a->pos[2], max, out);
}

/* Code points before byte n. */
static int64_t chars_before(const struct jstr *s, int64_t n)
{
    int64_t chars = 0;

    for (int64_t i = 0; i < n; i++)
        chars += ((unsigned char)s->data[i] & 0xc0) != 0x80;
    return chars;
}

static bool m_find(struct jx *x, const struct jargs *a, struct jval *out)
{
    if (!str_arg(x, a->pos[1]))
        return false;
    int64_t at = jstr_find(x, a->pos[0].v.s, 0, a->pos[1].v.s);
    *out = jv_int(at < 0 ? -1 : chars_before(a->pos[0].v.s, at));
    return x->rc == B2_OK;
}

static bool m_rfind(struct jx *x, const struct jargs *a, struct jval *out)
{
    const struct jstr *s = a->pos[0].v.s, *what = a->pos[1].v.s;

    if (!str_arg(x, a->pos[1]))
        return false;
    int64_t at = (int64_t)s->n - (int64_t)what->n;
    while (at >= 0 && memcmp(s->data + at, what->data, what->n) != 0) {
        at--;
        if (!jx_charge(x, what->n / 8))
            return false;
    }
    *out = jv_int(at < 0 ? -1 : chars_before(s, at));
    return true;
}

static bool m_index(struct jx *x, const struct jargs *a, struct jval *out)
{
    return m_find(x, a, out) &&
           (out->v.i >= 0 || jx_fail(x, "ValueError", "substring not found"));
}

static bool m_count(struct jx *x, const struct jargs *a, struct jval *out)
{
    int64_t n = 0, at = 0;

    if (!str_arg(x, a->pos[1]))
        return false;
    const struct jstr *what = a->pos[1].v.s;
    if (what->n == 0) {
        *out = jv_int((int64_t)a->pos[0].v.s->chars + 1);
        return true;
    }
    while ((at = jstr_find(x, a->pos[0].v.s, (size_t)at, what)) >= 0) {
        n++;
        at += (int64_t)what->n;
    }
    *out = jv_int(n);
    return x->rc == B2_OK;
}

static bool m_join(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jseq *q;
    struct str s = {0};

    if (a->pos[1].type < JT_STR && a->pos[1].type != JT_UNDEF)
        return jx_fail(x, "TypeError", "can only join an iterable");
    if (!jv_iter(x, a->pos[1], &q))
        return false;
    for (int64_t i = 0; i < q->n; i++) {
        if (q->at[i].type != JT_STR) {
            str_free(&s);
            return jx_fail(x, "TypeError",
                           "sequence item %lld: expected str instance, %s found",
                           (long long)i, jv_type_name(q->at[i]));
        }
        if ((i && !jv_put_str(x, &s, a->pos[0])) || !jv_put_str(x, &s, q->at[i])) {
            str_free(&s);
            return false;
        }
    }
    return jv_take(x, out, &s);
}

static bool m_removeprefix(struct jx *x, const struct jargs *a, struct jval *out)
{
    const struct jstr *s = a->pos[0].v.s, *p = a->pos[1].v.s;

    if (!str_arg(x, a->pos[1]))
        return false;
    size_t cut = p->n <= s->n && memcmp(s->data, p->data, p->n) == 0 ? p->n : 0;
    return jv_str(x, out, s->data + cut, s->n - cut);
}

static bool m_removesuffix(struct jx *x, const struct jargs *a, struct jval *out)
{
    const struct jstr *s = a->pos[0].v.s, *p = a->pos[1].v.s;

    if (!str_arg(x, a->pos[1]))
        return false;
    bool ends = p->n <= s->n && memcmp(s->data + s->n - p->n, p->data, p->n) == 0;
    return jv_str(x, out, s->data, s->n - (ends ? p->n : 0));
}

static bool m_isdigit(struct jx *x, const struct jargs *a, struct jval *out)
{
    const struct jstr *s = a->pos[0].v.s;

    (void)x;
    *out = jv_bool(s->n > 0 && strspn(s->data, "0123456789") == s->n);
    return true;
}

static bool m_isspace(struct jx *x, const struct jargs *a, struct jval *out)
{
    const struct jstr *s = a->pos[0].v.s;
    bool is = s->n > 0;

    for (size_t i = 0, used; is && i < s->n; i += used)
        is = jinja_is_space(utf8_next(s->data + i, s->n - i, &used));
    *out = jv_bool(is);
    return jx_charge(x, s->n);
}

static bool m_islower(struct jx *x, const struct jargs *a, struct jval *out)
{
    *out = jv_bool(jstr_is_case(a->pos[0].v.s, false));
    return jx_charge(x, a->pos[0].v.s->n);
}

static bool m_isupper(struct jx *x, const struct jargs *a, struct jval *out)
{
    *out = jv_bool(jstr_is_case(a->pos[0].v.s, true));
    return jx_charge(x, a->pos[0].v.s->n);
}

const struct jfunc *jinja_str_method(const char *name)
{
    static const struct jfunc table[] = {
        {"capitalize", "self", 1, m_capitalize},
        {"count", "self sub", 2, m_count},
        {"endswith", "self suffix", 2, m_endswith},
        {"find", "self sub", 2, m_find},
        {"index", "self sub", 2, m_index},
        {"isdigit", "self", 1, m_isdigit},
        {"islower", "self", 1, m_islower},
        {"isspace", "self", 1, m_isspace},
        {"isupper", "self", 1, m_isupper},
        {"join", "self iterable", 2, m_join},
        {"lower", "self", 1, m_lower},
        {"lstrip", "self chars", 1, m_lstrip},
        {"removeprefix", "self prefix", 2, m_removeprefix},
        {"removesuffix", "self suffix", 2, m_removesuffix},
        {"replace", "self old new count", 3, m_replace},
        {"rfind", "self sub", 2, m_rfind},
        {"rsplit", "self sep maxsplit", 1, m_rsplit},
        {"rstrip", "self chars", 1, m_rstrip},
        {"split", "self sep maxsplit", 1, m_split},
        {"splitlines", "self keepends", 1, m_splitlines},
        {"startswith", "self prefix", 2, m_startswith},
        {"strip", "self chars", 1, m_strip},
        {"title", "self", 1, m_title},
        {"upper", "self", 1, m_upper},
    };

    for (size_t i = 0; i < countof(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* ---- dict and list ---- */

static bool m_get(struct jx *x, const struct jargs *a, struct jval *out)
{
    struct jval *found;

    if (!jdict_find(x, a->pos[0].v.d, a->pos[1], &found))
        return false;
    *out = found ? *found : jarg_given(a->pos[2]) ? a->pos[2] : jinja_none();
    return true;
}

static bool dict_view(struct jx *x, const struct jdict *d, enum jseq_kind kind,
                      struct jval *out)
{
    if (!jv_seq(x, out, kind, d->n))
        return false;
    for (int64_t i = 0; i < d->n; i++) {
        struct jval v = kind == SEQ_KEYS ? d->at[i].key : d->at[i].val;
        if (kind == SEQ_ITEMS &&
            (!jv_seq(x, &v, SEQ_TUPLE, 2) || !jseq_add(x, v.v.q, d->at[i].key) ||
             !jseq_add(x, v.v.q, d->at[i].val)))
            return false;
        if (!jseq_add(x, out->v.q, v))
            return false;
    }
    return true;
}

static bool m_items(struct jx *x, const struct jargs *a, struct jval *out)
{
    return dict_view(x, a->pos[0].v.d, SEQ_ITEMS, out);
}

static bool m_keys(struct jx *x, const struct jargs *a, struct jval *out)
{
    return dict_view(x, a->pos[0].v.d, SEQ_KEYS, out);
}

static bool m_values(struct jx *x, const struct jargs *a, struct jval *out)
{
    return dict_view(x, a->pos[0].v.d, SEQ_VALUES, out);
}

static bool m_copy(struct jx *x, const struct jargs *a, struct jval *out)
{
    (void)x;
    *out = a->pos[0]; /* nothing changes a value, so the same one is a copy */
    return true;
}

/* Position of the first equal item, or how many there are. */
static bool list_find(struct jx *x, const struct jargs *a, bool count, struct jval *out)
{
    const struct jseq *q = a->pos[0].v.q;
    int64_t n = 0;

    for (int64_t i = 0; i < q->n; i++) {
        bool same;
        if (!jv_equal(x, q->at[i], a->pos[1], &same))
            return false;
        if (same && !count) {
            *out = jv_int(i);
            return true;
        }
        n += same;
    }
    *out = jv_int(n);
    if (count)
        return true;
    struct str s = {0};
    if (jv_put_repr(x, &s, a->pos[1]))
        (void)jx_fail(x, "ValueError", "%s is not in list", str_ok(&s) ? s.data : "it");
    str_free(&s);
    return false;
}

static bool m_list_index(struct jx *x, const struct jargs *a, struct jval *out)
{
    return list_find(x, a, false, out);
}

static bool m_list_count(struct jx *x, const struct jargs *a, struct jval *out)
{
    return list_find(x, a, true, out);
}

/* ---- which there are ---- */

static bool in_words(const char *words, const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || strchr(name, ' '))
        return false;
    for (const char *p = words; (p = strstr(p, name)); p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

const struct jfunc *jinja_method(struct jval self, const char *name, bool *known,
                                 bool *unsafe)
{
    static const struct jfunc dict[] = {
        {"copy", "self", 1, m_copy},     {"get", "self key default", 2, m_get},
        {"items", "self", 1, m_items},   {"keys", "self", 1, m_keys},
        {"values", "self", 1, m_values},
    };
    static const struct jfunc list[] = {
        {"copy", "self", 1, m_copy},
        {"count", "self value", 2, m_list_count},
        {"index", "self value", 2, m_list_index},
    };
    static const char changing_dict[] = "clear pop popitem setdefault update";
    static const char changing_list[] =
        "append clear extend insert pop remove reverse sort";
    static const char other_str[] =
        "casefold center encode expandtabs format format_map isalnum isalpha isascii "
        "isdecimal isidentifier isnumeric isprintable istitle ljust maketrans "
        "partition "
        "rindex rjust rpartition swapcase translate zfill";
    const struct jfunc *table = NULL;
    size_t n = 0;

    *unsafe = name[0] == '_'; /* Python's inner attributes exist, but are refused */
    *known = *unsafe && strncmp(name, "__", 2) == 0;
    if (*known)
        return NULL;
    *unsafe = false;
    if (self.type == JT_STR) {
        const struct jfunc *f = jinja_str_method(name);
        *known = f || in_words(other_str, name);
        return f;
    }
    if (self.type == JT_DICT) {
        table = dict;
        n = countof(dict);
        *unsafe = in_words(changing_dict, name);
    } else if (self.type == JT_SEQ && self.v.q->kind <= SEQ_RANGE) {
        table = list + (self.v.q->kind != SEQ_LIST); /* a tuple has no copy() */
        n = countof(list) - (self.v.q->kind != SEQ_LIST);
        *unsafe = self.v.q->kind == SEQ_LIST && in_words(changing_list, name);
    }
    *known = *unsafe;
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0) {
            *known = true;
            return &table[i];
        }
    return NULL;
}
