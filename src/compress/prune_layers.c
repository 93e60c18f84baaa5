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
#include "compress/fit.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

enum { BATCH_TOKENS = 2048 };

/* A layer while it is pruned. */
struct cutting {
    struct prune *k;
    int64_t layer;
    struct prune_found found;
    uint8_t *ffn, *head;         /* masks */
    float *ffn_cost, *head_cost; /* of those that are gone */
    uint8_t *column;             /* mask of o's or down's columns */
    struct str o, down;          /* bytes */
};

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

    return tokens * (uint64_t)hp->d * 8 + batch * (2 * d + 2 * (uint64_t)hp->d) * 4 +
           d * d * (8 + 8 + 8 + 8 + 8 + 4);
}

/* ---- what flows into o or down ---- */

/* Sums of an input of both sides over all calibration tokens; the streams stay. */
static enum b2_status collect(struct cutting *c, struct metric_sums *sums,
                              enum stream_input in, struct b2_err *err)
{
    struct prune *k = c->k;
    const int64_t ctx = k->calib.ctx, d = k->m->hp.d, most = batch_seqs(k);
    const size_t batch = (size_t)(most * ctx);
    float *x = mem_calloc(batch * (size_t)d, sizeof *x), *tap[2];
    struct walk_edit *edit = mem_calloc((size_t)most, sizeof *edit);
    bool have = x && edit;

    for (int side = 0; side < 2; side++) {
        tap[side] = mem_calloc(batch * (size_t)sums->d, sizeof(float));
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
        metric_sums_add(sums, k->blas, k->p->pool, tap[PRUNE_STUDENT],
                        tap[PRUNE_TEACHER], n * ctx);
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
                               struct b2_err *err)
{
    struct prune *k = c->k;
    const int64_t f = hparams_f(&k->m->hp, c->layer);
    const int64_t more = prune_plan_of(k, k->round, c->layer).ffn - marked(c->ffn, f);
    const struct prune_units u = {f, 1, f, !k->p->no_restore};

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

/* Units of `per` heads: `more` of each run of `part` units go. */
static enum b2_status pick_units(struct cutting *c, const struct metric_sums *sums,
                                 int64_t per, int64_t part, int64_t more,
                                 struct b2_err *err)
{
    struct prune *k = c->k;
    const int64_t heads = hparams_heads(&k->m->hp, c->layer), n = heads / per;
    const struct prune_units u = {n, per * k->m->hp.head_dim, part, !k->p->no_restore};
    uint8_t *gone = mem_calloc((size_t)n, 1);
    float *cost = mem_calloc((size_t)n, sizeof *cost);
    float *known = mem_calloc((size_t)n, sizeof *known);
    enum b2_status rc = gone && cost && known ? B2_OK : B2_ENOMEM;

    if (rc)
        (void)err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t h = 0; h < heads && !rc; h++)
        gone[h / per] = (h % per ? gone[h / per] : 1) & c->head[h];
    if (!rc && sums) {
        rc = prune_pick(gone, cost, &u, more, sums, k->teacher.w[PART_O], k->m->hp.d,
                        k->blas, k->p->pool, err);
    } else if (!rc) {
        known_heads(k, known, c->layer, per);
        pick_known(gone, cost, known, n, part, more);
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
                                 struct b2_err *err)
{
    struct prune *k = c->k;
    const struct prune_plan to = prune_plan_of(k, k->round, c->layer);
    const int64_t kv = hparams_kv_heads(&k->m->hp, c->layer);
    const int64_t heads = hparams_heads(&k->m->hp, c->layer), per = heads / kv;
    int64_t groups = 0, single = 0;

    for (int64_t g = 0; g < kv; g++) {
        const int64_t n = marked(c->head + g * per, per);
        groups += n == per;
        single = n < per ? max_i64(single, n) : single;
    }
    enum b2_status rc = B2_OK;
    if (to.kv > groups)
        rc = pick_units(c, sums, per, kv, to.kv - groups, err);
    if (!rc && to.per_group > single)
        rc = pick_units(c, sums, 1, per, to.per_group - single, err);
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

static enum b2_status cut_matrix(struct cutting *c, struct str *bytes,
                                 enum stream_part part, const struct metric_sums *sums,
                                 bool free_of_cost, struct b2_err *err)
{
    struct prune *k = c->k;
    const struct weight *w = walk_weight(k->m, c->layer, part);
    struct prune_lost lost = {(double)NAN, (double)NAN};
    const float *from = k->teacher.w[part];
    float *restored = NULL;
    enum b2_status rc = B2_OK;

    if (sums && !k->p->no_restore && !free_of_cost) {
        restored = mem_calloc((size_t)(w->rows * w->cols), sizeof *restored);
        if (!restored)
            return err_set(err, B2_ENOMEM, "out of memory");
        from = restored;
    }
    if (sums)
        rc = prune_restore(restored, &lost, c->column, sums, k->teacher.w[part],
                           w->rows, k->p->mismatch, k->blas, k->p->pool, err);
    if (!rc)
        rc = keep_columns(c, bytes, part, from, err);
    if (part == PART_O) {
        c->found.o_plain = lost.plain;
        c->found.o_restored = lost.restored;
    } else {
        c->found.down_plain = lost.plain;
        c->found.down_restored = lost.restored;
    }
    mem_free(restored);
    return rc;
}

static enum b2_status cut_block(struct cutting *c, bool ffn, struct b2_err *err)
{
    struct prune *k = c->k;
    const enum stream_part part = ffn ? PART_DOWN : PART_O;
    const int64_t d = walk_weight(k->m, c->layer, part)->cols;
    const int64_t dim = ffn ? 1 : k->m->hp.head_dim;
    struct metric_sums sums = {0};
    const bool stats = k->calib.n_seqs > 0;
    enum b2_status rc = stats ? metric_sums_new(&sums, d, err) : B2_OK;

    if (!rc && stats)
        rc = collect(c, &sums, ffn ? INPUT_DOWN : INPUT_O, err);
    if (!rc)
        rc = ffn ? pick_ffn(c, stats ? &sums : NULL, err)
                 : pick_heads(c, stats ? &sums : NULL, err);
    for (int64_t i = 0; i < d && !rc; i++)
        c->column[i] = ffn ? c->ffn[i] : c->head[i / dim];
    if (!rc)
        rc = cut_matrix(c, ffn ? &c->down : &c->o, part, stats ? &sums : NULL,
                        ffn ? costs_nothing(c->ffn_cost, c->ffn, d)
                            : costs_nothing(c->head_cost, c->head, d / dim),
                        err);
    metric_sums_free(&sums);
    return rc;
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

    c->found = (struct prune_found){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
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
        rc = cut_block(c, false, err);
    if (!rc && streams)
        rc = pass_block(c, false, err);
    if (!rc && !have && to.ffn > 0)
        rc = cut_block(c, true, err);
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
    else if (!have && !k->plan[layer].gone && isfinite(c.found.down_plain))
        log_line(k->p->log, LOG_INFO,
                 "layer %lld: feed-forward output loses %.4f, %.4f after restoring",
                 (long long)layer + 1, c.found.down_plain, c.found.down_restored);
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
