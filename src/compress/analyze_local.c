/*
 * analyze_local.c - calibration tokens through the layers, and every matrix compressed on
 * its own.
 */
#include "compress/analyze_int.h"
#include "compress/analyze_stats.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tensor/quant.h"

#include <math.h>
#include <string.h>

enum { BATCH_TOKENS = 2048, ROWS = 64 };

/* Streams and sums of the step. */
struct local {
    struct analyze *a;
    int64_t batch_seqs;
    float *x;      /* [n_calib * ctx, D] */
    float *before; /* [batch, D] */
    struct walk_tap tap;
    /* of the layer at hand */
    struct metric_sums sums[N_INPUTS];
    struct stats_columns columns[N_INPUTS];
    struct stats_gates gates;
    struct analyze_local found;
    float *neuron;           /* [f] */
    uint8_t *bytes[N_PARTS]; /* NULL: the part does not fit the type */
};

static int64_t width_of(const struct model *m, int64_t layer, int in)
{
    const struct layer_weights *l = &m->layers[layer];

    return in == INPUT_O ? l->o.cols : in == INPUT_DOWN ? l->down.cols : m->hp.d;
}

static int64_t most_wide(const struct model *m, int in)
{
    int64_t most = 0;

    for (int64_t i = 0; i < m->hp.n_layers; i++)
        most = max_i64(most, width_of(m, i, in));
    return most;
}

static int64_t batch_seqs(const struct analyze *a)
{
    return min_i64(a->n_calib, max_i64(1, BATCH_TOKENS / a->calib.ctx));
}

uint64_t analyze_local_bytes(const struct analyze *a)
{
    const int64_t batch = batch_seqs(a) * a->calib.ctx;
    uint64_t n = (uint64_t)((a->n_calib * a->calib.ctx + batch) * a->m->hp.d) * 4;
    uint64_t widest = 0;

    for (int in = 0; in < N_INPUTS; in++) {
        const uint64_t d = (uint64_t)most_wide(a->m, in);
        n += (uint64_t)batch * d * 4 + d * d * (8 + 8 + 8);
        widest = d > widest ? d : widest;
    }
    /* The metric in F64 and F32, a layer's bytes as the type. */
    return n + (uint64_t)(batch * a->m->hp.f) * 4 + widest * widest * 24 +
           walk_weights_bytes(a->m) / 4;
}

static void free_layer(struct local *l)
{
    for (int in = 0; in < N_INPUTS; in++) {
        metric_sums_free(&l->sums[in]);
        stats_columns_free(&l->columns[in]);
    }
    for (int part = 0; part < N_PARTS; part++) {
        mem_free(l->bytes[part]);
        l->bytes[part] = NULL;
    }
    stats_gates_free(&l->gates);
    mem_free(l->neuron);
    l->neuron = NULL;
}

static enum b2_status make_layer(struct local *l, int64_t layer, struct b2_err *err)
{
    const struct analyze *a = l->a;
    enum b2_status rc = stats_gates_new(&l->gates, hparams_f(&a->m->hp, layer), err);

    for (int in = 0; in < N_INPUTS && !rc; in++) {
        rc = metric_sums_new(&l->sums[in], width_of(a->m, layer, in), err);
        if (!rc)
            rc = stats_columns_new(&l->columns[in], width_of(a->m, layer, in), err);
    }
    for (int part = 0; part < N_PARTS && !rc; part++) {
        if (!analyze_fits(a, layer, (enum stream_part)part))
            continue;
        l->bytes[part] =
            mem_calloc(analyze_part_bytes(a, layer, (enum stream_part)part), 1);
        if (!l->bytes[part])
            rc = err_set(err, B2_ENOMEM, "out of memory");
    }
    l->neuron = mem_calloc((size_t)hparams_f(&a->m->hp, layer), sizeof *l->neuron);
    if (!rc && !l->neuron)
        rc = err_set(err, B2_ENOMEM, "out of memory");
    l->found = (struct analyze_local){0};
    return rc;
}

/* All tokens past a layer; what they were is added up when someone wants to know. */
static void walk_all(struct local *l, int64_t layer, bool look)
{
    struct analyze *a = l->a;
    const int64_t ctx = a->calib.ctx, d = a->m->hp.d;
    double cosines = 0.0;

    for (int64_t s = 0; s < a->n_calib; s += l->batch_seqs) {
        const int64_t n = min_i64(l->batch_seqs, a->n_calib - s), tokens = n * ctx;
        float *x = l->x + s * ctx * d;
        struct walk_pass pass = {.layer = layer,
                                 .weights = &a->teacher,
                                 .x = x,
                                 .n_seqs = n,
                                 .n = ctx,
                                 .tap = look ? &l->tap : NULL};
        if (look)
            memcpy(l->before, x, (size_t)(tokens * d) * sizeof *x);
        walk_layer(a->walk, &pass);
        if (!look)
            continue;
        cosines += stats_cosines(l->before, x, tokens, d);
        stats_gates_add(&l->gates, a->p->pool, l->tap.gate, tokens);
        for (int in = 0; in < N_INPUTS; in++) {
            stats_columns_add(&l->columns[in], a->p->pool, l->tap.input[in], tokens);
            metric_sums_add(&l->sums[in], a->blas, a->p->pool, l->tap.input[in], NULL,
                            tokens);
        }
    }
    l->found.influence = 1.0 - cosines / (double)(a->n_calib * ctx);
}

/* ---- compressing ---- */

struct comparing {
    const struct analyze *a;
    const float *w, *v; /* [rows, d] the weight and what became of it */
    const float *h;     /* [d, d] mean of x xᵀ */
    int64_t rows, d;
    double *sum; /* [blocks, 3] */
    float *work; /* [threads, 2, ROWS, d] */
};

/* Of a block of rows: sums of w H wᵀ, w H vᵀ and v H vᵀ. */
static void compare_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct comparing *k = ctx;
    const int64_t d = k->d;

    for (int64_t b = begin; b < end; b++) {
        const int64_t first = b * ROWS, rows = min_i64(ROWS, k->rows - first);
        float *wh = k->work + (int64_t)thread * 2 * ROWS * d, *vh = wh + ROWS * d;
        const float *w = k->w + first * d, *v = k->v + first * d;
        const struct blas_size size = {rows, d, d};
        double ww = 0.0, wv = 0.0, vv = 0.0;
        blas_gemm(k->a->blas, wh, d, size, (struct blas_mat){w, d, false},
                  (struct blas_mat){k->h, d, false}, 1.0f, 0.0f);
        blas_gemm(k->a->blas, vh, d, size, (struct blas_mat){v, d, false},
                  (struct blas_mat){k->h, d, false}, 1.0f, 0.0f);
        for (int64_t i = 0; i < rows * d; i++) {
            ww += (double)wh[i] * (double)w[i];
            wv += (double)wh[i] * (double)v[i];
            vv += (double)vh[i] * (double)v[i];
        }
        k->sum[3 * b] = ww;
        k->sum[3 * b + 1] = wv;
        k->sum[3 * b + 2] = vv;
    }
}

/* Mean of x xᵀ in F32, whole. */
static void mean_metric(float *h, const struct metric_sums *s)
{
    const double n = (double)max_i64(1, s->n_tokens);

    for (int64_t i = 0; i < s->d; i++)
        for (int64_t k = i; k < s->d; k++)
            h[i * s->d + k] = h[k * s->d + i] = (float)(s->h[i * s->d + k] / n);
}

/* Cosine and relative squared error of the outputs of v against those of w. */
static enum b2_status compare_outputs(struct local *l, int64_t layer,
                                      enum stream_part part, const float *h,
                                      struct b2_err *err)
{
    struct analyze *a = l->a;
    const struct weight *w = walk_weight(a->m, layer, part);
    const int64_t blocks = (w->rows + ROWS - 1) / ROWS;
    const int threads = a->p->pool ? pool_threads(a->p->pool) : 1;
    struct comparing k = {.a = a,
                          .w = a->teacher.w[part],
                          .v = a->student.w[part],
                          .h = h,
                          .rows = w->rows,
                          .d = w->cols};
    double ww = 0.0, wv = 0.0, vv = 0.0;

    k.sum = mem_calloc((size_t)blocks, 3 * sizeof *k.sum);
    k.work = mem_calloc((size_t)threads * 2 * ROWS, (size_t)w->cols * sizeof *k.work);
    if (!k.sum || !k.work) {
        mem_free(k.sum);
        mem_free(k.work);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    pool_run(a->p->pool, compare_rows, &k, blocks, 1);
    for (int64_t b = 0; b < blocks; b++) {
        ww += k.sum[3 * b];
        wv += k.sum[3 * b + 1];
        vv += k.sum[3 * b + 2];
    }
    mem_free(k.sum);
    mem_free(k.work);
    l->found.cosine[part] = ww > 0.0 && vv > 0.0 ? wv / sqrt(ww * vv) : (double)NAN;
    l->found.error[part] = ww > 0.0 ? (ww - 2.0 * wv + vv) / ww : (double)NAN;
    return B2_OK;
}

static enum b2_status round_plain(struct local *l, int64_t layer, enum stream_part part,
                                  struct b2_err *err)
{
    const struct analyze *a = l->a;
    const struct weight *w = walk_weight(a->m, layer, part);
    const uint64_t row_bytes = analyze_part_bytes(a, layer, part) / (uint64_t)w->rows;
    const struct fit_how how = {.rule = TERNARISE_LS};
    float *row = mem_calloc((size_t)w->cols, sizeof *row);
    struct fit_stat stat;
    enum b2_status rc = B2_OK;

    if (!row)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t r = 0; r < w->rows && !rc; r++) {
        uint8_t *bytes = l->bytes[part] + (uint64_t)r * row_bytes;
        float *value = a->student.w[part] + r * w->cols;
        memcpy(row, a->teacher.w[part] + r * w->cols, (size_t)w->cols * sizeof *row);
        if (a->rotate)
            rotate_fold_row(a->rotate, row, w->cols);
        rc = fit_row(a->codes.type, bytes, row, w->cols, &how, &stat, err);
        if (rc)
            break;
        quant_decode_row(a->codes.type, value, bytes, w->cols);
        if (a->rotate)
            rotate_unfold_row(a->rotate, value, w->cols);
    }
    mem_free(row);
    return rc;
}

static enum b2_status round_part(struct local *l, int64_t layer, enum stream_part part,
                                 const struct metric *metric, struct b2_err *err)
{
    struct analyze *a = l->a;
    const struct weight *w = walk_weight(a->m, layer, part);
    const struct compensate_how how = {0.0, 0, TERNARISE_LS, 0};
    struct compensate_out out = {.bytes = l->bytes[part], .values = a->student.w[part]};

    if (a->p->plain)
        return round_plain(l, layer, part, err);
    return compensate_rows(&out, &a->codes, a->teacher.w[part], w->rows, metric, NULL,
                           a->rotate, &how, a->blas, a->p->pool, err);
}

static double rms_of(const float *v, int64_t n)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum / (double)max_i64(1, n));
}

/* The parts that read one input. */
static enum b2_status round_input(struct local *l, int64_t layer, enum stream_input in,
                                  struct b2_err *err)
{
    struct analyze *a = l->a;
    const int64_t d = width_of(a->m, layer, (int)in);
    struct metric metric = {0};
    float *h = mem_calloc((size_t)d * (size_t)d, sizeof *h);
    enum b2_status rc = B2_OK;

    if (!h)
        return err_set(err, B2_ENOMEM, "out of memory");
    mean_metric(h, &l->sums[in]);
    for (int part = 0; part < N_PARTS && !rc; part++) {
        const struct weight *w = walk_weight(a->m, layer, (enum stream_part)part);
        if (stream_input_of((enum stream_part)part) != in)
            continue;
        l->found.rms[part] = rms_of(a->teacher.w[part], w->rows * w->cols);
        l->found.cosine[part] = l->found.error[part] = (double)NAN;
        if (!l->bytes[part])
            continue;
        if (!a->p->plain && !metric.h)
            rc = metric_new(&metric, &l->sums[in], a->rotate, a->codes.group,
                            a->codes.unit, a->blas, err);
        if (!rc)
            rc = round_part(l, layer, (enum stream_part)part, &metric, err);
        if (!rc)
            rc = compare_outputs(l, layer, (enum stream_part)part, h, err);
        if (rc)
            err_wrap(err, "tensor %s", w->name);
    }
    metric_free(&metric);
    mem_free(h);
    return rc;
}

/* ---- pieces ---- */

static uint64_t payload_of(const struct analyze *a, int64_t layer)
{
    uint64_t n = sizeof(struct analyze_local) +
                 (uint64_t)hparams_f(&a->m->hp, layer) * sizeof(float);

    for (int part = 0; part < N_PARTS; part++)
        n += analyze_fits(a, layer, (enum stream_part)part)
                 ? analyze_part_bytes(a, layer, (enum stream_part)part)
                 : 0;
    return n;
}

static enum b2_status save(struct local *l, int64_t layer, struct b2_err *err)
{
    struct work *w = l->a->work;
    const size_t neurons = (size_t)hparams_f(&l->a->m->hp, layer) * sizeof(float);
    enum b2_status rc = work_piece_begin(w, layer, err);

    if (!rc)
        rc = work_piece_data(w, &l->found, sizeof l->found, err);
    if (!rc)
        rc = work_piece_data(w, l->neuron, neurons, err);
    for (int part = 0; part < N_PARTS && !rc; part++)
        if (l->bytes[part])
            rc = work_piece_data(
                w, l->bytes[part],
                analyze_part_bytes(l->a, layer, (enum stream_part)part), err);
    return rc ? rc : work_piece_end(w, NULL, 0, err);
}

/* From a piece to the result. */
static enum b2_status take(struct analyze *a, int64_t layer, struct b2_err *err)
{
    struct sens_layer *to = &a->s->layer[layer];
    struct file_map map = {0};
    struct analyze_local found;
    enum b2_status rc = work_piece_map(a->work, layer, payload_of(a, layer), &map, err);

    if (rc)
        return rc;
    memcpy(&found, map.data, sizeof found);
    memcpy(to->neuron, map.data + sizeof found, (size_t)to->f * sizeof *to->neuron);
    file_unmap(&map);
    to->influence = found.influence;
    to->dead = found.dead;
    to->off = found.off;
    to->saturated = found.saturated;
    memcpy(to->input, found.input, sizeof to->input);
    for (int part = 0; part < N_PARTS; part++) {
        to->tensor[part].rms = found.rms[part];
        to->tensor[part].cosine = found.cosine[part];
        to->tensor[part].error = found.error[part];
    }
    return B2_OK;
}

struct unpacking {
    const struct analyze *a;
    const uint8_t *bytes;
    float *w;
    int64_t cols;
    uint64_t row_bytes;
};

static void unpack_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct unpacking *u = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *row = u->w + r * u->cols;
        quant_decode_row(u->a->codes.type, row, u->bytes + (uint64_t)r * u->row_bytes,
                         u->cols);
        if (u->a->rotate)
            rotate_unfold_row(u->a->rotate, row, u->cols);
    }
}

enum b2_status analyze_student(struct analyze *a, int64_t layer, struct b2_err *err)
{
    struct file_map map = {0};
    enum b2_status rc = walk_decode(a->walk, &a->student, layer, err);
    uint64_t at = sizeof(struct analyze_local) +
                  (uint64_t)hparams_f(&a->m->hp, layer) * sizeof(float);

    if (!rc)
        rc = work_piece_map(a->work, layer, payload_of(a, layer), &map, err);
    for (int part = 0; part < N_PARTS && !rc; part++) {
        const struct weight *w = walk_weight(a->m, layer, (enum stream_part)part);
        if (!analyze_fits(a, layer, (enum stream_part)part))
            continue;
        const uint64_t n = analyze_part_bytes(a, layer, (enum stream_part)part);
        struct unpacking u = {a, map.data + at, a->student.w[part], w->cols,
                              n / (uint64_t)w->rows};
        pool_run(a->p->pool, unpack_rows, &u, w->rows, ROWS);
        at += n;
    }
    file_unmap(&map);
    return rc;
}

/* ---- all layers ---- */

static enum b2_status make_local(struct local *l, struct b2_err *err)
{
    struct analyze *a = l->a;
    const int64_t d = a->m->hp.d, ctx = a->calib.ctx;
    bool have;

    l->batch_seqs = batch_seqs(a);
    const size_t batch = (size_t)(l->batch_seqs * ctx);
    l->x = mem_calloc((size_t)(a->n_calib * ctx * d), sizeof *l->x);
    l->before = mem_calloc(batch * (size_t)d, sizeof *l->before);
    l->tap.gate = mem_calloc(batch * (size_t)a->m->hp.f, sizeof *l->tap.gate);
    have = l->x && l->before && l->tap.gate;
    for (int in = 0; in < N_INPUTS; in++) {
        l->tap.input[in] =
            mem_calloc(batch * (size_t)most_wide(a->m, in), sizeof(float));
        have = have && l->tap.input[in];
    }
    if (!have)
        return err_set(err, B2_ENOMEM,
                       "out of memory for %lld calibration tokens; fewer need less",
                       (long long)a->n_calib * (long long)ctx);
    walk_embed(a->walk, l->x, a->calib.ids, a->n_calib, ctx);
    return B2_OK;
}

static void free_local(struct local *l)
{
    free_layer(l);
    mem_free(l->x);
    mem_free(l->before);
    mem_free(l->tap.gate);
    for (int in = 0; in < N_INPUTS; in++)
        mem_free(l->tap.input[in]);
}

static enum b2_status one_layer(struct local *l, int64_t layer, struct b2_err *err)
{
    struct analyze *a = l->a;
    struct sens_layer neurons = {0};
    enum b2_status rc = make_layer(l, layer, err);

    if (rc)
        return rc;
    walk_all(l, layer, true);
    for (int in = 0; in < N_INPUTS && !rc; in++)
        rc = stats_columns_input(&l->found.input[in], &l->columns[in], err);
    if (!rc)
        rc = stats_neurons(&neurons, l->neuron, &l->columns[INPUT_DOWN], &l->gates,
                           a->teacher.w[PART_DOWN], a->m->hp.d, err);
    l->found.dead = neurons.dead;
    l->found.off = neurons.off;
    l->found.saturated = neurons.saturated;
    for (int in = 0; in < N_INPUTS && !rc; in++) {
        rc = analyze_go_on(a, err);
        if (!rc)
            rc = round_input(l, layer, (enum stream_input)in, err);
    }
    return rc ? rc : save(l, layer, err);
}

static void tell(const struct analyze *a, int64_t layer, int64_t made, double start_s)
{
    const struct sens_layer *l = &a->s->layer[layer];
    const double each = (clock_s() - start_s) / (double)made;

    log_line(a->p->log, LOG_INFO,
             "layer %lld of %lld: influence %.4f, %lld dead hidden values, %.1f s a "
             "layer, %.0f s left",
             (long long)layer + 1, (long long)a->s->n_layers, l->influence,
             (long long)l->dead, each, each * (double)(a->s->n_layers - 1 - layer));
}

enum b2_status analyze_local_all(struct analyze *a, struct b2_err *err)
{
    struct local l = {.a = a};
    int64_t made = 0, last = -1; /* the last layer that is missing */
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < a->s->n_layers; i++)
        if (!work_have_piece(a->work, i, NULL, 0, payload_of(a, i)))
            last = i;
    if (last >= 0)
        rc = make_local(&l, err);
    double start_s = clock_s();
    for (int64_t i = 0; i < a->s->n_layers && !rc; i++) {
        const bool have = work_have_piece(a->work, i, NULL, 0, payload_of(a, i));
        rc = analyze_go_on(a, err);
        if (!rc && i <= last)
            rc = walk_decode(a->walk, &a->teacher, i, err);
        if (!rc && !have) {
            rc = one_layer(&l, i, err);
            free_layer(&l);
            made++;
        } else if (!rc && i < last) {
            walk_all(&l, i, false);
            start_s = clock_s();
        }
        if (!rc)
            rc = take(a, i, err);
        if (rc)
            err_wrap(err, "layer %lld", (long long)i);
        else if (!have)
            tell(a, i, made, start_s);
        progress_update(a->p->progress, (uint64_t)i + 1, 0.0);
    }
    free_local(&l);
    return rc;
}
