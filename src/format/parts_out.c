/*
 * parts_out.c - cuts declared tensors into files and hands each its bytes.
 */
#include "format/parts_out.h"

#include "base/mem.h"
#include "format/gguf_int.h"
#include "format/json.h"
#include "format/out_list.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_MAX_BYTES = 1024 }; /* the writers below have their own limits */

struct part {
    char *path;
    struct meta *meta; /* GGUF in several files: the keys of this one */
    struct gguf_out *gguf;
    struct safetensors_out *st;
    bool named; /* lies under its path */
};

struct parts_out {
    struct parts_params p;
    struct out_list list; /* all tensors */
    int *part_of;         /* [list.n] */
    struct part *part;
    int n;
    uint64_t align;
    bool headers_done;
    struct str index; /* text of the index file, when there are several shards */
    char *index_path; /* safetensors; of the index, written or not */
};

static const char *extension(enum parts_kind kind)
{
    return kind == PARTS_GGUF ? ".gguf" : ".safetensors";
}

void parts_name(struct str *s, enum parts_kind kind, const char *path, int i, int n)
{
    const char *ext = extension(kind);
    size_t len = strlen(path), tail = strlen(ext);

    if (n == 1) {
        str_put(s, path);
        return;
    }
    if (len > tail && strcmp(path + len - tail, ext) == 0)
        len -= tail;
    str_putn(s, path, len);
    str_printf(s, "-%05d-of-%05d%s", i + 1, n, ext);
}

enum b2_status parts_new(struct parts_out **out, const struct parts_params *p,
                         struct b2_err *err)
{
    struct parts_out *o = mem_calloc(1, sizeof *o);

    if (!o)
        return err_set(err, B2_ENOMEM, "%s: out of memory", p->path);
    o->p = *p;
    o->align = 1;
    *out = o;
    if (p->kind != PARTS_GGUF)
        return B2_OK;
    enum b2_status rc = gguf_alignment(p->meta, &o->align, err);
    if (rc) {
        err_wrap(err, "%s", p->path);
        parts_abort(o);
        *out = NULL;
    }
    return rc;
}

enum b2_status parts_tensor(struct parts_out *o, const char *name, enum dtype type,
                            int rank, const int64_t *ne, struct b2_err *err)
{
    return out_list_add(&o->list, name, type, rank, ne, NAME_MAX_BYTES, err);
}

/* ---- the cut ---- */

/* A tensor goes into the open file as long as it fits: the order is kept, and the
 * number of files is the least that keeps it. */
static enum b2_status cut(struct parts_out *o, struct b2_err *err)
{
    uint64_t used = 0, all = 0;
    enum b2_status rc = out_list_bytes(&o->list, o->align, &all, err); /* no overflow */

    if (rc)
        return rc;
    o->part_of = mem_calloc((size_t)o->list.n + 1, sizeof *o->part_of);
    if (!o->part_of)
        return err_set(err, B2_ENOMEM, "%s: out of memory", o->p.path);
    o->n = 1;
    for (int64_t i = 0; i < o->list.n; i++) {
        uint64_t bytes = align_up_u64(o->list.t[i].n_bytes, o->align);
        if (o->p.max_bytes > 0 && used > 0 && used + bytes > o->p.max_bytes) {
            o->n++;
            used = 0;
        }
        if (o->n > PARTS_MAX)
            return err_set(err, B2_EARG,
                           "%s: parts of %" PRIu64 " bytes would be more than %d; "
                           "allow larger ones",
                           o->p.path, o->p.max_bytes, PARTS_MAX);
        used += bytes;
        o->part_of[i] = o->n - 1;
    }
    return B2_OK;
}

/* ---- one file ---- */

static enum b2_status set_scalar(struct meta *m, const char *key, enum meta_type type,
                                 const void *v, struct b2_err *err)
{
    const struct meta_kv kv = {.key = key, .type = type, .n = 1, .v.raw = v};

    return meta_copy(m, &kv, err);
}

/* The keys of a split file, with the types that llama.cpp asks for. */
static enum b2_status split_meta(const struct parts_out *o, int i, struct meta **out,
                                 struct b2_err *err)
{
    const struct meta *from = o->p.meta;
    const struct meta_kv *align = meta_find(from, "general.alignment");
    const uint16_t no = (uint16_t)i, count = (uint16_t)o->n;
    const int32_t tensors = (int32_t)o->list.n;
    enum b2_status rc = B2_OK;
    struct meta *m = meta_new(SIZE_MAX / 2);

    *out = m;
    if (!m)
        return err_set(err, B2_ENOMEM, "%s: out of memory", o->p.path);
    for (int64_t k = 0; !rc && i == 0 && k < meta_count(from); k++)
        rc = meta_copy(m, meta_at(from, k), err);
    if (!rc && i > 0 && align)
        rc = meta_copy(m, align, err);
    if (!rc)
        rc = set_scalar(m, "split.no", MT_U16, &no, err);
    if (!rc)
        rc = set_scalar(m, "split.count", MT_U16, &count, err);
    if (!rc)
        rc = set_scalar(m, "split.tensors.count", MT_I32, &tensors, err);
    return rc;
}

static enum b2_status open_gguf(struct parts_out *o, int i, struct b2_err *err)
{
    struct part *part = &o->part[i];
    enum b2_status rc = o->n > 1 ? split_meta(o, i, &part->meta, err) : B2_OK;

    if (!rc)
        rc = gguf_out_open(&part->gguf, part->path, o->p.force,
                           o->n > 1 ? part->meta : o->p.meta, err);
    return rc ? rc : gguf_out_version(part->gguf, o->p.version, err);
}

static enum b2_status open_part(struct parts_out *o, int i, uint64_t *n_bytes,
                                struct b2_err *err)
{
    struct part *part = &o->part[i];
    uint64_t size = 0;
    enum b2_status rc =
        o->p.kind == PARTS_GGUF
            ? open_gguf(o, i, err)
            : safetensors_out_open(&part->st, part->path, o->p.force, NULL, err);

    for (int64_t k = 0; !rc && k < o->list.n; k++) {
        const struct tensor *t = &o->list.t[k];
        if (o->part_of[k] != i)
            continue;
        rc = part->gguf
                 ? gguf_out_tensor(part->gguf, t->name, t->type, t->rank, t->ne, err)
                 : safetensors_out_tensor(part->st, t->name, t->type, t->rank, t->ne,
                                          err);
    }
    if (!rc)
        rc = part->gguf ? gguf_out_size(part->gguf, &size, err)
                        : safetensors_out_size(part->st, &size, err);
    *n_bytes += size;
    return rc;
}

/* ---- all files ---- */

static enum b2_status take(struct str *s, char **out, struct b2_err *err)
{
    bool ok = str_ok(s);

    *out = ok ? s->data : NULL;
    if (!ok)
        str_free(s);
    return ok ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

/* Refuses an existing file, and in every case a file of the source. */
static enum b2_status check_path(const struct parts_out *o, const char *path,
                                 struct b2_err *err)
{
    const struct modelfile *from = o->p.source;
    enum b2_status rc = B2_OK;

    for (int i = 0; !rc && from && i < modelfile_n_parts(from); i++)
        rc = file_check_output(path, modelfile_part_path(from, i), true, err);
    return rc ? rc : file_check_output(path, NULL, o->p.force, err);
}

/* Names all files and refuses what lies there already, before any is begun. */
static enum b2_status name_all(struct parts_out *o, struct b2_err *err)
{
    struct str s = {0};
    enum b2_status rc = B2_OK;

    o->part = mem_calloc((size_t)o->n, sizeof *o->part);
    if (!o->part)
        return err_set(err, B2_ENOMEM, "%s: out of memory", o->p.path);
    for (int i = 0; !rc && i < o->n; i++) {
        s = (struct str){0};
        parts_name(&s, o->p.kind, o->p.path, i, o->n);
        rc = take(&s, &o->part[i].path, err);
        if (!rc)
            rc = check_path(o, o->part[i].path, err);
    }
    if (rc || o->p.kind == PARTS_GGUF)
        return rc;
    s = (struct str){0};
    str_printf(&s, "%s.index.json", o->p.path);
    rc = take(&s, &o->index_path, err);
    if (!rc)
        rc = check_path(o, o->index_path, err);
    return rc ? rc : check_path(o, o->p.path, err);
}

/* {"metadata": {"total_size": N}, "weight_map": {"NAME": "FILE", …}} */
static enum b2_status make_index(struct parts_out *o, struct b2_err *err)
{
    struct str *s = &o->index;
    uint64_t total = 0;
    enum b2_status rc = out_list_bytes(&o->list, 1, &total, err);

    str_printf(s, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n",
               total);
    str_put(s, "  \"weight_map\": {\n");
    for (int64_t i = 0; i < o->list.n; i++) {
        const char *path = o->part[o->part_of[i]].path, *slash = strrchr(path, '/');
        str_put(s, "    ");
        json_put_string(s, o->list.t[i].name);
        str_put(s, ": ");
        json_put_string(s, slash ? slash + 1 : path);
        str_put(s, i + 1 < o->list.n ? ",\n" : "\n");
    }
    str_put(s, "  }\n}\n");
    if (!rc && !str_ok(s))
        rc = err_set(err, B2_ENOMEM, "%s: out of memory", o->index_path);
    return rc;
}

enum b2_status parts_start(struct parts_out *o, int *n_files, uint64_t *n_bytes,
                           struct b2_err *err)
{
    enum b2_status rc = cut(o, err);

    *n_bytes = 0;
    if (!rc)
        rc = name_all(o, err);
    for (int i = 0; !rc && i < o->n; i++)
        rc = open_part(o, i, n_bytes, err);
    if (!rc && o->n > 1 && o->p.kind == PARTS_SAFETENSORS)
        rc = make_index(o, err);
    *n_bytes += o->index.len;
    *n_files = o->n;
    return rc;
}

static enum b2_status write_headers(struct parts_out *o, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = 0; !rc && !o->headers_done && i < o->n; i++)
        rc = o->part[i].gguf ? gguf_out_header(o->part[i].gguf, err)
                             : safetensors_out_header(o->part[i].st, err);
    o->headers_done = o->headers_done || !rc;
    return rc;
}

enum b2_status parts_data(struct parts_out *o, const void *data, size_t n,
                          struct b2_err *err)
{
    struct out_list *l = &o->list;
    enum b2_status rc = write_headers(o, err);

    while (l->now < l->n && l->t[l->now].n_bytes == 0) /* has no bytes to wait for */
        l->now++;
    if (rc || n == 0)
        return rc;
    if (l->now == l->n)
        return err_set(err, B2_EARG, "%zu bytes more than the tensors declare", n);
    struct part *part = &o->part[o->part_of[l->now]];
    rc = part->gguf ? gguf_out_data(part->gguf, data, n, err)
                    : safetensors_out_data(part->st, data, n, err);
    if (rc)
        return rc;
    l->done += n;
    if (l->done == l->t[l->now].n_bytes) {
        l->now++;
        l->done = 0;
    }
    return B2_OK;
}

/* ---- the end ---- */

static enum b2_status finish_part(struct part *part, struct b2_err *err)
{
    struct gguf_out *gguf = part->gguf;
    struct safetensors_out *st = part->st;

    part->gguf = NULL; /* finish frees them in every case */
    part->st = NULL;
    enum b2_status rc =
        gguf ? gguf_out_finish(gguf, err) : safetensors_out_finish(st, err);
    part->named = !rc;
    return rc;
}

/* Of a folder's two forms readers take the one file; the other must not stay. */
static enum b2_status drop_other_form(const struct parts_out *o, struct b2_err *err)
{
    const char *other = o->n > 1 ? o->p.path : o->index_path;

    if (o->p.kind == PARTS_GGUF || !file_exists(other))
        return B2_OK;
    return file_remove(other, err);
}

enum b2_status parts_finish(struct parts_out *o, struct b2_err *err)
{
    enum b2_status rc = write_headers(o, err);

    for (int i = o->n - 1; !rc && i >= 0; i--)
        rc = finish_part(&o->part[i], err);
    if (!rc && o->index.len > 0)
        rc =
            file_write_all(o->index_path, o->index.data, o->index.len, o->p.force, err);
    if (!rc)
        rc = drop_other_form(o, err);
    for (int i = 0; !rc && i < o->n; i++)
        o->part[i].named = false; /* they stay */
    parts_abort(o);
    return rc;
}

void parts_abort(struct parts_out *o)
{
    if (!o)
        return;
    for (int i = 0; o->part && i < o->n; i++) {
        struct part *part = &o->part[i];
        gguf_out_abort(part->gguf);
        safetensors_out_abort(part->st);
        if (part->named && file_remove(part->path, NULL))
            part->named = false; /* best effort: the failure before it is the news */
        meta_free(part->meta);
        mem_free(part->path);
    }
    mem_free(o->part);
    mem_free(o->part_of);
    mem_free(o->index_path);
    str_free(&o->index);
    out_list_free(&o->list);
    mem_free(o);
}
