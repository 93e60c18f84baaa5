/*
 * distill_data.c - which sequences are trained on, which are scored, and in what order.
 *
 * A source's tokens are cut into blocks of ctx. Blocks to score are chosen first, at even
 * distances and by --held-tokens alone, so that a longer training is scored by the same
 * ones; the others are trained on, each source as often as its share of all steps says. A
 * block holds the ends and beginnings of several documents: for each token it is noted
 * where its document begins in the block, and attention goes no further back (attn.h).
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "compress/distill_int.h"

#include <stdio.h>
#include <string.h>

/* Without files of regions: at most this one of each text's blocks is scored. */
enum { HELD_EVERY = 16 };

static void name_region(struct distill_region *r, const char *path, size_t len)
{
    size_t from = len;

    while (from > 0 && path[from - 1] != '/')
        from--;
    snprintf(r->name, sizeof r->name, "%.*s", (int)(len - from), path + from);
}

/* Block i of a stream: its tokens, and where in the block each one's document begins. */
static void take_block(const struct distill *d, const struct calib_stream *s, int64_t i,
                       int32_t *ids, int32_t *first)
{
    const int64_t ctx = d->p->ctx, from = i * ctx;
    int64_t lo = 0, hi = s->n_docs, start = 0;

    memcpy(ids, s->ids.id + from, (size_t)ctx * sizeof *ids);
    if (tok_adds_bos(d->tm->tok))
        ids[0] = tok_bos(d->tm->tok);
    while (lo < hi) { /* the first document that begins behind the block's start */
        const int64_t mid = (lo + hi) / 2;
        if (s->doc[mid] > from)
            hi = mid;
        else
            lo = mid + 1;
    }
    for (int64_t t = 0; t < ctx; t++) {
        if (lo < s->n_docs && s->doc[lo] == from + t) {
            start = t;
            lo++;
        }
        first[t] = (int32_t)start;
    }
}

/* ---- what is scored ---- */

static enum b2_status grow_held(struct distill *d, const struct calib_stream *s,
                                int64_t block, struct b2_err *err)
{
    const int64_t ctx = d->p->ctx;
    const size_t n = (size_t)(2 * (d->n_held + 1) * ctx);
    int32_t *more = mem_realloc(d->held, n, sizeof *more);

    if (!more)
        return err_set(err, B2_ENOMEM, "out of memory");
    d->held = more;
    more += 2 * d->n_held * ctx;
    take_block(d, s, block, more, more + ctx);
    d->n_held++;
    return B2_OK;
}

/* n blocks of a source at even distances become a region. */
static enum b2_status add_region(struct distill *d, const struct calib_source *from,
                                 const struct calib_stream *s, int64_t n,
                                 struct b2_err *err)
{
    struct distill_region *r = &d->r->region[d->r->n_regions];
    const int64_t blocks = from->tokens / d->p->ctx;
    enum b2_status rc = B2_OK;

    for (int64_t k = 0; k < n && !rc; k++)
        rc = grow_held(d, s, (2 * k + 1) * blocks / (2 * n), err);
    if (n > 0 && !rc) {
        name_region(r, from->path, from->path_len);
        r->seqs = n;
        d->r->n_regions++;
    }
    return rc;
}

static int64_t held_blocks(const struct distill *d, int64_t blocks)
{
    return max_i64(1, min_i64(d->p->held_tokens / d->p->ctx, blocks));
}

static enum b2_status read_regions(struct distill *d, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = 0; i < d->p->n_held && !rc; i++) {
        struct calib_stream streams[CALIB_MAX_FILES] = {0};
        struct calib_params cp = *d->p->data;
        struct calib c = {0};
        cp.files = &d->p->held[i];
        cp.n_files = 1;
        cp.n_avoid = 0;
        cp.ctx = d->p->ctx;
        cp.documents = true;
        cp.meta = modelfile_meta(d->tm->mf);
        rc = calib_read(&c, streams, d->tm->tok, &cp, err);
        if (!rc && c.source[0].tokens < cp.ctx)
            rc = err_set(err, B2_EARG,
                         "%s has %lld tokens, fewer than one sequence of %lld: give a "
                         "longer text or a smaller --ctx",
                         cp.files[0], (long long)c.source[0].tokens, (long long)cp.ctx);
        if (!rc)
            rc = add_region(d, &c.source[0], &streams[0],
                            held_blocks(d, c.source[0].tokens / cp.ctx), err);
        if (rc)
            err_wrap(err, "held-out region");
        calib_streams_free(streams);
        calib_free(&c);
    }
    return rc;
}

/* ---- what is trained on ---- */

/* The k-th block of a source that is not scored; n are. */
static int64_t free_block(int64_t blocks, int64_t n, int64_t k)
{
    for (int64_t h = 0; h < n; h++)
        k += (2 * h + 1) * blocks / (2 * n) <= k;
    return k;
}

/* A source's part of all steps: blocks at even distances, or all of them more than once. */
static void take_share(struct distill *d, int source, int64_t held, int64_t n)
{
    struct calib_source *s = &d->train.source[source];
    const int64_t blocks = s->tokens / d->p->ctx, left = blocks - held;

    for (int64_t k = 0; k < n; k++) {
        const int64_t at = n <= left ? k * left / n : k % left;
        d->order[d->n_order++] =
            (struct distill_block){source, free_block(blocks, held, at)};
    }
    s->seqs = n;
    if (n > left)
        log_line(d->p->log, LOG_INFO,
                 "%.*s: %lld tokens for a share of %lld: used %.1f times",
                 (int)s->path_len, s->path, (long long)left * d->p->ctx,
                 (long long)n * d->p->ctx, (double)n / (double)left);
}

static enum b2_status no_text(const struct distill *d, struct b2_err *err)
{
    int64_t tokens = 0;

    for (int i = 0; i < d->train.n_sources; i++)
        tokens += d->train.source[i].tokens;
    return err_set(
        err, B2_EARG,
        "the texts have %lld tokens, too few to train on and to score sequences of "
        "%lld: give longer texts or a smaller --ctx",
        (long long)tokens, (long long)d->p->ctx);
}

/* Shares are of tokens. What sources without a whole block should have given, the others
 * give. */
static enum b2_status share_out(struct distill *d, struct b2_err *err)
{
    const int64_t want = d->p->steps * d->p->batch, ctx = d->p->ctx;
    int64_t held[CALIB_MAX_FILES] = {0}, given = 0;
    double sum = 0, at = 0;
    enum b2_status rc = B2_OK;

    for (int i = 0; i < d->train.n_sources && !rc; i++) {
        struct calib_source *s = &d->train.source[i];
        const int64_t blocks = s->tokens / ctx;
        if (d->p->n_held == 0 && blocks > 1)
            held[i] = held_blocks(d, max_i64(1, blocks / HELD_EVERY));
        rc = add_region(d, s, &d->streams[i], held[i], err);
        sum += blocks > held[i] ? s->share : 0;
    }
    if (rc)
        return rc;
    if (sum <= 0 || d->n_held < 1)
        return no_text(d, err);
    d->order = mem_calloc((size_t)want, sizeof *d->order);
    if (!d->order)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int i = 0; i < d->train.n_sources; i++) {
        struct calib_source *s = &d->train.source[i];
        at += s->tokens / ctx > held[i] ? s->share : 0;
        const int64_t upto = (int64_t)(at / sum * (double)want + 0.5);
        if (s->tokens / ctx > held[i])
            take_share(d, i, held[i], upto - given);
        given = upto;
    }
    return B2_OK;
}

static void report_sources(struct distill *d)
{
    struct distill_report *r = d->r;
    struct distill_region name;

    for (int i = 0; i < d->train.n_sources; i++) {
        const struct calib_source *s = &d->train.source[i];
        struct distill_source *to = &r->source[r->n_sources++];
        name_region(&name, s->path, s->path_len);
        memcpy(to->name, name.name, sizeof to->name);
        to->tokens = s->tokens;
        to->used = s->seqs * d->p->ctx;
        for (int k = 0; k < N_TEXT_KINDS && s->tokens > 0; k++)
            r->of_kind[k] += (double)s->seqs / (double)d->n_order *
                             (double)s->of_kind[k] / (double)s->tokens;
    }
}

static void shuffle(struct distill *d)
{
    struct rng rng = rng_make(d->p->seed * 0x9e3779b97f4a7c15u);

    for (int64_t i = d->n_order - 1; i > 0; i--) {
        const int64_t j = (int64_t)rng_below(&rng, (uint64_t)i + 1);
        const struct distill_block was = d->order[i];
        d->order[i] = d->order[j];
        d->order[j] = was;
    }
}

/* Texts of regions are evaluation texts for what is trained on. */
static enum b2_status read_training(struct distill *d, struct calib_params *cp,
                                    struct b2_err *err)
{
    const int n = cp->n_avoid + d->p->n_held;
    const char **avoid = mem_calloc((size_t)n + 1, sizeof *avoid);

    if (!avoid)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int i = 0; i < n; i++)
        avoid[i] = i < cp->n_avoid ? cp->avoid[i] : d->p->held[i - cp->n_avoid];
    cp->avoid = avoid;
    cp->n_avoid = n;
    enum b2_status rc = calib_read(&d->train, d->streams, d->tm->tok, cp, err);
    mem_free(avoid);
    return rc;
}

enum b2_status distill_data(struct distill *d, struct b2_err *err)
{
    struct calib_params cp = *d->p->data;

    if (!d->tm->tok)
        return err_set(err, B2_ENOTFOUND, "%s: has no tokenizer", d->p->teacher);
    if (d->p->n_held > DISTILL_MAX_REGIONS)
        return err_set(err, B2_EARG, "%d held-out files: at most %d", d->p->n_held,
                       DISTILL_MAX_REGIONS);
    cp.ctx = d->p->ctx;
    cp.documents = true;
    cp.meta = modelfile_meta(d->tm->mf);
    enum b2_status rc = read_training(d, &cp, err);
    if (!rc)
        rc = read_regions(d, err);
    if (!rc)
        rc = share_out(d, err);
    if (rc)
        return rc;
    d->train.n_seqs = d->n_order + 1; /* as the report counts: without a probe */
    report_sources(d);
    shuffle(d);
    return B2_OK;
}

void distill_data_free(struct distill *d)
{
    calib_streams_free(d->streams);
    calib_free(&d->train);
    mem_free(d->order);
    mem_free(d->held);
}

void distill_sequence(const struct distill *d, int64_t k, int32_t *ids, int32_t *first)
{
    distill_block_of(d, &d->order[k % d->n_order], ids, first);
}

void distill_block_of(const struct distill *d, const struct distill_block *b,
                      int32_t *ids, int32_t *first)
{
    take_block(d, &d->streams[b->source], b->block, ids, first);
}
