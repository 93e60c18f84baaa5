/*
 * prune_layers.c - one round: calibration tokens walk through the teacher and through what
 * is left of it, and each layer loses its share on the way.
 *
 * What goes counts as zero columns of the next matrix, which is the same model as the
 * smaller one that is written in the end.
 */
#include "compress/prune_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "compress/prune_restore.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

enum { BATCH_TOKENS = 2048 };

static int64_t batch_seqs(const struct prune *k)
{
    return min_i64(k->n_calib, max_i64(1, BATCH_TOKENS / k->calib.ctx));
}

uint64_t prune_bytes(const struct prune *k)
{
    const struct hparams *hp = &k->m->hp;
    const uint64_t tokens = (uint64_t)(k->calib.n_seqs * k->calib.ctx);
    const uint64_t d =
        (uint64_t)max_i64(max_i64(hp->d, hp->f), hp->n_heads * hp->head_dim);
    const uint64_t batch = (uint64_t)(batch_seqs(k) * k->calib.ctx);
    const int threads = k->p->pool ? pool_threads(k->p->pool) : 1;
    const uint64_t sums = 2 * d * d * (8 + 8 + 4 + 4);
    const uint64_t pick = d * d * 8 + (uint64_t)hp->d * d * 8;
    const uint64_t restore = prune_restore_bytes(hp->d, (int64_t)d, threads);

    return tokens * (uint64_t)hp->d * 8 + batch * (2 * d + 2 * (uint64_t)hp->d) * 4 +
           sums + (pick > restore ? pick : restore);
}

/* ---- what flows into o or down ---- */

/* Every fourth sequence is held, of a single one its last quarter. */
static void add_sums(struct cutting *c, struct metric_sums *fit,
                     struct metric_sums *held, float *const tap[2], int64_t first,
                     int64_t n)
{
    struct prune *k = c->k;
    const int64_t ctx = k->calib.ctx, d = fit->d;

    for (int64_t s = 0; s < n; s++) {
        const float *x = tap[PRUNE_STUDENT] + s * ctx * d;
        const float *z = tap[PRUNE_TEACHER] + s * ctx * d;
        const int64_t most = k->n_calib > 1 ? ctx : ctx - ctx / 4;
        const bool is_held =
            k->n_calib > 1 &&
            ((first + s) % 4 == 3 || (k->n_calib < 4 && first + s + 1 == k->n_calib));
        metric_sums_add(is_held ? held : fit, k->blas, k->p->pool, x, z, most);
        if (most < ctx)
            metric_sums_add(held, k->blas, k->p->pool, x + most * d, z + most * d,
                            ctx - most);
    }
}

enum b2_status prune_collect(struct cutting *c, struct metric_sums *fit,
                             struct metric_sums *held, enum stream_input in,
                             struct b2_err *err)
{
    struct prune *k = c->k;
    const int64_t ctx = k->calib.ctx, d = k->m->hp.d, most = batch_seqs(k);
    const size_t batch = (size_t)(most * ctx);
    float *x = mem_calloc(batch * (size_t)d, sizeof *x), *tap[2];
    struct walk_edit *edit = mem_calloc((size_t)most, sizeof *edit);
    bool have = x && edit;

    for (int side = 0; side < 2; side++) {
        tap[side] = mem_calloc(batch * (size_t)fit->d, sizeof(float));
        have = have && tap[side];
    }
    for (int64_t i = 0; have && i < most; i++) {
        edit[i].no_ffn = in == INPUT_O;
        edit[i].no_attn = in == INPUT_DOWN;
    }
    for (int64_t s = 0; have && s < k->n_calib; s += most) {
        const int64_t n = min_i64(most, k->n_calib - s);
        for (int side = 0; side < 2; side++) {
            struct walk_tap to = {0};
            const struct walk_pass pass = {
                .layer = c->layer,
                .weights = side == PRUNE_TEACHER ? &k->teacher : &k->student,
                .x = x,
                .n_seqs = n,
                .n = ctx,
                .edit = edit,
                .tap = &to};
            to.input[in] = tap[side];
            memcpy(x, k->x[side] + s * ctx * d, (size_t)(n * ctx * d) * sizeof *x);
            walk_layer(k->walk, &pass);
        }
        add_sums(c, fit, held, tap, s, n);
    }
    mem_free(x);
    mem_free(edit);
    mem_free(tap[0]);
    mem_free(tap[1]);
    return have ? B2_OK
                : err_set(err, B2_ENOMEM, "out of memory for %lld calibration tokens",
                          (long long)k->n_calib * (long long)ctx);
}

/* Both streams past a block. */
static enum b2_status pass_block(struct cutting *c, bool ffn, struct b2_err *err)
{
    struct prune *k = c->k;
    struct walk_edit *edit = mem_calloc((size_t)k->calib.n_seqs, sizeof *edit);

    if (!edit)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < k->calib.n_seqs; i++) {
        edit[i].no_ffn = !ffn;
        edit[i].no_attn = ffn;
    }
    for (int side = 0; side < 2; side++) {
        const struct walk_pass pass = {.layer = c->layer,
                                       .weights = side == PRUNE_TEACHER ? &k->teacher
                                                                        : &k->student,
                                       .x = k->x[side],
                                       .n_seqs = k->calib.n_seqs,
                                       .n = k->calib.ctx,
                                       .edit = edit};
        walk_layer(k->walk, &pass);
    }
    mem_free(edit);
    return B2_OK;
}

/* ---- pieces ---- */

static enum b2_status save(const struct cutting *c, struct b2_err *err)
{
    const struct prune *k = c->k;
    const size_t f = (size_t)hparams_f(&k->m->hp, c->layer);
    const size_t heads = (size_t)hparams_heads(&k->m->hp, c->layer);
    const struct {
        const void *data;
        size_t n;
    } all[] = {
        {&c->found, sizeof c->found},
        {c->ffn, f},
        {c->head, heads},
        {c->ffn_cost, f * sizeof(float)},
        {c->head_cost, heads * sizeof(float)},
        {c->o.data, c->o.len},
        {c->down.data, c->down.len},
    };
    enum b2_status rc =
        work_piece_begin(k->work, prune_piece_number(k, k->round, c->layer), err);

    for (size_t i = 0; i < countof(all) && !rc; i++)
        if (all[i].n > 0)
            rc = work_piece_data(k->work, all[i].data, all[i].n, err);
    return rc ? rc : work_piece_end(k->work, NULL, 0, err);
}

/* The masks of the round before, which stay. */
static enum b2_status take_masks(struct cutting *c, int round, struct b2_err *err)
{
    const struct prune *k = c->k;
    const size_t f = (size_t)hparams_f(&k->m->hp, c->layer);
    const size_t heads = (size_t)hparams_heads(&k->m->hp, c->layer);
    struct file_map map = {0};
    struct prune_piece piece;
    enum b2_status rc = prune_piece_open(&piece, &map, k, round, c->layer, err);

    if (!rc) {
        c->found = piece.found;
        memcpy(c->ffn, piece.ffn, f);
        memcpy(c->head, piece.head, heads);
        memcpy(c->ffn_cost, piece.ffn_cost, f * sizeof(float));
        memcpy(c->head_cost, piece.head_cost, heads * sizeof(float));
    }
    file_unmap(&map);
    return rc;
}

/* Zero columns and the bytes of a finished piece in the student's weights. */
static enum b2_status take_weights(struct cutting *c, struct b2_err *err)
{
    struct prune *k = c->k;
    struct file_map map = {0};
    struct prune_piece piece;
    enum b2_status rc = prune_piece_open(&piece, &map, k, k->round, c->layer, err);

    for (int ffn = 0; ffn < 2 && !rc; ffn++) {
        const enum stream_part part = ffn ? PART_DOWN : PART_O;
        const struct weight *w = walk_weight(k->m, c->layer, part);
        const int64_t width = prune_width(k, k->round, c->layer, part);
        const enum dtype t = prune_type(k, c->layer, part, width);
        const struct dtype_info *info = dtype_info(t);
        const uint8_t *mask = ffn ? piece.ffn : piece.head;
        const uint8_t *bytes = ffn ? piece.down : piece.o;
        float *row = mem_calloc((size_t)width, sizeof *row);
        if (!row) {
            (void)err_set(err, B2_ENOMEM, "out of memory");
            rc = B2_ENOMEM;
        }
        for (int64_t r = 0; r < w->rows && !rc && width < w->cols; r++) {
            quant_decode_row(t, row,
                             bytes + (uint64_t)(r * (width / info->block)) *
                                         (uint64_t)info->bytes,
                             width);
            for (int64_t i = 0, at = 0; i < w->cols; i++)
                k->student.w[part][r * w->cols + i] =
                    mask[ffn ? i : i / k->m->hp.head_dim] ? 0.0f : row[at++];
        }
        mem_free(row);
    }
    file_unmap(&map);
    return rc;
}

/* ---- a round ---- */

static enum b2_status make_cutting(struct cutting *c, struct b2_err *err)
{
    const struct hparams *hp = &c->k->m->hp;
    const size_t f = (size_t)hparams_f(hp, c->layer);
    const size_t heads = (size_t)hparams_heads(hp, c->layer);
    const size_t widest = (size_t)max_i64(hp->f, hp->n_heads * hp->head_dim);

    c->found.o = c->found.down =
        (struct prune_kept){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    c->ffn = mem_calloc(f, 1);
    c->head = mem_calloc(heads, 1);
    c->ffn_cost = mem_calloc(f, sizeof(float));
    c->head_cost = mem_calloc(heads, sizeof(float));
    c->column = mem_calloc(widest, 1);
    if (c->ffn && c->head && c->ffn_cost && c->head_cost && c->column)
        return B2_OK;
    return err_set(err, B2_ENOMEM, "out of memory");
}

static void free_cutting(struct cutting *c)
{
    mem_free(c->ffn);
    mem_free(c->head);
    mem_free(c->ffn_cost);
    mem_free(c->head_cost);
    mem_free(c->column);
    str_free(&c->o);
    str_free(&c->down);
}

static enum b2_status both_weights(struct prune *k, int64_t layer, struct b2_err *err)
{
    enum b2_status rc = walk_decode(k->walk, &k->teacher, layer, err);

    for (int part = 0; part < N_PARTS && !rc; part++) {
        const struct weight *w = walk_weight(k->m, layer, (enum stream_part)part);
        memcpy(k->student.w[part], k->teacher.w[part],
               (size_t)(w->rows * w->cols) * sizeof(float));
    }
    return rc;
}

/* Both blocks of a layer: cut (when it has no piece yet), then walked past. */
static enum b2_status run_layer(struct cutting *c, bool have, struct b2_err *err)
{
    struct prune *k = c->k;
    const struct prune_plan to = prune_plan_of(k, k->round, c->layer);
    const bool streams = k->calib.n_seqs > 0;
    enum b2_status rc = both_weights(k, c->layer, err);

    if (!rc && have)
        rc = take_weights(c, err);
    else if (!rc && k->round > 0)
        rc = take_masks(c, k->round - 1, err);
    if (!rc && !have && to.kv + to.per_group > 0)
        rc = prune_cut(c, false, err);
    if (!rc && streams)
        rc = pass_block(c, false, err);
    if (!rc && !have && to.ffn > 0)
        rc = prune_cut(c, true, err);
    if (!rc && streams)
        rc = pass_block(c, true, err);
    return rc || have ? rc : save(c, err);
}

/* The student does without the layer. */
static enum b2_status skip_layer(struct cutting *c, struct b2_err *err)
{
    struct prune *k = c->k;
    const struct walk_pass pass = {.layer = c->layer,
                                   .weights = &k->teacher,
                                   .x = k->x[PRUNE_TEACHER],
                                   .n_seqs = k->calib.n_seqs,
                                   .n = k->calib.ctx};
    enum b2_status rc = B2_OK;

    if (k->calib.n_seqs > 0) {
        rc = walk_decode(k->walk, &k->teacher, c->layer, err);
        if (!rc)
            walk_layer(k->walk, &pass);
    }
    return rc;
}

static enum b2_status one_layer(struct prune *k, int64_t layer, struct b2_err *err)
{
    struct cutting c = {.k = k, .layer = layer};
    const bool have = work_have_piece(k->work, prune_piece_number(k, k->round, layer),
                                      NULL, 0, prune_payload(k, k->round, layer));
    enum b2_status rc = make_cutting(&c, err);

    if (!rc)
        rc = k->plan[layer].gone ? skip_layer(&c, err) : run_layer(&c, have, err);
    if (rc)
        err_wrap(err, "layer %lld", (long long)layer);
    else if (!have && !k->plan[layer].gone && isfinite(c.found.down.plain))
        log_line(k->p->log, LOG_INFO,
                 "layer %lld: feed-forward output loses %.4f, %.4f after restoring",
                 (long long)layer + 1, c.found.down.plain, c.found.down.restored);
    free_cutting(&c);
    return rc;
}

enum b2_status prune_round(struct prune *k, int round, struct b2_err *err)
{
    const int64_t n = k->m->hp.n_layers, d = k->m->hp.d, ctx = k->calib.ctx;
    enum b2_status rc = B2_OK;

    k->round = round;
    k->r->kld[round] = (double)NAN;
    for (int side = 0; side < 2 && k->calib.n_seqs > 0; side++)
        walk_embed(k->walk, k->x[side], k->calib.ids, k->calib.n_seqs, ctx);
    for (int64_t i = 0; i < n && !rc; i++) {
        if (k->p->cancelled && k->p->cancelled(k->p->ctx_of_calls))
            rc = err_set(err, B2_ECANCEL,
                         "interrupted; what is done stays in %s: run the same command "
                         "again to go on",
                         work_dir(k->work));
        if (!rc)
            rc = one_layer(k, i, err);
        progress_update(k->p->progress, (uint64_t)(round * n + i + 1), 0.0);
    }
    if (rc || k->calib.n_seqs == 0)
        return rc;
    probe_teacher(&k->probe, k->x[PRUNE_TEACHER] + k->n_calib * ctx * d);
    probe_kld(&k->probe, &k->r->kld[round], k->x[PRUNE_STUDENT] + k->n_calib * ctx * d,
              1);
    log_line(k->p->log, LOG_INFO, "round %d of %d: kld %.4f on the probe", round + 1,
             k->p->rounds, k->r->kld[round]);
    return B2_OK;
}
