/*
 * meta_set.c - building a meta: keys and values are copied in.
 */
#include "base/mem.h"
#include "format/meta_int.h"

#include <string.h>

enum { CHUNK = 16 * 1024 };

struct meta *meta_new(size_t max_bytes)
{
    struct meta *m = mem_calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->arena = arena_new(max_bytes);
    if (!m->arena) {
        mem_free(m);
        return NULL;
    }
    return m;
}

void meta_free(struct meta *m)
{
    if (!m)
        return;
    arena_free(m->arena);
    names_free(&m->names);
    mem_free(m->kv);
    mem_free(m);
}

/* n bytes (at least one, so that a pointer comes out) aligned to 8; large pieces get
 * their own place in the arena. */
static void *take(struct meta *m, size_t n)
{
    if (n > CHUNK / 4)
        return arena_calloc(m->arena, n, 1);
    n = (size_t)align_up_u64(n ? n : 1, 8);
    if (n > m->chunk_left) {
        uint8_t *chunk = arena_calloc(m->arena, CHUNK, 1);
        if (!chunk)
            return NULL;
        m->chunk = chunk;
        m->chunk_left = CHUNK;
    }
    void *p = m->chunk + (CHUNK - m->chunk_left);
    m->chunk_left -= n;
    return p;
}

/* Copies the strings and their bytes, each with a terminating zero. */
static const struct meta_str *copy_strs(struct meta *m, const struct meta_str *v,
                                        uint64_t n)
{
    size_t total = 0;

    for (uint64_t i = 0; i < n; i++) {
        if (__builtin_add_overflow(total, v[i].len, &total) ||
            __builtin_add_overflow(total, 1, &total))
            return NULL;
    }
    if (n > SIZE_MAX / 2 / sizeof *v)
        return NULL;
    struct meta_str *s = take(m, (size_t)n * sizeof *s);
    char *text = take(m, total);
    if (!s || !text)
        return NULL;
    for (uint64_t i = 0; i < n; i++) {
        s[i] = (struct meta_str){text, v[i].len};
        if (v[i].len)
            memcpy(text, v[i].data, v[i].len);
        text[v[i].len] = '\0';
        text += v[i].len + 1;
    }
    return s;
}

/* Appends an empty pair with a copy of key. */
static struct meta_kv *append(struct meta *m, const char *key)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 16;
        struct meta_kv *kv = mem_realloc(m->kv, cap, sizeof *kv);
        if (!kv)
            return NULL;
        m->kv = kv;
        m->cap = cap;
    }
    size_t size = strlen(key) + 1;
    char *copy = take(m, size);
    if (!copy)
        return NULL;
    memcpy(copy, key, size);
    if (names_add(&m->names, copy) != NAMES_ADDED)
        return NULL;
    m->kv[m->n] = (struct meta_kv){.key = copy};
    return &m->kv[m->n++];
}

enum b2_status meta_copy(struct meta *m, const struct meta_kv *kv, struct b2_err *err)
{
    struct meta_kv new = *kv;
    size_t width = meta_type_bytes(kv->type == MT_ARR ? kv->elem : kv->type);

    if (kv->type == MT_STR || (kv->type == MT_ARR && kv->elem == MT_STR)) {
        new.v.strs = copy_strs(m, kv->v.strs, kv->n);
        if (!new.v.strs)
            goto no_memory;
    } else {
        if (width == 0 || kv->n > SIZE_MAX / 2 / width)
            goto no_memory;
        void *raw = take(m, (size_t)kv->n * width);
        if (!raw)
            goto no_memory;
        if (kv->n)
            memcpy(raw, kv->v.raw, (size_t)kv->n * width);
        new.v.raw = raw;
    }
    int64_t at = names_find(&m->names, kv->key);
    struct meta_kv *slot = at < 0 ? append(m, kv->key) : &m->kv[at];
    if (!slot)
        goto no_memory;
    new.key = slot->key;
    *slot = new;
    return B2_OK;

no_memory:
    return err_set(err, B2_ENOMEM, "key %s: out of memory", kv->key);
}

static enum b2_status set_scalar(struct meta *m, const char *key, enum meta_type type,
                                 const void *v, struct b2_err *err)
{
    struct meta_kv kv = {.key = key, .type = type, .n = 1, .v.raw = v};

    return meta_copy(m, &kv, err);
}

enum b2_status meta_set_u32(struct meta *m, const char *key, uint32_t v,
                            struct b2_err *err)
{
    return set_scalar(m, key, MT_U32, &v, err);
}

enum b2_status meta_set_u64(struct meta *m, const char *key, uint64_t v,
                            struct b2_err *err)
{
    return set_scalar(m, key, MT_U64, &v, err);
}

enum b2_status meta_set_f32(struct meta *m, const char *key, float v,
                            struct b2_err *err)
{
    return set_scalar(m, key, MT_F32, &v, err);
}

enum b2_status meta_set_bool(struct meta *m, const char *key, bool v,
                             struct b2_err *err)
{
    uint8_t byte = v ? 1 : 0;

    return set_scalar(m, key, MT_BOOL, &byte, err);
}

enum b2_status meta_set_str(struct meta *m, const char *key, const char *v,
                            struct b2_err *err)
{
    struct meta_str s = {v, strlen(v)};
    struct meta_kv kv = {.key = key, .type = MT_STR, .n = 1, .v.strs = &s};

    return meta_copy(m, &kv, err);
}

enum b2_status meta_set_strs(struct meta *m, const char *key, const struct meta_str *v,
                             uint64_t n, struct b2_err *err)
{
    struct meta_kv kv = {
        .key = key, .type = MT_ARR, .elem = MT_STR, .n = n, .v.strs = v};

    return meta_copy(m, &kv, err);
}

enum b2_status meta_set_arr(struct meta *m, const char *key, enum meta_type type,
                            const void *v, uint64_t n, struct b2_err *err)
{
    struct meta_kv kv = {.key = key, .type = MT_ARR, .elem = type, .n = n, .v.raw = v};

    if (meta_type_bytes(type) == 0)
        return err_set(err, B2_EARG, "key %s: arrays hold numbers or bools", key);
    return meta_copy(m, &kv, err);
}

void meta_remove(struct meta *m, const char *key)
{
    int64_t at = names_find(&m->names, key);

    if (at < 0)
        return;
    m->n--;
    memmove(&m->kv[at], &m->kv[at + 1], (m->n - (size_t)at) * sizeof *m->kv);
    names_remove(&m->names, (size_t)at);
}
