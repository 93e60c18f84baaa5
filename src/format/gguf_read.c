/*
 * gguf_read.c - the header, the keys and the tensor records of a GGUF file.
 *
 *   "GGUF" u32 version, u64 n_tensors, u64 n_keys, keys, tensor records, padding, data
 *
 * Every count is compared with the bytes that are left before anything is allocated:
 * a pair takes at least 13 bytes, a record 24, a string 8.
 */
#include "base/arena.h"
#include "base/mem.h"
#include "base/reader.h"
#include "format/gguf_int.h"
#include "format/names.h"
#include "format/sniff.h"

#include <inttypes.h>
#include <string.h>

enum { KEY_MIN_BYTES = 8 + 4 + 1, RECORD_MIN_BYTES = 8 + 4 + 4 + 8, STR_MIN_BYTES = 8 };

/* Counts and lengths above this are no cut file but nonsense: 2^40. */
#define IMPOSSIBLE ((uint64_t)1 << 40)

/* Refuses a count of things that cannot be in the bytes that are left. */
static enum b2_status check_count(const struct rd *r, const char *what, uint64_t n,
                                  uint64_t each, struct b2_err *err)
{
    uint64_t left = rd_left(r);

    if (n <= left / each)
        return B2_OK;
    if (n >= IMPOSSIBLE)
        return err_set(err, B2_EFORMAT, "impossible %s: %" PRIu64, what, n);
    return err_set(err, B2_ETRUNC,
                   "%s is %" PRIu64 ", which needs at least %" PRIu64
                   " bytes, but only %" PRIu64 " are present",
                   what, n, n * each, left);
}

/* Reads a string without copying. what names the field in messages. */
static enum b2_status read_str(struct rd *r, struct meta_str *s, uint64_t max,
                               const char *what, struct b2_err *err)
{
    uint64_t len = rd_u64(r);

    if (!r->ok)
        return err_set(err, B2_ETRUNC, "the file ends at byte %zu, inside the %s",
                       r->size, what);
    if (len > max)
        return err_set(err, B2_EFORMAT, "%s has %" PRIu64 " bytes, at most %" PRIu64,
                       what, len, max);
    enum b2_status rc = check_count(r, what, len, 1, err);
    if (rc)
        return rc;
    const uint8_t *p = rd_bytes(r, len);
    if (!p)
        return err_set(err, B2_ETRUNC, "the file ends inside the %s", what);
    *s = (struct meta_str){(const char *)p, (size_t)len};
    return B2_OK;
}

static enum b2_status check_bools(const uint8_t *p, uint64_t n, struct b2_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        if (p[i] > 1)
            return err_set(err, B2_EFORMAT, "a bool with the value %u", (unsigned)p[i]);
    }
    return B2_OK;
}

/* n numbers of a type; they stay in the file's bytes until meta_copy. */
static enum b2_status read_numbers(struct rd *r, struct meta_kv *kv,
                                   enum meta_type type, struct b2_err *err)
{
    size_t width = meta_type_bytes(type);

    if (width == 0)
        return err_set(err, B2_EUNSUP, "unknown value type %u (known: 0 to 12)",
                       (unsigned)type);
    enum b2_status rc = check_count(r, "the count of values", kv->n, width, err);
    if (rc)
        return rc;
    const uint8_t *p = rd_bytes(r, kv->n * width);
    kv->v.raw = p;
    return type == MT_BOOL ? check_bools(p, kv->n, err) : B2_OK;
}

/* kv->n strings; *tmp is the caller's to free after copying. */
static enum b2_status read_strs(struct rd *r, struct meta_kv *kv, struct meta_str **tmp,
                                struct b2_err *err)
{
    enum b2_status rc =
        check_count(r, "the count of strings", kv->n, STR_MIN_BYTES, err);

    if (rc)
        return rc;
    *tmp = mem_calloc((size_t)kv->n, sizeof **tmp);
    if (!*tmp)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (uint64_t i = 0; i < kv->n; i++) {
        rc = read_str(r, &(*tmp)[i], UINT64_MAX, "string of an array", err);
        if (rc)
            return rc;
    }
    kv->v.strs = *tmp;
    return B2_OK;
}

static enum b2_status read_value(struct rd *r, struct meta *m, struct meta_kv *kv,
                                 struct b2_err *err)
{
    struct meta_str one = {0}, *many = NULL;
    enum b2_status rc;

    kv->n = 1;
    if (kv->type == MT_STR) {
        rc = read_str(r, &one, UINT64_MAX, "text of a key", err);
        kv->v.strs = &one;
    } else if (kv->type == MT_ARR) {
        kv->elem = (enum meta_type)rd_u32(r);
        kv->n = rd_u64(r);
        if (!r->ok)
            rc = err_set(err, B2_ETRUNC, "the file ends at byte %zu", r->size);
        else if (kv->elem == MT_ARR)
            rc = err_set(err, B2_EUNSUP, "arrays of arrays are not supported");
        else if (kv->elem == MT_STR)
            rc = read_strs(r, kv, &many, err);
        else
            rc = read_numbers(r, kv, kv->elem, err);
    } else {
        rc = read_numbers(r, kv, kv->type, err);
    }
    if (rc == B2_OK)
        rc = meta_copy(m, kv, err);
    kv->v.raw = NULL; /* what it pointed to ends here */
    mem_free(many);
    return rc;
}

static enum b2_status read_key(struct rd *r, struct meta *m, uint64_t i,
                               struct b2_err *err)
{
    struct meta_str key = {0};
    char show[NAMES_SHOW_MAX], *name;
    enum b2_status rc = read_str(r, &key, GGUF_KEY_MAX, "name of a key", err);

    if (rc) {
        err_wrap(err, "key %" PRIu64, i);
        return rc;
    }
    names_show(show, key.data, key.len);
    if (!key.data || key.len == 0 || memchr(key.data, '\0', key.len))
        return err_set(err, B2_EFORMAT,
                       "key %" PRIu64 " has an empty name or a zero "
                       "byte in it",
                       i);
    name = mem_calloc(key.len + 1, 1);
    if (!name)
        return err_set(err, B2_ENOMEM, "key %s: out of memory", show);
    memcpy(name, key.data, key.len);
    struct meta_kv kv = {.key = name, .type = (enum meta_type)rd_u32(r)};
    if (!r->ok)
        rc = err_set(err, B2_ETRUNC, "the file ends at byte %zu", r->size);
    else if (meta_find(m, name))
        rc = err_set(err, B2_EFORMAT, "appears twice");
    else
        rc = read_value(r, m, &kv, err);
    mem_free(name);
    if (rc)
        err_wrap(err, "key %s", show);
    return rc;
}

/* Copies the name into the arena; it must be a new one. */
static enum b2_status keep_name(struct gguf *g, struct tensor *t,
                                const struct meta_str *name, struct names *seen,
                                struct b2_err *err)
{
    char show[NAMES_SHOW_MAX];
    char *copy = arena_strndup(g->arena, name->data, name->len);
    enum names_result added = copy ? names_add(seen, copy) : NAMES_ENOMEM;

    names_show(show, name->data, name->len);
    if (added == NAMES_ENOMEM)
        return err_set(err, B2_ENOMEM, "tensor %s: out of memory", show);
    if (added == NAMES_EXISTS)
        return err_set(err, B2_EFORMAT, "tensor %s appears twice", show);
    t->name = copy;
    return B2_OK;
}

/* One tensor record; g->offsets[i] stays relative to the data section. */
static enum b2_status read_record(struct rd *r, struct gguf *g, int64_t i,
                                  struct names *seen, struct b2_err *err)
{
    struct tensor *t = &g->tensors[i];
    struct meta_str name = {0};
    char show[NAMES_SHOW_MAX];
    enum b2_status rc = read_str(r, &name, GGUF_NAME_MAX, "tensor name", err);

    if (rc) {
        err_wrap(err, "tensor %" PRId64, i);
        return rc;
    }
    names_show(show, name.data, name.len);
    if (!name.data || name.len == 0 || memchr(name.data, '\0', name.len))
        return err_set(err, B2_EFORMAT,
                       "tensor %" PRId64 " has an empty name or a zero byte in it", i);
    uint32_t rank = rd_u32(r);
    if (r->ok && rank > TENSOR_MAX_RANK)
        return err_set(err, B2_EFORMAT, "tensor %s: %" PRIu32 " dimensions, at most %d",
                       show, rank, TENSOR_MAX_RANK);
    *t = (struct tensor){.rank = (int)rank, .ne = {1, 1, 1, 1}};
    for (uint32_t d = 0; r->ok && d < rank; d++) {
        uint64_t ne = rd_u64(r);
        if (ne > INT64_MAX)
            return err_set(err, B2_EFORMAT,
                           "tensor %s: dimension %" PRIu32 " is %" PRIu64, show, d, ne);
        t->ne[d] = (int64_t)ne;
    }
    uint32_t id = rd_u32(r);
    g->offsets[i] = rd_u64(r);
    if (!r->ok)
        return err_set(err, B2_ETRUNC,
                       "tensor %s: the file ends at byte %zu, inside its record", show,
                       r->size);
    if (!dtype_from_gguf(&t->type, id))
        return err_set(err, B2_EUNSUP,
                       "tensor %s: unsupported type id %" PRIu32 " (supported: %s)",
                       show, id, dtype_list());
    return keep_name(g, t, &name, seen, err);
}

static enum b2_status read_records(struct rd *r, struct gguf *g, struct b2_err *err)
{
    struct names seen = {0};
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; rc == B2_OK && i < g->n_tensors; i++)
        rc = read_record(r, g, i, &seen, err);
    names_free(&seen);
    return rc;
}

/* Says what a file that does not start with "GGUF" is. */
static enum b2_status bad_magic(const uint8_t *p, size_t size, struct b2_err *err)
{
    static const char *const old[] = {"lmgg", "fmgg", "tjgg", "algg", "GGML", "GGJT"};
    const char *mistake = sniff_mistake(p, size);
    char show[NAMES_SHOW_MAX];

    if (mistake)
        return err_set(err, B2_EFORMAT, "%s", mistake);
    if (size < 4)
        return err_set(err, B2_ETRUNC,
                       "the file has only %zu bytes, too few for any model", size);
    for (size_t i = 0; i < countof(old); i++) {
        if (memcmp(p, old[i], 4) == 0)
            return err_set(err, B2_EUNSUP,
                           "this is an old GGML file from before GGUF; get the model "
                           "as GGUF");
    }
    mistake = sniff_other_format(p, size);
    if (mistake)
        return err_set(err, B2_EFORMAT, "%s", mistake);
    return err_set(err, B2_EFORMAT, "not a GGUF file: it starts with \"%s\"",
                   names_show(show, (const char *)p, 4));
}

static enum b2_status check_version(uint32_t v, struct b2_err *err)
{
    uint32_t swapped = v >> 24 | (v >> 8 & 0xff00) | (v << 8 & 0xff0000) | v << 24;

    if (v == 2 || v == 3)
        return B2_OK;
    if (swapped >= 1 && swapped <= 255)
        return err_set(err, B2_EUNSUP,
                       "the file is in the other byte order (big-endian GGUF version "
                       "%" PRIu32 "); convert it to little-endian",
                       swapped);
    if (v == 0 || v > 255)
        return err_set(err, B2_EFORMAT, "GGUF version %" PRIu32 " does not exist", v);
    return err_set(err, B2_EUNSUP, "GGUF version %" PRIu32 " (supported: 2 and 3)", v);
}

enum b2_status gguf_alignment(const struct meta *m, uint64_t *out, struct b2_err *err)
{
    const struct meta_kv *kv = meta_find(m, "general.alignment");
    uint32_t v;

    *out = GGUF_ALIGN_DEFAULT;
    if (!kv)
        return B2_OK;
    if (kv->type != MT_U32)
        return err_set(err, B2_EFORMAT,
                       "key general.alignment has type %s, expected u32",
                       meta_type_name(kv->type));
    enum b2_status rc = meta_get_u32(m, kv->key, &v, err);
    if (rc)
        return rc;
    if (v < 8 || v > GGUF_ALIGN_MAX || (v & (v - 1)) != 0)
        return err_set(err, B2_EFORMAT,
                       "key general.alignment is %" PRIu32
                       ", expected a power of two from 8 to %d",
                       v, GGUF_ALIGN_MAX);
    *out = v;
    return B2_OK;
}

/* Magic, version and counts, then everything that the counts promise. */
static enum b2_status parse(struct gguf *g, struct rd *r, struct b2_err *err)
{
    if (r->size < 4 || rd_u32(r) != GGUF_MAGIC)
        return bad_magic(r->data, r->size, err);
    g->version = rd_u32(r);
    enum b2_status rc = r->ok ? check_version(g->version, err) : B2_OK;
    if (rc)
        return rc;
    uint64_t n_tensors = rd_u64(r), n_keys = rd_u64(r);
    if (!r->ok)
        return err_set(err, B2_ETRUNC, "the file ends at byte %zu, inside the header",
                       r->size);
    rc = check_count(r, "key count", n_keys, KEY_MIN_BYTES, err);
    if (rc == B2_OK)
        rc = check_count(r, "tensor count", n_tensors, RECORD_MIN_BYTES, err);
    for (uint64_t i = 0; rc == B2_OK && i < n_keys; i++)
        rc = read_key(r, g->meta, i, err);
    if (rc == B2_OK)
        rc = gguf_alignment(g->meta, &g->alignment, err);
    if (rc == B2_OK) /* again: the keys have taken their bytes */
        rc = check_count(r, "tensor count", n_tensors, RECORD_MIN_BYTES, err);
    if (rc)
        return rc;
    g->n_tensors = (int64_t)n_tensors;
    g->tensors = arena_calloc(g->arena, (size_t)n_tensors, sizeof *g->tensors);
    g->offsets = arena_calloc(g->arena, (size_t)n_tensors, sizeof *g->offsets);
    if (!g->tensors || !g->offsets)
        return err_set(err, B2_ENOMEM, "out of memory");
    rc = read_records(r, g, err);
    if (rc)
        return rc;
    g->data_offset = align_up_u64(r->pos, g->alignment);
    if (g->data_offset > r->size) {
        if (n_tensors > 0)
            return err_set(err, B2_ETRUNC,
                           "tensor %s: the data start at byte %" PRIu64
                           ", but the file has only %zu bytes",
                           g->tensors[0].name, g->data_offset, r->size);
        return B2_OK; /* nothing to align without tensors */
    }
    return gguf_place_tensors(g, r->data + g->data_offset, r->size - g->data_offset,
                              err);
}

enum b2_status gguf_parse(struct gguf *g, const void *data, size_t size,
                          struct b2_err *err)
{
    struct rd r = rd_make(data, size);
    /* Tables take a small multiple of the bytes that describe them (see the minimum
     * sizes above), so the file's own size bounds them. */
    size_t max = size < SIZE_MAX / 32 ? size * 16 + ((size_t)1 << 20) : SIZE_MAX / 2;

    *g = (struct gguf){0};
    if (size == 0)
        return err_set(err, B2_ETRUNC, "the file is empty");
    g->arena = arena_new(max);
    g->meta = meta_new(max);
    enum b2_status rc = g->arena && g->meta ? parse(g, &r, err)
                                            : err_set(err, B2_ENOMEM, "out of memory");
    if (rc)
        gguf_close(g);
    return rc;
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    meta_free(g->meta);
    arena_free(g->arena);
    *g = (struct gguf){0};
}
