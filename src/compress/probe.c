/*
 * probe.c - logits in slices, sums that go on from slice to slice.
 *
 * With p = softmax(t) of the teacher's logits t, its log-sum z known from before, and c of
 * a changed model: KL = sum p (t - c) - z + log sum exp(c), the last sum kept against the
 * largest c so far.
 */
#include "compress/probe.h"

#include "base/mem.h"
#include "compress/decode.h"
#include "tensor/quant.h"
#include "train/real.h"

enum { SLICE = 2048, CROSS = 0, TOP = 1, SUM = 2, N_SUMS = 3 };

uint64_t probe_bytes(const struct model *m, int64_t rows, int64_t max_seqs, int threads)
{
    const int64_t d = m->hp.d;

    return 4 * (uint64_t)(rows * d * (max_seqs + 1) + SLICE * d +
                          (threads + 1) * rows * SLICE) +
           8 * (uint64_t)(rows * (1 + max_seqs * N_SUMS));
}

enum b2_status probe_new(struct probe *p, const struct model *m,
                         const struct blas *blas, struct pool *pool, int64_t n,
                         int64_t rows, int64_t max_seqs, struct b2_err *err)
{
    const int threads = pool ? pool_threads(pool) : 1;
    const size_t states = (size_t)(rows * m->hp.d);

    *p = (struct probe){
        .m = m, .blas = blas, .pool = pool, .n = n, .rows = rows, .max_seqs = max_seqs};
    p->teacher = mem_calloc(states, sizeof(float));
    p->log_sum = mem_calloc((size_t)rows, sizeof(double));
    p->hidden = mem_calloc(states * (size_t)max_seqs, sizeof(float));
    p->slice = mem_calloc((size_t)(SLICE * m->hp.d), sizeof(float));
    p->logits = mem_calloc((size_t)((threads + 1) * rows * SLICE), sizeof(float));
    p->sum = mem_calloc((size_t)(max_seqs * rows * N_SUMS), sizeof(double));
    if (p->teacher && p->log_sum && p->hidden && p->slice && p->logits && p->sum)
        return B2_OK;
    probe_free(p);
    return err_set(err, B2_ENOMEM, "out of memory for the probe");
}

void probe_free(struct probe *p)
{
    mem_free(p->teacher);
    mem_free(p->log_sum);
    mem_free(p->hidden);
    mem_free(p->slice);
    mem_free(p->logits);
    mem_free(p->sum);
    *p = (struct probe){0};
}

/* The scored rows of x [n, D], normed. */
static void last_states(const struct probe *p, float *to, const float *x)
{
    const int64_t d = p->m->hp.d;

    for (int64_t r = 0; r < p->rows; r++) {
        const float *row = x + (p->n - p->rows + r) * d;
        double square = 0.0;
        for (int64_t i = 0; i < d; i++)
            square += (double)row[i] * (double)row[i];
        const double by = 1.0 / sqrt(square / (double)d + (double)p->m->hp.norm_eps);
        for (int64_t i = 0; i < d; i++)
            to[r * d + i] = (float)((double)row[i] * by) * p->m->out_norm[i];
    }
}

/* logits [rows, n] of hidden [rows, D] for the slice at hand. */
static void slice_logits(const struct probe *p, float *logits, const float *hidden,
                         int64_t n)
{
    const int64_t d = p->m->hp.d;
    const float cap = p->m->hp.final_softcap;

    blas_gemm(p->blas, logits, n, (struct blas_size){p->rows, n, d},
              (struct blas_mat){hidden, d, false}, (struct blas_mat){p->slice, d, true},
              1.0f, 0.0f);
    for (int64_t i = 0; cap > 0.0f && i < p->rows * n; i++)
        logits[i] = cap * tanhf(logits[i] / cap);
}

/* Goes on with a row's log-sum. */
static void add_logits(double *sum, const float *c, int64_t n)
{
    double top = sum[TOP], part = 0.0;

    for (int64_t i = 0; i < n; i++)
        top = (double)c[i] > top ? (double)c[i] : top;
    for (int64_t i = 0; i < n; i++)
        part += (double)r_exp(c[i] - (float)top);
    sum[SUM] = sum[SUM] * exp(sum[TOP] - top) + part;
    sum[TOP] = top;
}

struct comparing {
    struct probe *p;
    int64_t n; /* rows of the slice */
};

static void compare_seqs(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct comparing *k = ctx;
    struct probe *p = k->p;
    float *own = p->logits + (thread + 1) * p->rows * SLICE;

    for (int64_t i = begin; i < end; i++) {
        slice_logits(p, own, p->hidden + i * p->rows * p->m->hp.d, k->n);
        for (int64_t r = 0; r < p->rows; r++) {
            const float *t = p->logits + r * k->n, *c = own + r * k->n;
            double *sum = p->sum + (i * p->rows + r) * N_SUMS, cross = 0.0;
            for (int64_t v = 0; v < k->n; v++)
                cross += (double)(r_exp(t[v] - (float)p->log_sum[r]) * (t[v] - c[v]));
            sum[CROSS] += cross;
            add_logits(sum, c, k->n);
        }
    }
}

/* Slice by slice: the teacher's logits, then fn for what else there is. */
static void each_slice(struct probe *p,
                       void (*fn)(struct probe *p, int64_t n, void *ctx), void *ctx)
{
    for (int64_t v = 0; v < p->m->hp.vocab; v += SLICE) {
        const int64_t n = min_i64(SLICE, p->m->hp.vocab - v);
        decode_weight(p->pool, p->m, p->slice, &p->m->head, v, n);
        slice_logits(p, p->logits, p->teacher, n);
        fn(p, n, ctx);
    }
}

static void add_teacher(struct probe *p, int64_t n, void *ctx)
{
    double *sum = ctx;

    for (int64_t r = 0; r < p->rows; r++)
        add_logits(sum + r * N_SUMS, p->logits + r * n, n);
}

static void clear_sums(double *sum, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        sum[i * N_SUMS + CROSS] = sum[i * N_SUMS + SUM] = 0.0;
        sum[i * N_SUMS + TOP] = -(double)INFINITY;
    }
}

void probe_teacher(struct probe *p, const float *x)
{
    last_states(p, p->teacher, x);
    clear_sums(p->sum, p->rows);
    each_slice(p, add_teacher, p->sum);
    for (int64_t r = 0; r < p->rows; r++)
        p->log_sum[r] = p->sum[r * N_SUMS + TOP] + log(p->sum[r * N_SUMS + SUM]);
}

static void compare(struct probe *p, int64_t n, void *ctx)
{
    struct comparing k = {p, n};

    pool_run(p->pool, compare_seqs, &k, *(const int64_t *)ctx, 1);
}

void probe_kld(struct probe *p, double *kld, const float *x, int64_t n_seqs)
{
    const int64_t d = p->m->hp.d;

    for (int64_t i = 0; i < n_seqs; i++)
        last_states(p, p->hidden + i * p->rows * d, x + i * p->n * d);
    clear_sums(p->sum, n_seqs * p->rows);
    each_slice(p, compare, &n_seqs);
    for (int64_t i = 0; i < n_seqs; i++) {
        double total = 0.0;
        for (int64_t r = 0; r < p->rows; r++) {
            const double *sum = p->sum + (i * p->rows + r) * N_SUMS;
            total += sum[CROSS] - p->log_sum[r] + sum[TOP] + log(sum[SUM]);
        }
        kld[i] = total / (double)p->rows;
    }
}
