/*
 * distill_teacher.c - what the teacher predicts, streamed to the disk once (eval/teacher.h)
 * and read in every run of the same texts.
 *
 * A block for each sequence, scored ones first, then those that are trained on, each once;
 * a row for each token: the k most likely tokens after it and the mass of all others. For
 * the loss those others are one token: their mass is spread over them as the student
 * spreads its own, so that divergence and gradient are those of the shorter distribution.
 */
#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "compress/distill_int.h"
#include "eval/teacher.h"
#include "format/hash.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct distill_cache {
    struct file_map map;
    size_t block_bytes;
    uint64_t begin; /* of the first block */
    int64_t k, vocab, ctx;
    struct distill_block *list; /* [n] what is trained on, each once, in order */
    int64_t n;
    const uint8_t **at; /* [micro] blocks of the pass at hand */
};

static const float never = -1e30f; /* a finite logarithm of nothing */

static int compare(const void *a, const void *b)
{
    const struct distill_block *x = a, *y = b;

    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

static enum b2_status make_list(struct distill_cache *c, const struct distill *d,
                                struct b2_err *err)
{
    c->list = mem_dup(d->order, (size_t)max_i64(d->n_order, 1) * sizeof *d->order);
    if (!c->list)
        return err_set(err, B2_ENOMEM, "out of memory");
    qsort(c->list, (size_t)d->n_order, sizeof *c->list, compare);
    for (int64_t i = 0; i < d->n_order; i++)
        if (c->n == 0 || compare(&c->list[c->n - 1], &c->list[i]) != 0)
            c->list[c->n++] = c->list[i];
    return B2_OK;
}

/* Sequence i of the file: its tokens and documents. */
static void sequence(const struct distill *d, int64_t i, int32_t *ids, int32_t *first)
{
    const int64_t ctx = d->p->ctx;
    const size_t bytes = (size_t)ctx * sizeof(int32_t);

    if (i >= d->n_held) {
        const struct distill_block *b = &d->cache->list[i - d->n_held];
        distill_block_of(d, b, ids, first);
    } else {
        memcpy(ids, d->held + 2 * i * ctx, bytes);
        memcpy(first, d->held + (2 * i + 1) * ctx, bytes);
    }
}

/* ---- the head ---- */

/* SHA-256 of tokens and documents of all sequences. */
static enum b2_status hash_sequences(const struct distill *d, char hex[HASH_HEX],
                                     struct b2_err *err)
{
    struct hash *h = NULL;
    const size_t bytes = (size_t)d->p->ctx * sizeof(int32_t);
    enum b2_status rc = hash_new(&h, err);

    for (int64_t i = 0; i < d->n_held + d->cache->n && !rc; i++) {
        sequence(d, i, d->ids, d->first);
        rc = hash_add(h, d->ids, bytes, err);
        if (!rc)
            rc = hash_add(h, d->first, bytes, err);
    }
    if (!rc)
        rc = hash_hex(h, hex, err);
    hash_free(h);
    return rc;
}

static enum b2_status make_head(const struct distill *d, struct str *out,
                                struct b2_err *err)
{
    const struct distill_cache *c = d->cache;
    char teacher[HASH_HEX], ids[HASH_HEX];
    struct str text = {0};
    enum b2_status rc = modelfile_sha256(d->tm->mf, teacher, err);

    if (!rc)
        rc = hash_sequences(d, ids, err);
    if (rc)
        return rc;
    str_printf(&text,
               "{\"format\":1,\"kind\":\"distill\",\"teacher_sha256\":\"%s\","
               "\"sequences_sha256\":\"%s\",\"k\":%lld,\"vocab\":%lld,\"ctx\":%lld,"
               "\"sequences\":%lld}",
               teacher, ids, (long long)c->k, (long long)c->vocab, (long long)c->ctx,
               (long long)d->n_held + c->n);
    if (str_ok(&text))
        teacher_put_head(out, text.data);
    if (!str_ok(&text) || !str_ok(out))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    str_free(&text);
    return rc;
}

/* ---- writing ---- */

struct writing {
    const struct distill *d;
    uint8_t *block; /* of the pass's only sequence */
    int32_t *top;   /* [ctx, k] scratch */
    atomic_bool bad;
};

/* Any thread; each token has a row of its own. */
static void put_row(void *ctx, int64_t token, real *yt, const real *ys)
{
    struct writing *w = ctx;
    const struct distill_cache *c = w->d->cache;
    const int32_t *ids = w->d->ids;
    struct logprob b;

    (void)ys;
    if (logprob_row(&b, NULL, yt, c->vocab, NULL)) {
        atomic_store(&w->bad, true);
        return;
    }
    teacher_put_row(teacher_block_row(w->block, c->k, token), yt, c->vocab, &b,
                    token + 1 < c->ctx ? ids[token + 1] : 0, c->k,
                    w->top + token * c->k);
}

static enum b2_status write_block(struct writing *w, struct file_append *out,
                                  struct b2_err *err)
{
    struct distill *d = (struct distill *)(uintptr_t)w->d;
    const struct layer_batch b = {1, d->p->ctx, d->pos, d->first};
    struct head_loss loss = d->loss;
    struct head_sums sums = {0};

    for (int64_t t = 0; t < d->p->ctx; t++)
        d->pos[t] = (int32_t)t - d->first[t];
    netmodel_embed(&d->t, net_input(d->tw), d->ids, d->p->ctx);
    const real *ht = net_forward(&d->env, d->tw, &d->t.net, &b);
    const struct head_io io = {.hs = ht, .ht = ht, .row = put_row, .row_ctx = w};
    loss.student = loss.teacher;
    loss.shared = true;
    head_run(&d->env, &sums, &loss, &io, d->p->ctx);
    if (atomic_load(&w->bad))
        return err_set(err, B2_EFORMAT, "%s: gives logits that are no numbers",
                       d->p->teacher);
    enum b2_status rc = teacher_seal(w->block, d->cache->k, d->p->ctx, err);
    return rc ? rc : file_append_write(out, w->block, d->cache->block_bytes, err);
}

static enum b2_status write_blocks(struct distill *d, struct file_append *out,
                                   int64_t done, struct b2_err *err)
{
    const struct distill_cache *c = d->cache;
    const int64_t n = d->n_held + c->n;
    struct writing w = {.d = d,
                        .block = mem_calloc(c->block_bytes, 1),
                        .top = mem_calloc((size_t)(c->ctx * c->k), sizeof(int32_t))};
    enum b2_status rc =
        w.block && w.top ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");

    if (d->p->on_stage)
        d->p->on_stage(d->p->ctx_of_calls, "teacher", (uint64_t)n);
    for (int64_t i = done; i < n && !rc; i++) {
        if (distill_stopped(d))
            rc = err_set(err, B2_ECANCEL,
                         "interrupted; %lld of %lld sequences of the teacher are kept",
                         (long long)i, (long long)n);
        sequence(d, i, d->ids, d->first);
        if (!rc)
            rc = write_block(&w, out, err);
        if (d->p->progress)
            progress_update(d->p->progress, (uint64_t)i + 1, 0.0);
    }
    mem_free(w.block);
    mem_free(w.top);
    return rc;
}

/* ---- opening ---- */

static enum b2_status check_blocks(const struct distill *d, struct b2_err *err)
{
    const struct distill_cache *c = d->cache;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < d->n_held + c->n && !rc; i++) {
        const uint64_t at = c->begin + (uint64_t)i * c->block_bytes;
        const uint8_t *block = c->map.data + at;
        struct teacher_row row;
        rc = teacher_check(block, c->k, c->ctx, err);
        for (int64_t t = 0; t < c->ctx && !rc; t++)
            rc = teacher_get_row(&row, block, c->k, t, c->vocab, err);
        file_map_drop(&c->map, at, c->block_bytes);
    }
    return rc;
}

/* How many whole blocks a file of ours has; B2_EARG: another's. */
static enum b2_status look(const struct distill *d, const struct str *head,
                           int64_t *done, struct b2_err *err)
{
    const struct distill_cache *c = d->cache;
    struct file_map m = {0};

    *done = -1;
    if (!file_exists(d->p->teacher_cache))
        return B2_OK;
    enum b2_status rc = file_map(&m, d->p->teacher_cache, err);
    if (!rc && head->data && m.size >= head->len) {
        if (memcmp(m.data, head->data, head->len) == 0)
            *done = min_i64((int64_t)((m.size - head->len) / c->block_bytes),
                            d->n_held + c->n);
        else
            rc = err_set(err, B2_EARG,
                         "was made by another teacher, for other sequences or another "
                         "--teacher-k; give another file, or remove it");
    }
    file_unmap(&m);
    return rc;
}

static enum b2_status open_cache(struct distill *d, struct b2_err *err)
{
    struct distill_cache *c = d->cache;
    struct file_append *out = NULL;
    struct str head = {0};
    int64_t done = -1;
    enum b2_status rc = make_head(d, &head, err);

    c->begin = head.len;
    if (!rc)
        rc = look(d, &head, &done, err);
    if (!rc && done < d->n_held + c->n) {
        const uint64_t keep = done < 0 ? 0 : head.len + (uint64_t)done * c->block_bytes;
        rc = file_append_open(&out, d->p->teacher_cache, keep, err);
        if (!rc && done < 0)
            rc = file_append_write(out, head.data, head.len, err);
        if (!rc)
            rc = write_blocks(d, out, max_i64(done, 0), err);
        if (out && !rc)
            rc = file_append_close(out, err);
        else
            file_append_abort(out);
    }
    str_free(&head);
    if (!rc)
        rc = file_map(&c->map, d->p->teacher_cache, err);
    if (!rc && c->map.size < c->begin + (uint64_t)(d->n_held + c->n) * c->block_bytes)
        rc = err_set(err, B2_ETRUNC, "became shorter meanwhile");
    if (!rc)
        rc = check_blocks(d, err);
    if (rc)
        err_wrap(err, "%s", d->p->teacher_cache);
    return rc;
}

enum b2_status distill_teacher_check(const struct distill_params *p, struct b2_err *err)
{
    if (p->teacher_cache && (p->loss.hidden > 0 || p->temperature != 1))
        return err_set(
            err, B2_EARG,
            "--teacher-cache holds the teacher's distribution alone: not with "
            "--hidden, nor with a --temperature other than 1");
    return p->teacher_cache ? file_check_folder(p->teacher_cache, err) : B2_OK;
}

enum b2_status distill_teacher_open(struct distill *d, struct b2_err *err)
{
    if (!d->p->teacher_cache)
        return B2_OK;
    struct distill_cache *c = mem_calloc(1, sizeof *c);
    if (!c)
        return err_set(err, B2_ENOMEM, "out of memory");
    d->cache = c;
    c->vocab = d->tm->hp.vocab;
    c->ctx = d->p->ctx;
    c->k = min_i64(d->p->teacher_k, c->vocab);
    c->block_bytes = teacher_block_bytes(c->k, c->ctx);
    c->at = mem_calloc((size_t)d->p->micro, sizeof *c->at);
    enum b2_status rc =
        c->at ? make_list(c, d, err) : err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = open_cache(d, err);
    net_work_free(d->tw); /* from here on the file speaks for it */
    d->tw = NULL;
    netmodel_end_passes(&d->t);
    return rc;
}

void distill_teacher_close(struct distill *d)
{
    if (!d->cache)
        return;
    file_unmap(&d->cache->map);
    mem_free(d->cache->list);
    mem_free(d->cache->at);
    mem_free(d->cache);
    d->cache = NULL;
}

/* ---- reading ---- */

static void point(struct distill *d, int64_t seq, int64_t i)
{
    d->cache->at[seq] =
        d->cache->map.data + d->cache->begin + (uint64_t)i * d->cache->block_bytes;
}

void distill_teacher_held(struct distill *d, int64_t seq, int64_t i)
{
    if (d->cache)
        point(d, seq, i);
}

void distill_teacher_trained(struct distill *d, int64_t seq, int64_t k)
{
    const struct distill_block *want = &d->order[k % d->n_order];
    int64_t lo = 0, hi = d->cache ? d->cache->n : 0;

    if (!d->cache)
        return;
    while (lo < hi) { /* the first that is not before it: it is there */
        const int64_t mid = (lo + hi) / 2;
        if (compare(&d->cache->list[mid], want) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    point(d, seq, d->n_held + lo);
}

/* Logits of the teacher as far as they are known; the rest follows the student. */
void distill_teacher_row(void *ctx, int64_t token, real *yt, const real *ys)
{
    const struct distill *d = ctx;
    const struct distill_cache *c = d->cache;
    struct teacher_row row;
    float top = never;
    double sum = 0;

    if (teacher_get_row(&row, c->at[token / c->ctx], c->k, token % c->ctx, c->vocab,
                        NULL))
        return; /* cannot be: all were looked at */
    memcpy(yt, ys, (size_t)c->vocab * sizeof *yt);
    for (int64_t i = 0; i < c->k; i++)
        yt[teacher_token(&row, i)] = never;
    for (int64_t v = 0; v < c->vocab; v++)
        top = yt[v] > top ? yt[v] : top;
    for (int64_t v = 0; v < c->vocab; v++)
        sum += yt[v] > never ? exp((double)(yt[v] - top)) : 0;
    const bool some = isfinite(row.tail) && sum > 0;
    const float by = some ? (float)(row.tail - (double)top - log(sum)) : 0;
    for (int64_t v = 0; v < c->vocab; v++)
        yt[v] = some && yt[v] > never ? yt[v] + by : never;
    for (int64_t i = 0; i < c->k; i++)
        yt[teacher_token(&row, i)] = (float)teacher_logp(&row, i);
}

void distill_teacher_rest(const struct distill *d, int64_t n_seqs)
{
    for (int64_t q = 0; d->cache && q < n_seqs; q++)
        file_map_drop(&d->cache->map, (uint64_t)(d->cache->at[q] - d->cache->map.data),
                      d->cache->block_bytes);
}
