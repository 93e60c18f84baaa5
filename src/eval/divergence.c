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

#include <math.h>

enum { LOGITS_MAX_BYTES = 64 * 1000 * 1000 };

int64_t divergence_rows(int64_t vocab, int64_t batch)
{
    int64_t n = LOGITS_MAX_BYTES / (vocab * (int64_t)sizeof(float));

    return max_i64(1, min_i64(n, batch));
}

/* One model on its way through the text. */
struct walker {
    struct session *s;
    int64_t vocab;
    float *logits; /* [rows, vocab] */
};

/* What both measures share. */
struct walk {
    struct walker cand, base; /* base.s == NULL: perplexity only */
    const struct textset *text;
    int64_t rows;
    double *expo; /* [vocab] exponentials of the baseline's row */
    double *klds; /* [n_scored] */
    struct stats nll, nll_base, kld;
    int64_t n_same;
    struct progress *pr;
};

static void walk_free(struct walk *w)
{
    mem_free(w->cand.logits);
    mem_free(w->base.logits);
    mem_free(w->expo);
    mem_free(w->klds);
}

static enum b2_status walker_init(struct walker *m, struct session *s,
                                  const struct textset *text, struct b2_err *err)
{
    int64_t longest = 0;

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
    int64_t batch = session_batch(w->cand.s);
    size_t vocab = (size_t)w->cand.vocab;

    if (w->base.s)
        batch = min_i64(batch, session_batch(w->base.s));
    w->rows = divergence_rows(w->cand.vocab, batch);
    w->cand.logits = mem_calloc((size_t)w->rows, vocab * sizeof(float));
    if (w->base.s) {
        w->base.logits = mem_calloc((size_t)w->rows, vocab * sizeof(float));
        w->expo = mem_calloc(vocab, sizeof(double));
        w->klds = mem_calloc((size_t)w->text->n_scored, sizeof(double));
    }
    if (!w->cand.logits || (w->base.s && (!w->base.logits || !w->expo || !w->klds))) {
        err_set(err, B2_ENOMEM, "out of memory for logits");
        return B2_ENOMEM;
    }
    return B2_OK;
}

/* Scores one row; target >= 0 is the token that came next. */
static enum b2_status score_row(struct walk *w, int64_t row, int32_t target,
                                struct b2_err *err)
{
    const float *xc = w->cand.logits + row * w->cand.vocab;
    struct logprob c, b;
    enum b2_status rc;

    if (target < 0 || target >= w->cand.vocab)
        return err_set(err, B2_EARG, "token %d is not in the vocabulary of %lld",
                       (int)target, (long long)w->cand.vocab);
    rc = logprob_row(&c, NULL, xc, w->cand.vocab, err);
    if (rc)
        return rc;
    stats_add(&w->nll, c.lse - (double)xc[target]);
    if (!w->base.s)
        return B2_OK;
    const float *xb = w->base.logits + row * w->base.vocab;
    rc = logprob_row(&b, w->expo, xb, w->base.vocab, err);
    if (rc) {
        err_wrap(err, "baseline");
        return rc;
    }
    double kld = logprob_kld(&b, w->expo, xb, &c, xc, w->base.vocab);
    w->klds[w->kld.n] = kld;
    stats_add(&w->kld, kld);
    stats_add(&w->nll_base, b.lse - (double)xb[target]);
    w->n_same += b.argmax == c.argmax;
    return B2_OK;
}

/* Brings one model to the first scored position of a window. */
static enum b2_status enter_window(struct walker *m, const struct text_window *win,
                                   struct b2_err *err)
{
    if (win->score_from == 0) {
        session_rewind(m->s, 0);
        return B2_OK;
    }
    return session_sync(m->s, win->ids, win->score_from, NULL, err);
}

static enum b2_status walk_window(struct walk *w, const struct text_window *win,
                                  struct b2_err *err)
{
    enum b2_status rc = enter_window(&w->cand, win, err);

    if (!rc && w->base.s)
        rc = enter_window(&w->base, win, err);
    for (int64_t at = win->score_from; !rc && at < win->score_to; at += w->rows) {
        int64_t n = min_i64(w->rows, win->score_to - at);
        rc = session_eval(w->cand.s, win->ids + at, n, w->cand.logits, err);
        if (!rc && w->base.s)
            rc = session_eval(w->base.s, win->ids + at, n, w->base.logits, err);
        for (int64_t i = 0; !rc && i < n; i++) {
            rc = score_row(w, i, win->target[at + i], err);
            if (rc)
                err_wrap(err, "position %lld", (long long)at + (long long)i);
        }
        if (!rc)
            progress_update(w->pr, (uint64_t)w->nll.n,
                            w->base.s ? w->kld.mean : exp(w->nll.mean));
    }
    return rc;
}

static enum b2_status walk_run(struct walk *w, struct b2_err *err)
{
    enum b2_status rc = walk_alloc(w, err);

    for (int64_t i = 0; !rc && i < w->text->n_windows; i++) {
        rc = walk_window(w, &w->text->win[i], err);
        if (rc)
            err_wrap(err, "window %lld", (long long)i);
    }
    return rc;
}

enum b2_status divergence_ppl(struct ppl_result *out, struct session *s,
                              const struct textset *text, struct progress *pr,
                              struct b2_err *err)
{
    struct walk w = {.text = text, .pr = pr};
    enum b2_status rc = walker_init(&w.cand, s, text, err);

    if (!rc)
        rc = walk_run(&w, err);
    if (!rc)
        *out = (struct ppl_result){.nll = w.nll.mean,
                                   .ppl = exp(w.nll.mean),
                                   .nll_stderr = stats_stderr(&w.nll),
                                   .n_tokens = w.nll.n};
    walk_free(&w);
    return rc;
}

/* All positions walked: at least one, by textset's rules. */
static struct kld_result summary(struct walk *w)
{
    int64_t n = w->kld.n;

    stats_sort(w->klds, n);
    return (struct kld_result){
        .mean_kld = w->kld.mean,
        .kld_stderr = stats_stderr(&w->kld),
        .median_kld = stats_quantile(w->klds, n, 0.5),
        .p90_kld = stats_quantile(w->klds, n, 0.9),
        .p99_kld = stats_quantile(w->klds, n, 0.99),
        .max_kld = stats_quantile(w->klds, n, 1.0),
        .same_top1 = (double)w->n_same / (double)n,
        .ppl = exp(w->nll.mean),
        .ppl_baseline = exp(w->nll_base.mean),
        .ppl_ratio = exp(w->nll.mean - w->nll_base.mean),
        .n_tokens = n,
    };
}

enum b2_status divergence_kld(struct kld_result *out, struct session *s,
                              struct session *baseline, const struct textset *text,
                              struct progress *pr, struct b2_err *err)
{
    struct walk w = {.text = text, .pr = pr};
    enum b2_status rc = walker_init(&w.cand, s, text, err);

    if (!rc)
        rc = walker_init(&w.base, baseline, text, err);
    if (!rc && w.cand.vocab != w.base.vocab)
        rc = err_set(err, B2_EARG,
                     "the model has %lld tokens in its vocabulary, the baseline %lld: "
                     "their distributions cannot be compared",
                     (long long)w.cand.vocab, (long long)w.base.vocab);
    if (!rc)
        rc = walk_run(&w, err);
    if (!rc)
        *out = summary(&w);
    walk_free(&w);
    return rc;
}
