/*
 * safetensors_write.c - writes one safetensors file, one tensor after the other.
 *
 * The header is padded with spaces to a multiple of 8, as the reference writer does, so
 * that F32 data lie aligned when all types are equally wide.
 */
#include "base/mem.h"
#include "base/reader.h"
#include "format/json.h"
#include "format/out_list.h"
#include "format/safetensors.h"

#include <inttypes.h>

struct safetensors_out {
    struct file_out *file;
    const struct meta *meta;
    struct out_list list;
};

enum { NAME_MAX_BYTES = 1024, HEADER_ALIGN = 8 };

enum b2_status safetensors_out_open(struct safetensors_out **out, const char *path,
                                    bool force, const struct meta *meta,
                                    struct b2_err *err)
{
    for (int64_t i = 0; meta && i < meta_count(meta); i++) {
        if (meta_at(meta, i)->type != MT_STR)
            return err_set(err, B2_EARG, "%s: metadata %s is not a string", path,
                           meta_at(meta, i)->key);
    }
    struct safetensors_out *o = mem_calloc(1, sizeof *o);
    if (!o)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    o->meta = meta;
    enum b2_status rc = file_out_open(&o->file, path, force, err);
    if (rc) {
        safetensors_out_abort(o);
        return rc;
    }
    *out = o;
    return B2_OK;
}

enum b2_status safetensors_out_tensor(struct safetensors_out *o, const char *name,
                                      enum dtype type, int rank, const int64_t *ne,
                                      struct b2_err *err)
{
    if (!safetensors_type_name(type))
        return err_set(err, B2_EUNSUP, "tensor %s: safetensors cannot hold type %s",
                       name, dtype_info(type)->name);
    return out_list_add(&o->list, name, type, rank, ne, NAME_MAX_BYTES, err);
}

static void put_metadata(struct str *s, const struct meta *meta)
{
    str_put(s, "{\"__metadata__\":{");
    if (!meta)
        str_put(s, "\"format\":\"pt\"");
    for (int64_t i = 0; meta && i < meta_count(meta); i++) {
        const struct meta_kv *kv = meta_at(meta, i);
        str_put(s, i ? "," : "");
        json_put_string(s, kv->key);
        str_put(s, ":");
        json_put_string(s, kv->v.strs->data);
    }
    str_put(s, "}");
}

/* Builds the length field and the JSON. */
static enum b2_status build_header(const struct safetensors_out *o, struct str *s,
                                   struct b2_err *err)
{
    uint64_t at = 0;
    uint8_t length[8] = {0};

    str_putn(s, length, sizeof length);
    put_metadata(s, o->meta);
    for (int64_t i = 0; i < o->list.n; i++) {
        const struct tensor *t = &o->list.t[i];
        str_put(s, ",");
        json_put_string(s, t->name);
        str_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_type_name(t->type));
        for (int d = t->rank - 1; d >= 0; d--)
            str_printf(s, "%" PRId64 "%s", t->ne[d], d ? "," : "");
        str_printf(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                   at + t->n_bytes);
        at += t->n_bytes;
    }
    str_put(s, "}");
    while (!s->bad && s->len % HEADER_ALIGN != 0)
        str_put(s, " ");
    if (!str_ok(s))
        return err_set(err, B2_ENOMEM, "header: out of memory");
    if (s->len - sizeof length > SAFETENSORS_HEADER_MAX)
        return err_set(err, B2_EARG, "the header would have more than %d bytes",
                       SAFETENSORS_HEADER_MAX);
    le_put64((uint8_t *)s->data, s->len - sizeof length);
    return B2_OK;
}

enum b2_status safetensors_out_size(struct safetensors_out *o, uint64_t *out,
                                    struct b2_err *err)
{
    struct str s = {0};
    uint64_t data = 0;
    enum b2_status rc = out_list_bytes(&o->list, 1, &data, err);

    if (rc == B2_OK)
        rc = build_header(o, &s, err);
    if (rc == B2_OK)
        *out = s.len + data;
    str_free(&s);
    return rc;
}

enum b2_status safetensors_out_header(struct safetensors_out *o, struct b2_err *err)
{
    struct str s = {0};
    uint64_t data = 0;
    enum b2_status rc = out_list_bytes(&o->list, 1, &data, err);

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

enum b2_status safetensors_out_data(struct safetensors_out *o, const void *data,
                                    size_t n, struct b2_err *err)
{
    return out_list_data(&o->list, o->file, 1, data, n, err);
}

enum b2_status safetensors_out_finish(struct safetensors_out *o, struct b2_err *err)
{
    enum b2_status rc = out_list_complete(&o->list, err);

    if (rc == B2_OK) {
        struct file_out *f = o->file;
        o->file = NULL;
        rc = file_out_commit(f, err);
    }
    safetensors_out_abort(o);
    return rc;
}

void safetensors_out_abort(struct safetensors_out *o)
{
    if (!o)
        return;
    file_out_abort(o->file);
    out_list_free(&o->list);
    mem_free(o);
}
