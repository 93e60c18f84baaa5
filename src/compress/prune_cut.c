/*
 * prune_cut.c - a block of a layer loses its share: which units go, what stays of the
 * matrix behind them, and its bytes.
 *
 * With calibration and restoring, units are picked in several ways (as they stand, and by
 * what they cost when the others make up for them, with several dampings), each with the
 * restoring that suits it; tokens that none of them has seen decide.
 */
#include "compress/prune_int.h"

#include "base/mem.h"
#include "compress/fit.h"
#include "compress/prune_restore.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

/* Dampings of the ways to pick; 0: units as they stand. */
static const double PICKS[] = {0.0, 0.1, 0.01};

/* ---- picking ---- */

/* Marks the n_more cheapest of each part by costs that are known. */
static void pick_known(uint8_t *gone, float *cost, const float *known, int64_t n,
                       int64_t part, int64_t n_more)
{
    for (int64_t p = 0; p < n; p += part)
        for (int64_t i = 0; i < n_more; i++) {
            int64_t best = -1;
            for (int64_t j = p; j < p + part; j++)
                if (!gone[j] && (best < 0 || known[j] < known[best]))
                    best = j;
            gone[best] = 1;
            cost[best] = known[best];
        }
}

static int64_t marked(const uint8_t *gone, int64_t n)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += gone[i];
    return sum;
}

static enum b2_status pick_ffn(struct cutting *c, const struct metric_sums *sums,
                               double damp, struct b2_err *err)
{
    struct prune *k = c->k;
    const int64_t f = hparams_f(&k->m->hp, c->layer);
    const int64_t more = prune_plan_of(k, k->round, c->layer).ffn - marked(c->ffn, f);
    const struct prune_units u = {f, 1, f, damp};

    if (sums)
        return prune_pick(c->ffn, c->ffn_cost, &u, more, sums, k->teacher.w[PART_DOWN],
                          k->m->hp.d, k->blas, k->p->pool, err);
    pick_known(c->ffn, c->ffn_cost, k->sens.layer[c->layer].neuron, f, f, more);
    return B2_OK;
}

/* Costs of the heads from the file of analyze; per > 1: sums over groups of so many. */
static void known_heads(const struct prune *k, float *to, int64_t layer, int64_t per)
{
    const struct sens_layer *l = &k->sens.layer[layer];

    for (int64_t h = 0; h < l->heads; h++)
        to[h / per] = (h % per ? to[h / per] : 0.0f) + (float)l->head[h];
}

/* Units of u->size columns, whole heads: `more` of each run of u->part units go. */
static enum b2_status pick_units(struct cutting *c, const struct metric_sums *sums,
                                 const struct prune_units *u, int64_t more,
                                 struct b2_err *err)
{
    struct prune *k = c->k;
    const int64_t per = u->size / k->m->hp.head_dim, heads = u->n * per;
    uint8_t *gone = mem_calloc((size_t)u->n, 1);
    float *cost = mem_calloc((size_t)u->n, sizeof *cost);
    float *known = mem_calloc((size_t)u->n, sizeof *known);
    enum b2_status rc = gone && cost && known ? B2_OK : B2_ENOMEM;

    if (rc)
        (void)err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t h = 0; h < heads && !rc; h++)
        gone[h / per] = (h % per ? gone[h / per] : 1) & c->head[h];
    if (!rc && sums) {
        rc = prune_pick(gone, cost, u, more, sums, k->teacher.w[PART_O], k->m->hp.d,
                        k->blas, k->p->pool, err);
    } else if (!rc) {
        known_heads(k, known, c->layer, per);
        pick_known(gone, cost, known, u->n, u->part, more);
    }
    for (int64_t h = 0; h < heads && !rc; h++)
        if (gone[h / per] && !c->head[h]) {
            c->head[h] = 1;
            c->head_cost[h] = cost[h / per] / (float)per;
        }
    mem_free(gone);
    mem_free(cost);
    mem_free(known);
    return rc;
}

/* Whole groups first, then the same number of heads from each group that is left. */
static enum b2_status pick_heads(struct cutting *c, const struct metric_sums *sums,
                                 double damp, struct b2_err *err)
{
    struct prune *k = c->k;
    const struct prune_plan to = prune_plan_of(k, k->round, c->layer);
    const int64_t kv = hparams_kv_heads(&k->m->hp, c->layer), dim = k->m->hp.head_dim;
    const int64_t heads = hparams_heads(&k->m->hp, c->layer), per = heads / kv;
    const struct prune_units whole = {kv, per * dim, kv, damp};
    const struct prune_units each = {heads, dim, per, damp};
    int64_t groups = 0, single = 0;

    for (int64_t g = 0; g < kv; g++) {
        const int64_t n = marked(c->head + g * per, per);
        groups += n == per;
        single = n < per ? max_i64(single, n) : single;
    }
    enum b2_status rc = B2_OK;
    if (to.kv > groups)
        rc = pick_units(c, sums, &whole, to.kv - groups, err);
    if (!rc && to.per_group > single)
        rc = pick_units(c, sums, &each, to.per_group - single, err);
    return rc;
}

/* ---- ways ---- */

/* The block that is cut. */
struct block {
    bool ffn;
    enum stream_part part;
    int64_t d;   /* columns of the matrix */
    int64_t n;   /* units: hidden values or heads */
    int64_t dim; /* columns of a unit */
    uint8_t *gone;
    float *cost; /* those of the layer */
};

static struct block block_of(struct cutting *c, bool ffn)
{
    const enum stream_part part = ffn ? PART_DOWN : PART_O;
    const int64_t d = walk_weight(c->k->m, c->layer, part)->cols;
    const int64_t dim = ffn ? 1 : c->k->m->hp.head_dim;

    return (struct block){ffn,
                          part,
                          d,
                          d / dim,
                          dim,
                          ffn ? c->ffn : c->head,
                          ffn ? c->ffn_cost : c->head_cost};
}

static void mark_columns(struct cutting *c, const struct block *b)
{
    for (int64_t i = 0; i < b->d; i++)
        c->column[i] = b->gone[i / b->dim];
}

static enum b2_status pick(struct cutting *c, const struct block *b,
                           const struct metric_sums *sums, double damp,
                           struct b2_err *err)
{
    enum b2_status rc =
        b->ffn ? pick_ffn(c, sums, damp, err) : pick_heads(c, sums, damp, err);

    mark_columns(c, b);
    return rc;
}

/* Units and costs of one way. */
struct way {
    uint8_t *gone;
    float *cost;
    struct prune_choice choice;
};

static bool make_way(struct way *w, const struct block *b)
{
    w->gone = mem_calloc((size_t)b->n, 1);
    w->cost = mem_calloc((size_t)b->n, sizeof *w->cost);
    return w->gone && w->cost;
}

static void free_way(struct way *w)
{
    mem_free(w->gone);
    mem_free(w->cost);
}

static void store_way(struct way *w, const struct block *b)
{
    memcpy(w->gone, b->gone, (size_t)b->n);
    memcpy(w->cost, b->cost, (size_t)b->n * sizeof *w->cost);
}

static void load_way(const struct way *w, const struct block *b)
{
    memcpy(b->gone, w->gone, (size_t)b->n);
    memcpy(b->cost, w->cost, (size_t)b->n * sizeof *w->cost);
}

/* Picks in every way; the one that loses least on the held tokens stays. */
static enum b2_status pick_best(struct cutting *c, const struct block *b,
                                const struct prune_matrix *m,
                                struct prune_choice *choice, struct b2_err *err)
{
    struct way before = {0}, best = {0};
    struct prune_choice now;
    bool any = false;
    enum b2_status rc = B2_OK;

    if (!make_way(&before, b) || !make_way(&best, b)) {
        free_way(&before);
        free_way(&best);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    store_way(&before, b);
    for (size_t i = 0; i < countof(PICKS) && !rc; i++) {
        load_way(&before, b);
        rc = pick(c, b, m->fit, PICKS[i], err);
        if (!rc && any && memcmp(b->gone, best.gone, (size_t)b->n) == 0)
            continue;
        if (!rc)
            rc = prune_choose(&now, m, c->column, err);
        if (!rc && (!any || now.loss < best.choice.loss)) {
            store_way(&best, b);
            best.choice = now;
            any = true;
        }
    }
    if (!rc) {
        load_way(&best, b);
        mark_columns(c, b);
        *choice = best.choice;
    }
    free_way(&before);
    free_way(&best);
    return rc;
}

/* ---- what stays ---- */

/* The kept columns of a matrix as bytes, and what they decode to in the student's. */
static enum b2_status keep_columns(struct cutting *c, struct str *bytes,
                                   enum stream_part part, const float *from,
                                   struct b2_err *err)
{
    struct prune *k = c->k;
    const struct weight *w = walk_weight(k->m, c->layer, part);
    const int64_t width = prune_width(k, k->round, c->layer, part);
    const enum dtype t = prune_type(k, c->layer, part, width);
    const struct dtype_info *info = dtype_info(t);
    const size_t row_bytes = (size_t)(width / info->block * info->bytes);
    float *row = mem_calloc((size_t)width, sizeof *row);
    uint8_t *enc = mem_calloc(row_bytes, 1);
    const struct fit_how how = {.rule = TERNARISE_LS};
    struct fit_stat stat;
    enum b2_status rc = row && enc ? B2_OK : B2_ENOMEM;

    if (rc)
        (void)err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t r = 0; r < w->rows && !rc; r++) {
        float *to = k->student.w[part] + r * w->cols;
        int64_t n = 0;
        for (int64_t i = 0; i < w->cols; i++)
            if (!c->column[i])
                row[n++] = from[r * w->cols + i];
        rc = fit_row(t, enc, row, width, &how, &stat, err);
        if (rc)
            break;
        str_putn(bytes, enc, row_bytes);
        quant_decode_row(t, row, enc, width);
        for (int64_t i = 0, at = 0; i < w->cols; i++)
            to[i] = c->column[i] ? 0.0f : row[at++];
    }
    mem_free(row);
    mem_free(enc);
    if (!rc && !str_ok(bytes))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (rc)
        err_wrap(err, "tensor %s", w->name);
    return rc;
}

/* Zero inputs lose nothing: then the matrix is left alone. */
static bool costs_nothing(const float *cost, const uint8_t *gone, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (gone[i] && cost[i] > 0.0f)
            return false;
    return true;
}

/* The matrix without its columns, from m->fit, all tokens by now; choice NULL: as it is. */
static enum b2_status cut_matrix(struct cutting *c, const struct block *b,
                                 const struct prune_matrix *m,
                                 const struct prune_choice *choice, struct b2_err *err)
{
    struct prune_kept *kept = b->ffn ? &c->found.down : &c->found.o;
    struct str *bytes = b->ffn ? &c->down : &c->o;
    const float *w = c->k->teacher.w[b->part];
    float *restored = NULL;
    enum b2_status rc = B2_OK;

    if (!m)
        return keep_columns(c, bytes, b->part, w, err);
    rc = prune_lost(&kept->plain, m, NULL, c->column, err);
    kept->restored = kept->plain;
    if (choice) {
        kept->damp = choice->damp;
        kept->held_gain = choice->left - choice->loss;
    }
    if (!rc && choice && choice->damp > 0.0) {
        restored = mem_calloc((size_t)(m->rows * b->d), sizeof *restored);
        if (!restored)
            return err_set(err, B2_ENOMEM, "out of memory");
        rc = prune_restore(restored, m, c->column, choice->damp, err);
        if (!rc)
            rc = prune_lost(&kept->restored, m, restored, c->column, err);
    }
    if (!rc)
        rc = keep_columns(c, bytes, b->part, restored ? restored : w, err);
    mem_free(restored);
    return rc;
}

/* The held tokens join those that are solved on. */
static void join_sums(struct metric_sums *to, const struct metric_sums *held)
{
    for (int64_t i = 0; i < to->d * to->d; i++) {
        to->h[i] += held->h[i];
        to->c[i] += held->c[i];
    }
    to->n_tokens += held->n_tokens;
}

static enum b2_status cut_by_tokens(struct cutting *c, const struct block *b,
                                    struct b2_err *err)
{
    const struct prune *k = c->k;
    struct metric_sums fit = {0}, held = {0};
    const struct prune_matrix m = {.w = k->teacher.w[b->part],
                                   .rows = k->m->hp.d,
                                   .eta = k->p->mismatch,
                                   .fit = &fit,
                                   .held = &held,
                                   .b = k->blas,
                                   .pool = k->p->pool};
    struct prune_choice choice = {0.0, 0.0, 0.0};
    const bool restores = !k->p->no_restore;
    enum b2_status rc = metric_sums_new(&fit, b->d, err);

    if (!rc)
        rc = metric_sums_new(&held, b->d, err);
    if (!rc)
        rc = prune_collect(c, &fit, &held, b->ffn ? INPUT_DOWN : INPUT_O, err);
    if (!rc && restores)
        rc = pick_best(c, b, &m, &choice, err);
    if (!rc)
        join_sums(&fit, &held);
    metric_sums_free(&held);
    if (!rc && !restores)
        rc = pick(c, b, &fit, 0.0, err);
    if (!rc)
        rc = cut_matrix(
            c, b, &m,
            restores && !costs_nothing(b->cost, b->gone, b->n) ? &choice : NULL, err);
    metric_sums_free(&fit);
    return rc;
}

enum b2_status prune_cut(struct cutting *c, bool ffn, struct b2_err *err)
{
    const struct block b = block_of(c, ffn);

    if (c->k->calib.n_seqs > 0)
        return cut_by_tokens(c, &b, err);
    enum b2_status rc = pick(c, &b, NULL, 0.0, err);
    return rc ? rc : cut_matrix(c, &b, NULL, NULL, err);
}
