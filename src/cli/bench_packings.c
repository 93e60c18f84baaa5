/*
 * bench_packings.c - which ternary type runs a model's matrices fastest here.
 */
#include "cli/bench_packings.h"
#include "eval/packings.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { MAX_THREADS_TRIED = 16 };

struct result {
    int64_t threads;
    struct packing_speed row[PACKINGS_MAX];
    int n;
};

/* The speeds of all numbers of threads. */
struct results {
    struct result at[MAX_THREADS_TRIED];
    int n;
    char fingerprint[65], kernel[32];
};

static enum b2_status measure(struct results *r, const struct bench_packings *b,
                              const struct model *m, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = 0; i < b->n_threads && i < MAX_THREADS_TRIED && rc == B2_OK; i++) {
        struct result *at = &r->at[r->n++];
        struct backend_config cfg = {.cpu = b->cpu, .log = b->log};
        struct backend *be = NULL;
        at->threads = b->threads[i];
        cfg.pool = pool_new((int)at->threads);
        if (!cfg.pool)
            return err_set(err, B2_ENOMEM, "cannot start %lld threads",
                           (long long)at->threads);
        rc = backend_cpu_new(&be, &cfg, err);
        if (rc == B2_OK) {
            snprintf(r->kernel, sizeof r->kernel, "%s", backend_kernel_name(be));
            rc =
                packings_measure(at->row, &at->n, m, be, b->runs, cli_interrupted, err);
        }
        backend_free(be);
        pool_free(cfg.pool);
    }
    return rc;
}

/* The fastest of all, by the same rule as among types: threads do not change bytes. */
static const struct result *best_threads(const struct results *r)
{
    const struct result *best = &r->at[0];

    for (int i = 1; i < r->n; i++)
        if (packings_best(r->at[i].row, r->at[i].n)->decode_tps >
            packings_best(best->row, best->n)->decode_tps)
            best = &r->at[i];
    return best;
}

static cJSON *result_json(const struct results *r, const struct bench_packings *b)
{
    const struct result *best = best_threads(r);
    cJSON *o = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(o, "packings");

    for (int i = 0; i < r->n; i++) {
        for (int k = 0; k < r->at[i].n; k++) {
            const struct packing_speed *s = &r->at[i].row[k];
            cJSON *j = cJSON_CreateObject();
            cJSON_AddItemToArray(rows, j);
            cJSON_AddStringToObject(j, "type", dtype_info(s->type)->name);
            cJSON_AddNumberToObject(j, "threads", (double)r->at[i].threads);
            cJSON_AddNumberToObject(j, "bits_per_weight", s->bits_per_weight);
            cJSON_AddNumberToObject(j, "bytes", (double)s->bytes);
            cJSON_AddNumberToObject(j, "decode_tps", s->decode_tps);
            cJSON_AddNumberToObject(j, "prompt_tps", s->prompt_tps);
            cJSON_AddNumberToObject(j, "gbps", s->gbps);
        }
    }
    cJSON_AddStringToObject(o, "recommended_packing",
                            dtype_info(packings_best(best->row, best->n)->type)->name);
    cJSON_AddNumberToObject(o, "recommended_threads", (double)best->threads);
    cJSON_AddStringToObject(o, "kernel", r->kernel);
    cJSON_AddStringToObject(o, "processor", b->processor);
    cJSON_AddStringToObject(o, "model", b->model_path);
    cJSON_AddStringToObject(o, "fingerprint", r->fingerprint);
    cJSON_AddNumberToObject(o, "runs", b->runs);
    return o;
}

static void print_table(const struct results *r, const struct bench_packings *b)
{
    const struct result *best = best_threads(r);
    const struct packing_speed *first = packings_best(best->row, best->n);

    printf("shapes of  %.12s, %s kernels on %s\n", r->fingerprint, r->kernel,
           b->processor);
    printf(
        "matrices alone: norms, attention and cache cost the same in every type\n\n");
    printf("%-8s %7s %10s %10s %12s %12s %7s\n", "type", "threads", "bits/w", "MB",
           "decode tok/s", "prompt tok/s", "GB/s");
    for (int i = 0; i < r->n; i++) {
        for (int k = 0; k < r->at[i].n; k++) {
            const struct packing_speed *s = &r->at[i].row[k];
            printf("%-8s %7lld %10.3f %10.1f %12.2f %12.1f %7.2f\n",
                   dtype_info(s->type)->name, (long long)r->at[i].threads,
                   s->bits_per_weight, 1e-6 * (double)s->bytes, s->decode_tps,
                   s->prompt_tps, s->gbps);
        }
    }
    printf("\nfastest here: %s with --threads %lld\n", dtype_info(first->type)->name,
           (long long)best->threads);
}

int bench_packings(const struct bench_packings *b)
{
    const struct model_params mp = {.log = b->log, .no_tokenizer = true};
    struct results r = {0};
    struct model *m = NULL;
    struct b2_err err = {0};
    int code = CLI_DONE;
    enum b2_status rc = model_open(&m, b->model_path, &mp, &err);

    if (rc == B2_OK) {
        snprintf(r.fingerprint, sizeof r.fingerprint, "%s", m->fingerprint);
        rc = measure(&r, b, m, &err);
    }
    if (rc)
        code = cli_report_error(&err);
    else if (b->common->json)
        code = cli_print_json(result_json(&r, b));
    else
        print_table(&r, b);
    model_close(m);
    return code;
}
