/*
 * analyze_fisher.c - the diagonal of the Fisher matrix from one backward pass per
 * sequence.
 *
 *   F = 1 / T  sum over sequences (grad sum_t -ln p(y_t))^2,  y_t drawn from p
 *
 * T: tokens. Labels are drawn from the model itself and independently at each place, so
 * that gradients of different places do not correlate and the square of their sum is, on
 * the mean, the sum of their squares. Half of F times a squared change is the divergence
 * per token that the change causes, as far as it is small.
 */
#include "compress/analyze_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "compress/netmodel.h"

#include <math.h>
#include <string.h>

enum { SEQ = 128, ROWS = 32, BLOCK = 64, SLICE = 2048, N_SUMS = 2 };

struct fisher {
    struct analyze *a;
    int64_t n_seqs, ctx;
    struct netmodel net;
    struct env env;
    struct net_work *work;
    struct analyze_fisher *sum; /* [layers] */
    double *head;               /* [layers, heads] */
    double *row;                /* [rows of the largest matrix, N_SUMS] */
    float *logits, *slice;      /* [BLOCK, vocab], [SLICE, D] */
    float *scratch;             /* of the loss */
    int32_t *label;             /* [ctx] */
    struct head head_of;
    enum b2_status rc; /* of the calls from inside the backward pass */
};

/* ---- gradients ---- */

struct squaring {
    const float *dw, *w, *v; /* gradient, weight, what becomes of it */
    double *row;             /* [rows, N_SUMS] */
    int64_t cols;
};

static void square_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct squaring *s = ctx;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        double plain = 0.0, damage = 0.0;
        for (int64_t i = r * s->cols; i < (r + 1) * s->cols; i++) {
            const double g2 = (double)s->dw[i] * (double)s->dw[i];
            const double e = (double)s->w[i] - (double)s->v[i];
            plain += g2;
            damage += g2 * e * e;
        }
        s->row[r * N_SUMS] = plain;
        s->row[r * N_SUMS + 1] = damage;
    }
}

/* Squares of the derivatives by a factor on each head's output. */
static void square_heads(struct fisher *f, int64_t layer, const float *dw,
                         const float *w)
{
    const struct model *m = f->a->m;
    const int64_t dim = m->hp.head_dim, heads = m->hp.n_heads, cols = heads * dim;

    for (int64_t h = 0; h < heads; h++) {
        double g = 0.0;
        for (int64_t r = 0; r < m->hp.d; r++)
            for (int64_t i = r * cols + h * dim; i < r * cols + (h + 1) * dim; i++)
                g += (double)dw[i] * (double)w[i];
        f->head[layer * heads + h] += g * g;
    }
}

static void look(void *ctx, int64_t layer, const struct layer *l, float *const *dw)
{
    struct fisher *f = ctx;

    if (!f->rc)
        f->rc = analyze_student(f->a, layer, NULL);
    for (int part = 0; part < N_PARTS && !f->rc; part++) {
        const int64_t rows = l->lin[part].rows;
        struct squaring s = {dw[part], l->lin[part].w, f->a->student.w[part], f->row,
                             l->lin[part].cols};
        pool_run(f->a->p->pool, square_rows, &s, rows, ROWS);
        for (int64_t r = 0; r < rows; r++) {
            f->sum[layer].mean[part] += f->row[r * N_SUMS];
            f->sum[layer].damage[part] += f->row[r * N_SUMS + 1];
        }
    }
    square_heads(f, layer, dw[PART_O], l->lin[LIN_O].w);
}

/* ---- labels ---- */

/* The first place where the sum of exp(y - top) passes a share u of the whole. */
static int32_t draw(const float *y, int64_t n, double u)
{
    float top = y[0];
    double whole = 0.0, sum = 0.0;

    for (int64_t i = 1; i < n; i++)
        top = y[i] > top ? y[i] : top;
    for (int64_t i = 0; i < n; i++)
        whole += (double)r_exp(y[i] - top);
    for (int64_t i = 0; i < n; i++) {
        sum += (double)r_exp(y[i] - top);
        if (sum > u * whole)
            return (int32_t)i;
    }
    return (int32_t)n - 1;
}

static void draw_labels(struct fisher *f, const float *hidden, int64_t seq)
{
    const int64_t d = f->a->m->hp.d, vocab = f->a->m->hp.vocab;
    const float cap = f->head_of.softcap;
    struct rng rng = rng_make(f->a->p->seed + (uint64_t)seq);

    for (int64_t t = 0; t < f->ctx; t += BLOCK) {
        const int64_t n = min_i64(BLOCK, f->ctx - t);
        for (int64_t v = 0; v < vocab; v += SLICE) {
            const int64_t end = min_i64(v + SLICE, vocab);
            f->head_of.rows(f->head_of.ctx, f->slice, v, end);
            mm(&f->env, f->logits + v, vocab, (struct mm_size){n, end - v, d},
               (struct mat){hidden + t * d, d, false}, (struct mat){f->slice, d, true},
               (struct mm_how){1, false});
        }
        for (int64_t i = 0; cap > 0.0f && i < n * vocab; i++)
            f->logits[i] = cap * tanhf(f->logits[i] / cap);
        for (int64_t i = 0; i < n; i++)
            f->label[t + i] = draw(f->logits + i * vocab, vocab, rng_f64(&rng));
    }
}

/* ---- one sequence ---- */

static void run_seq(struct fisher *f, int64_t seq)
{
    const struct calib *c = &f->a->calib;
    const int64_t per = c->ctx / f->ctx; /* pieces of a calibration sequence */
    const int32_t *ids = c->ids + seq / per * c->ctx + seq % per * f->ctx;
    const int threads = f->a->p->pool ? pool_threads(f->a->p->pool) : 1;
    const struct head_loss loss = {.student = f->head_of,
                                   .teacher = f->head_of,
                                   .shared = true,
                                   .ce = 1,
                                   .temperature = 1,
                                   .threads = threads,
                                   .scratch = f->scratch};
    struct head_sums sums = {0};
    int32_t pos[SEQ];
    const struct layer_batch batch = {1, f->ctx, pos, NULL};

    for (int32_t i = 0; i < f->ctx; i++)
        pos[i] = i;
    netmodel_embed(&f->net, net_input(f->work), ids, f->ctx);
    const float *h = net_forward(&f->env, f->work, &f->net.net, &batch);
    draw_labels(f, h, seq);
    float *dh = mem_calloc((size_t)(f->ctx * f->a->m->hp.d), sizeof *dh);
    if (!dh) {
        f->rc = B2_ENOMEM;
        return;
    }
    const struct head_io io = {
        .hs = h, .ht = h, .target = f->label, .weight = 1, .dhs = dh};
    head_run(&f->env, &sums, &loss, &io, f->ctx);
    net_backward(&f->env, f->work, &f->net.net, &batch, dh, NULL);
    mem_free(dh);
}

/* ---- pieces ---- */

static uint64_t payload_of(const struct analyze *a)
{
    return (uint64_t)a->s->n_layers * (sizeof(struct analyze_fisher) +
                                       (uint64_t)a->m->hp.n_heads * sizeof(double));
}

static enum b2_status save(struct fisher *f, struct b2_err *err)
{
    struct analyze *a = f->a;
    const int64_t n = a->s->n_layers;
    const double tokens = (double)(f->n_seqs * f->ctx);
    enum b2_status rc = work_piece_begin(a->work, 2 * n, err);

    for (int64_t i = 0; i < n; i++) {
        for (int part = 0; part < N_PARTS; part++) {
            const struct weight *w = walk_weight(a->m, i, (enum stream_part)part);
            f->sum[i].mean[part] /= tokens * (double)(w->rows * w->cols);
            f->sum[i].damage[part] *= 0.5 / tokens;
            if (!analyze_fits(a, i, (enum stream_part)part))
                f->sum[i].damage[part] = (double)NAN;
        }
        for (int64_t h = 0; h < a->m->hp.n_heads; h++)
            f->head[i * a->m->hp.n_heads + h] *= 0.5 / tokens;
    }
    if (!rc)
        rc = work_piece_data(a->work, f->sum, (size_t)n * sizeof *f->sum, err);
    if (!rc)
        rc = work_piece_data(a->work, f->head,
                             (size_t)(n * a->m->hp.n_heads) * sizeof *f->head, err);
    return rc ? rc : work_piece_end(a->work, NULL, 0, err);
}

static enum b2_status take(struct analyze *a, struct b2_err *err)
{
    const int64_t n = a->s->n_layers, heads = a->m->hp.n_heads;
    const uint64_t payload = (uint64_t)n * sizeof(struct analyze_fisher) +
                             (uint64_t)(n * heads) * sizeof(double);
    struct file_map map = {0};
    enum b2_status rc = work_piece_map(a->work, 2 * n, payload, &map, err);

    for (int64_t i = 0; i < n && !rc; i++) {
        struct analyze_fisher found;
        memcpy(&found, map.data + (uint64_t)i * sizeof found, sizeof found);
        memcpy(a->s->layer[i].head_fisher,
               map.data + (uint64_t)n * sizeof found +
                   (uint64_t)(i * heads) * sizeof(double),
               (size_t)heads * sizeof(double));
        for (int part = 0; part < N_PARTS; part++) {
            a->s->layer[i].tensor[part].fisher = found.mean[part];
            a->s->layer[i].tensor[part].fisher_damage = found.damage[part];
        }
    }
    file_unmap(&map);
    return rc;
}

/* ---- all ---- */

static enum b2_status make_fisher(struct fisher *f, struct b2_err *err)
{
    struct analyze *a = f->a;
    const int threads = a->p->pool ? pool_threads(a->p->pool) : 1;
    const struct netmodel_how how = {
        .ctx = f->ctx, .pool = a->p->pool, .look = {look, f}};
    const struct layer_batch max = {1, f->ctx, NULL, NULL};
    const struct hparams *hp = &a->m->hp;
    enum b2_status rc = netmodel_new(&f->net, a->m, &how, err);

    if (rc)
        return rc;
    f->head_of = netmodel_head(&f->net);
    const struct head_loss loss = {.student = f->head_of, .teacher = f->head_of};
    f->work = net_work_new(&f->net.net, &f->net.layer, &max, threads, true);
    f->sum = mem_calloc((size_t)hp->n_layers, sizeof *f->sum);
    f->head = mem_calloc((size_t)(hp->n_layers * hp->n_heads), sizeof *f->head);
    f->row =
        mem_calloc((size_t)max_i64(max_i64(hp->d, hp->f), hp->n_heads * hp->head_dim),
                   N_SUMS * sizeof *f->row);
    f->logits = mem_calloc((size_t)(BLOCK * hp->vocab), sizeof *f->logits);
    f->slice = mem_calloc((size_t)(SLICE * hp->d), sizeof *f->slice);
    f->scratch = mem_calloc((size_t)head_scratch(&loss, threads), sizeof *f->scratch);
    f->label = mem_calloc((size_t)f->ctx, sizeof *f->label);
    if (!f->work || !f->sum || !f->head || !f->row || !f->logits || !f->slice ||
        !f->scratch || !f->label)
        return err_set(err, B2_ENOMEM, "out of memory for the backward pass");
    return B2_OK;
}

static void free_fisher(struct fisher *f)
{
    net_work_free(f->work);
    netmodel_free(&f->net);
    mem_free(f->sum);
    mem_free(f->head);
    mem_free(f->row);
    mem_free(f->logits);
    mem_free(f->slice);
    mem_free(f->scratch);
    mem_free(f->label);
}

static enum b2_status run_all(struct fisher *f, struct b2_err *err)
{
    struct analyze *a = f->a;
    const double start_s = clock_s();
    enum b2_status rc = make_fisher(f, err);

    for (int64_t i = 0; i < f->n_seqs && !rc; i++) {
        rc = analyze_go_on(a, err);
        if (!rc)
            run_seq(f, i);
        if (!rc && f->rc)
            rc = err_set(err, f->rc, "the backward pass failed: out of memory or disk");
        if (a->p->progress)
            a->p->progress->total = (uint64_t)f->n_seqs;
        progress_update(a->p->progress, (uint64_t)i + 1, 0.0);
    }
    if (!rc)
        log_line(a->p->log, LOG_INFO, "fisher: %lld sequences in %.0f s",
                 (long long)f->n_seqs, clock_s() - start_s);
    return rc ? rc : save(f, err);
}

enum b2_status analyze_fisher_all(struct analyze *a, struct b2_err *err)
{
    struct fisher f = {.a = a, .ctx = min_i64(SEQ, a->calib.ctx)};
    struct b2_err why = {0};
    enum b2_status rc = B2_OK;

    f.n_seqs = min_i64(max_i64(1, a->p->fisher_tokens / f.ctx),
                       a->n_calib * (a->calib.ctx / f.ctx));
    f.env = (struct env){.pool = a->p->pool, .blas = a->blas};
    a->s->fisher_tokens = f.n_seqs * f.ctx;
    if (!work_have_piece(a->work, 2 * a->s->n_layers, NULL, 0, payload_of(a)))
        rc = run_all(&f, &why);
    free_fisher(&f);
    if (rc == B2_EUNSUP) { /* the rest is worth having without it */
        log_line(a->p->log, LOG_WARN, "no diagonal Fisher: %s", why.msg);
        a->s->fisher_tokens = 0;
        return B2_OK;
    }
    if (rc)
        return err_set(err, rc, "%s", why.msg);
    return take(a, err);
}
