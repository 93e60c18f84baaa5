/*
 * divergence.c - walking the windows of a text with one model or two.
 *
 * Positions before the first scored one need no logits: session_sync forwards them.
 * The scored ones go through session_eval in batches of at most divergence_rows().
 */
#include "eval/divergence.h"

#include "base/mem.h"
#include "eval/logprob.h"
#include "eval/stats.h"
#include "eval/teacher.h"

#include <math.h>

enum { LOGITS_MAX_BYTES = 64 * 1000 * 1000 };

int64_t divergence_rows(int64_t vocab, int64_t batch)
{
    int64_t n = LOGITS_MAX_BYTES / (vocab * (int64_t)sizeof(float));

    return max_i64(1, min_i64(n, batch));
}

/* One model on its way through the text. */
struct walker {
    struct session *s; /* NULL: not there */
    int64_t vocab;
    float *logits; /* [rows, vocab] */
};

struct walk {
    const struct divergence_walk *p;
    struct walker cand, base;
    int64_t rows;
    int64_t vocab;
    double *expo;         /* [vocab] exponentials of the baseline's row */
    struct stats quality; /* what progress shows: loss, or divergence */
    uint64_t done;
};

static void walk_free(struct walk *w)
{
    mem_free(w->cand.logits);
    mem_free(w->base.logits);
    mem_free(w->expo);
}

static enum b2_status walker_init(struct walker *m, struct session *s,
                                  const struct textset *text, struct b2_err *err)
{
    int64_t longest = 0;

    if (!s)
        return B2_OK;
    for (int64_t i = 0; i < text->n_windows; i++)
        longest = max_i64(longest, text->win[i].n);
    m->s = s;
    m->vocab = session_model(s)->hp.vocab;
    if (longest > session_ctx(s))
        return err_set(
            err, B2_EARG,
            "windows of %lld tokens do not fit the session's context of %lld",
            (long long)longest, (long long)session_ctx(s));
    return B2_OK;
}

static enum b2_status walk_alloc(struct walk *w, struct b2_err *err)
{
    int64_t batch = w->cand.s ? session_batch(w->cand.s) : INT64_MAX;
    size_t vocab = (size_t)w->vocab;

    if (w->base.s)
        batch = min_i64(batch, session_batch(w->base.s));
    w->rows = divergence_rows(w->vocab, batch);
    w->expo = mem_calloc(vocab, sizeof(double));
    if (w->cand.s)
        w->cand.logits = mem_calloc((size_t)w->rows, vocab * sizeof(float));
    if (w->base.s)
        w->base.logits = mem_calloc((size_t)w->rows, vocab * sizeof(float));
    if (!w->expo || (w->cand.s && !w->cand.logits) || (w->base.s && !w->base.logits))
        return err_set(err, B2_ENOMEM, "out of memory for logits");
    return B2_OK;
}

/* The baseline's part of a row, from its logits or from what is stored of them. c is NULL
 * when the candidate does not walk. */
static enum b2_status score_base(struct walk *w, struct divergence_row *out,
                                 int64_t row, int32_t target, const float *xc,
                                 const struct logprob *c, struct b2_err *err)
{
    const float *xb = w->base.logits + row * w->vocab;
    struct logprob b;
    enum b2_status rc = logprob_row(&b, w->expo, xb, w->vocab, err);

    if (rc) {
        err_wrap(err, "baseline");
        return rc;
    }
    out->nll_base = b.lse - (double)xb[target];
    if (c) {
        out->kld = logprob_kld(&b, w->expo, xb, c, xc, w->vocab);
        out->same_top1 = b.argmax == c->argmax;
    }
    return w->p->on_logits ? w->p->on_logits(w->p->ctx, xb, &b, target, err) : B2_OK;
}

static enum b2_status score_stored(struct walk *w, struct divergence_row *out,
                                   int64_t window_row, const float *xc,
                                   const struct logprob *c, struct b2_err *err)
{
    struct teacher_row t;
    enum b2_status rc = w->p->stored(w->p->ctx, &t, out->window, window_row, err);

    if (rc) {
        err_wrap(err, "teacher");
        return rc;
    }
    out->nll_base = -t.target;
    out->kld = teacher_kld(&t, c, xc);
    out->same_top1 = (int64_t)teacher_token(&t, 0) == c->argmax;
    return B2_OK;
}

/* Scores row `row` of the buffers, position out->pos of its window. */
static enum b2_status score_row(struct walk *w, struct divergence_row *out, int64_t row,
                                const struct text_window *win, struct b2_err *err)
{
    const float *xc = w->cand.s ? w->cand.logits + row * w->vocab : NULL;
    int32_t target = win->target[out->pos];
    struct logprob c;
    enum b2_status rc = B2_OK;

    if (target < 0 || target >= w->vocab)
        return err_set(err, B2_EARG, "token %d is not in the vocabulary of %lld",
                       (int)target, (long long)w->vocab);
    if (xc) {
        rc = logprob_row(&c, NULL, xc, w->vocab, err);
        if (rc)
            return rc;
        out->nll = c.lse - (double)xc[target];
    }
    if (w->base.s)
        rc = score_base(w, out, row, target, xc, xc ? &c : NULL, err);
    else if (w->p->stored && xc)
        rc = score_stored(w, out, out->pos - win->score_from, xc, &c, err);
    if (rc)
        return rc;
    bool kld = xc && (w->base.s || w->p->stored);
    stats_add(&w->quality, kld ? out->kld : xc ? out->nll : out->nll_base);
    if (w->p->on_row)
        w->p->on_row(w->p->ctx, out);
    return B2_OK;
}

/* Brings one model to the first scored position of a window. */
static enum b2_status enter_window(struct walker *m, const struct text_window *win,
                                   struct b2_err *err)
{
    if (!m->s)
        return B2_OK;
    if (win->score_from == 0) {
        session_rewind(m->s, 0);
        return B2_OK;
    }
    return session_sync(m->s, win->ids, win->score_from, NULL, err);
}

static void show(struct walk *w)
{
    bool kld = w->cand.s && (w->base.s || w->p->stored);

    progress_update(w->p->pr, w->done, kld ? w->quality.mean : exp(w->quality.mean));
}

static enum b2_status walk_window(struct walk *w, int64_t i, struct b2_err *err)
{
    const struct text_window *win = &w->p->text->win[i];
    enum b2_status rc = enter_window(&w->cand, win, err);

    if (!rc)
        rc = enter_window(&w->base, win, err);
    for (int64_t at = win->score_from; !rc && at < win->score_to; at += w->rows) {
        int64_t n = min_i64(w->rows, win->score_to - at);
        if (w->cand.s)
            rc = session_eval(w->cand.s, win->ids + at, n, w->cand.logits, err);
        if (!rc && w->base.s)
            rc = session_eval(w->base.s, win->ids + at, n, w->base.logits, err);
        for (int64_t k = 0; !rc && k < n; k++) {
            struct divergence_row row = {.window = i, .pos = at + k};
            rc = score_row(w, &row, k, win, err);
            if (rc)
                err_wrap(err, "position %lld", (long long)at + (long long)k);
        }
        w->done += (uint64_t)n;
        if (!rc)
            show(w);
    }
    return rc;
}

enum b2_status divergence_run(const struct divergence_walk *p, struct b2_err *err)
{
    struct walk w = {.p = p, .done = p->done0};
    enum b2_status rc = walker_init(&w.cand, p->cand, p->text, err);

    if (!rc)
        rc = walker_init(&w.base, p->base, p->text, err);
    w.vocab = max_i64(w.cand.vocab, w.base.vocab);
    if (!rc && w.vocab == 0)
        return err_set(err, B2_EARG, "no model to walk with");
    if (!rc && w.cand.s && w.base.s && w.cand.vocab != w.base.vocab)
        rc = err_set(err, B2_EARG,
                     "the model has %lld tokens in its vocabulary, the baseline %lld: "
                     "their distributions cannot be compared",
                     (long long)w.cand.vocab, (long long)w.base.vocab);
    if (!rc)
        rc = walk_alloc(&w, err);
    for (int64_t i = 0; !rc && i < p->text->n_windows; i++) {
        if (p->wanted && !p->wanted(p->ctx, i))
            continue;
        rc = walk_window(&w, i, err);
        if (rc)
            err_wrap(err, "window %lld", (long long)i);
    }
    walk_free(&w);
    return rc;
}

/* Sums of a walk that keeps no rows. */
struct sums {
    struct stats nll, nll_base, kld;
    int64_t n_same;
    double *klds; /* [n_scored], or NULL */
};

static void add_row(void *ctx, const struct divergence_row *row)
{
    struct sums *s = ctx;

    stats_add(&s->nll, row->nll);
    s->klds[s->kld.n] = row->kld;
    stats_add(&s->kld, row->kld);
    stats_add(&s->nll_base, row->nll_base);
    s->n_same += row->same_top1;
}

/* Sums, and the caller's own row beside them. */
struct ppl_sums {
    struct stats nll;
    const struct divergence_walk *own;
};

static void ppl_row(void *ctx, const struct divergence_row *row)
{
    struct ppl_sums *s = ctx;

    stats_add(&s->nll, row->nll);
    if (s->own->on_row)
        s->own->on_row(s->own->ctx, row);
}

enum b2_status divergence_ppl(struct ppl_result *out, const struct divergence_walk *p,
                              struct b2_err *err)
{
    struct ppl_sums sums = {.own = p};
    struct divergence_walk w = {
        .cand = p->cand, .text = p->text, .pr = p->pr, .on_row = ppl_row, .ctx = &sums};
    enum b2_status rc = divergence_run(&w, err);

    if (!rc)
        *out = (struct ppl_result){.nll = sums.nll.mean,
                                   .ppl = exp(sums.nll.mean),
                                   .nll_stderr = stats_stderr(&sums.nll),
                                   .n_tokens = sums.nll.n};
    return rc;
}

/* All positions walked: at least one, by textset's rules. */
static struct kld_result summary(struct sums *s)
{
    int64_t n = s->kld.n;

    stats_sort(s->klds, n);
    return (struct kld_result){
        .mean_kld = s->kld.mean,
        .kld_stderr = stats_stderr(&s->kld),
        .median_kld = stats_quantile(s->klds, n, 0.5),
        .p90_kld = stats_quantile(s->klds, n, 0.9),
        .p99_kld = stats_quantile(s->klds, n, 0.99),
        .max_kld = stats_quantile(s->klds, n, 1.0),
        .same_top1 = (double)s->n_same / (double)n,
        .ppl = exp(s->nll.mean),
        .ppl_baseline = exp(s->nll_base.mean),
        .ppl_ratio = exp(s->nll.mean - s->nll_base.mean),
        .n_tokens = n,
    };
}

enum b2_status divergence_kld(struct kld_result *out, struct session *s,
                              struct session *baseline, const struct textset *text,
                              struct progress *pr, struct b2_err *err)
{
    struct sums sums = {.klds = mem_calloc((size_t)text->n_scored, sizeof(double))};
    struct divergence_walk w = {.cand = s,
                                .base = baseline,
                                .text = text,
                                .pr = pr,
                                .on_row = add_row,
                                .ctx = &sums};
    enum b2_status rc =
        sums.klds ? divergence_run(&w, err) : err_set(err, B2_ENOMEM, "out of memory");

    if (!rc)
        *out = summary(&sums);
    mem_free(sums.klds);
    return rc;
}
