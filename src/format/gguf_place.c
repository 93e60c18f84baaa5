/*
 * gguf_place.c - where the tensors of a GGUF lie: sizes, spans, the two meanings of 42.
 *
 * Type id 42 is groups of 64 in 18 bytes (mainline) or groups of 128 in 34 bytes
 * (legacy). Nothing in the record tells; the distance to the next tensor does, since
 * every writer places tensors one after the other, padded to the alignment:
 *   248320 x 5120 weights: 357,580,800 bytes or 337,715,200 bytes.
 * All tensors of a file come from one writer, so one clear distance decides for all.
 */
#include "base/arena.h"
#include "base/mem.h"
#include "base/reader.h"
#include "format/gguf_int.h"
#include "format/names.h"
#include "tensor/f16.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct span { /* one tensor in the order of offsets */
    uint64_t offset;
    int64_t index;
};

enum b2_status gguf_check_shape(struct tensor *t, struct b2_err *err)
{
    uint64_t rows = 1, total, row_bytes = 0;
    bool fits = true;

    for (int d = 1; d < TENSOR_MAX_RANK; d++) /* a zero must not hide a wrap */
        fits = fits && mul_u64(&rows, rows, t->ne[d] ? (uint64_t)t->ne[d] : 1);
    fits = fits && mul_u64(&total, rows, t->ne[0] ? (uint64_t)t->ne[0] : 1) &&
           total <= INT64_MAX;
    if (!fits)
        return err_set(err, B2_EFORMAT,
                       "too many elements: the product of the "
                       "dimensions leaves 63 bits");
    enum b2_status rc = dtype_row_bytes(&row_bytes, t->type, (uint64_t)t->ne[0], err);
    if (rc) {
        if (err)
            err->status = B2_EFORMAT; /* the file's mistake, not the caller's */
        return B2_EFORMAT;
    }
    if (!mul_u64(&t->n_bytes, row_bytes, (uint64_t)tensor_rows(t)) ||
        t->n_bytes > INT64_MAX)
        return err_set(err, B2_EFORMAT,
                       "too many bytes: the size leaves 63 bits (%s, %" PRId64
                       " elements)",
                       dtype_info(t->type)->name, tensor_count(t));
    return B2_OK;
}

/* Errors from here on are about one tensor. */
static enum b2_status about(const struct tensor *t, enum b2_status rc,
                            struct b2_err *err)
{
    char show[NAMES_SHOW_MAX];

    if (rc)
        err_wrap(err, "tensor %s", names_show(show, t->name, strlen(t->name)));
    return rc;
}

static int by_offset(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Bytes of t when its groups are of type; 0 when its rows do not divide. */
static uint64_t bytes_as(const struct tensor *t, enum dtype type)
{
    struct tensor as = *t;

    as.type = type;
    return gguf_check_shape(&as, NULL) == B2_OK ? as.n_bytes : 0;
}

/* What the distance from a tensor to the next one (or to the end) says. */
enum vote { VOTE_NONE, VOTE_64, VOTE_128, VOTE_BAD };

static enum vote vote_of(const struct tensor *t, uint64_t gap, bool last,
                         uint64_t align)
{
    uint64_t n64 = bytes_as(t, DT_Q2_0), n128 = bytes_as(t, DT_Q2_0_G128);
    bool is64 = gap == align_up_u64(n64, align) || (last && gap == n64);
    bool is128 = n128 && (gap == align_up_u64(n128, align) || (last && gap == n128));

    if (is64 != is128)
        return is64 ? VOTE_64 : VOTE_128;
    if (is64 || last || n64 == 0 || n128 == 0)
        return VOTE_NONE; /* both fit, or the file is cut or goes on */
    return gap > n128 && gap < n64 ? VOTE_BAD : VOTE_NONE;
}

/* Decides the layout of the tensors with id 42 and sets their type. */
static enum b2_status resolve_42(struct gguf *g, const struct span *s,
                                 uint64_t data_bytes, struct b2_err *err)
{
    const struct tensor *first[2] = {NULL, NULL};

    for (int64_t k = 0; k < g->n_tensors; k++) {
        const struct tensor *t = &g->tensors[s[k].index];
        bool last = k + 1 == g->n_tensors;
        uint64_t next = last ? data_bytes : s[k + 1].offset;
        if (t->type != DT_Q2_0 || next < s[k].offset || tensor_count(t) == 0)
            continue;
        uint64_t gap = next - s[k].offset;
        enum vote v = vote_of(t, gap, last, g->alignment);
        if (v == VOTE_BAD)
            return about(t,
                         err_set(err, B2_EFORMAT,
                                 "corrupt: %" PRIu64 " bytes to the next tensor, but "
                                 "type id 42 takes %" PRIu64 " (groups of 64) or "
                                 "%" PRIu64 " (legacy groups of 128)",
                                 gap, bytes_as(t, DT_Q2_0), bytes_as(t, DT_Q2_0_G128)),
                         err);
        if (v != VOTE_NONE && !first[v == VOTE_128])
            first[v == VOTE_128] = t;
    }
    if (first[0] && first[1])
        return about(first[1],
                     err_set(err, B2_EFORMAT,
                             "corrupt: type id 42 is spaced for groups of 128 here and "
                             "for groups of 64 elsewhere"),
                     err);
    for (int64_t i = 0; first[1] && i < g->n_tensors; i++) {
        if (g->tensors[i].type == DT_Q2_0)
            g->tensors[i].type = DT_Q2_0_G128;
    }
    return B2_OK;
}

/* Bytes behind the rows: I2_S keeps its scale there, an F32 and 28 bytes of nothing. */
static uint64_t tail_bytes(const struct tensor *t)
{
    return dtype_info(t->type)->flags & DTF_APART && t->n_bytes > 0 ? 32 : 0;
}

static enum b2_status read_scale(struct tensor *t, struct b2_err *err)
{
    if (tail_bytes(t) == 0)
        return B2_OK;
    t->scale = f32_from_bits(le_get32(t->data + t->n_bytes));
    if (!isfinite(t->scale))
        return err_set(err, B2_EFORMAT,
                       "%s: the scale behind its codes is not a number: damaged, or "
                       "another packing of this type",
                       dtype_info(t->type)->name);
    return B2_OK;
}

/* Alignment, overlap with the one before, end of file. */
static enum b2_status check_span(const struct gguf *g, const struct span *s,
                                 uint64_t *end, uint64_t data_bytes, struct b2_err *err)
{
    const struct tensor *t = &g->tensors[s->index];

    if (s->offset & (g->alignment - 1))
        return err_set(err, B2_EFORMAT,
                       "offset %" PRIu64 " is not a multiple of the alignment %" PRIu64,
                       s->offset, g->alignment);
    if (t->n_bytes > 0 && s->offset < *end)
        return err_set(err, B2_EFORMAT,
                       "offset %" PRIu64 " lies inside another tensor that ends at "
                       "%" PRIu64,
                       s->offset, *end);
    uint64_t present = s->offset < data_bytes ? data_bytes - s->offset : 0;
    uint64_t need = t->n_bytes + tail_bytes(t);
    if (need > present || s->offset > data_bytes)
        return err_set(err, B2_ETRUNC,
                       "the file is cut: needed %" PRIu64 " bytes at offset %" PRIu64
                       ", present %" PRIu64,
                       need, s->offset, present);
    if (t->n_bytes > 0)
        *end = s->offset + need;
    return B2_OK;
}

enum b2_status gguf_place_tensors(struct gguf *g, const uint8_t *data_section,
                                  uint64_t data_bytes, struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    uint64_t end = 0;
    struct span *s = mem_calloc((size_t)g->n_tensors, sizeof *s);

    if (!s)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; rc == B2_OK && i < g->n_tensors; i++) {
        s[i] = (struct span){g->offsets[i], i};
        rc = about(&g->tensors[i], gguf_check_shape(&g->tensors[i], err), err);
    }
    if (rc)
        goto done;
    if (g->n_tensors > 1)
        qsort(s, (size_t)g->n_tensors, sizeof *s, by_offset);
    rc = resolve_42(g, s, data_bytes, err);
    for (int64_t k = 0; rc == B2_OK && k < g->n_tensors; k++) {
        struct tensor *t = &g->tensors[s[k].index];
        rc = about(t, gguf_check_shape(t, err), err);
        if (rc == B2_OK)
            rc = about(t, check_span(g, &s[k], &end, data_bytes, err), err);
        if (rc)
            break;
        t->data = data_section + s[k].offset;
        rc = about(t, read_scale(t, err), err);
        g->offsets[s[k].index] = g->data_offset + s[k].offset;
    }
done:
    mem_free(s);
    return rc;
}
