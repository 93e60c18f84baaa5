/*
 * meta.c - typed reading of keys.
 *
 * Values are kept as the bytes of the file, little-endian, at addresses aligned for
 * their type. Arrays are handed out in place, which needs a little-endian machine.
 */
#include "format/meta.h"

#include "base/reader.h"
#include "format/meta_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays of keys are handed out in the byte order of the file");

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [MT_U8] = {"u8", 1},     [MT_I8] = {"i8", 1},     [MT_U16] = {"u16", 2},
    [MT_I16] = {"i16", 2},   [MT_U32] = {"u32", 4},   [MT_I32] = {"i32", 4},
    [MT_F32] = {"f32", 4},   [MT_BOOL] = {"bool", 1}, [MT_STR] = {"string", 0},
    [MT_ARR] = {"array", 0}, [MT_U64] = {"u64", 8},   [MT_I64] = {"i64", 8},
    [MT_F64] = {"f64", 8},
};

size_t meta_type_bytes(enum meta_type t)
{
    return (size_t)t < countof(types) ? types[t].bytes : 0;
}

const char *meta_type_name(enum meta_type t)
{
    return (size_t)t < countof(types) ? types[t].name : "unknown";
}

int64_t meta_count(const struct meta *m)
{
    return (int64_t)m->n;
}

const struct meta_kv *meta_at(const struct meta *m, int64_t i)
{
    return &m->kv[i];
}

const struct meta_kv *meta_find(const struct meta *m, const char *key)
{
    int64_t i = names_find(&m->names, key);

    return i < 0 ? NULL : &m->kv[i];
}

/* Finds key, or says that it is missing and gives NULL. */
static const struct meta_kv *need(const struct meta *m, const char *key,
                                  struct b2_err *err)
{
    const struct meta_kv *kv = meta_find(m, key);

    if (!kv)
        (void)err_set(err, B2_ENOTFOUND, "key %s is missing", key);
    return kv;
}

static enum b2_status wrong_type(const struct meta_kv *kv, const char *want,
                                 struct b2_err *err)
{
    if (kv->type == MT_ARR)
        return err_set(err, B2_EFORMAT, "key %s is an array of %s, expected %s",
                       kv->key, meta_type_name(kv->elem), want);
    return err_set(err, B2_EFORMAT, "key %s has type %s, expected %s", kv->key,
                   meta_type_name(kv->type), want);
}

/* Element i of a number as a signed value and its sign bit apart, so that the whole
 * range of u64 and i64 fits. False: not an integer type. */
static bool int_value(enum meta_type t, const uint8_t *p, uint64_t *out, bool *negative)
{
    int64_t s = 0;

    switch (t) {
    case MT_U8:
        *out = p[0];
        break;
    case MT_U16:
        *out = le_get16(p);
        break;
    case MT_U32:
        *out = le_get32(p);
        break;
    case MT_U64:
        *out = le_get64(p);
        break;
    case MT_I8:
        s = p[0] < 128 ? (int64_t)p[0] : (int64_t)p[0] - 256;
        *out = (uint64_t)s;
        break;
    case MT_I16:
        s = (int16_t)le_get16(p);
        *out = (uint64_t)s;
        break;
    case MT_I32:
        s = (int32_t)le_get32(p);
        *out = (uint64_t)s;
        break;
    case MT_I64:
        s = (int64_t)le_get64(p);
        *out = (uint64_t)s;
        break;
    default:
        return false;
    }
    *negative = s < 0;
    return true;
}

static enum b2_status get_uint(const struct meta_kv *kv, uint64_t max, uint64_t *out,
                               struct b2_err *err)
{
    uint64_t v;
    bool negative;

    if (!int_value(kv->type, kv->v.raw, &v, &negative))
        return wrong_type(kv, "an integer", err);
    if (negative)
        return err_set(err, B2_EFORMAT, "key %s is %" PRId64 ", expected 0 to %" PRIu64,
                       kv->key, (int64_t)v, max);
    if (v > max)
        return err_set(err, B2_EFORMAT, "key %s is %" PRIu64 ", expected 0 to %" PRIu64,
                       kv->key, v, max);
    *out = v;
    return B2_OK;
}

enum b2_status meta_get_u64(const struct meta *m, const char *key, uint64_t *out,
                            struct b2_err *err)
{
    const struct meta_kv *kv = need(m, key, err);

    return kv ? get_uint(kv, UINT64_MAX, out, err) : B2_ENOTFOUND;
}

enum b2_status meta_get_u32(const struct meta *m, const char *key, uint32_t *out,
                            struct b2_err *err)
{
    const struct meta_kv *kv = need(m, key, err);
    uint64_t v = 0;

    if (!kv)
        return B2_ENOTFOUND;
    enum b2_status rc = get_uint(kv, UINT32_MAX, &v, err);
    if (rc == B2_OK)
        *out = (uint32_t)v;
    return rc;
}

enum b2_status meta_get_f32(const struct meta *m, const char *key, float *out,
                            struct b2_err *err)
{
    const struct meta_kv *kv = need(m, key, err);

    if (!kv)
        return B2_ENOTFOUND;
    if (kv->type == MT_F32) {
        memcpy(out, kv->v.raw, sizeof *out);
    } else if (kv->type == MT_F64) {
        double d;
        memcpy(&d, kv->v.raw, sizeof d);
        *out = (float)d;
    } else {
        return wrong_type(kv, "f32", err);
    }
    return B2_OK;
}

enum b2_status meta_get_bool(const struct meta *m, const char *key, bool *out,
                             struct b2_err *err)
{
    const struct meta_kv *kv = need(m, key, err);

    if (!kv)
        return B2_ENOTFOUND;
    if (kv->type != MT_BOOL)
        return wrong_type(kv, "bool", err);
    *out = *(const uint8_t *)kv->v.raw != 0;
    return B2_OK;
}

enum b2_status meta_get_str(const struct meta *m, const char *key, const char **out,
                            struct b2_err *err)
{
    const struct meta_kv *kv = need(m, key, err);

    if (!kv)
        return B2_ENOTFOUND;
    if (kv->type != MT_STR)
        return wrong_type(kv, "a string", err);
    if (memchr(kv->v.strs->data, '\0', kv->v.strs->len))
        return err_set(err, B2_EFORMAT, "key %s has a zero byte in its text", key);
    *out = kv->v.strs->data;
    return B2_OK;
}

enum b2_status meta_opt_u32(const struct meta *m, const char *key, uint32_t *out,
                            uint32_t def, struct b2_err *err)
{
    *out = def;
    return meta_find(m, key) ? meta_get_u32(m, key, out, err) : B2_OK;
}

enum b2_status meta_opt_f32(const struct meta *m, const char *key, float *out,
                            float def, struct b2_err *err)
{
    *out = def;
    return meta_find(m, key) ? meta_get_f32(m, key, out, err) : B2_OK;
}

enum b2_status meta_opt_bool(const struct meta *m, const char *key, bool *out, bool def,
                             struct b2_err *err)
{
    *out = def;
    return meta_find(m, key) ? meta_get_bool(m, key, out, err) : B2_OK;
}

enum b2_status meta_opt_str(const struct meta *m, const char *key, const char **out,
                            const char *def, struct b2_err *err)
{
    *out = def;
    return meta_find(m, key) ? meta_get_str(m, key, out, err) : B2_OK;
}

/* Finds an array of one element type (or of another of the same width, alt). */
static enum b2_status need_array(const struct meta *m, const char *key,
                                 enum meta_type elem, enum meta_type alt,
                                 const struct meta_kv **out, struct b2_err *err)
{
    const struct meta_kv *kv = need(m, key, err);
    char want[32];

    if (!kv)
        return B2_ENOTFOUND;
    *out = kv;
    if (kv->type == MT_ARR && (kv->elem == elem || kv->elem == alt))
        return B2_OK;
    (void)snprintf(want, sizeof want, "an array of %s", meta_type_name(elem));
    (void)wrong_type(kv, want, err);
    return B2_EFORMAT;
}

enum b2_status meta_get_strs(const struct meta *m, const char *key,
                             const struct meta_str **out, uint64_t *n,
                             struct b2_err *err)
{
    const struct meta_kv *kv = NULL;
    enum b2_status rc = need_array(m, key, MT_STR, MT_STR, &kv, err);

    if (rc)
        return rc;
    *out = kv->v.strs;
    *n = kv->n;
    return B2_OK;
}

enum b2_status meta_get_i32s(const struct meta *m, const char *key, const int32_t **out,
                             uint64_t *n, struct b2_err *err)
{
    const struct meta_kv *kv = NULL;
    enum b2_status rc = need_array(m, key, MT_I32, MT_U32, &kv, err);

    if (rc)
        return rc;
    const int32_t *v = kv->v.raw;
    for (uint64_t i = 0; kv->elem == MT_U32 && i < kv->n; i++) {
        if (v[i] < 0) /* the same 32 bits as unsigned are above INT32_MAX */
            return err_set(err, B2_EFORMAT,
                           "key %s: element %" PRIu64 " is above 2147483647", key, i);
    }
    *out = v;
    *n = kv->n;
    return B2_OK;
}

enum b2_status meta_get_f32s(const struct meta *m, const char *key, const float **out,
                             uint64_t *n, struct b2_err *err)
{
    const struct meta_kv *kv = NULL;
    enum b2_status rc = need_array(m, key, MT_F32, MT_F32, &kv, err);

    if (rc)
        return rc;
    *out = kv->v.raw;
    *n = kv->n;
    return B2_OK;
}

enum b2_status meta_check_group(const struct meta *m, const char *prefix,
                                const char *const *known, size_t n, const char *what,
                                int *n_keys, struct b2_err *err)
{
    const size_t len = strlen(prefix);

    *n_keys = 0;
    for (int64_t i = 0; i < meta_count(m); i++) {
        const char *key = meta_at(m, i)->key;
        bool found = false;
        if (strncmp(key, prefix, len) != 0)
            continue;
        for (size_t k = 0; k < n; k++)
            found = found || strcmp(key + len, known[k]) == 0;
        if (!found)
            return err_set(err, B2_EUNSUP,
                           "key %.100s: this part of %s is not known here; a newer "
                           "version may know it",
                           key, what);
        ++*n_keys;
    }
    return B2_OK;
}
