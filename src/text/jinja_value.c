/*
 * jinja_value.c - making values: strings, lists, dicts, and the builder for callers.
 */
#include "base/mem.h"
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BYTES_PER_STEP = 32, SMALL_DICT = 8 };

/* ---- errors and limits ---- */

bool jx_fail(struct jx *x, const char *type, const char *fmt, ...)
{
    char msg[B2_ERR_MAX];
    va_list ap;

    if (x->rc)
        return false;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    x->rc = err_set(x->err, B2_EARG, "%s: %s", type, msg);
    return false;
}

bool jx_syntax(struct jx *x, int line, const char *fmt, ...)
{
    char msg[B2_ERR_MAX];
    va_list ap;

    if (x->rc)
        return false;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    x->rc = err_set(x->err, B2_EFORMAT, "TemplateSyntaxError: %s, line %d", msg, line);
    return false;
}

bool jx_nomem(struct jx *x)
{
    if (!x->rc)
        x->rc = err_set(x->err, B2_ENOMEM,
                        "out of memory, or over the limit of bytes for a template");
    return false;
}

bool jx_limit(struct jx *x, const char *what)
{
    if (!x->rc)
        x->rc =
            err_set(x->err, B2_EUNSUP, "the template goes over the limit of %s", what);
    return false;
}

bool jx_charge(struct jx *x, size_t n)
{
    x->steps += 1 + n / BYTES_PER_STEP;
    return x->rc == B2_OK && (x->steps <= x->max_steps || jx_limit(x, "steps"));
}

bool jx_enter(struct jx *x)
{
    if (x->depth >= x->max_depth)
        return jx_limit(x, "nested evaluations");
    x->depth++;
    if (jx_charge(x, 0))
        return true;
    x->depth--;
    return false;
}

void *jx_alloc(struct jx *x, size_t n, size_t size)
{
    void *p = x->rc ? NULL : arena_calloc(x->arena, n, size);

    if (!p)
        (void)jx_nomem(x);
    else if (!jx_charge(x, n * size)) /* no overflow: arena_calloc has checked */
        return NULL;
    return p;
}

/* ---- scalars ---- */

struct jval jv_bool(bool b)
{
    return (struct jval){.type = JT_BOOL, .v.b = b};
}

struct jval jv_int(int64_t i)
{
    return (struct jval){.type = JT_INT, .v.i = i};
}

struct jval jv_float(double f)
{
    return (struct jval){.type = JT_FLOAT, .v.f = f};
}

bool jv_is_num(struct jval v)
{
    return v.type == JT_BOOL || v.type == JT_INT || v.type == JT_FLOAT;
}

int64_t jv_as_int(struct jval v)
{
    return v.type == JT_INT ? v.v.i : v.type == JT_BOOL ? v.v.b : 0;
}

double jv_num(struct jval v)
{
    return v.type == JT_FLOAT ? v.v.f : v.type == JT_INT ? (double)v.v.i : v.v.b;
}

bool jv_is_iter(struct jval v)
{
    return v.type == JT_SEQ &&
           (v.v.q->kind == SEQ_GENERATOR || v.v.q->kind == SEQ_REVERSED);
}

bool jv_str(struct jx *x, struct jval *out, const char *s, size_t n)
{
    struct jstr *str = n < SIZE_MAX / 2 ? jx_alloc(x, sizeof *str + n + 1, 1) : NULL;

    if (!str)
        return jx_nomem(x);
    if (n)
        memcpy(str->data, s, n);
    str->n = n;
    for (size_t i = 0; i < n; i++)
        str->chars += ((unsigned char)s[i] & 0xc0) != 0x80;
    *out = (struct jval){.type = JT_STR, .v.s = str};
    return true;
}

bool jv_take(struct jx *x, struct jval *out, struct str *s)
{
    bool ok = str_ok(s) ? jv_str(x, out, s->data, s->len) : jx_nomem(x);

    str_free(s);
    return ok;
}

bool jv_undef(struct jx *x, struct jval *out, const char *hint, const char *name)
{
    struct jundef *u = jx_alloc(x, 1, sizeof *u);

    if (!u)
        return false;
    u->hint = hint;
    u->name = name;
    *out = (struct jval){.type = JT_UNDEF, .v.u = u};
    return true;
}

bool jv_undef_key(struct jx *x, struct jval *out, struct jval obj, struct jval key)
{
    struct jundef *u = jx_alloc(x, 1, sizeof *u);

    if (!u)
        return false;
    u->obj = obj;
    u->key = key;
    u->has_obj = true;
    *out = (struct jval){.type = JT_UNDEF, .v.u = u};
    return true;
}

/* ---- sequences ---- */

bool jv_seq(struct jx *x, struct jval *out, enum jseq_kind kind, int64_t cap)
{
    struct jseq *q = jx_alloc(x, 1, sizeof *q);

    if (!q)
        return false;
    q->kind = kind;
    if (cap > 0) {
        q->at = jx_alloc(x, (size_t)cap, sizeof *q->at);
        if (!q->at)
            return false;
        q->cap = cap;
    }
    *out = (struct jval){.type = JT_SEQ, .v.q = q};
    return true;
}

/* Twice the room, in new memory of the arena; the old stays behind. */
static void *grow(struct jx *x, const void *old, int64_t n, int64_t *cap, size_t size)
{
    int64_t more = *cap ? 2 * *cap : 4;
    void *p = jx_alloc(x, (size_t)more, size);

    if (!p)
        return NULL;
    if (n)
        memcpy(p, old, (size_t)n * size);
    *cap = more;
    return p;
}

bool jseq_add(struct jx *x, struct jseq *q, struct jval item)
{
    if (q->n == q->cap) {
        struct jval *at = grow(x, q->at, q->n, &q->cap, sizeof *at);
        if (!at)
            return false;
        q->at = at;
    }
    q->at[q->n++] = item;
    return true;
}

/* ---- dicts ---- */

static uint64_t hash_bytes(const void *p, size_t n)
{
    const unsigned char *s = p;
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (size_t i = 0; i < n; i++)
        h = (h ^ s[i]) * 0x100000001b3u;
    return h;
}

bool jv_hashable(struct jx *x, struct jval v, bool *out)
{
    *out = v.type != JT_DICT && !(v.type == JT_SEQ && v.v.q->kind == SEQ_LIST);
    if (!*out || v.type != JT_SEQ || v.v.q->kind != SEQ_TUPLE)
        return true;
    if (!jx_enter(x))
        return false;
    bool ok = true;
    for (int64_t i = 0; ok && *out && i < v.v.q->n; i++)
        ok = jv_hashable(x, v.v.q->at[i], out);
    x->depth--;
    return ok;
}

/* Numbers that are equal hash alike: 1, 1.0 and True are one key. */
static bool hash_value(struct jx *x, struct jval v, uint64_t *out)
{
    *out = v.type;
    if (v.type == JT_STR) {
        *out = hash_bytes(v.v.s->data, v.v.s->n);
        return jx_charge(x, v.v.s->n);
    }
    if (jv_is_num(v)) {
        double f = jv_num(v) + 0.0; /* no negative zero */
        *out = hash_bytes(&f, sizeof f);
        return true;
    }
    if (v.type == JT_DICT)
        return jx_fail(x, "TypeError", "unhashable type: 'dict'");
    if (v.type != JT_SEQ)
        return true;
    if (v.v.q->kind == SEQ_LIST)
        return jx_fail(x, "TypeError", "unhashable type: 'list'");
    if (v.v.q->kind != SEQ_TUPLE)
        return true;
    if (!jx_enter(x))
        return false;
    bool ok = true;
    for (int64_t i = 0; ok && i < v.v.q->n; i++) {
        uint64_t h;
        ok = hash_value(x, v.v.q->at[i], &h);
        *out = (*out ^ h) * 0x9e3779b97f4a7c15u;
    }
    x->depth--;
    return ok;
}

bool jv_dict(struct jx *x, struct jval *out)
{
    struct jdict *d = jx_alloc(x, 1, sizeof *d);

    if (!d)
        return false;
    *out = (struct jval){.type = JT_DICT, .v.d = d};
    return true;
}

/* First index to look at, and how it goes on: through slots, or all of a small dict. */
static bool find_hashed(struct jx *x, const struct jdict *d, struct jval key,
                        uint64_t hash, struct jval **out)
{
    bool same = false;

    *out = NULL;
    if (d->n_slots == 0) {
        for (int64_t i = 0; i < d->n && !same; i++) {
            if (d->at[i].hash != hash)
                continue;
            if (!jv_equal(x, d->at[i].key, key, &same))
                return false;
            if (same)
                *out = &d->at[i].val;
        }
        return true;
    }
    uint64_t mask = (uint64_t)d->n_slots - 1;
    for (uint64_t s = hash & mask; d->slot[s]; s = (s + 1) & mask) {
        struct jpair *p = &d->at[d->slot[s] - 1];
        if (p->hash != hash)
            continue;
        if (!jv_equal(x, p->key, key, &same))
            return false;
        if (same) {
            *out = &p->val;
            return true;
        }
    }
    return true;
}

bool jdict_find(struct jx *x, const struct jdict *d, struct jval key, struct jval **out)
{
    uint64_t hash;

    return hash_value(x, key, &hash) && find_hashed(x, d, key, hash, out);
}

struct jval *jdict_find_str(const struct jdict *d, const char *key, size_t n)
{
    uint64_t hash = hash_bytes(key, n);

    for (int64_t i = 0; i < d->n; i++) {
        const struct jpair *p = &d->at[i];
        if (p->hash == hash && p->key.type == JT_STR && p->key.v.s->n == n &&
            memcmp(p->key.v.s->data, key, n) == 0)
            return &d->at[i].val;
    }
    return NULL;
}

/* Makes the table at most half full. */
static bool rehash(struct jx *x, struct jdict *d)
{
    int64_t n = d->n_slots ? d->n_slots : 4 * SMALL_DICT;

    if (d->n < SMALL_DICT || d->n * 2 < d->n_slots)
        return true;
    while (n <= d->n * 2)
        n *= 2;
    d->slot = jx_alloc(x, (size_t)n, sizeof *d->slot);
    d->n_slots = d->slot ? n : 0;
    for (int64_t i = 0; d->slot && i < d->n; i++) {
        uint64_t s = d->at[i].hash & (uint64_t)(n - 1);
        while (d->slot[s])
            s = (s + 1) & (uint64_t)(n - 1);
        d->slot[s] = (int32_t)(i + 1);
    }
    return d->slot != NULL;
}

bool jdict_put(struct jx *x, struct jdict *d, struct jval key, struct jval val)
{
    struct jval *old;
    uint64_t hash;

    if (!hash_value(x, key, &hash) || !find_hashed(x, d, key, hash, &old))
        return false;
    if (old) {
        *old = val;
        return true;
    }
    if (d->n == d->cap) {
        struct jpair *at =
            d->n < INT32_MAX / 4 ? grow(x, d->at, d->n, &d->cap, sizeof *at) : NULL;
        if (!at)
            return jx_nomem(x);
        d->at = at;
    }
    d->at[d->n++] = (struct jpair){.key = key, .val = val, .hash = hash};
    if (d->n_slots && d->n * 2 < d->n_slots) {
        uint64_t mask = (uint64_t)d->n_slots - 1, s = hash & mask;
        while (d->slot[s])
            s = (s + 1) & mask;
        d->slot[s] = (int32_t)d->n;
        return true;
    }
    return rehash(x, d);
}

/* ---- the builder ---- */

struct jinja_vars *jinja_vars_new(size_t max_bytes)
{
    struct jinja_vars *v = mem_calloc(1, sizeof *v);

    if (!v)
        return NULL;
    v->x = (struct jx){.max_steps = UINT64_MAX, .max_depth = 1000};
    v->x.arena = arena_new(max_bytes);
    if (v->x.arena && jv_dict(&v->x, &v->root))
        return v;
    jinja_vars_free(v);
    return NULL;
}

void jinja_vars_free(struct jinja_vars *v)
{
    if (!v)
        return;
    arena_free(v->x.arena);
    mem_free(v);
}

bool jinja_vars_ok(const struct jinja_vars *v)
{
    return v->x.rc == B2_OK;
}

struct jval jinja_none(void)
{
    return (struct jval){0};
}

struct jval jinja_bool(bool b)
{
    return jv_bool(b);
}

struct jval jinja_int(int64_t i)
{
    return jv_int(i);
}

struct jval jinja_float(double f)
{
    return jv_float(f);
}

struct jval jinja_str(struct jinja_vars *v, const char *s, size_t n)
{
    struct jval out = {0};
    struct str valid = {0};

    if (utf8_valid(s, n)) {
        (void)jv_str(&v->x, &out, s, n);
        return out;
    }
    for (size_t i = 0, used; i < n; i += used) {
        char buf[4];
        uint32_t cp = utf8_next(s + i, n - i, &used);
        str_putn(&valid, buf, (size_t)utf8_put(buf, cp));
    }
    (void)jv_take(&v->x, &out, &valid);
    return out;
}

struct jval jinja_list(struct jinja_vars *v)
{
    struct jval out = {0};

    (void)jv_seq(&v->x, &out, SEQ_LIST, 0);
    return out;
}

struct jval jinja_dict(struct jinja_vars *v)
{
    struct jval out = {0};

    (void)jv_dict(&v->x, &out);
    return out;
}

void jinja_list_add(struct jinja_vars *v, struct jval list, struct jval item)
{
    if (list.type == JT_SEQ)
        (void)jseq_add(&v->x, list.v.q, item);
}

void jinja_dict_set(struct jinja_vars *v, struct jval dict, const char *key, size_t n,
                    struct jval item)
{
    struct jval k = jinja_str(v, key, n);

    if (dict.type == JT_DICT && jinja_vars_ok(v))
        (void)jdict_put(&v->x, dict.v.d, k, item);
}

void jinja_set(struct jinja_vars *v, const char *name, struct jval value)
{
    jinja_dict_set(v, v->root, name, strlen(name), value);
}
