/*
 * modelfile.c - one face for all containers: look-up, loading, fingerprints.
 */
#include "format/modelfile.h"

#include "base/mem.h"
#include "base/reader.h"
#include "format/hash.h"
#include "format/modelfile_int.h"
#include "format/zeros.h"
#include "tensor/quant.h"

#include <inttypes.h>
#include <string.h>

enum { HASH_PIECE = 8 << 20 };

enum b2_status mf_add_part(struct modelfile *mf, const char *path,
                           struct mf_part **part, struct b2_err *err)
{
    if (mf->n_parts == mf->cap_parts) {
        int cap = mf->cap_parts ? mf->cap_parts * 2 : 8;
        struct mf_part *p = mem_realloc(mf->parts, (size_t)cap, sizeof *p);
        if (!p)
            return err_set(err, B2_ENOMEM, "out of memory");
        mf->parts = p;
        mf->cap_parts = cap;
    }
    struct mf_part *p = &mf->parts[mf->n_parts];
    *p = (struct mf_part){.path = arena_strdup(mf->arena, path)};
    if (!p->path)
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = file_map(&p->map, path, err);
    if (rc)
        return rc;
    mf->n_parts++;
    *part = p;
    return B2_OK;
}

enum b2_status mf_add_entry(struct modelfile *mf, const struct mf_entry *e,
                            struct b2_err *err)
{
    if (mf->n == mf->cap) {
        int64_t cap = mf->cap ? mf->cap * 2 : 64;
        struct mf_entry *p = mem_realloc(mf->entry, (size_t)cap, sizeof *p);
        if (!p)
            return err_set(err, B2_ENOMEM, "out of memory");
        mf->entry = p;
        mf->cap = cap;
    }
    char show[NAMES_SHOW_MAX];
    switch (names_add(&mf->names, e->t.name)) {
    case NAMES_ADDED:
        break;
    case NAMES_EXISTS:
        return err_set(err, B2_EFORMAT, "tensor %s appears twice",
                       names_show(show, e->t.name, strlen(e->t.name)));
    case NAMES_ENOMEM:
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    mf->entry[mf->n++] = *e;
    return B2_OK;
}

/* A safetensors file that has another name: a plausible header length, then JSON. */
static bool looks_like_safetensors(const char *path, const struct file_map *map)
{
    static const char ext[] = ".safetensors";
    size_t n = strlen(path), m = sizeof ext - 1;

    if (n >= m && strcmp(path + n - m, ext) == 0)
        return map->size < 4 || memcmp(map->data, "GGUF", 4) != 0;
    return map->size > 8 && map->data[8] == '{' && le_get64(map->data) <= map->size - 8;
}

static enum b2_status open_any(struct modelfile *mf, struct b2_err *err)
{
    struct mf_part *part;

    if (file_is_dir(mf->path)) {
        mf->kind = MF_FOLDER;
        return mf_open_folder(mf, err);
    }
    enum b2_status rc = mf_add_part(mf, mf->path, &part, err);
    if (rc)
        return rc;
    if (looks_like_safetensors(mf->path, &mf->parts[0].map)) {
        mf->kind = MF_SAFETENSORS;
        rc = mf_open_safetensors(mf, err);
    } else {
        mf->kind = MF_GGUF;
        rc = mf_open_gguf(mf, err);
        if (rc == B2_OK)
            rc = mf_apply_zeros(mf, err);
        if (rc == B2_OK)
            rc = mf_apply_tail(mf, err);
        if (rc == B2_OK)
            rc = mf_check_private(mf, err);
    }
    if (rc)
        err_wrap(err, "%s", mf->path);
    return rc;
}

enum b2_status modelfile_open(struct modelfile **out, const char *path,
                              const struct log *log, struct b2_err *err)
{
    struct modelfile *mf = mem_calloc(1, sizeof *mf);

    if (!mf)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    mf->log = log;
    mf->arena = arena_new(SIZE_MAX / 2); /* bounded by the headers that fill it */
    mf->path = mf->arena ? arena_strdup(mf->arena, path) : NULL;
    enum b2_status rc = mf->path ? open_any(mf, err)
                                 : err_set(err, B2_ENOMEM, "%s: out of memory", path);
    if (rc) {
        modelfile_close(mf);
        return rc;
    }
    *out = mf;
    return B2_OK;
}

void modelfile_close(struct modelfile *mf)
{
    if (!mf)
        return;
    for (int64_t i = 0; i < mf->n; i++)
        mem_free(mf->entry[i].owned);
    if (mf->owns_meta)
        meta_free(mf->meta);
    for (int i = 0; i < mf->n_parts; i++) {
        gguf_close(&mf->parts[i].gguf);
        file_unmap(&mf->parts[i].map);
    }
    mem_free(mf->entry);
    mem_free(mf->parts);
    names_free(&mf->names);
    arena_free(mf->arena);
    mem_free(mf);
}

enum modelfile_kind modelfile_kind(const struct modelfile *mf)
{
    return mf->kind;
}

const char *modelfile_path(const struct modelfile *mf)
{
    return mf->path;
}

int modelfile_n_parts(const struct modelfile *mf)
{
    return mf->n_parts;
}

const char *modelfile_part_path(const struct modelfile *mf, int i)
{
    return mf->parts[i].path;
}

const struct meta *modelfile_meta(const struct modelfile *mf)
{
    return mf->meta;
}

uint64_t modelfile_bytes(const struct modelfile *mf)
{
    uint64_t total = 0;

    for (int i = 0; i < mf->n_parts; i++)
        total += mf->parts[i].map.size;
    return total;
}

void modelfile_warm(const struct modelfile *mf)
{
    for (int i = 0; i < mf->n_parts; i++)
        file_map_warm(&mf->parts[i].map, 0, mf->parts[i].map.size);
}

int64_t modelfile_n_tensors(const struct modelfile *mf)
{
    return mf->n;
}

const struct tensor *modelfile_tensor(const struct modelfile *mf, int64_t i)
{
    return &mf->entry[i].t;
}

int64_t modelfile_find(const struct modelfile *mf, const char *name)
{
    return names_find(&mf->names, name);
}

enum b2_status mf_find_named(const struct modelfile *mf, const char *key,
                             const struct meta_str *name, int64_t *i,
                             char shown[NAMES_SHOW_MAX], struct b2_err *err)
{
    names_show(shown, name->data, name->len);
    *i = strlen(name->data) == name->len ? names_find(&mf->names, name->data) : -1;
    if (*i < 0)
        return err_set(err, B2_EFORMAT,
                       "key %s has %s, but the file has no such tensor", key, shown);
    return B2_OK;
}

/* Rows of each head of n rows: row 2i comes from row i, row 2i+1 from row i + n/2. This
 * is what llama.cpp's converter does to the q and k of Llama models, so that rotary
 * pairs lie side by side. */
static void permute_rows(uint8_t *dst, const struct mf_entry *e)
{
    size_t row = (size_t)(e->t.n_bytes / (uint64_t)tensor_rows(&e->t));
    int64_t per_head = tensor_rows(&e->t) / e->n_heads;

    for (int64_t r = 0; r < tensor_rows(&e->t); r++) {
        int64_t in = r % per_head;
        int64_t from = r - in + in / 2 + (in % 2) * (per_head / 2);
        memcpy(dst + (size_t)r * row, e->src + (size_t)from * row, row);
    }
}

/* The sum is taken in F32, as llama.cpp's converter does. */
static void add_one(uint8_t *dst, const struct mf_entry *e)
{
    float *y = (float *)(void *)dst; /* aligned to 64 */
    int64_t n = tensor_count(&e->t);

    quant_decode_row(e->src_type, y, e->src, n);
    for (int64_t i = 0; i < n; i++)
        y[i] += 1.0f;
}

/* Bytes of the entry in its file. */
static uint64_t bytes_in_file(const struct mf_entry *e)
{
    if (e->how == MF_ZEROS)
        return e->src_bytes;
    if (e->how != MF_PLUS_ONE && e->how != MF_REGROUP)
        return e->t.n_bytes;
    return (uint64_t)tensor_count(&e->t) * (uint64_t)dtype_info(e->src_type)->bytes;
}

enum b2_status modelfile_load(struct modelfile *mf, int64_t i, struct b2_err *err)
{
    struct mf_entry *e = &mf->entry[i];

    if (e->how == MF_IN_PLACE || e->how == MF_MADE || e->owned)
        return B2_OK;
    e->owned = mem_aligned(64, (size_t)e->t.n_bytes, 1);
    if (!e->owned)
        return err_set(err, B2_ENOMEM, "tensor %s: out of memory (%" PRIu64 " bytes)",
                       e->t.name, e->t.n_bytes);
    if (e->how == MF_PERMUTE && e->t.n_bytes > 0)
        permute_rows(e->owned, e);
    else if (e->how == MF_PLUS_ONE)
        add_one(e->owned, e);
    else if (e->how == MF_REGROUP)
        mf_delta_load(e->owned, e);
    else if (e->how == MF_JOINED)
        mf_join_load(e->owned, e);
    else if (e->how == MF_ZEROS) {
        mf_zeros_load(e->owned, e);
        file_map_drop(&mf->parts[e->part].map, e->offset, e->src_bytes);
    } else if (e->t.n_bytes > 0)
        memcpy(e->owned, e->src, (size_t)e->t.n_bytes);
    e->t.data = e->owned;
    return B2_OK;
}

void modelfile_unload(struct modelfile *mf, int64_t i)
{
    struct mf_entry *e = &mf->entry[i];

    if (e->owned) {
        mem_free(e->owned);
        e->owned = NULL;
        e->t.data = NULL;
    }
    if (e->part >= 0)
        file_map_drop(&mf->parts[e->part].map, e->offset, bytes_in_file(e));
}

void modelfile_drop(const struct modelfile *mf, const uint8_t *p, uint64_t n)
{
    for (int i = 0; i < mf->n_parts; i++) {
        const struct file_map *map = &mf->parts[i].map;
        if (map->data && (uintptr_t)p >= (uintptr_t)map->data &&
            (uintptr_t)p - (uintptr_t)map->data < map->size)
            file_map_drop(map, (uintptr_t)p - (uintptr_t)map->data, n);
    }
}

uint64_t modelfile_stored_bytes(const struct modelfile *mf, int64_t i)
{
    const struct mf_entry *e = &mf->entry[i];
    const int64_t blocks = e->t.ne[0] / dtype_info(e->t.type)->block;

    return e->how == MF_ZEROS
               ? e->src_bytes + (uint64_t)tensor_rows(&e->t) * zeros_mark_bytes(blocks)
               : bytes_in_file(e);
}

int64_t modelfile_left_out(const struct modelfile *mf, int64_t i)
{
    const struct mf_entry *e = &mf->entry[i];

    return e->how == MF_ZEROS ? (int64_t)((e->t.n_bytes - e->src_bytes) /
                                          (uint64_t)dtype_info(e->t.type)->bytes)
                              : 0;
}

uint64_t modelfile_load_bytes(const struct modelfile *mf, int64_t i)
{
    const struct mf_entry *e = &mf->entry[i];

    return e->how == MF_IN_PLACE || e->how == MF_MADE ? 0 : e->t.n_bytes;
}

/* Sums the first n(part) bytes of each part; pages are given back as we go, so that a
 * file larger than memory does not push everything else out. */
static enum b2_status sum_parts(const struct modelfile *mf, bool heads_only,
                                char hex[65], struct b2_err *err)
{
    struct hash *h = NULL;
    enum b2_status rc = hash_new(&h, err);

    for (int i = 0; rc == B2_OK && i < mf->n_parts; i++) {
        const struct mf_part *p = &mf->parts[i];
        uint64_t n = heads_only && p->head < p->map.size ? p->head : p->map.size;
        for (uint64_t at = 0; rc == B2_OK && at < n; at += HASH_PIECE) {
            uint64_t piece = n - at < HASH_PIECE ? n - at : HASH_PIECE;
            rc = hash_add(h, p->map.data + at, (size_t)piece, err);
            if (!heads_only)
                file_map_drop(&p->map, at, piece);
        }
    }
    if (rc == B2_OK)
        rc = hash_hex(h, hex, err);
    hash_free(h);
    return rc;
}

enum b2_status modelfile_fingerprint(const struct modelfile *mf, char hex[65],
                                     struct b2_err *err)
{
    return sum_parts(mf, true, hex, err);
}

enum b2_status modelfile_sample(const struct modelfile *mf, char hex[65],
                                struct b2_err *err)
{
    const uint64_t pieces = 1024, piece = 64;
    struct hash *h = NULL;
    enum b2_status rc = hash_new(&h, err);

    for (int i = 0; rc == B2_OK && i < mf->n_parts; i++) {
        const struct mf_part *p = &mf->parts[i];
        uint64_t from = p->head < p->map.size ? p->head : p->map.size;
        uint64_t n = p->map.size - from;
        uint64_t step = n / pieces > piece ? n / pieces : piece;
        for (uint64_t at = 0; rc == B2_OK && at < n; at += step)
            rc = hash_add(h, p->map.data + from + at,
                          (size_t)(n - at < piece ? n - at : piece), err);
    }
    if (rc == B2_OK)
        rc = hash_hex(h, hex, err);
    hash_free(h);
    return rc;
}

enum b2_status modelfile_sha256(const struct modelfile *mf, char hex[65],
                                struct b2_err *err)
{
    return sum_parts(mf, false, hex, err);
}
