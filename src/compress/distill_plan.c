/*
 * distill_plan.c - what a training takes: memory, room on the disk, time.
 *
 * Memory is planned from shapes alone, before anything is allocated. What does not fit
 * goes in this order: first what could be kept of a forward pass is made again; then
 * latents, moments and the best state lie on the disk (base/file_space.h), all layers
 * behind as many as there is room for, and each matrix's come into memory while it is
 * worked on (METHODS.md §7.5). The computation is the same, and so are the bytes that it
 * gives.
 *
 * Time is estimated from the products a step makes and from the passes over latents, at
 * the speeds that one product and one update of AdamW have here and now.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/file_space.h"
#include "base/mem.h"
#include "base/memory.h"
#include "compress/distill_int.h"
#include "train/dnn.h"

#include <string.h>

/* What programs, libraries, tokens and small arrays take beside the plan's parts. */
static const uint64_t program_bytes = 24u << 20;

/* Bytes of memory that a step moves for each trained weight: codes are made of latents
 * twice, gradients taken in, their norm, AdamW. */
static const double bytes_per_weight = 60.0, bytes_adam = 28.0;
/* Of everything that is neither a product nor a pass over latents. */
static const double other_work = 1.15;

/* ---- memory ---- */

struct netmodel_how distill_how(struct distill *d)
{
    return (struct netmodel_how){.teacher = d->om,
                                 .seed = d->p->seed,
                                 .ctx = d->p->ctx,
                                 .pool = d->p->pool,
                                 .env = &d->env,
                                 .kind = distill_kind,
                                 .ctx_of_kind = (void *)(uintptr_t)d->p,
                                 .space = d->space,
                                 .resident = d->r->resident_layers};
}

static int threads_of(const struct distill *d)
{
    return d->p->pool ? pool_threads(d->p->pool) : 1;
}

/* Buffers of both passes and one layer of each model: all but latents. */
static uint64_t fixed_bytes(struct distill *d)
{
    const struct distill_params *p = d->p;
    const struct layer_batch max = {p->micro, p->ctx, NULL, NULL};
    const int64_t tokens = p->micro * p->ctx;
    struct netmodel_how how = distill_how(d);
    uint64_t bytes = program_bytes + netmodel_bytes(d->sm, &how);

    how.teacher = NULL;
    /* before a file of its distributions is there, the student's passes have not begun,
     * and theirs is the larger part */
    if (!p->teacher_cache) {
        bytes += netmodel_bytes(d->tm, &how);
        bytes +=
            net_work_bytes(&d->t.net, &d->t.layer, &max, threads_of(d), NET_FORWARD);
    }
    bytes +=
        net_work_bytes(&d->shape->net, &d->shape->layer, &max, threads_of(d), d->keep);
    bytes += d->dnn ? dnn_bytes(threads_of(d)) : 0;
    bytes += (uint64_t)head_scratch(&d->loss, threads_of(d)) * sizeof(real);
    bytes += (uint64_t)(tokens * d->t.net.d) * sizeof(real) *
             (uint64_t)(1 + distill_n_taps(&p->loss, d->shape->net.n_layers));
    return bytes;
}

/* The largest matrix's latents of the layers from `first` on. */
static uint64_t largest_from(const struct netmodel_share *share, int64_t first,
                             int64_t n)
{
    uint64_t largest = 0;

    for (int64_t i = first; i < n; i++)
        largest = share[i].largest > largest ? share[i].largest : largest;
    return largest;
}

/* How many layers' latents find room beside the rest; of the others one matrix at a time
 * needs it. */
static int64_t fit_layers(const struct netmodel_share *share, int64_t n, uint64_t room)
{
    uint64_t used = 0;
    int64_t fits = -1;

    for (int64_t r = 0; r < n && used <= room; r++) {
        if (used + largest_from(share, r, n) <= room)
            fits = r;
        used += share[r].latents;
    }
    return used <= room ? n : fits;
}

/* What a step reads and writes of a layer's part on the disk, at most: of latent, gradient
 * and two moments, each pass reads the latent on its way there and back and adds to the
 * gradient; then the gradient is read for its length, and everything once more, and
 * written, by the update. */
static uint64_t step_traffic(const struct distill *d, uint64_t bytes)
{
    const uint64_t passes = (uint64_t)((d->p->batch + d->p->micro - 1) / d->p->micro);
    const uint64_t quarters = passes * (1 + 1 + 2) + 1 + 4 + 4;

    return bytes / 4 * quarters;
}

static void use_disk(struct distill *d, const struct netmodel_share *share,
                     uint64_t room)
{
    struct distill_report *r = d->r;
    const uint64_t fixed = fixed_bytes(d);
    const int64_t n = d->shape->net.n_layers;
    int64_t fits = room > fixed ? fit_layers(share, n, room - fixed) : -1;

    r->step_disk_bytes = 0;
    r->resident_layers = fits < 0 ? 0 : fits;
    r->plan_bytes = fixed + largest_from(share, r->resident_layers, n);
    r->disk_bytes = file_space_piece(d->best_bytes);
    for (int64_t i = 0; i < n; i++) {
        if (i < r->resident_layers) {
            r->plan_bytes += share[i].latents;
        } else {
            /* each matrix begins a page */
            r->disk_bytes += share[i].latents + N_LINEARS * file_space_piece(1);
            r->step_disk_bytes += step_traffic(d, share[i].latents);
        }
    }
}

/* What each layer takes, and sums over all. */
static enum b2_status add_shares(struct distill *d, struct netmodel_share **share,
                                 uint64_t *sum, struct b2_err *err)
{
    const struct netmodel_how how = distill_how(d);
    const int64_t n = d->shape->net.n_layers;

    *share = mem_calloc((size_t)n, sizeof **share);
    if (!*share)
        return err_set(err, B2_ENOMEM, "out of memory");
    d->best_bytes = (uint64_t)netmodel_norm_values(d->sm) * sizeof(float);
    d->r->checkpoint_bytes = 3 * d->best_bytes; /* of norms, as of latents */
    for (int64_t i = 0; i < n; i++) {
        const struct netmodel_share s = netmodel_share(d->sm, &how, i);
        (*share)[i] = s;
        *sum += s.latents;
        d->best_bytes += s.packed;
        d->r->checkpoint_bytes += s.saved;
        d->r->n_latents += s.n_latents;
        d->r->n_trained += s.n_values;
    }
    d->r->checkpoint_bytes += d->best_bytes;
    if (d->r->n_latents > 0)
        return B2_OK;
    mem_free(*share);
    return err_set(
        err, B2_EUNSUP,
        "%s: no ternary matrix that could be trained; make one with `bonsai2 "
        "compress`",
        d->p->student);
}

/* --mem-limit is what may be taken. Without it, half of what is free for what only saves
 * time, nine tenths before anything lies on the disk. */
static void settle(struct distill *d, const struct netmodel_share *share, uint64_t sum)
{
    const uint64_t limit = d->p->mem_limit, free_now = memory_available(NULL, 0);
    const uint64_t room = limit ? limit : free_now ? free_now / 10 * 9 : UINT64_MAX;
    struct distill_report *r = d->r;

    d->keep = NET_ALL;
    r->resident_layers = d->shape->net.n_layers;
    r->plan_bytes = fixed_bytes(d) + sum + d->best_bytes;
    if (r->plan_bytes > (limit ? limit : room / 9 * 5)) {
        d->keep = NET_INPUTS;
        r->plan_bytes = fixed_bytes(d) + sum + d->best_bytes;
    }
    if (r->plan_bytes > room)
        use_disk(d, share, room);
}

/* Before hours of work: a checkpoint that is replaced stays until the new one is whole. */
static enum b2_status check_room(const struct distill *d, struct b2_err *err)
{
    const struct distill_report *r = d->r;
    uint64_t n_free = 0, there = 0;
    struct str s = {0};

    str_printf(&s, "%s.b2distill", d->p->output);
    if (str_ok(&s) && file_exists(s.data) && file_size(&there, s.data, NULL))
        there = 0;
    enum b2_status rc = file_disk_free(&n_free, d->p->output, err);
    const uint64_t need =
        r->disk_bytes + 2 * r->checkpoint_bytes + modelfile_bytes(d->sm->mf);
    if (!rc && n_free + there < need) {
        str_clear(&s);
        str_put_bytes(&s, n_free + there);
        str_put(&s, " are free, and checkpoints and the output take ");
        str_put_bytes(&s, need);
        rc = err_set(err, B2_EIO, "%s: on its disk %s; make room and run again",
                     d->p->output, str_ok(&s) ? s.data : "is too little room");
    }
    str_free(&s);
    return rc;
}

static enum b2_status over_limit(const struct distill *d, struct b2_err *err)
{
    const uint64_t need = d->r->plan_bytes;
    struct str s = {0};
    enum b2_status rc = B2_ENOMEM;

    str_put(&s, "distillation needs ");
    str_put_bytes(&s, need);
    str_printf(&s, " (%llu bytes)",
               (unsigned long long)need); /* a limit that is enough */
    str_put(&s, " beside the models, even with all latents on the disk, ");
    str_put_bytes(&s, need - d->p->mem_limit);
    str_put(&s, " more than --mem-limit");
    if (d->p->micro > 1 || d->p->ctx > 64)
        str_put(&s, ": a smaller --micro or --ctx needs less");
    err_set(err, rc, "%s", str_ok(&s) ? s.data : "over --mem-limit");
    str_free(&s);
    return rc;
}

enum b2_status distill_plan(struct distill *d, struct b2_err *err)
{
    struct distill_report *r = d->r;
    struct netmodel_share *share = NULL;
    uint64_t sum = 0;
    enum b2_status rc = add_shares(d, &share, &sum, err);

    if (rc)
        return rc;
    settle(d, share, sum);
    mem_free(share);
    r->n_layers = d->shape->net.n_layers;
    r->mapped_bytes = modelfile_bytes(d->sm->mf);
    if (!d->p->teacher_cache) /* else it is read at the beginning alone */
        r->mapped_bytes += modelfile_bytes(d->tm->mf);
    if (d->om != d->tm)
        r->mapped_bytes += modelfile_bytes(d->om->mf);
    if (d->p->mem_limit > 0 && r->plan_bytes > d->p->mem_limit)
        return over_limit(d, err);
    if (d->p->dry_run)
        return B2_OK;
    rc = check_room(d, err);
    if (rc || r->disk_bytes == 0)
        return rc;
    log_line(
        d->p->log, LOG_INFO,
        "latents of %lld of %lld layers stay in memory, those of the others lie on "
        "the disk (%llu bytes)",
        (long long)r->resident_layers, (long long)r->n_layers,
        (unsigned long long)r->disk_bytes);
    return file_space_open(&d->space, d->p->output, r->disk_bytes, err);
}

/* ---- time ---- */

enum { PROBE_TOKENS = 512, PROBE_ROWS = 2048, PROBE_ADAM = 1 << 23 };

static const double probe_s = 0.5; /* the best of so long counts: others may be busy */

/* Floating-point operations a second of one of the model's own products. */
static double probe_products(const struct distill *d, float *x)
{
    const int64_t cols = d->tm->hp.d;
    const int64_t m = min_i64(PROBE_TOKENS, d->p->micro * d->p->ctx);
    const int64_t n = min_i64(PROBE_ROWS, d->tm->hp.f);
    float *w = x + m * cols, *y = w + n * cols;
    const double until_s = clock_s() + probe_s;
    double best_s = 0;

    while (best_s == 0 || clock_s() < until_s) {
        const double start_s = clock_s();
        mm_bf16(&d->env, y, n, (struct mm_size){m, n, cols},
                (struct mat){x, cols, false}, (struct mat){w, cols, true},
                (struct mm_how){1, false});
        const double took_s = clock_s() - start_s;
        best_s = best_s == 0 || took_s < best_s ? took_s + 1e-9 : best_s;
    }
    return 2.0 * (double)(m * n * cols) / best_s;
}

/* Bytes a second of an update that is too long for caches. */
static double probe_memory(const struct distill *d, float *x)
{
    const int64_t n = PROBE_ADAM;
    const struct param p = {x, x + n, x + 2 * n, x + 3 * n, n, 1e-3f};
    const struct adam a = {0.9f, 0.95f, 1e-8f, 0.0f, 1};
    const double until_s = clock_s() + probe_s;
    double best_s = 0;

    while (best_s == 0 || clock_s() < until_s) {
        const double start_s = clock_s();
        adam_step(&d->env, &a, &p, 1, 1);
        const double took_s = clock_s() - start_s;
        best_s = best_s == 0 || took_s < best_s ? took_s + 1e-9 : best_s;
    }
    return bytes_adam * (double)n / best_s;
}

/* q k and p v of a token, half of them masked; of states they count little. */
static double attn_flops(const struct distill *d, const struct hparams *hp)
{
    double attn = 0;

    for (int64_t i = 0; i < hp->n_layers; i++)
        attn += hparams_recurrent(hp, i)
                    ? 10.0 * (double)(hp->v_heads * hp->k_dim * hp->v_dim)
                    : 2.0 * (double)(d->p->ctx * hp->n_heads * hp->head_dim);
    return attn;
}

/* Products of a step, a token: teacher forward, student forward, gradients of inputs and
 * of weights, and the forward pass again unless it is kept. */
static double flops_per_token(const struct distill *d)
{
    const double again = d->keep == NET_ALL ? 0 : 2;
    const double head = (double)(d->tm->hp.vocab * d->tm->hp.d);

    return (double)netmodel_linear_values(d->tm) * 2 +
           (double)netmodel_linear_values(d->om) * (2 + 4 + again) + head * 6 +
           attn_flops(d, &d->tm->hp) +
           attn_flops(d, &d->om->hp) * (1 + 2.5 + again / 2);
}

enum b2_status distill_estimate(struct distill *d, struct b2_err *err)
{
    const struct hparams *hp = &d->tm->hp;
    const int64_t m = min_i64(PROBE_TOKENS, d->p->micro * d->p->ctx);
    const int64_t n = min_i64(PROBE_ROWS, hp->f);
    const int64_t reals =
        max_i64(m * hp->d + n * hp->d + m * n, 4 * (int64_t)PROBE_ADAM);
    const double tokens = (double)(d->p->batch * d->p->ctx);
    float *x = mem_aligned(64, (size_t)reals, sizeof *x);

    if (!x)
        return err_set(err, B2_ENOMEM, "out of memory for a trial of speed");
    for (int64_t i = 0; i < reals; i++)
        x[i] = (float)(i % 17) * 0.0625f;
    distill_rough(d, true);
    d->r->flops = probe_products(d, x);
    distill_rough(d, false);
    d->r->bytes_per_s = probe_memory(d, x);
    mem_free(x);
    const double products_s = tokens * flops_per_token(d) / d->r->flops;
    const double latents_s =
        (double)d->r->n_trained * bytes_per_weight / d->r->bytes_per_s;
    d->r->tokens_per_s = tokens / (other_work * products_s + latents_s);
    return B2_OK;
}
