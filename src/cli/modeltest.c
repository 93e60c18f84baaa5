/*
 * modeltest.c - what bonsai2 selftest -m FILE checks.
 *
 *   golden blocks    the two published encodings of one block of 128 weights
 *   requantise       sample rows of every ternary tensor, decoded and encoded: same bytes
 *   logits           finite, and the same bits for the whole prompt at once on all
 *                    threads as token by token on one
 *   signs, tokens,   of Ternary Bonsai 2 27B alone, which has published values: the
 *   greedy           rotation's signs, the ids of a prompt, and its 16 greedy tokens.
 *                    The vendor's own releases differ in their logits (their activations
 *                    have 8 bits of one kind or another), so another token passes where
 *                    the published one is as good as level with it.
 */
#include "cli/modeltest.h"

#include "base/mem.h"
#include "model/session.h"
#include "tensor/quant.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { CTX = 64, MAX_ROWS = 4 };

/* A token whose logit is so little below the best counts as level with it. */
static const float level_gap = 0.25f;

/* The published prompt and what follows it, from the vendor's program on PQ2_0. */
static const char prompt_text[] =
    "<|im_start|>user\nExplain in two sentences why the sky is blue.<|im_end|>\n"
    "<|im_start|>assistant\n";
static const int32_t prompt_ids[] = {248045, 846,  198,    814,   20139, 303,  1330,
                                     22157,  3069, 279,    12515, 369,   6105, 13,
                                     248046, 198,  248045, 74455, 198};
static const int32_t greedy_ids[] = {248068, 198,   760, 1156, 6587, 264,   1330, 1284,
                                     17834,  15673, 314, 3069, 279,  12515, 369,  6105};

struct tester {
    struct modeltest *t;
    const struct cli_common *common;
    struct log log;
    struct model *model;
    struct pool *pool;
    struct backend *many, *one; /* all threads, one thread */
    bool published;             /* the model is the one with published values */
};

static void report(struct modeltest *t, const char *name, enum modeltest_state state,
                   const char *fmt, ...) PRINTF_LIKE(4, 5);

static void report(struct modeltest *t, const char *name, enum modeltest_state state,
                   const char *fmt, ...)
{
    struct modeltest_check *c = &t->check[t->n++];
    va_list ap;

    c->name = name;
    c->state = state;
    t->n_failed += state == MODELTEST_FAILED;
    va_start(ap, fmt);
    (void)vsnprintf(c->detail, sizeof c->detail, fmt, ap);
    va_end(ap);
}

/* ---- bytes ---- */

/* Weight j is ((j^2 + 3j + 7) div 5) mod 3 - 1, times 1.5. */
static void check_blocks(struct modeltest *t)
{
    static const uint8_t ptq[] = {0x96, 0xc1, 0x43, 0xc8, 0x57, 0x06, 0x10,
                                  0x32, 0x96, 0xc2, 0x47, 0xd5, 0x81, 0x82,
                                  0x87, 0x96, 0x20, 0x21, 0x2f, 0xa2, 0xb4,
                                  0x51, 0xd2, 0x60, 0x5f, 0xe4, 0x00, 0x3e};
    static const uint8_t pq[] = {0x00, 0x3e, 0x89, 0x01, 0x89, 0x55, 0x62, 0x40, 0x62,
                                 0x95, 0x18, 0x90, 0x58, 0x25, 0x06, 0x24, 0x56, 0x89,
                                 0x01, 0x89, 0x55, 0x62, 0x40, 0x62, 0x95, 0x18, 0x90,
                                 0x58, 0x25, 0x06, 0x24, 0x56, 0x89, 0x01};
    float want[128], a[128], b[128];
    uint8_t enc_ptq[sizeof ptq], enc_pq[sizeof pq];

    for (int j = 0; j < 128; j++)
        want[j] = (float)((j * j + 3 * j + 7) / 5 % 3 - 1) * 1.5f;
    quant_encode_row(DT_PTQ1_0, enc_ptq, want, 128);
    quant_encode_row(DT_PQ2_0, enc_pq, want, 128);
    quant_decode_row(DT_PTQ1_0, a, ptq, 128);
    quant_decode_row(DT_PQ2_0, b, pq, 128);
    bool ok =
        memcmp(enc_ptq, ptq, sizeof ptq) == 0 && memcmp(enc_pq, pq, sizeof pq) == 0;
    for (int j = 0; j < 128; j++)
        ok = ok && a[j] == want[j] && b[j] == want[j];
    report(t, "golden blocks", ok ? MODELTEST_OK : MODELTEST_FAILED,
           "PTQ1_0 and PQ2_0, both ways");
}

/* Whether a block holds nothing but zeros: its scale says nothing, and comes back as 0. */
static bool all_zero(const float *x, int n)
{
    for (int i = 0; i < n; i++)
        if (x[i] != 0.0f)
            return false;
    return true;
}

/* The number of blocks of a row that do not come back with their bytes. */
static int64_t changed_blocks(const struct tensor *t, const uint8_t *row, float *x,
                              uint8_t *again)
{
    const struct dtype_info *info = dtype_info(t->type);
    int64_t n = 0;

    quant_decode_row(t->type, x, row, t->ne[0]);
    quant_encode_row(t->type, again, x, t->ne[0]);
    for (int64_t b = 0; b < t->ne[0] / info->block; b++)
        n += memcmp(row + b * info->bytes, again + b * info->bytes,
                    (size_t)info->bytes) != 0 &&
             !all_zero(x + b * info->block, info->block);
    return n;
}

/* The first, the last and rows between. */
static enum b2_status requantise(struct tester *k, int64_t i, int64_t *n_rows,
                                 int64_t *n_bad, struct b2_err *err)
{
    struct modelfile *mf = k->model->mf;
    const struct tensor *t = modelfile_tensor(mf, i);
    const int64_t rows = tensor_rows(t), take = min_i64(rows, MAX_ROWS);
    uint64_t row_bytes = 0;
    enum b2_status rc = dtype_row_bytes(&row_bytes, t->type, (uint64_t)t->ne[0], err);
    float *x = mem_calloc((size_t)t->ne[0], sizeof *x);
    uint8_t *again = mem_calloc((size_t)row_bytes, 1);

    if (!rc && (!x || !again))
        rc = err_set(err, B2_ENOMEM, "out of memory for a row");
    if (!rc)
        rc = modelfile_load(mf, i, err);
    for (int64_t r = 0; !rc && x && again && r < take; r++) {
        int64_t at = take > 1 ? r * (rows - 1) / (take - 1) : 0;
        *n_bad += changed_blocks(t, t->data + (uint64_t)at * row_bytes, x, again);
        ++*n_rows;
    }
    mem_free(x);
    mem_free(again);
    return rc;
}

static enum b2_status check_requantise(struct tester *k, struct b2_err *err)
{
    static const char name[] = "requantise";
    int64_t n_tensors = 0, n_rows = 0, n_bad = 0;
    const char *bad = NULL;

    for (int64_t i = 0; i < modelfile_n_tensors(k->model->mf); i++) {
        const struct tensor *t = modelfile_tensor(k->model->mf, i);
        const unsigned need = DTF_TERNARY | DTF_WRITE;
        int64_t before = n_bad;
        if ((dtype_info(t->type)->flags & need) != need)
            continue;
        enum b2_status rc = requantise(k, i, &n_rows, &n_bad, err);
        if (rc)
            return rc;
        n_tensors++;
        if (n_bad > before && !bad)
            bad = t->name;
    }
    if (n_tensors == 0)
        report(k->t, name, MODELTEST_SKIPPED, "no ternary tensors");
    else if (bad)
        report(k->t, name, MODELTEST_FAILED,
               "%" PRId64 " blocks of %" PRId64 " rows change, first in %s", n_bad,
               n_rows, bad);
    else
        report(k->t, name, MODELTEST_OK,
               "%" PRId64 " rows of %" PRId64 " ternary tensors keep their bytes",
               n_rows, n_tensors);
    return B2_OK;
}

/* ---- the published file ---- */

/* Ternary Bonsai 2 27B by its shapes and its rotation; a file that `synth` made says so
 * in its name. */
static bool is_published(const struct model *m)
{
    const char *name = "";

    if (meta_opt_str(modelfile_meta(m->mf), "general.name", &name, "", NULL))
        return false;
    return strcmp(m->hp.arch->name, "qwen35") == 0 && m->hp.n_layers == 64 &&
           m->hp.d == 5120 && m->hp.vocab == 248320 && m->rotation.version == 1 &&
           strncmp(name, "synthetic", 9) != 0;
}

static void check_signs(struct tester *k)
{
    static const int32_t first[] = {-1, -1, -1, 1, -1, 1, 1, 1};
    const struct rotation_decl *d = &k->model->rotation;
    int64_t n = 0, minus = 0;

    for (uint64_t i = 0; i < d->n_widths; i++)
        n += d->widths[i];
    for (int64_t i = 0; d->signs && i < n; i++)
        minus += d->signs[i] < 0;
    bool ok = d->signs && n == 28672 && minus == 14504 && d->n_forward == 401 &&
              d->n_inverse == 1 && memcmp(d->signs, first, sizeof first) == 0;
    report(k->t, "signs", ok ? MODELTEST_OK : MODELTEST_FAILED,
           "%" PRId64 " of %" PRId64 " are -1, %" PRIu64 " weights folded", minus, n,
           d->n_forward);
}

static enum b2_status check_tokens(struct tester *k, struct b2_err *err)
{
    struct tok_ids ids = {0};
    enum b2_status rc = tok_encode(k->model->tok, prompt_text, strlen(prompt_text),
                                   TOK_SPECIAL, &ids, err);

    if (!rc) {
        int64_t n = 0;
        while (n < ids.n && n < (int64_t)countof(prompt_ids) &&
               ids.id[n] == prompt_ids[n])
            n++;
        bool ok = ids.n == countof(prompt_ids) && n == ids.n;
        report(k->t, "tokens", ok ? MODELTEST_OK : MODELTEST_FAILED,
               "%" PRId64 " of %zu ids of the published prompt", n,
               countof(prompt_ids));
    }
    tok_ids_free(&ids);
    return rc;
}

static int32_t best_of(const float *logits, int64_t n)
{
    int32_t best = 0;

    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* The published tokens are fed, so that one other token does not spoil those behind. */
static enum b2_status check_greedy(struct tester *k, struct b2_err *err)
{
    const struct session_params sp = {.ctx = CTX};
    struct session *s = NULL;
    int same = 0, level = 0;
    float worst = 0;
    enum b2_status rc = session_new(&s, k->model, k->many, &sp, err);

    if (!rc)
        rc = session_sync(s, prompt_ids, countof(prompt_ids), NULL, err);
    for (size_t i = 0; !rc && i < countof(greedy_ids); i++) {
        const float *logits = session_logits(s);
        float gap = logits[best_of(logits, k->model->hp.vocab)] - logits[greedy_ids[i]];
        same += gap == 0.0f;
        level += gap > 0.0f && gap <= level_gap;
        worst = fmaxf(worst, gap);
        if (cli_interrupted())
            rc = err_set(err, B2_ECANCEL, "interrupted");
        else if (i + 1 < countof(greedy_ids))
            rc = session_step(s, greedy_ids[i], err);
    }
    session_free(s);
    if (!rc)
        report(k->t, "greedy",
               same + level == countof(greedy_ids) ? MODELTEST_OK : MODELTEST_FAILED,
               "%d of %zu published tokens are the best, %d level with it; largest gap "
               "%.3g",
               same, countof(greedy_ids), level, (double)worst);
    return rc;
}

static enum b2_status check_published(struct tester *k, struct b2_err *err)
{
    if (!k->published) {
        report(k->t, "published values", MODELTEST_SKIPPED,
               "known for Ternary Bonsai 2 27B alone");
        return B2_OK;
    }
    check_signs(k);
    enum b2_status rc = check_tokens(k, err);
    return rc ? rc : check_greedy(k, err);
}

/* ---- arithmetic ---- */

/* A prompt of the model's own tokens, or spread over its ids. */
static enum b2_status make_prompt(struct tester *k, struct tok_ids *ids,
                                  struct b2_err *err)
{
    static const char text[] = "The quick brown fox jumps over the lazy dog. 2 + 2 = 4";
    enum { N = 12 };

    if (k->model->tok)
        return tok_encode(k->model->tok, text, strlen(text), TOK_ADD_BOS, ids, err);
    ids->id = mem_calloc(N, sizeof *ids->id);
    if (!ids->id)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (ids->n = 0; ids->n < N; ids->n++)
        ids->id[ids->n] = (int32_t)(ids->n * 7919 % k->model->hp.vocab);
    return B2_OK;
}

/* Logits after ids: all at once on k->many, or step by step on k->one. */
static enum b2_status last_logits(struct tester *k, const struct tok_ids *ids,
                                  bool steps, float *logits, struct b2_err *err)
{
    const struct session_params sp = {.ctx = min_i64(CTX, k->model->hp.ctx_train)};
    struct session *s = NULL;
    enum b2_status rc = session_new(&s, k->model, steps ? k->one : k->many, &sp, err);

    if (!rc && !steps)
        rc = session_sync(s, ids->id, ids->n, NULL, err);
    for (int64_t i = 0; !rc && steps && i < ids->n; i++) {
        rc = cli_interrupted() ? err_set(err, B2_ECANCEL, "interrupted")
                               : session_step(s, ids->id[i], err);
    }
    if (!rc)
        memcpy(logits, session_logits(s), (size_t)k->model->hp.vocab * sizeof *logits);
    session_free(s);
    return rc;
}

static enum b2_status check_logits(struct tester *k, struct b2_err *err)
{
    const int64_t v = k->model->hp.vocab;
    float *a = mem_calloc((size_t)v, sizeof *a), *b = mem_calloc((size_t)v, sizeof *b);
    struct tok_ids ids = {0};
    int64_t col = 0;
    enum b2_status rc;

    if (!a || !b) {
        rc = err_set(err, B2_ENOMEM, "out of memory for logits");
        goto done;
    }
    rc = make_prompt(k, &ids, err);
    ids.n = min_i64(ids.n, min_i64(CTX, k->model->hp.ctx_train));
    if (!rc)
        rc = last_logits(k, &ids, false, a, err);
    if (!rc)
        rc = last_logits(k, &ids, true, b, err);
    if (!rc && quant_check_row(a, v, &col, NULL))
        report(k->t, "logits", MODELTEST_FAILED,
               "token %" PRId64 " has no finite logit after %" PRId64 " tokens", col,
               ids.n);
    else if (!rc && memcmp(a, b, (size_t)v * sizeof *a) != 0)
        report(k->t, "logits", MODELTEST_FAILED,
               "%" PRId64 " tokens at once on %d threads and one by one on one give "
               "other bits",
               ids.n, k->pool ? pool_threads(k->pool) : 1);
    else if (!rc)
        report(k->t, "logits", MODELTEST_OK,
               "finite; %" PRId64
               " tokens at once on %d threads, one by one on one: the "
               "same bits",
               ids.n, k->pool ? pool_threads(k->pool) : 1);
done:
    mem_free(a);
    mem_free(b);
    tok_ids_free(&ids);
    return rc;
}

static enum b2_status prepare(struct tester *k, const char *path, struct b2_err *err)
{
    struct backend_config cfg = {.log = &k->log};
    const struct model_params mp = {.log = &k->log};
    enum b2_status rc = cli_cpu(&cfg.cpu, k->common, err);

    if (!rc)
        rc = model_open(&k->model, path, &mp, err);
    if (!rc)
        rc = backend_cpu_new(&k->one, &cfg, err);
    if (rc)
        return rc;
    cfg.pool = k->pool = cli_pool(k->common, err);
    return k->pool ? backend_cpu_new(&k->many, &cfg, err) : B2_ENOMEM;
}

static void ignore(void *ctx)
{
    (void)ctx;
}

enum b2_status modeltest_run(struct modeltest *t, const char *path,
                             const struct cli_common *common, struct b2_err *err)
{
    struct tester k = {.t = t, .common = common, .log = cli_log(common)};
    enum b2_status rc;

    *t = (struct modeltest){0};
    rc = prepare(&k, path, err);
    cli_on_interrupt(ignore, NULL);
    if (!rc) {
        memcpy(t->fingerprint, k.model->fingerprint, sizeof t->fingerprint);
        k.published = is_published(k.model);
        check_blocks(t);
        rc = check_requantise(&k, err);
    }
    if (!rc)
        rc = check_logits(&k, err);
    if (!rc)
        rc = check_published(&k, err);
    cli_on_interrupt(NULL, NULL);
    backend_free(k.many);
    backend_free(k.one);
    model_close(k.model);
    pool_free(k.pool);
    return rc;
}
