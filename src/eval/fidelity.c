/*
 * fidelity.c - rows of a walk over several texts, and their summaries.
 */
#include "eval/fidelity.h"

#include "base/mem.h"
#include "eval/stats.h"
#include "eval/teacher_file.h"

#include <math.h>
#include <string.h>

enum b2_status fidelity_add(struct fidelity *f, const char *region, const char *path,
                            struct textset *set, struct b2_err *err)
{
    struct fidelity_text *more =
        mem_realloc(f->text, (size_t)f->n_texts + 1, sizeof *f->text);
    char *name = mem_strdup(region);
    int64_t at = f->n_texts;

    if (more)
        f->text = more;
    if (!more || !name) {
        mem_free(name);
        textset_free(set);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    for (int64_t i = 0; i < f->n_texts; i++)
        if (strcmp(more[i].region, region) == 0)
            at = i + 1;
    memmove(more + at + 1, more + at, (size_t)(f->n_texts - at) * sizeof *more);
    more[at] = (struct fidelity_text){name, path, *set};
    f->n_texts++;
    f->n_windows += set->n_windows;
    f->n_scored += set->n_scored;
    *set = (struct textset){0};
    return B2_OK;
}

void fidelity_free(struct fidelity *f)
{
    for (int64_t i = 0; i < f->n_texts; i++) {
        mem_free(f->text[i].region);
        textset_free(&f->text[i].set);
    }
    mem_free(f->text);
    *f = (struct fidelity){0};
}

int64_t fidelity_documents(const struct fidelity *f, int64_t i)
{
    int64_t n = 0;

    for (int64_t k = 0; k < f->n_texts; k++)
        n += strcmp(f->text[k].region, f->text[i].region) == 0;
    return n;
}

/* What a walk over one text writes to. */
struct run {
    const struct fidelity *f;
    struct fidelity_row *rows;
    struct teacher_file *teacher;
    int64_t n, text;
    int64_t first_window; /* of the text, counted over all texts */
    bool by_document;
    int64_t
        cluster; /* of the next row's cluster, less its window's or document's part */
};

static void add_row(void *ctx, const struct divergence_row *row)
{
    struct run *r = ctx;

    r->rows[r->n++] = (struct fidelity_row){
        .nll = row->nll,
        .nll_base = row->nll_base,
        .kld = row->kld,
        .same_top1 = row->same_top1,
        .text = r->text,
        .window = row->window,
        .pos = row->pos,
        .cluster = r->cluster + (r->by_document ? 0 : row->window),
    };
}

static enum b2_status stored(void *ctx, struct teacher_row *out, int64_t window,
                             int64_t row, struct b2_err *err)
{
    const struct run *r = ctx;

    return teacher_file_row(r->teacher, out, r->first_window + window, row, err);
}

enum b2_status fidelity_run(struct fidelity_row *rows, const struct fidelity *f,
                            struct session *cand, struct session *base,
                            struct teacher_file *teacher, struct progress *pr,
                            struct b2_err *err)
{
    struct run r = {.f = f, .rows = rows, .teacher = teacher};
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < f->n_texts && !rc; i++) {
        struct divergence_walk w = {.cand = cand,
                                    .base = base,
                                    .stored = teacher ? stored : NULL,
                                    .on_row = add_row,
                                    .ctx = &r,
                                    .text = &f->text[i].set,
                                    .pr = pr,
                                    .done0 = (uint64_t)r.n};
        r.text = i;
        r.by_document = fidelity_documents(f, i) > 1;
        rc = divergence_run(&w, err);
        if (rc)
            err_wrap(err, "%s", f->text[i].path);
        r.first_window += f->text[i].set.n_windows;
        r.cluster += r.by_document ? 1 : f->text[i].set.n_windows;
    }
    return rc;
}

/* Sums of each cluster, in the order of rows. */
struct clusters {
    double *n, *kld, *same, *dp, *loss; /* [count] each, one allocation */
    int64_t count;
};

static double dp_of(const struct fidelity_row *r)
{
    return exp(-r->nll) - exp(-r->nll_base);
}

static enum b2_status clusters_make(struct clusters *c, const struct fidelity_row *rows,
                                    int64_t n, struct b2_err *err)
{
    int64_t count = rows[n - 1].cluster - rows[0].cluster + 1;
    double *all = mem_calloc((size_t)count, 5 * sizeof *all);

    if (!all)
        return err_set(err, B2_ENOMEM, "out of memory");
    *c = (struct clusters){
        all, all + count, all + 2 * count, all + 3 * count, all + 4 * count, count};
    for (int64_t i = 0; i < n; i++) {
        int64_t k = rows[i].cluster - rows[0].cluster;
        c->n[k] += 1.0;
        c->kld[k] += rows[i].kld;
        c->same[k] += rows[i].same_top1;
        c->dp[k] += dp_of(&rows[i]);
        c->loss[k] += rows[i].nll - rows[i].nll_base;
    }
    return B2_OK;
}

static enum b2_status intervals(struct fidelity_figures *out,
                                const struct fidelity_row *rows, int64_t n,
                                uint64_t seed, struct b2_err *err)
{
    struct clusters c = {0};
    enum b2_status rc = clusters_make(&c, rows, n, err);

    if (!rc)
        rc = bootstrap_ratio(&out->kld_ci, c.kld, c.n, c.count, seed, err);
    if (!rc)
        rc = bootstrap_ratio(&out->same_ci, c.same, c.n, c.count, seed, err);
    if (!rc)
        rc = bootstrap_ratio(&out->dp_ci, c.dp, c.n, c.count, seed, err);
    if (!rc)
        rc = bootstrap_ratio(&out->ratio_ci, c.loss, c.n, c.count, seed, err);
    out->ratio_ci = (struct interval){exp(out->ratio_ci.low), exp(out->ratio_ci.high)};
    out->n_clusters = c.count;
    mem_free(c.n);
    return rc;
}

enum b2_status fidelity_figures(struct fidelity_figures *out,
                                const struct fidelity_row *rows, int64_t n,
                                uint64_t seed, struct b2_err *err)
{
    struct stats kld = {0}, nll = {0}, base = {0}, same = {0}, dp = {0}, dp2 = {0};
    double *sorted = mem_calloc((size_t)n, sizeof *sorted);

    if (!sorted)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        double d = dp_of(&rows[i]);
        sorted[i] = rows[i].kld;
        stats_add(&kld, rows[i].kld);
        stats_add(&nll, rows[i].nll);
        stats_add(&base, rows[i].nll_base);
        stats_add(&same, rows[i].same_top1);
        stats_add(&dp, d);
        stats_add(&dp2, d * d);
    }
    stats_sort(sorted, n);
    *out = (struct fidelity_figures){
        .n_tokens = n,
        .mean_kld = kld.mean,
        .kld_stderr = stats_stderr(&kld),
        .median_kld = stats_quantile(sorted, n, 0.5),
        .p90_kld = stats_quantile(sorted, n, 0.9),
        .p99_kld = stats_quantile(sorted, n, 0.99),
        .max_kld = stats_quantile(sorted, n, 1.0),
        .same_top1 = same.mean,
        .dp_mean = dp.mean,
        .dp_rms = sqrt(dp2.mean),
        .ppl = exp(nll.mean),
        .ppl_baseline = exp(base.mean),
        .ppl_ratio = exp(nll.mean - base.mean),
    };
    mem_free(sorted);
    return intervals(out, rows, n, seed, err);
}

void fidelity_bins(struct fidelity_bin out[FIDELITY_BINS],
                   const struct fidelity_row *rows, int64_t n)
{
    int64_t low = INT64_MAX, high = 0;

    for (int64_t i = 0; i < n; i++) {
        low = min_i64(low, rows[i].pos);
        high = max_i64(high, rows[i].pos + 1);
    }
    int64_t span = n > 0 ? high - low : 0;
    for (int64_t b = 0; b < FIDELITY_BINS; b++)
        out[b] = (struct fidelity_bin){.from = low + span * b / FIDELITY_BINS,
                                       .to = low + span * (b + 1) / FIDELITY_BINS};
    for (int64_t i = 0; i < n; i++) {
        int64_t b = 0;
        while (rows[i].pos >= out[b].to)
            b++;
        out[b].n++;
        out[b].mean_kld += rows[i].kld;
    }
    for (int64_t b = 0; b < FIDELITY_BINS; b++)
        if (out[b].n > 0)
            out[b].mean_kld /= (double)out[b].n;
}
