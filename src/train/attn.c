/*
 * attn.c - attention by blocks of queries.
 */
#include "train/attn.h"

#include "base/pool.h"
#include "train/vec.h"

enum { BLOCK = 64 }; /* queries of a block */

int64_t attn_scratch(int64_t ctx)
{
    return 3 * BLOCK * ctx; /* p, its gradient, the slope of the soft cap */
}

struct job {
    const struct env *e;
    const struct attn *a;
    const struct attn_in *in;
    const struct attn_grad *g;
    real *out;
    const real *dout;
};

/* Some queries [begin, end) of one head of a sequence, and the keys [lo, end) that any of
 * them sees. Places are in tokens of the whole batch. */
struct block {
    int64_t seq, head, kv_head;
    int64_t base; /* first token of the sequence */
    int64_t begin, end, lo;
    real *p, *dp, *slope; /* [end - begin, end - lo] */
};

static int64_t first_seen(const struct attn *a, int64_t base, int64_t t)
{
    int64_t lo = a->first ? a->first[base + t] : 0;

    return a->window > 0 ? max_i64(lo, t - a->window + 1) : lo;
}

static real *query_of(const struct attn *a, real *q, int64_t token, int64_t head)
{
    return q + (token * a->n_heads + head) * a->head_dim;
}

static const real *key_of(const struct attn *a, const real *k, const struct block *b)
{
    return k + ((b->base + b->lo) * a->n_kv_heads + b->kv_head) * a->head_dim;
}

static struct mat queries(const struct attn *a, const real *q, const struct block *b)
{
    return (struct mat){q + ((b->base + b->begin) * a->n_heads + b->head) * a->head_dim,
                        a->n_heads * a->head_dim, false};
}

static struct mat keys(const struct attn *a, const real *k, const struct block *b,
                       bool t)
{
    return (struct mat){key_of(a, k, b), a->n_kv_heads * a->head_dim, t};
}

/* p [n] becomes the softmax of its part [from, to), zeros elsewhere. */
static void softmax(const struct env *e, real *p, int64_t n, int64_t from, int64_t to)
{
    real top, sum = vec_softmax(e, p + from, to - from, 1, &top);

    vec_scale(e, p + from, to - from, 1 / sum);
    memset(p, 0, (size_t)from * sizeof *p);
    memset(p + to, 0, (size_t)(n - to) * sizeof *p);
}

static void make_p(const struct job *j, struct block *b)
{
    const struct attn *a = j->a;
    const int64_t n = b->end - b->lo;

    mm_one(j->e, b->p, n, (struct mm_size){b->end - b->begin, n, a->head_dim},
           queries(a, j->in->q, b), keys(a, j->in->k, b, true),
           (struct mm_how){a->scale, false});
    for (int64_t t = b->begin; t < b->end; t++) {
        real *p = b->p + (t - b->begin) * n, *slope = b->slope + (t - b->begin) * n;
        for (int64_t i = 0; a->softcap > 0 && i < n; i++) {
            real th = r_tanh(p[i] / a->softcap);
            p[i] = a->softcap * th;
            slope[i] = 1 - th * th;
        }
        softmax(j->e, p, n, first_seen(a, b->base, t) - b->lo, t + 1 - b->lo);
    }
}

static void block_forward(const struct job *j, struct block *b)
{
    const struct attn *a = j->a;
    const int64_t n = b->end - b->lo;

    make_p(j, b);
    mm_one(j->e, query_of(a, j->out, b->base + b->begin, b->head),
           a->n_heads * a->head_dim,
           (struct mm_size){b->end - b->begin, a->head_dim, n},
           (struct mat){b->p, n, false}, keys(a, j->in->v, b, false),
           (struct mm_how){1, false});
}

/* dp becomes the gradient of the scores: p (dp - sum p dp), through the soft cap. */
static void back_through_softmax(const struct attn *a, const struct block *b)
{
    const int64_t n = b->end - b->lo;

    for (int64_t t = 0; t < b->end - b->begin; t++) {
        const real *p = b->p + t * n;
        real *dp = b->dp + t * n, sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += p[i] * dp[i];
        for (int64_t i = 0; i < n; i++)
            dp[i] = p[i] * (dp[i] - sum);
        for (int64_t i = 0; a->softcap > 0 && i < n; i++)
            dp[i] *= b->slope[t * n + i];
    }
}

static real *key_grad(const struct attn *a, real *dk, const struct block *b)
{
    return dk + ((b->base + b->lo) * a->n_kv_heads + b->kv_head) * a->head_dim;
}

static void block_backward(const struct job *j, struct block *b)
{
    const struct attn *a = j->a;
    const int64_t n = b->end - b->lo, rows = b->end - b->begin, d = a->head_dim;
    const struct mm_how add = {1, true};

    make_p(j, b);
    mm_one(j->e, key_grad(a, j->g->v, b), a->n_kv_heads * d,
           (struct mm_size){n, d, rows}, (struct mat){b->p, n, true},
           queries(a, j->dout, b), add);
    mm_one(j->e, b->dp, n, (struct mm_size){rows, n, d}, queries(a, j->dout, b),
           keys(a, j->in->v, b, true), (struct mm_how){1, false});
    back_through_softmax(a, b);
    mm_one(j->e, query_of(a, j->g->q, b->base + b->begin, b->head), a->n_heads * d,
           (struct mm_size){rows, d, n}, (struct mat){b->dp, n, false},
           keys(a, j->in->k, b, false), (struct mm_how){a->scale, false});
    mm_one(j->e, key_grad(a, j->g->k, b), a->n_kv_heads * d,
           (struct mm_size){n, d, rows}, (struct mat){b->dp, n, true},
           queries(a, j->in->q, b), (struct mm_how){a->scale, true});
}

static void clear_keys(const struct job *j, struct block *b)
{
    const struct attn *a = j->a;
    const size_t bytes = (size_t)a->head_dim * sizeof(real);

    b->lo = 0;
    for (int64_t t = 0; t < a->ctx; t++) {
        memset(key_grad(a, j->g->k, b) + t * a->n_kv_heads * a->head_dim, 0, bytes);
        memset(key_grad(a, j->g->v, b) + t * a->n_kv_heads * a->head_dim, 0, bytes);
    }
}

static void walk_queries(const struct job *j, struct block *b)
{
    const struct attn *a = j->a;

    for (b->begin = 0; b->begin < a->ctx; b->begin = b->end) {
        b->end = min_i64(b->begin + BLOCK, a->ctx);
        /* what a token sees starts no earlier than what the one before it sees */
        b->lo = first_seen(a, b->base, b->begin);
        if (j->g)
            block_backward(j, b);
        else
            block_forward(j, b);
    }
}

static void run_heads(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct attn *a = j->a;
    const int64_t group = a->n_heads / a->n_kv_heads;
    real *p = a->scratch + thread * attn_scratch(a->ctx);

    for (int64_t i = begin; i < end; i++) {
        struct block b = {.seq = i / a->n_kv_heads, .kv_head = i % a->n_kv_heads};
        b.base = b.seq * a->ctx;
        b.p = p;
        b.dp = p + BLOCK * a->ctx;
        b.slope = b.dp + BLOCK * a->ctx;
        if (j->g)
            clear_keys(j, &b);
        for (b.head = b.kv_head * group; b.head < (b.kv_head + 1) * group; b.head++)
            walk_queries(j, &b);
    }
}

void attn_forward(const struct env *e, real *out, const struct attn *a,
                  const struct attn_in *in)
{
    struct job j = {.e = e, .a = a, .in = in, .out = out};

    pool_run(e->pool, run_heads, &j, a->n_seqs * a->n_kv_heads, 1);
}

void attn_backward(const struct env *e, const struct attn_grad *g, const struct attn *a,
                   const struct attn_in *in, const real *dout)
{
    struct job j = {.e = e, .a = a, .in = in, .g = g, .dout = dout};

    pool_run(e->pool, run_heads, &j, a->n_seqs * a->n_kv_heads, 1);
}
