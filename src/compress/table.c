/*
 * table.c - the head's statistics, and rows rounded with them, some at a time.
 */
#include "compress/table.h"

#include "base/mem.h"
#include "compress/slab.h"
#include "compress/tiers.h"
#include "tensor/quant.h"

#include <string.h>

enum { BATCH_VALUES = 4 << 20, CHUNK_ROWS = 16, MAX_LEVELS = 16 };

/* Of the tied table's lookups, times the mean diagonal of H. On SmolLM2 in two bits .1, 1
 * and 10 leave 2.4, 2.1 and 2.8 nat of 6.3 (docs/COMPRESS.md). */
static const double lookup_share = 1.0;
/* Of a head of its own with fewer tokens than ENOUGH for each column. A toy's head of 64
 * columns in two bits: .40 nat rounded; with 64 tokens .42 without it and .27 with it. */
static const double few_share = 0.1;
enum { ENOUGH = 16 };

/* ---- what is compensated ---- */

static bool has_codes(enum dtype t, int64_t width)
{
    struct codes codes;

    return codes_of(&codes, t) && width % codes.group == 0 &&
           codes.hi - codes.lo < MAX_LEVELS;
}

bool table_compensable(const struct choose *c, const struct choose_item *it,
                       const struct choose_candidate *cand)
{
    const bool head = it->role == ROLE_HEAD || (it->role == ROLE_EMBED && c->tied);
    const int64_t width = tensor_width(it->t), limit = c->recipe->metric_width;

    return head && c->recipe->effort >= RECIPE_NORMAL && !cand->copy &&
           cand->pad == 0 && has_codes(cand->type, width) &&
           (cand->n_hot == 0 || has_codes(cand->hot, width)) &&
           choose_layers(c) == c->n_layers && (limit <= 0 || width <= limit);
}

/* ---- statistics ---- */

enum b2_status table_metric_take(struct table_metric *t, const struct choose *c,
                                 struct stream *s, int64_t d, struct b2_err *err)
{
    enum b2_status rc = metric_sums_new(&t->sums, d, err);

    if (rc)
        return rc;
    stream_collect_head(s, &t->sums);
    t->share = c->tied ? lookup_share : t->sums.n_tokens < ENOUGH * d ? few_share : 0.0;
    return B2_OK;
}

void table_metric_free(struct table_metric *t)
{
    metric_sums_free(&t->sums);
    *t = (struct table_metric){0};
}

static enum b2_status walk(struct stream *s, const struct table_walk *w,
                           int64_t n_layers, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int64_t layer = 0; layer < n_layers && !rc; layer++) {
        if (w->cancelled && w->cancelled(w->ctx))
            return err_set(err, B2_ECANCEL, "interrupted");
        rc = stream_begin(s, layer, err);
        if (rc)
            return rc;
        stream_attention(s);
        stream_ffn(s);
    }
    return rc;
}

static enum b2_status check_memory(const struct table_walk *w, const struct model *m,
                                   int64_t n_seqs, struct b2_err *err)
{
    const int threads = w->pool ? pool_threads(w->pool) : 1;
    const uint64_t d = (uint64_t)m->hp.d;
    const uint64_t need = stream_bytes(m, n_seqs, w->calib->ctx, threads) + d * d * 64;

    if (w->mem_limit == 0 || need <= w->mem_limit)
        return B2_OK;
    return err_set(err, B2_ENOMEM,
                   "what the head is fed takes %llu bytes to find out, more than "
                   "--mem-limit; raise "
                   "it, or keep the head as it is: --rule '%s=keep'",
                   (unsigned long long)need,
                   w->c->tied ? "token_embd.weight" : "output.weight");
}

static enum b2_status walk_model(struct table_metric *t, const struct table_walk *w,
                                 const struct model *m, const int32_t *ids,
                                 int64_t n_seqs, struct b2_err *err)
{
    const struct stream_params sp = {.m = m,
                                     .blas = w->blas,
                                     .pool = w->pool,
                                     .ids = ids,
                                     .n_seqs = n_seqs,
                                     .ctx = w->calib->ctx,
                                     .alone = true};
    struct stream *s = NULL;
    enum b2_status rc = check_memory(w, m, n_seqs, err);

    if (!rc)
        rc = stream_new(&s, &sp, err);
    if (!rc)
        rc = walk(s, w, m->hp.n_layers, err);
    if (!rc)
        rc = table_metric_take(t, w->c, s, m->hp.d, err);
    stream_free(s);
    return rc;
}

enum b2_status table_metric_make(struct table_metric *t, const struct table_walk *w,
                                 struct b2_err *err)
{
    const struct model_params mp = {.no_tokenizer = true};
    struct model *m = NULL;
    int64_t n_seqs = 0;
    int32_t *ids = calib_some(w->calib, TABLE_TOKENS, &n_seqs);

    if (!ids)
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = model_open(&m, w->source, &mp, err);
    if (!rc)
        rc = walk_model(t, w, m, ids, n_seqs - 1, err); /* without the probe */
    model_close(m);
    mem_free(ids);
    return rc;
}

/* ---- rounding ---- */

struct decoding {
    const struct tensor *t;
    const int32_t *rows;
    float *dst;
};

static void decode_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct decoding *d = ctx;
    const uint64_t row_bytes = d->t->n_bytes / (uint64_t)tensor_rows(d->t);

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        quant_decode_tensor_row(d->t, d->dst + i * d->t->ne[0],
                                d->t->data + (uint64_t)d->rows[i] * row_bytes);
}

/* What rows of one type share. */
struct kind {
    struct codes codes;
    struct metric m;
    struct rotate *rotate; /* of a head that is folded */
};

static enum b2_status round_part(uint8_t *bytes, struct fit_stat *stat,
                                 const struct table_job *j,
                                 const struct choose_part *part, const int32_t *rows,
                                 uint64_t before, const struct kind *kind,
                                 struct b2_err *err)
{
    const struct recipe *r = j->c->recipe;
    const struct compensate_how how = {0.0, j->passes, r->ternary_rule, 0};
    const int64_t d = tensor_width(j->it->t);
    const int64_t step = min_i64(part->rows, max_i64(CHUNK_ROWS, BATCH_VALUES / d));
    const uint64_t row_bytes = part->n_bytes / (uint64_t)part->rows;
    float *w = mem_calloc((size_t)(step * d), sizeof *w);
    enum b2_status rc =
        w ? B2_OK : err_set(err, B2_ENOMEM, "tensor %s: out of memory", part->name);

    for (int64_t first = 0; first < part->rows && !rc; first += step) {
        const int64_t n = min_i64(step, part->rows - first);
        struct decoding dec = {j->it->t, rows + first, w};
        struct compensate_out out = {.bytes = bytes + part->at +
                                              (uint64_t)first * row_bytes};
        if (j->cancelled && j->cancelled(j->ctx)) {
            rc = err_set(err, B2_ECANCEL, "interrupted");
            break;
        }
        progress_update(j->progress, before + (uint64_t)(first * d), 0.0);
        pool_run(j->pool, decode_rows, &dec, n, CHUNK_ROWS);
        rc = compensate_rows(&out, &kind->codes, w, n, &kind->m, NULL, kind->rotate,
                             &how, j->blas, j->pool, err);
        if (!rc)
            fit_stat_add(stat, &out.stat);
    }
    mem_free(w);
    return rc;
}

/* H as the type's groups want it, with the share of the identity. */
static enum b2_status make_metric(struct kind *kind, const struct table_metric *t,
                                  const struct blas *b, struct b2_err *err)
{
    const int64_t d = t->sums.d;
    struct metric_sums sums = t->sums;
    double trace = 0.0;

    sums.h = mem_calloc((size_t)(d * d), sizeof *sums.h);
    if (!sums.h)
        return err_set(err, B2_ENOMEM, "out of memory for rows of %lld", (long long)d);
    memcpy(sums.h, t->sums.h, (size_t)(d * d) * sizeof *sums.h);
    for (int64_t i = 0; i < d; i++)
        trace += sums.h[i * d + i];
    for (int64_t i = 0; i < d; i++)
        sums.h[i * d + i] += t->share * trace / (double)d;
    enum b2_status rc = metric_new(&kind->m, &sums, kind->rotate, kind->codes.group,
                                   kind->codes.unit, b, err);
    mem_free(sums.h);
    return rc;
}

static enum b2_status round_parts(uint8_t *bytes, struct fit_stat *stat,
                                  const struct table_job *j, const int32_t *list,
                                  struct b2_err *err)
{
    struct choose_part part[2];
    const int n = choose_parts(j->it, j->cand, part);
    const struct slabs whole = slabs_cut(tensor_width(j->it->t), 1, 0);
    struct kind kind = {.rotate = NULL};
    uint64_t before = j->before;
    enum b2_status rc = B2_OK;

    if (j->cand->fold) {
        kind.rotate = slab_rotate(j->c->rotate, &whole, 0);
        rc = kind.rotate ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
    }
    for (int k = 0; k < n && !rc; list += part[k++].rows) {
        rc = codes_of(&kind.codes, part[k].type)
                 ? make_metric(&kind, j->metric, j->blas, err)
                 : err_set(err, B2_EUNSUP, "%s has no codes",
                           dtype_info(part[k].type)->name);
        if (!rc)
            rc = round_part(bytes, stat, j, &part[k], list, before, &kind, err);
        before += (uint64_t)(part[k].rows * tensor_width(j->it->t));
        metric_free(&kind.m);
    }
    rotate_free(kind.rotate);
    if (rc)
        err_wrap(err, "tensor %s", j->it->t->name);
    return rc;
}

enum b2_status table_round(uint8_t *bytes, struct fit_stat *stat,
                           const struct table_job *j, struct b2_err *err)
{
    const int64_t rows = tensor_rows(j->it->t);
    int32_t *list = mem_calloc((size_t)rows, sizeof *list);

    if (!list)
        return err_set(err, B2_ENOMEM, "tensor %s: out of memory", j->it->t->name);
    for (int64_t r = 0; r < rows; r++)
        list[r] = (int32_t)r;
    if (j->cand->n_hot > 0)
        tiers_list(j->c, j->cand, rows, list);
    enum b2_status rc = round_parts(bytes, stat, j, list, err);
    mem_free(list);
    return rc;
}
