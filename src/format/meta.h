/*
 * meta.h - the key-value part of a model file, typed as GGUF types it.
 *
 * A Hugging Face folder is translated into the same keys (format/hf.h), so that
 * everybody above format/ asks one question in one way. Keys keep their order, which
 * is also the order in which they are written. All memory belongs to the meta.
 */
#ifndef FORMAT_META_H
#define FORMAT_META_H

#include "base/error.h"

enum meta_type { /* the numbers of the GGUF specification */
                 MT_U8 = 0,
                 MT_I8 = 1,
                 MT_U16 = 2,
                 MT_I16 = 3,
                 MT_U32 = 4,
                 MT_I32 = 5,
                 MT_F32 = 6,
                 MT_BOOL = 7,
                 MT_STR = 8,
                 MT_ARR = 9,
                 MT_U64 = 10,
                 MT_I64 = 11,
                 MT_F64 = 12,
};

struct meta_str {
    const char *data; /* terminated too; may hold zero bytes inside */
    size_t len;
};

struct meta_kv {
    const char *key;
    enum meta_type type;
    enum meta_type elem; /* element type when type == MT_ARR (arrays do not nest) */
    uint64_t n;          /* elements of an array, else 1 */
    union {
        const void *raw;             /* numbers and bools: n little-endian values */
        const struct meta_str *strs; /* strings: n of them */
    } v;
};

struct meta;

/* max_bytes bounds all memory that keys and values may take. NULL: out of memory. */
struct meta *meta_new(size_t max_bytes);
void meta_free(struct meta *m); /* NULL is fine */

int64_t meta_count(const struct meta *m);
const struct meta_kv *meta_at(const struct meta *m, int64_t i);
const struct meta_kv *meta_find(const struct meta *m, const char *key); /* or NULL */

/* Typed getters. B2_ENOTFOUND: no such key (message names it; err untouched by the
 * _or forms). B2_EFORMAT: another type than the getter allows, or out of range.
 * Integers are taken from any integer type whose value fits. */
enum b2_status meta_get_u32(const struct meta *m, const char *key, uint32_t *out,
                            struct b2_err *err) NODISCARD;
enum b2_status meta_get_u64(const struct meta *m, const char *key, uint64_t *out,
                            struct b2_err *err) NODISCARD;
enum b2_status meta_get_f32(const struct meta *m, const char *key, float *out,
                            struct b2_err *err) NODISCARD;
enum b2_status meta_get_bool(const struct meta *m, const char *key, bool *out,
                             struct b2_err *err) NODISCARD;
/* Strings with a zero byte inside are B2_EFORMAT. Borrowed from the meta. */
enum b2_status meta_get_str(const struct meta *m, const char *key, const char **out,
                            struct b2_err *err) NODISCARD;
/* The same, but an absent key gives the default and B2_OK. */
enum b2_status meta_opt_u32(const struct meta *m, const char *key, uint32_t *out,
                            uint32_t def, struct b2_err *err) NODISCARD;
enum b2_status meta_opt_f32(const struct meta *m, const char *key, float *out,
                            float def, struct b2_err *err) NODISCARD;
enum b2_status meta_opt_bool(const struct meta *m, const char *key, bool *out, bool def,
                             struct b2_err *err) NODISCARD;
enum b2_status meta_opt_str(const struct meta *m, const char *key, const char **out,
                            const char *def, struct b2_err *err) NODISCARD;
/* Arrays; borrowed. n elements. i32 also accepts u32 values that fit; f32 exact type. */
enum b2_status meta_get_strs(const struct meta *m, const char *key,
                             const struct meta_str **out, uint64_t *n,
                             struct b2_err *err) NODISCARD;
enum b2_status meta_get_i32s(const struct meta *m, const char *key, const int32_t **out,
                             uint64_t *n, struct b2_err *err) NODISCARD;
enum b2_status meta_get_f32s(const struct meta *m, const char *key, const float **out,
                             uint64_t *n, struct b2_err *err) NODISCARD;

/* Counts the keys that begin with prefix, all of which must be understood. B2_EUNSUP: the
 * rest of one is not among known [n]; what: what they are about, for the message. */
enum b2_status meta_check_group(const struct meta *m, const char *prefix,
                                const char *const *known, size_t n, const char *what,
                                int *n_keys, struct b2_err *err) NODISCARD;

/* Setters copy key and value; an existing key is replaced in place. B2_ENOMEM. */
enum b2_status meta_set_u32(struct meta *m, const char *key, uint32_t v,
                            struct b2_err *err) NODISCARD;
enum b2_status meta_set_u64(struct meta *m, const char *key, uint64_t v,
                            struct b2_err *err) NODISCARD;
enum b2_status meta_set_f32(struct meta *m, const char *key, float v,
                            struct b2_err *err) NODISCARD;
enum b2_status meta_set_bool(struct meta *m, const char *key, bool v,
                             struct b2_err *err) NODISCARD;
enum b2_status meta_set_str(struct meta *m, const char *key, const char *v,
                            struct b2_err *err) NODISCARD;
enum b2_status meta_set_strs(struct meta *m, const char *key, const struct meta_str *v,
                             uint64_t n, struct b2_err *err) NODISCARD;
/* type: MT_U8 … MT_F64 but not MT_STR or MT_ARR; v: n values in machine order. */
enum b2_status meta_set_arr(struct meta *m, const char *key, enum meta_type type,
                            const void *v, uint64_t n, struct b2_err *err) NODISCARD;
/* Copies one pair from another meta (or all of them). */
enum b2_status meta_copy(struct meta *m, const struct meta_kv *kv,
                         struct b2_err *err) NODISCARD;
void meta_remove(struct meta *m, const char *key); /* absent is fine */

/* Bytes of one value of a scalar type; 0 for MT_STR and MT_ARR. */
size_t meta_type_bytes(enum meta_type t);
const char *meta_type_name(enum meta_type t);

#endif
