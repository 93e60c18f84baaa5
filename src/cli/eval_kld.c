/*
 * eval_kld.c - figures of regions, as JSON, as a table, as kept rows.
 */
#include "cli/eval_kld.h"

#include "base/file.h"
#include "base/mem.h"

#include <cjson/cJSON.h>
#include <string.h>

/* Rows of region `first`..: all texts that bear its name lie together. */
static int64_t rows_of_region(const struct fidelity *f, int64_t first, int64_t *next)
{
    int64_t n = 0, i = first;

    while (i < f->n_texts && strcmp(f->text[i].region, f->text[first].region) == 0)
        n += f->text[i++].set.n_scored;
    *next = i;
    return n;
}

enum b2_status kld_report_make(struct kld_report *out, const struct fidelity *f,
                               const struct fidelity_row *rows, uint64_t seed,
                               struct b2_err *err)
{
    struct kld_report r = {0};
    size_t most = (size_t)f->n_texts;
    enum b2_status rc = B2_OK;
    int64_t at = 0;

    r.region = mem_calloc(most, sizeof *r.region);
    r.name = mem_calloc(most, sizeof *r.name);
    r.documents = mem_calloc(most, sizeof *r.documents);
    if (!r.region || !r.name || !r.documents) {
        err_set(err, B2_ENOMEM, "out of memory");
        rc = B2_ENOMEM;
    }
    for (int64_t i = 0, next = 0; !rc && i < f->n_texts; i = next) {
        int64_t n = rows_of_region(f, i, &next);
        r.name[r.n_regions] = f->text[i].region;
        r.documents[r.n_regions] = next - i;
        rc = fidelity_figures(&r.region[r.n_regions++], rows + at, n, seed, err);
        at += n;
    }
    if (!rc)
        rc = fidelity_figures(&r.all, rows, f->n_scored, seed, err);
    if (rc) {
        kld_report_free(&r);
        return rc;
    }
    fidelity_bins(r.bin, rows, f->n_scored);
    *out = r;
    return B2_OK;
}

void kld_report_free(struct kld_report *r)
{
    mem_free(r->region);
    mem_free(r->name);
    mem_free(r->documents);
    *r = (struct kld_report){0};
}

static void add_interval(cJSON *j, const char *key, struct interval v)
{
    const double pair[] = {v.low, v.high};

    cJSON_AddItemToObject(j, key, cJSON_CreateDoubleArray(pair, 2));
}

static void add_figures(cJSON *j, const struct fidelity_figures *r)
{
    cJSON_AddNumberToObject(j, "mean_kld", r->mean_kld);
    cJSON_AddNumberToObject(j, "median_kld", r->median_kld);
    cJSON_AddNumberToObject(j, "p90_kld", r->p90_kld);
    cJSON_AddNumberToObject(j, "p99_kld", r->p99_kld);
    cJSON_AddNumberToObject(j, "max_kld", r->max_kld);
    cJSON_AddNumberToObject(j, "kld_stderr", r->kld_stderr);
    add_interval(j, "mean_kld_ci", r->kld_ci);
    cJSON_AddNumberToObject(j, "same_top1", r->same_top1);
    add_interval(j, "same_top1_ci", r->same_ci);
    cJSON_AddNumberToObject(j, "dp_mean", r->dp_mean);
    add_interval(j, "dp_mean_ci", r->dp_ci);
    cJSON_AddNumberToObject(j, "dp_rms", r->dp_rms);
    cJSON_AddNumberToObject(j, "ppl", r->ppl);
    cJSON_AddNumberToObject(j, "ppl_baseline", r->ppl_baseline);
    cJSON_AddNumberToObject(j, "ppl_ratio", r->ppl_ratio);
    add_interval(j, "ppl_ratio_ci", r->ratio_ci);
    cJSON_AddNumberToObject(j, "n_tokens", (double)r->n_tokens);
    cJSON_AddNumberToObject(j, "n_clusters", (double)r->n_clusters);
}

static const char *cluster_name(int64_t documents)
{
    return documents > 1 ? "document" : "window";
}

static void add_regions(cJSON *j, const struct kld_report *r)
{
    cJSON *list = cJSON_AddArrayToObject(j, "regions");

    for (int64_t i = 0; i < r->n_regions; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(list, o);
        cJSON_AddStringToObject(o, "name", r->name[i]);
        add_figures(o, &r->region[i]);
        cJSON_AddStringToObject(o, "cluster", cluster_name(r->documents[i]));
    }
}

static void add_bins(cJSON *j, const struct kld_report *r)
{
    cJSON *list = cJSON_AddArrayToObject(j, "by_position");

    for (int i = 0; i < FIDELITY_BINS; i++) {
        if (r->bin[i].n == 0)
            continue;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(list, o);
        cJSON_AddNumberToObject(o, "from", (double)r->bin[i].from);
        cJSON_AddNumberToObject(o, "to", (double)r->bin[i].to);
        cJSON_AddNumberToObject(o, "n", (double)r->bin[i].n);
        cJSON_AddNumberToObject(o, "mean_kld", r->bin[i].mean_kld);
    }
}

static void add_texts(cJSON *j, const struct kld *k)
{
    cJSON *list = cJSON_AddArrayToObject(j, "texts");
    const struct fidelity *f = &k->f;

    cJSON_AddNumberToObject(j, "ctx", (double)f->text[0].set.ctx);
    cJSON_AddNumberToObject(j, "stride", (double)f->text[0].set.stride);
    cJSON_AddNumberToObject(j, "chunks", (double)f->n_windows);
    cJSON_AddStringToObject(j, "convention", k->texts.convention);
    cJSON_AddStringToObject(j, "begin_token", f->text[0].set.begins ? "added" : "none");
    cJSON_AddStringToObject(j, "text", f->text[0].path);
    cJSON_AddStringToObject(j, "text_sha256", f->text[0].set.sha256);
    for (int64_t i = 0; i < f->n_texts; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(list, o);
        cJSON_AddStringToObject(o, "region", f->text[i].region);
        cJSON_AddStringToObject(o, "text", f->text[i].path);
        cJSON_AddStringToObject(o, "text_sha256", f->text[i].set.sha256);
        cJSON_AddNumberToObject(o, "chunks", (double)f->text[i].set.n_windows);
    }
}

static void add_baseline(cJSON *j, const struct kld *k)
{
    const struct teacher_file *t = k->teacher;

    if (!t) {
        cJSON_AddStringToObject(j, "baseline", k->baseline);
        cJSON_AddStringToObject(j, "fingerprint_baseline", k->base.model->fingerprint);
        cJSON_AddNumberToObject(j, "baseline_bytes",
                                (double)modelfile_bytes(k->base.model->mf));
        cJSON_AddBoolToObject(j, "exact_baseline", backend_is_exact(k->base.be));
        cJSON_AddStringToObject(j, "cache_baseline",
                                k->base.cache ? k->base.cache : "f16");
        return;
    }
    cJSON_AddStringToObject(j, "baseline", teacher_file_model(t));
    cJSON_AddStringToObject(j, "fingerprint_baseline", teacher_file_fingerprint(t));
    cJSON_AddBoolToObject(j, "exact_baseline", teacher_file_exact(t));
    cJSON *o = cJSON_AddObjectToObject(j, "teacher");
    cJSON_AddStringToObject(o, "file", k->teacher_path);
    cJSON_AddNumberToObject(o, "top_k", (double)teacher_file_k(t));
    cJSON_AddNumberToObject(o, "mean_tail", teacher_file_mean_tail(t));
}

cJSON *kld_json(const struct kld *k, const struct kld_report *r)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "measure", "kld");
    add_figures(j, &r->all);
    add_regions(j, r);
    add_bins(j, r);
    add_texts(j, k);
    eval_json_model(j, &k->cand);
    add_baseline(j, k);
    cJSON_AddBoolToObject(j, "exact", k->exact);
    eval_json_env(j, &k->env, &k->cand);
    cJSON_AddNumberToObject(j, "resamples", BOOTSTRAP_RESAMPLES);
    cJSON_AddNumberToObject(j, "seconds", k->seconds);
    return j;
}

static void print_conditions(const struct kld *k)
{
    const struct teacher_file *t = k->teacher;
    const struct fidelity *f = &k->f;

    printf("model        %s (%.12s, %s)\n", k->cand.path, k->cand.model->fingerprint,
           eval_activations(k->exact));
    if (t)
        printf("baseline     %s (%.12s, %s), from %s\n", teacher_file_model(t),
               teacher_file_fingerprint(t), eval_activations(teacher_file_exact(t)),
               k->teacher_path);
    else
        printf("baseline     %s (%.12s, %s)\n", k->baseline, k->base.model->fingerprint,
               eval_activations(backend_is_exact(k->base.be)));
    for (int64_t i = 0; i < f->n_texts; i++)
        printf("%-12s %s (SHA-256 %.12s), %lld tokens\n", i ? "" : "text",
               f->text[i].path, f->text[i].set.sha256, (long long)f->text[i].set.all.n);
    printf("scored       %lld tokens in %lld windows of %lld, convention %s, %s\n",
           (long long)f->n_scored, (long long)f->n_windows,
           (long long)f->text[0].set.ctx, k->texts.convention,
           f->text[0].set.begins ? "a begin token each" : "no begin token");
    printf("run          %s kernels, %d threads, %.1f s\n\n",
           backend_kernel_name(k->cand.be), pool_threads(k->env.pool), k->seconds);
}

static void print_region(const char *name, const struct fidelity_figures *r)
{
    eval_cell(name, 16);
    printf(" %7lld %8.4f  %7.4f - %7.4f %8.4f %8.4f %8.4f %7.2f %% %+8.4f "
           "%7.4f %9.4f\n",
           (long long)r->n_tokens, r->mean_kld, r->kld_ci.low, r->kld_ci.high,
           r->median_kld, r->p90_kld, r->p99_kld, 100.0 * r->same_top1, r->dp_mean,
           r->dp_rms, r->ppl_ratio);
}

void kld_print(const struct kld *k, const struct kld_report *r)
{
    const struct fidelity_figures *a = &r->all;

    print_conditions(k);
    printf("divergence   %.6f nat, mean (95 %%: %.6f to %.6f, from %lld clusters)\n",
           a->mean_kld, a->kld_ci.low, a->kld_ci.high, (long long)a->n_clusters);
    printf("             %.6f median, %.6f 90 %%, %.6f 99 %%, %.6f largest\n",
           a->median_kld, a->p90_kld, a->p99_kld, a->max_kld);
    printf("same top     %.2f %% of the most likely tokens (%.2f to %.2f)\n",
           100.0 * a->same_top1, 100.0 * a->same_ci.low, 100.0 * a->same_ci.high);
    printf("right token  %+.3f points of probability on average (%+.3f to %+.3f), "
           "%.3f RMS\n",
           100.0 * a->dp_mean, 100.0 * a->dp_ci.low, 100.0 * a->dp_ci.high,
           100.0 * a->dp_rms);
    printf("perplexity   %.4f, baseline %.4f, ratio %.4f (%.4f to %.4f)\n", a->ppl,
           a->ppl_baseline, a->ppl_ratio, a->ratio_ci.low, a->ratio_ci.high);
    if (k->teacher)
        printf("teacher      the %lld likeliest tokens and a tail of %.2f %%: the "
               "divergence is a lower bound\n",
               (long long)teacher_file_k(k->teacher),
               100.0 * teacher_file_mean_tail(k->teacher));
    if (r->n_regions > 1) {
        printf("\n%-16s %7s %8s  %17s %8s %8s %8s %9s %8s %7s %9s\n", "region",
               "tokens", "KL", "95 % interval", "median", "90 %", "99 %", "same top",
               "dp", "dp RMS", "ppl ratio");
        for (int64_t i = 0; i < r->n_regions; i++)
            print_region(r->name[i], &r->region[i]);
    }
    printf("\nby position ");
    for (int i = 0; i < FIDELITY_BINS; i++)
        if (r->bin[i].n > 0)
            printf(" %lld:%.4f", (long long)r->bin[i].from, r->bin[i].mean_kld);
    puts("");
    if (a->n_clusters < 10)
        puts("note: the intervals rest on fewer than ten clusters; more windows or "
             "documents make them trustworthy");
    puts("");
}

enum b2_status kld_save_rows(const struct kld *k, const struct fidelity_row *rows,
                             struct b2_err *err)
{
    struct str path = {0}, s = {0};
    enum b2_status rc;

    str_printf(&path, "%s/kld-%s.tsv", k->scores, eval_name(k->cand.path));
    str_put(&s, "region\ttext\twindow\tposition\tcluster\tkld\tnll\tnll_baseline\t"
                "same_top1\n");
    for (int64_t i = 0; i < k->f.n_scored; i++) {
        const struct fidelity_row *r = &rows[i];
        str_printf(&s, "%s\t%lld\t%lld\t%lld\t%lld\t%.9g\t%.9g\t%.9g\t%d\n",
                   k->f.text[r->text].region, (long long)r->text, (long long)r->window,
                   (long long)r->pos, (long long)r->cluster, r->kld, r->nll,
                   r->nll_base, r->same_top1);
    }
    rc = str_ok(&path) && str_ok(&s)
             ? file_write_all(path.data, s.data, s.len, true, err)
             : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&path);
    str_free(&s);
    return rc;
}
