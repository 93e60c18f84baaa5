/*
 * safetensors_read.c - u64 header length, JSON header, data.
 *
 * The spans of the tensors must cover the data exactly: in the order of their begins,
 * each starts where the one before ends, and the last ends with the file.
 */
#include "base/mem.h"
#include "base/reader.h"
#include "format/gguf_int.h"
#include "format/json.h"
#include "format/names.h"
#include "format/safetensors.h"
#include "format/sniff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum dtype type;
} types[] = {
    {"F64", DT_F64},   {"F32", DT_F32},         {"F16", DT_F16},
    {"BF16", DT_BF16}, {"I64", DT_I64},         {"I32", DT_I32},
    {"I16", DT_I16},   {"I8", DT_I8},           {"U8", DT_U8},
    {"BOOL", DT_BOOL}, {"F8_E4M3", DT_F8_E4M3}, {"F8_E5M2", DT_F8_E5M2},
};

const char *safetensors_type_name(enum dtype t)
{
    for (size_t i = 0; i < countof(types); i++) {
        if (types[i].type == t)
            return types[i].name;
    }
    return NULL;
}

static enum b2_status read_dtype(enum dtype *out, const cJSON *item, struct b2_err *err)
{
    char show[NAMES_SHOW_MAX];

    if (!cJSON_IsString(item))
        return err_set(err, B2_EFORMAT, "dtype is missing or not a string");
    for (size_t i = 0; i < countof(types); i++) {
        if (strcmp(types[i].name, item->valuestring) == 0) {
            *out = types[i].type;
            return B2_OK;
        }
    }
    return err_set(
        err, B2_EUNSUP,
        "unsupported dtype %s (supported: F64, F32, F16, BF16, I64, I32, I16, "
        "I8, U8, BOOL, F8_E4M3, F8_E5M2)",
        names_show(show, item->valuestring, strlen(item->valuestring)));
}

enum { FILE_MAX_RANK = 8 };

/* shape [a, b, c] becomes ne = {c, b, a, 1}; [] is one element. What a file has beyond
 * our four dimensions (filters over time and space of vision models) is multiplied into
 * the slowest. */
static enum b2_status read_shape(struct tensor *t, const cJSON *item,
                                 struct b2_err *err)
{
    if (!cJSON_IsArray(item))
        return err_set(err, B2_EFORMAT, "shape is missing or not an array");
    int rank = cJSON_GetArraySize(item);
    if (rank > FILE_MAX_RANK)
        return err_set(err, B2_EUNSUP, "%d dimensions, at most %d are supported", rank,
                       FILE_MAX_RANK);
    t->rank = rank < TENSOR_MAX_RANK ? rank : TENSOR_MAX_RANK;
    for (int d = 0; d < TENSOR_MAX_RANK; d++)
        t->ne[d] = 1;
    const cJSON *dim;
    cJSON_ArrayForEach(dim, item)
    {
        uint64_t v;
        int at = --rank < TENSOR_MAX_RANK ? rank : TENSOR_MAX_RANK - 1;
        if (!json_get_u64(dim, &v))
            return err_set(err, B2_EFORMAT,
                           "shape has a dimension that is not a whole "
                           "number");
        if (!mul_u64(&v, v, (uint64_t)t->ne[at]) || v > INT64_MAX)
            return err_set(err, B2_EFORMAT, "too many elements");
        t->ne[at] = (int64_t)v;
    }
    return gguf_check_shape(t, err);
}

static enum b2_status read_offsets(uint64_t span[2], const struct tensor *t,
                                   const cJSON *item, struct b2_err *err)
{
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 ||
        !json_get_u64(item->child, &span[0]) ||
        !json_get_u64(item->child->next, &span[1]))
        return err_set(err, B2_EFORMAT, "data_offsets is not [begin, end]");
    if (span[1] < span[0] || span[1] - span[0] != t->n_bytes)
        return err_set(err, B2_EFORMAT,
                       "data_offsets [%" PRIu64 ", %" PRIu64
                       "] do not match dtype and shape, which take %" PRIu64 " bytes",
                       span[0], span[1], t->n_bytes);
    return B2_OK;
}

/* A tensor with the place that the header gives it, before sorting. */
struct placed {
    struct tensor t;
    uint64_t begin;
    int64_t order;
};

static enum b2_status read_entry(struct safetensors *s, struct placed *p,
                                 const cJSON *item, struct b2_err *err)
{
    char show[NAMES_SHOW_MAX];
    uint64_t span[2] = {0, 0};
    enum b2_status rc;

    if (!cJSON_IsObject(item))
        rc = err_set(err, B2_EFORMAT, "is not an object");
    else
        rc = read_dtype(&p->t.type, cJSON_GetObjectItemCaseSensitive(item, "dtype"),
                        err);
    if (rc == B2_OK)
        rc = read_shape(&p->t, cJSON_GetObjectItemCaseSensitive(item, "shape"), err);
    if (rc == B2_OK)
        rc = read_offsets(span, &p->t,
                          cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), err);
    if (rc == B2_OK) {
        p->begin = span[0];
        p->t.name = arena_strdup(s->arena, item->string);
        if (!p->t.name)
            rc = err_set(err, B2_ENOMEM, "out of memory");
    }
    if (rc)
        err_wrap(err, "tensor %s",
                 names_show(show, item->string, strlen(item->string)));
    return rc;
}

static enum b2_status read_metadata(struct safetensors *s, const cJSON *item,
                                    struct b2_err *err)
{
    const cJSON *kv;

    if (!cJSON_IsObject(item))
        return err_set(err, B2_EFORMAT, "__metadata__ is not an object");
    cJSON_ArrayForEach(kv, item)
    {
        if (!cJSON_IsString(kv))
            return err_set(err, B2_EFORMAT,
                           "__metadata__ has a value that is not a "
                           "string");
        if (meta_find(s->meta, kv->string))
            return err_set(err, B2_EFORMAT, "__metadata__ has a key twice");
        enum b2_status rc = meta_set_str(s->meta, kv->string, kv->valuestring, err);
        if (rc)
            return rc;
    }
    return B2_OK;
}

static int by_begin(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if ((x->t.n_bytes == 0) != (y->t.n_bytes == 0)) /* empty ones lie before */
        return x->t.n_bytes == 0 ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Checks the spans in order against each other and the data that are present. */
static enum b2_status place(struct safetensors *s, const struct placed *p,
                            const uint8_t *data, uint64_t present, struct b2_err *err)
{
    char show[NAMES_SHOW_MAX];
    uint64_t end = 0;

    for (int64_t i = 0; i < s->n_tensors; i++) {
        const struct tensor *t = &p[i].t;
        names_show(show, t->name, strlen(t->name));
        if (p[i].begin < end)
            return err_set(err, B2_EFORMAT,
                           "tensor %s: begins at %" PRIu64
                           ", inside another tensor that "
                           "ends at %" PRIu64,
                           show, p[i].begin, end);
        if (p[i].begin > end)
            return err_set(err, B2_EFORMAT,
                           "tensor %s: a hole of %" PRIu64 " bytes lies before it",
                           show, p[i].begin - end);
        end += t->n_bytes; /* <= 2^53 + 2^63: cannot wrap */
        if (end > present)
            return err_set(err, B2_ETRUNC,
                           "tensor %s: the file is cut: needed %" PRIu64 " bytes, "
                           "present %" PRIu64,
                           show, t->n_bytes, present - p[i].begin);
        s->tensors[i] = *t;
        s->tensors[i].data = data + p[i].begin;
        s->offsets[i] = s->data_offset + p[i].begin;
    }
    if (end != present)
        return err_set(err, B2_EFORMAT,
                       "%" PRIu64 " bytes after the last tensor belong to none",
                       present - end);
    return B2_OK;
}

/* Reads all entries of the header into p[0..n). */
static enum b2_status read_entries(struct safetensors *s, struct placed *p,
                                   const cJSON *root, struct b2_err *err)
{
    struct names seen = {0};
    enum b2_status rc = B2_OK;
    char show[NAMES_SHOW_MAX];
    const cJSON *item;

    cJSON_ArrayForEach(item, root)
    {
        enum names_result added = names_add(&seen, item->string);
        if (added == NAMES_ENOMEM) {
            rc = err_set(err, B2_ENOMEM, "out of memory");
        } else if (added == NAMES_EXISTS) {
            rc = err_set(err, B2_EFORMAT, "tensor %s appears twice",
                         names_show(show, item->string, strlen(item->string)));
        } else if (strcmp(item->string, "__metadata__") == 0) {
            rc = read_metadata(s, item, err);
        } else {
            p[s->n_tensors].order = s->n_tensors;
            rc = read_entry(s, &p[s->n_tensors], item, err);
            s->n_tensors++;
        }
        if (rc)
            break;
    }
    names_free(&seen);
    return rc;
}

static enum b2_status parse_header(struct safetensors *s, const char *text, size_t n,
                                   const uint8_t *data, uint64_t present,
                                   struct b2_err *err)
{
    cJSON *root = NULL;
    struct placed *p = NULL;
    /* The densest real entry spends some seven bytes per value. */
    enum b2_status rc = json_parse_bounded(&root, text, n, 1024 + n / 4, err);

    if (rc) {
        err_wrap(err, "header");
        return rc;
    }
    if (!cJSON_IsObject(root)) {
        rc = err_set(err, B2_EFORMAT, "the header is not a JSON object");
        goto done;
    }
    size_t n_items = (size_t)cJSON_GetArraySize(root);
    p = mem_calloc(n_items, sizeof *p);
    s->tensors = arena_calloc(s->arena, n_items, sizeof *s->tensors);
    s->offsets = arena_calloc(s->arena, n_items, sizeof *s->offsets);
    if (!p || !s->tensors || !s->offsets) {
        rc = err_set(err, B2_ENOMEM, "out of memory");
        goto done;
    }
    rc = read_entries(s, p, root, err);
    if (rc)
        goto done;
    if (s->n_tensors > 1)
        qsort(p, (size_t)s->n_tensors, sizeof *p, by_begin);
    rc = place(s, p, data, present, err);
done:
    mem_free(p);
    cJSON_Delete(root);
    return rc;
}

static enum b2_status parse(struct safetensors *s, struct rd *r, struct b2_err *err)
{
    const char *mistake = sniff_mistake(r->data, r->size);
    uint64_t n = rd_u64(r);

    if (mistake)
        return err_set(err, B2_EFORMAT, "%s", mistake);
    if (!r->ok)
        return err_set(err, B2_ETRUNC,
                       "the file has only %zu bytes, too few for a safetensors header",
                       r->size);
    if (n == 0 || n > SAFETENSORS_HEADER_MAX)
        return err_set(err, B2_EFORMAT,
                       "header length is %" PRIu64 ", expected 1 to %d", n,
                       SAFETENSORS_HEADER_MAX);
    if (n > rd_left(r))
        return err_set(err, B2_ETRUNC,
                       "header length is %" PRIu64 ", but only %zu bytes are present",
                       n, rd_left(r));
    const char *text = (const char *)rd_bytes(r, n);
    s->data_offset = r->pos;
    return parse_header(s, text, (size_t)n, r->data + r->pos, rd_left(r), err);
}

enum b2_status safetensors_parse(struct safetensors *s, const void *data, size_t size,
                                 struct b2_err *err)
{
    struct rd r = rd_make(data, size);
    size_t max = SIZE_MAX / 2; /* the length of the header bounds all tables */

    *s = (struct safetensors){0};
    if (size == 0)
        return err_set(err, B2_ETRUNC, "the file is empty");
    s->arena = arena_new(max);
    s->meta = meta_new(max);
    enum b2_status rc = s->arena && s->meta ? parse(s, &r, err)
                                            : err_set(err, B2_ENOMEM, "out of memory");
    if (rc)
        safetensors_close(s);
    return rc;
}

void safetensors_close(struct safetensors *s)
{
    if (!s)
        return;
    meta_free(s->meta);
    arena_free(s->arena);
    *s = (struct safetensors){0};
}
