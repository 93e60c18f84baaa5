/*
 * delta.c - the gated delta rule by chunks of tokens of one document.
 *
 * In a chunk, with S its state at the start, G the running sum of g, D_ij = e^(G_i - G_j)
 * for j <= i, rows of q, k, v tokens:
 *
 *   U = k S,  R_i = b_i (v_i - e^(G_i) U_i),  A_ij = b_i D_ij (k_i k_j) for j < i
 *   (1 + A) N = R                       what the tokens write
 *   out_i = scale (e^(G_i) q_i S + sum over j <= i of M_ij N_j),  M_ij = D_ij (q_i k_j)
 *   S' = e^(G_last) S + sum over i of e^(G_last - G_i) k_i^T N_i
 *
 * No exponent is above zero. Differences from the paper: the triangular system is solved
 * for the values themselves, not for its inverse. Each sequence's key head is one piece of
 * work, its value heads in order, so that sums over a group do not depend on the threads.
 */
#include "train/delta.h"

#include "base/pool.h"

enum { CHUNK = 64, HEADS = 4 };

struct job {
    const struct env *e;
    const struct delta *d;
    const struct delta_in *in;
    const struct delta_grad *g;
    real *out;
    const real *dout;
};

/* Tokens [at, at + n) of one value head, and a thread's scratch for them. */
struct chunk {
    int64_t base; /* first token of the sequence */
    int64_t at, n, key_head, head;
    bool fresh;   /* a document starts: the state is zero */
    real *states; /* at starts of chunks that are not fresh */
    real *s, *ds;
    real *q, *k, *kq, *dq, *dk;     /* [CHUNK, k_dim]; kq is for what is needed */
    real *u, *new, *de, *dn;        /* [CHUNK, v_dim] */
    real *d, *kk, *qk, *a, *m, *dm; /* [CHUNK, CHUNK], rows n apart */
    real *sum, *decay, *left, *b, *dsum,
        *db; /* [CHUNK]; decay e^G, left e^(G_last - G) */
};

static int64_t n_states(const struct delta *d)
{
    return (d->ctx - 1) / CHUNK;
}

int64_t delta_scratch(const struct delta *d)
{
    return (n_states(d) + 2) * d->k_dim * d->v_dim + 5 * CHUNK * d->k_dim +
           4 * CHUNK * d->v_dim + 6 * CHUNK * CHUNK + 6 * CHUNK;
}

static void place(struct chunk *c, const struct delta *d, real *p)
{
    const int64_t state = d->k_dim * d->v_dim;
    real **const keys[] = {&c->q, &c->k, &c->kq, &c->dq, &c->dk};
    real **const values[] = {&c->u, &c->new, &c->de, &c->dn};
    real **const squares[] = {&c->d, &c->kk, &c->qk, &c->a, &c->m, &c->dm};
    real **const rows[] = {&c->sum, &c->decay, &c->left, &c->b, &c->dsum, &c->db};

    c->s = p;
    c->ds = p + state;
    c->states = p + 2 * state;
    p = c->states + n_states(d) * state;
    for (size_t i = 0; i < countof(keys); i++, p += CHUNK * d->k_dim)
        *keys[i] = p;
    for (size_t i = 0; i < countof(values); i++, p += CHUNK * d->v_dim)
        *values[i] = p;
    for (size_t i = 0; i < countof(squares); i++, p += CHUNK * CHUNK)
        *squares[i] = p;
    for (size_t i = 0; i < countof(rows); i++, p += CHUNK)
        *rows[i] = p;
}

/* ---- where things lie ---- */

static int64_t start_of_document(const struct delta *d, int64_t base, int64_t at)
{
    return d->first ? d->first[base + at] : 0;
}

/* The chunk that begins at c->at. */
static void measure(const struct delta *d, struct chunk *c)
{
    const int64_t start = start_of_document(d, c->base, c->at);
    int64_t end = c->at + 1;

    while (end < d->ctx && end < c->at + CHUNK &&
           start_of_document(d, c->base, end) == start)
        end++;
    c->n = end - c->at;
    c->fresh = c->at == start;
}

/* Where the chunk before the one at `at` begins. */
static int64_t before(const struct delta *d, int64_t base, int64_t at)
{
    const int64_t start = start_of_document(d, base, at - 1);

    return start + (at - 1 - start) / CHUNK * CHUNK;
}

static int64_t key_at(const struct delta *d, const struct chunk *c, int64_t i)
{
    return (c->base + c->at + i) * delta_width(d) +
           (d->k_heads + c->key_head) * d->k_dim;
}

static int64_t query_at(const struct delta *d, const struct chunk *c, int64_t i)
{
    return key_at(d, c, i) - d->k_heads * d->k_dim;
}

static int64_t value_at(const struct delta *d, const struct chunk *c, int64_t i)
{
    return (c->base + c->at + i) * delta_width(d) + 2 * d->k_heads * d->k_dim +
           c->head * d->v_dim;
}

static int64_t out_at(const struct delta *d, const struct chunk *c, int64_t i)
{
    return ((c->base + c->at + i) * d->v_heads + c->head) * d->v_dim;
}

static int64_t gate_at(const struct delta *d, const struct chunk *c, int64_t i)
{
    return (c->base + c->at + i) * d->v_heads + c->head;
}

static real dot(const real *a, const real *b, int64_t n)
{
    enum { LANES = 16 };
    real lane[LANES] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        lane[i % LANES] += a[i] * b[i];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

static void add_times(real *y, const real *x, real by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += by * x[i];
}

static void set_times(real *y, const real *x, real by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = by * x[i];
}

/* One over the length that x is divided by. */
static real inv_length(const struct delta *d, const real *x)
{
    const real len = r_sqrt(dot(x, x, d->k_dim));

    return 1 / (len > d->eps ? len : d->eps);
}

/* ---- forward ---- */

/* Queries, keys and gates of a chunk. */
static void load(const struct job *j, struct chunk *c)
{
    const struct delta *d = j->d;
    real sum = 0;

    for (int64_t i = 0; i < c->n; i++) {
        const real *q = j->in->qkv + query_at(d, c, i);
        const real *k = j->in->qkv + key_at(d, c, i);
        const real *decay = j->in->decay + gate_at(d, c, i);
        set_times(c->q + i * d->k_dim, q, inv_length(d, q), d->k_dim);
        set_times(c->k + i * d->k_dim, k, inv_length(d, k), d->k_dim);
        c->b[i] = r_sigmoid(j->in->beta[gate_at(d, c, i)]);
        if (!(c->fresh && i == 0)) /* a state of zeros does not decay */
            sum += d->rate[c->head] * r_softplus(*decay + d->bias[c->head]);
        c->sum[i] = sum;
    }
    for (int64_t i = 0; i < c->n; i++) {
        c->decay[i] = r_exp(c->sum[i]);
        c->left[i] = r_exp(sum - c->sum[i]);
        for (int64_t k = 0; k <= i; k++)
            c->d[i * c->n + k] = r_exp(c->sum[i] - c->sum[k]);
    }
}

/* new: what the tokens write into the state. */
static void make_new(const struct job *j, struct chunk *c)
{
    const struct delta *d = j->d;
    const int64_t n = c->n, dk = d->k_dim, dv = d->v_dim;

    if (c->fresh)
        memset(c->u, 0, (size_t)(n * dv) * sizeof *c->u);
    else
        mm_one(j->e, c->u, dv, (struct mm_size){n, dv, dk},
               (struct mat){c->k, dk, false}, (struct mat){c->s, dv, false},
               (struct mm_how){1, false});
    mm_one(j->e, c->kk, n, (struct mm_size){n, n, dk}, (struct mat){c->k, dk, false},
           (struct mat){c->k, dk, true}, (struct mm_how){1, false});
    for (int64_t i = 0; i < n; i++) {
        const real *v = j->in->qkv + value_at(d, c, i), *u = c->u + i * dv;
        real *row = c->new + i *dv;
        for (int64_t k = 0; k < dv; k++)
            row[k] = c->b[i] * (v[k] - c->decay[i] * u[k]);
        for (int64_t k = 0; k < i; k++) {
            c->a[i * n + k] = c->b[i] * c->d[i * n + k] * c->kk[i * n + k];
            add_times(row, c->new + k *dv, -c->a[i * n + k], dv);
        }
    }
}

/* qk, and m: zero above its diagonal. */
static void make_scores(const struct job *j, struct chunk *c)
{
    const int64_t n = c->n, dk = j->d->k_dim;

    mm_one(j->e, c->qk, n, (struct mm_size){n, n, dk}, (struct mat){c->q, dk, false},
           (struct mat){c->k, dk, true}, (struct mm_how){1, false});
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            c->m[i * n + k] = k <= i ? c->d[i * n + k] * c->qk[i * n + k] : 0;
}

static real out_scale(const struct delta *d)
{
    return 1 / r_sqrt((real)d->k_dim);
}

static void write_out(const struct job *j, struct chunk *c)
{
    const struct delta *d = j->d;
    const int64_t n = c->n, dk = d->k_dim, dv = d->v_dim, ld = d->v_heads * dv;
    real *out = j->out + out_at(d, c, 0);

    mm_one(j->e, out, ld, (struct mm_size){n, dv, n}, (struct mat){c->m, n, false},
           (struct mat){c->new, dv, false}, (struct mm_how){out_scale(d), false});
    if (c->fresh)
        return;
    for (int64_t i = 0; i < n; i++)
        set_times(c->kq + i * dk, c->q + i * dk, c->decay[i], dk);
    mm_one(j->e, out, ld, (struct mm_size){n, dv, dk}, (struct mat){c->kq, dk, false},
           (struct mat){c->s, dv, false}, (struct mm_how){out_scale(d), true});
}

/* Keys as the end of the chunk sees them. */
static void make_left_keys(const struct delta *d, struct chunk *c)
{
    for (int64_t i = 0; i < c->n; i++)
        set_times(c->kq + i * d->k_dim, c->k + i * d->k_dim, c->left[i], d->k_dim);
}

static void move_state(const struct job *j, struct chunk *c)
{
    const int64_t dk = j->d->k_dim, dv = j->d->v_dim;

    make_left_keys(j->d, c);
    if (!c->fresh)
        set_times(c->s, c->s, c->decay[c->n - 1], dk * dv);
    mm_one(j->e, c->s, dv, (struct mm_size){dk, dv, c->n},
           (struct mat){c->kq, dk, true}, (struct mat){c->new, dv, false},
           (struct mm_how){1, !c->fresh});
}

/* All chunks of a head in order. Returns where the last one begins, and with a backward
 * pass to come the states are kept; *kept counts them. */
static int64_t walk_head(const struct job *j, struct chunk *c, int64_t *kept)
{
    const int64_t state = j->d->k_dim * j->d->v_dim;
    int64_t last = 0;

    *kept = 0;
    for (c->at = 0; c->at < j->d->ctx; c->at += c->n) {
        last = c->at;
        measure(j->d, c);
        if (j->g && !c->fresh) {
            memcpy(c->states + *kept * state, c->s, (size_t)state * sizeof *c->s);
            ++*kept;
        }
        load(j, c);
        make_new(j, c);
        if (!j->g) {
            make_scores(j, c);
            write_out(j, c);
        }
        move_state(j, c);
    }
    return last;
}

static void forward_heads(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct delta *d = j->d;
    struct chunk c = {0};
    int64_t kept;

    place(&c, d, d->scratch + thread * delta_scratch(d));
    for (int64_t i = begin; i < end; i++) {
        c.base = i / d->k_heads * d->ctx;
        c.key_head = i % d->k_heads;
        for (c.head = c.key_head; c.head < d->v_heads; c.head += d->k_heads)
            walk_head(j, &c, &kept);
    }
}

void delta_forward(const struct env *e, real *out, const struct delta *d,
                   const struct delta_in *in)
{
    struct job j = {.e = e, .d = d, .in = in, .out = out};

    pool_run(e->pool, forward_heads, &j, d->n_seqs * d->k_heads, 1);
}

/* ---- backward ---- */

/* From ds, the gradient of the state behind the chunk: what comes to new, keys and sums. */
static void back_state(const struct job *j, struct chunk *c)
{
    const struct delta *d = j->d;
    const int64_t n = c->n, dk = d->k_dim, dv = d->v_dim;
    const struct mat ds = {c->ds, dv, false}, ds_t = {c->ds, dv, true};
    real *const last = &c->dsum[n - 1];

    make_left_keys(d, c);
    mm_one(j->e, c->dn, dv, (struct mm_size){n, dv, dk}, (struct mat){c->kq, dk, false},
           ds, (struct mm_how){1, false});
    mm_one(j->e, c->dk, dk, (struct mm_size){n, dk, dv},
           (struct mat){c->new, dv, false}, ds_t, (struct mm_how){1, false});
    for (int64_t i = 0; i < n; i++) {
        const real by = dot(c->dk + i * dk, c->kq + i * dk, dk);
        *last += by;
        c->dsum[i] -= by;
        set_times(c->dk + i * dk, c->dk + i * dk, c->left[i], dk);
    }
    if (!c->fresh)
        *last += c->decay[n - 1] * dot(c->s, c->ds, dk * dv);
}

/* From dout: queries, keys, sums, new; and ds becomes that of the state before, as far as
 * output and decay go. */
static void back_out(const struct job *j, struct chunk *c)
{
    const struct delta *d = j->d;
    const int64_t n = c->n, dk = d->k_dim, dv = d->v_dim;
    const struct mm_how set = {1, false}, add = {1, true};

    make_scores(j, c);
    for (int64_t i = 0; i < n; i++)
        set_times(c->de + i * dv, j->dout + out_at(d, c, i), out_scale(d), dv);
    const struct mat de = {c->de, dv, false};
    mm_one(j->e, c->dn, dv, (struct mm_size){n, dv, n}, (struct mat){c->m, n, true}, de,
           add);
    mm_one(j->e, c->dm, n, (struct mm_size){n, n, dv}, de,
           (struct mat){c->new, dv, true}, set);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            const real by = k <= i ? c->dm[i * n + k] * c->m[i * n + k] : 0;
            c->dsum[i] += by;
            c->dsum[k] -= by;
            c->dm[i * n + k] = k <= i ? c->dm[i * n + k] * c->d[i * n + k] : 0;
        }
    if (c->fresh) {
        memset(c->dq, 0, (size_t)(n * dk) * sizeof *c->dq);
    } else {
        mm_one(j->e, c->dq, dk, (struct mm_size){n, dk, dv}, de,
               (struct mat){c->s, dv, true}, set);
        set_times(c->ds, c->ds, c->decay[n - 1], dk * dv);
        for (int64_t i = 0; i < n; i++) {
            set_times(c->kq + i * dk, c->q + i * dk, c->decay[i], dk);
            c->dsum[i] += dot(c->dq + i * dk, c->kq + i * dk, dk);
            set_times(c->dq + i * dk, c->dq + i * dk, c->decay[i], dk);
        }
        mm_one(j->e, c->ds, dv, (struct mm_size){dk, dv, n},
               (struct mat){c->kq, dk, true}, de, add);
    }
    mm_one(j->e, c->dq, dk, (struct mm_size){n, dk, n}, (struct mat){c->dm, n, false},
           (struct mat){c->k, dk, false}, add);
    mm_one(j->e, c->dk, dk, (struct mm_size){n, dk, n}, (struct mat){c->dm, n, true},
           (struct mat){c->q, dk, false}, add);
}

/* dn becomes the gradient of R, through the triangular system; dm that of k_i k_j. */
static void back_solve(const struct job *j, struct chunk *c)
{
    const int64_t n = c->n, dv = j->d->v_dim;

    for (int64_t i = n - 1; i >= 0; i--)
        for (int64_t k = 0; k < i; k++)
            add_times(c->dn + k * dv, c->dn + i * dv, -c->a[i * n + k], dv);
    mm_one(j->e, c->dm, n, (struct mm_size){n, n, dv}, (struct mat){c->dn, dv, false},
           (struct mat){c->new, dv, true}, (struct mm_how){-1, false});
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++) {
            const int64_t at = i * n + k;
            const real da = c->dm[at];
            c->db[i] += da * c->d[at] * c->kk[at];
            c->dsum[i] += da * c->a[at];
            c->dsum[k] -= da * c->a[at];
            c->dm[at] = da * c->b[i] * c->d[at];
        }
        for (int64_t k = i; k < n; k++)
            c->dm[i * n + k] = 0;
    }
}

/* From dn, now the gradient of R: values, beta, sums, keys and the state before. */
static void back_right(const struct job *j, struct chunk *c)
{
    const struct delta *d = j->d;
    const int64_t n = c->n, dk = d->k_dim, dv = d->v_dim;
    const struct mm_how add = {1, true};
    const struct mat k = {c->k, dk, false};

    for (int64_t i = 0; i < n; i++) {
        const real *v = j->in->qkv + value_at(d, c, i);
        real *dr = c->dn + i * dv;
        const real ru = dot(dr, c->u + i * dv, dv);
        c->db[i] += dot(dr, v, dv) - c->decay[i] * ru;
        c->dsum[i] -= c->b[i] * c->decay[i] * ru;
        set_times(j->g->qkv + value_at(d, c, i), dr, c->b[i], dv);
        set_times(dr, dr, -c->b[i] * c->decay[i], dv); /* that of U */
    }
    mm_one(j->e, c->dk, dk, (struct mm_size){n, dk, n}, (struct mat){c->dm, n, false},
           k, add);
    mm_one(j->e, c->dk, dk, (struct mm_size){n, dk, n}, (struct mat){c->dm, n, true}, k,
           add);
    if (c->fresh)
        return;
    mm_one(j->e, c->dk, dk, (struct mm_size){n, dk, dv}, (struct mat){c->dn, dv, false},
           (struct mat){c->s, dv, true}, add);
    mm_one(j->e, c->ds, dv, (struct mm_size){dk, dv, n}, (struct mat){c->k, dk, true},
           (struct mat){c->dn, dv, false}, add);
}

/* Hands a chunk's gradients out: those of normed queries and keys are added up over the
 * group; of g its own part, the rest of its way is finish_gates()'s. */
static void store(const struct job *j, const struct chunk *c)
{
    const struct delta *d = j->d;
    real sum = 0;

    for (int64_t i = c->n - 1; i >= 0; i--) {
        add_times(j->g->qkv + query_at(d, c, i), c->dq + i * d->k_dim, 1, d->k_dim);
        add_times(j->g->qkv + key_at(d, c, i), c->dk + i * d->k_dim, 1, d->k_dim);
        sum += c->dsum[i];
        j->g->decay[gate_at(d, c, i)] = c->fresh && i == 0 ? 0 : sum;
        j->g->beta[gate_at(d, c, i)] = c->db[i] * c->b[i] * (1 - c->b[i]);
    }
}

static void back_head(const struct job *j, struct chunk *c)
{
    const int64_t state = j->d->k_dim * j->d->v_dim;
    int64_t kept, at = walk_head(j, c, &kept);

    memset(c->ds, 0, (size_t)state * sizeof *c->ds);
    for (;; at = before(j->d, c->base, at)) {
        c->at = at;
        measure(j->d, c);
        if (!c->fresh)
            memcpy(c->s, c->states + --kept * state, (size_t)state * sizeof *c->s);
        memset(c->dsum, 0, CHUNK * sizeof *c->dsum);
        memset(c->db, 0, CHUNK * sizeof *c->db);
        load(j, c);
        make_new(j, c);
        back_state(j, c);
        back_out(j, c);
        back_solve(j, c);
        back_right(j, c);
        store(j, c);
        if (c->fresh)
            memset(c->ds, 0, (size_t)state * sizeof *c->ds);
        if (at == 0)
            break;
    }
}

/* x: what was divided by its length, or by eps where it is shorter; dx: gradient of the
 * quotient, becomes that of x. */
static void back_length(const struct delta *d, real *dx, const real *x)
{
    const real len = r_sqrt(dot(x, x, d->k_dim));
    const bool whole = len > d->eps;
    const real inv = 1 / (whole ? len : d->eps);
    const real along = whole ? dot(x, dx, d->k_dim) * inv * inv : 0;

    for (int64_t i = 0; i < d->k_dim; i++)
        dx[i] = inv * (dx[i] - along * x[i]);
}

static void back_heads(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct delta *d = j->d;
    const size_t bytes = (size_t)d->k_dim * sizeof(real);
    struct chunk c = {0};

    place(&c, d, d->scratch + thread * delta_scratch(d));
    for (int64_t i = begin; i < end; i++) {
        c.base = i / d->k_heads * d->ctx;
        c.key_head = i % d->k_heads;
        c.at = 0;
        for (int64_t t = 0; t < d->ctx; t++) {
            memset(j->g->qkv + query_at(d, &c, t), 0, bytes);
            memset(j->g->qkv + key_at(d, &c, t), 0, bytes);
        }
        for (c.head = c.key_head; c.head < d->v_heads; c.head += d->k_heads)
            back_head(j, &c);
        c.at = 0;
        for (int64_t t = 0; t < d->ctx; t++) {
            const int64_t q = query_at(d, &c, t), k = key_at(d, &c, t);
            back_length(d, j->g->qkv + q, j->in->qkv + q);
            back_length(d, j->g->qkv + k, j->in->qkv + k);
        }
    }
}

/* decay: the gradient of g, becomes that of what softplus got. Tokens in order. */
static void finish_gates(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct job *j = ctx;
    const struct delta *d = j->d;

    (void)thread;
    for (int64_t h = begin; h < end; h++)
        for (int64_t t = 0; t < d->n_seqs * d->ctx; t++) {
            real *dg = j->g->decay + t * d->v_heads + h;
            const real x = j->in->decay[t * d->v_heads + h] + d->bias[h];
            if (j->g->rate)
                j->g->rate[h] += *dg * r_softplus(x);
            *dg *= d->rate[h] * r_sigmoid(x);
            if (j->g->bias)
                j->g->bias[h] += *dg;
        }
}

void delta_backward(const struct env *e, const struct delta_grad *g,
                    const struct delta *d, const struct delta_in *in, const real *dout)
{
    struct job j = {.e = e, .d = d, .in = in, .g = g, .dout = dout};

    pool_run(e->pool, back_heads, &j, d->n_seqs * d->k_heads, 1);
    pool_run(e->pool, finish_gates, &j, d->v_heads, HEADS);
}
