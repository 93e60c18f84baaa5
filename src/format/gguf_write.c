/*
 * gguf_write.c - writes GGUF version 3 or 2, one tensor after the other.
 *
 * The layout is the canonical one: keys in the order of the meta, tensors in declared
 * order, each padded to the alignment, the last one too. A canonical file that is read
 * and written again keeps every byte.
 */
#include "base/mem.h"
#include "base/reader.h"
#include "base/str.h"
#include "format/gguf_int.h"
#include "format/out_list.h"

#include <string.h>

struct gguf_out {
    struct file_out *file;
    const struct meta *meta;
    uint64_t align;
    uint32_t version;
    struct out_list list;
};

enum b2_status gguf_out_open(struct gguf_out **out, const char *path, bool force,
                             const struct meta *meta, struct b2_err *err)
{
    struct gguf_out *o = mem_calloc(1, sizeof *o);

    if (!o)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path ? path : "GGUF");
    o->meta = meta;
    o->version = GGUF_VERSION;
    enum b2_status rc = gguf_alignment(meta, &o->align, err);
    if (rc)
        err_wrap(err, "%s", path ? path : "GGUF");
    else if (path)
        rc = file_out_open(&o->file, path, force, err);
    if (rc) {
        gguf_out_abort(o);
        return rc;
    }
    *out = o;
    return B2_OK;
}

enum b2_status gguf_out_version(struct gguf_out *o, uint32_t version,
                                struct b2_err *err)
{
    if (version != 2 && version != GGUF_VERSION)
        return err_set(err, B2_EARG, "GGUF version %u is not written, only 2 and 3",
                       (unsigned)version);
    o->version = version;
    return B2_OK;
}

enum b2_status gguf_out_tensor(struct gguf_out *o, const char *name, enum dtype type,
                               int rank, const int64_t *ne, struct b2_err *err)
{
    if (dtype_info(type)->gguf_id < 0 || type == DT_Q2_0_G128 ||
        dtype_info(type)->flags & DTF_APART)
        return err_set(err, B2_EARG, "tensor %s: a GGUF cannot hold type %s", name,
                       dtype_info(type)->name);
    return out_list_add(&o->list, name, type, rank, ne, GGUF_NAME_MAX, err);
}

static void put32(struct str *s, uint32_t v)
{
    uint8_t b[4];

    le_put32(b, v);
    str_putn(s, b, sizeof b);
}

static void put64(struct str *s, uint64_t v)
{
    uint8_t b[8];

    le_put64(b, v);
    str_putn(s, b, sizeof b);
}

static void put_text(struct str *s, const char *text, size_t n)
{
    put64(s, n);
    str_putn(s, text, n);
}

static void put_key(struct str *s, const struct meta_kv *kv)
{
    enum meta_type type = kv->type == MT_ARR ? kv->elem : kv->type;

    put_text(s, kv->key, strlen(kv->key));
    put32(s, (uint32_t)kv->type);
    if (kv->type == MT_ARR) {
        put32(s, (uint32_t)kv->elem);
        put64(s, kv->n);
    }
    if (type != MT_STR) {
        str_putn(s, kv->v.raw, (size_t)kv->n * meta_type_bytes(type));
        return;
    }
    for (uint64_t i = 0; i < kv->n; i++)
        put_text(s, kv->v.strs[i].data, kv->v.strs[i].len);
}

/* Builds everything before the data, padded to the alignment. */
static enum b2_status build_header(const struct gguf_out *o, struct str *s,
                                   struct b2_err *err)
{
    uint64_t offset = 0;

    put32(s, GGUF_MAGIC);
    put32(s, o->version);
    put64(s, (uint64_t)o->list.n);
    put64(s, (uint64_t)meta_count(o->meta));
    for (int64_t i = 0; i < meta_count(o->meta); i++)
        put_key(s, meta_at(o->meta, i));
    for (int64_t i = 0; i < o->list.n; i++) {
        const struct tensor *t = &o->list.t[i];
        put_text(s, t->name, strlen(t->name));
        put32(s, (uint32_t)t->rank);
        for (int d = 0; d < t->rank; d++)
            put64(s, (uint64_t)t->ne[d]);
        put32(s, (uint32_t)dtype_info(t->type)->gguf_id);
        put64(s, offset);
        offset += align_up_u64(t->n_bytes, o->align);
    }
    while (!s->bad && s->len % o->align != 0)
        str_putn(s, "", 1); /* the terminator is the zero that is wanted */
    return str_ok(s) ? B2_OK : err_set(err, B2_ENOMEM, "header: out of memory");
}

enum b2_status gguf_out_size(struct gguf_out *o, uint64_t *out, struct b2_err *err)
{
    struct str s = {0};
    uint64_t data = 0;
    enum b2_status rc = out_list_bytes(&o->list, o->align, &data, err);

    if (rc == B2_OK)
        rc = build_header(o, &s, err);
    if (rc == B2_OK)
        *out = s.len + data;
    str_free(&s);
    return rc;
}

enum b2_status gguf_out_header(struct gguf_out *o, struct b2_err *err)
{
    struct str s = {0};
    uint64_t data = 0;
    enum b2_status rc = out_list_bytes(&o->list, o->align, &data, err);

    if (rc == B2_OK && o->list.header_done)
        rc = err_set(err, B2_EARG, "the header was written already");
    if (rc == B2_OK)
        rc = build_header(o, &s, err);
    if (rc == B2_OK)
        rc = file_out_write(o->file, s.data, s.len, err);
    if (rc == B2_OK)
        o->list.header_done = true;
    str_free(&s);
    return rc;
}

enum b2_status gguf_out_data(struct gguf_out *o, const void *data, size_t n,
                             struct b2_err *err)
{
    return out_list_data(&o->list, o->file, o->align, data, n, err);
}

enum b2_status gguf_out_finish(struct gguf_out *o, struct b2_err *err)
{
    enum b2_status rc = out_list_complete(&o->list, err);

    if (rc == B2_OK) {
        struct file_out *f = o->file;
        o->file = NULL;
        rc = file_out_commit(f, err);
    }
    gguf_out_abort(o);
    return rc;
}

void gguf_out_abort(struct gguf_out *o)
{
    if (!o)
        return;
    file_out_abort(o->file);
    out_list_free(&o->list);
    mem_free(o);
}
