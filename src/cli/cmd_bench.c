/*
 * cmd_bench.c - bonsai2 bench: speed and memory of a model on this machine.
 */
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench_packings.h"
#include "cli/cache_opts.h"
#include "cli/cli.h"
#include "eval/speed.h"
#include "eval/stats.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LIST = 16,
    MAX_ROWS = 4 * MAX_LIST * MAX_LIST,
    MAX_TOKENS = 1 << 20,
    GROUP_BATCH = 64,        /* of sessions that only go along */
    MEMORY_BYTES = 256 << 20 /* read to measure the memory: many times the caches */
};

struct int_list {
    int64_t v[MAX_LIST];
    int n;
};

struct row {
    char test[80];
    int64_t threads, n;
    struct speed_result speed;
    double share; /* of the memory's speed with as many threads */
};

struct bench {
    struct cli_common common;
    const char *model_path, *prefill_words, *depth_words, *thread_words, *group_words;
    int64_t n_decode, batch, runs;
    struct cache_words cache;
    bool no_cold, warm, packings, fill;

    struct log log;
    struct int_list prefill, depth, threads, groups;
    unsigned cpu;
    struct model *model;
    struct session *session;             /* of the measurement under way, for Ctrl-C */
    struct session *group[SESSIONS_MAX]; /* that one, and those that go with it */
    struct row row[MAX_ROWS];
    int n_rows;
    double cold_s, warm_s; /* cold_s < 0: not measured */
    double dram[MAX_LIST]; /* by thread count of the list */
    uint64_t peak_rss;
    char kernel[32], processor[128], fingerprint[65];
};

static const struct cmd command = {
    .name = "bench",
    .summary =
        "Measure loading, prompt reading and generation of a model, and how much "
        "of the memory's speed they use. Nothing else should run meanwhile.",
    .example = "bonsai2 bench -m model.gguf -p 512 -n 32 -d 0,4096 --cache q8_0",
};

/* "1,2,8": numbers from min to MAX_TOKENS. */
static bool parse_list(struct int_list *out, const char *words, int64_t min,
                       int64_t max)
{
    char word[24];

    out->n = 0;
    for (const char *p = words;; p++) {
        size_t len = strcspn(p, ",");
        if (len >= sizeof word || out->n == MAX_LIST)
            return false;
        memcpy(word, p, len);
        word[len] = '\0';
        if (!opt_parse_int(&out->v[out->n++], word, min, max))
            return false;
        p += len;
        if (*p == '\0')
            return true;
    }
}

static int parse(struct bench *b, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE", &b->model_path, 0, 0,
         "Model: a GGUF file or a Hugging Face folder."},
        {OPT_STR, 'p', "prompt", "N,...", &b->prefill_words, 0, 0,
         "Lengths of prompts to read; 0: none. [64,512]"},
        {OPT_INT, 'n', "predict", "N", &b->n_decode, 0, MAX_TOKENS,
         "Tokens to generate; 0: none. [128]"},
        {OPT_STR, 'd', "depth", "N,...", &b->depth_words, 0, 0,
         "Tokens in the cache before generating. [0]"},
        {OPT_FLAG, 0, "fill", NULL, &b->fill, 0, 0,
         "Put random keys and values into the cache up to --depth instead of reading "
         "so "
         "many tokens: the same work per token, without the wait."},
        {OPT_STR, 0, "parallel", "N,...", &b->group_words, 0, 0,
         "Sequences that generate together; the tokens of all of them count. [1]"},
        {OPT_STR, 't', "threads", "N,...", &b->thread_words, 0, 0,
         "Numbers of threads to try. [1 and as many as there are]"},
        {OPT_INT, 'r', "runs", "N", &b->runs, 1, SPEED_MAX_RUNS,
         "Runs of each test; the median counts. [3]"},
        {OPT_INT, 'b', "batch", "N", &b->batch, 1, 1 << 16,
         "Most prompt tokens per pass. [512]"},
        {OPT_ENUM, 0, "cache", "f16|q8_0|q4_0", &b->cache.type, 0, 0,
         "How keys and values are kept. [f16]"},
        CACHE_WINDOW_OPTS(&b->cache),
        {OPT_FLAG, 0, "no-cold", NULL, &b->no_cold, 0, 0,
         "Leave the file in the system's cache: no cold start."},
        {OPT_FLAG, 0, "warm", NULL, &b->warm, 0, 0,
         "Read the whole file ahead before the first token."},
        {OPT_FLAG, 0, "compare-packings", NULL, &b->packings, 0, 0,
         "Only measure the model's matrices in each ternary type, and recommend one."},
        CLI_OPTS_AFTER_THREADS(&b->common),
        {OPT_FLAG, 0, "json", NULL, &b->common.json, 0, 0,
         "One JSON object on stdout."},
        {.kind = OPT_END},
    };
    int n_operands = 0, rc = cli_parse(&command, opts, argc, argv, &n_operands);

    if (rc != OPT_RUN)
        return rc;
    if (!b->model_path)
        return cli_usage_error(&command, "-m FILE is missing");
    if (!parse_list(&b->prefill, b->prefill_words, 0, MAX_TOKENS))
        return cli_usage_error(&command, "-p '%s' is no list of lengths",
                               b->prefill_words);
    if (!parse_list(&b->depth, b->depth_words, 0, MAX_TOKENS))
        return cli_usage_error(&command, "-d '%s' is no list of lengths",
                               b->depth_words);
    if (!parse_list(&b->groups, b->group_words, 1, SESSIONS_MAX))
        return cli_usage_error(&command,
                               "--parallel '%s' is no list of numbers from 1 to %d",
                               b->group_words, SESSIONS_MAX);
    if (b->thread_words && !parse_list(&b->threads, b->thread_words, 1, 1024))
        return cli_usage_error(&command, "-t '%s' is no list of thread counts",
                               b->thread_words);
    return OPT_RUN;
}

static void default_threads(struct bench *b)
{
    int most = pool_default_threads(NULL, 0);

    if (b->threads.n)
        return;
    b->threads.v[b->threads.n++] = 1;
    if (most > 1)
        b->threads.v[b->threads.n++] = most;
}

static enum b2_status measure_load(struct bench *b, struct pool *pool,
                                   struct b2_err *err)
{
    const struct backend_config cfg = {.pool = pool, .cpu = b->cpu};
    const struct model_params mp = {.warm = b->warm};
    double warm[SPEED_MAX_RUNS];
    bool cold = false;
    enum b2_status rc = b->no_cold ? B2_OK : speed_forget(&cold, b->model_path, err);

    b->cold_s = -1;
    if (rc == B2_OK && cold)
        rc = speed_load(&b->cold_s, b->model_path, &mp, &cfg, err);
    else if (rc == B2_OK && !b->no_cold)
        log_line(&b->log, LOG_INFO, "no cold start: the system keeps the file cached");
    if (rc == B2_OK) /* not counted: it may read what the first token left out */
        rc = speed_load(&warm[0], b->model_path, &mp, &cfg, err);
    for (int i = 0; i < b->runs && rc == B2_OK; i++)
        rc = cli_interrupted() ? err_set(err, B2_ECANCEL, "interrupted")
                               : speed_load(&warm[i], b->model_path, &mp, &cfg, err);
    if (rc)
        return rc;
    stats_sort(warm, b->runs);
    b->warm_s = stats_quantile(warm, b->runs, 0.5);
    return B2_OK;
}

/* "pp64", "tg32", "tg32@4096", "tg32x4@4096". */
static void name_row(struct row *row, const struct speed_test *t, int group)
{
    char together[16] = "", depth[32] = "";

    if (group > 1)
        snprintf(together, sizeof together, "x%d", group);
    if (t->kind == SPEED_DECODE && t->depth)
        snprintf(depth, sizeof depth, "@%lld", (long long)t->depth);
    snprintf(row->test, sizeof row->test, "%s%lld%s%s",
             t->kind == SPEED_PREFILL ? "pp" : "tg", (long long)t->n, together, depth);
}

/* group: sessions that generate together. */
static enum b2_status measure_row(struct bench *b, int64_t threads, int group,
                                  const struct speed_test *t, struct b2_err *err)
{
    struct row *row = &b->row[b->n_rows];
    int64_t need = t->n + t->depth;

    if (b->n_rows == MAX_ROWS)
        return err_set(err, B2_EARG, "more than %d tests: shorter lists", MAX_ROWS);
    if (need > session_ctx(b->session)) {
        log_line(&b->log, LOG_WARN, "%lld tokens are more than the context of %lld",
                 (long long)need, (long long)session_ctx(b->session));
        return B2_OK;
    }
    row->threads = threads;
    row->n = t->n;
    name_row(row, t, group);
    enum b2_status rc = group > 1 ? speed_together(&row->speed, b->group, group, t, err)
                                  : speed_session(&row->speed, b->session, t, err);
    if (rc == B2_OK)
        b->n_rows++;
    return rc;
}

static enum b2_status measure_session(struct bench *b, int64_t threads,
                                      struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    struct speed_test t = {
        .runs = (int)b->runs, .seed = (uint64_t)b->common.seed, .fill = b->fill};

    for (int i = 0; i < b->prefill.n && rc == B2_OK; i++) {
        t.kind = SPEED_PREFILL;
        t.n = b->prefill.v[i];
        if (t.n)
            rc = measure_row(b, threads, 1, &t, err);
    }
    for (int i = 0; i < b->depth.n && rc == B2_OK && b->n_decode; i++) {
        t.kind = SPEED_DECODE;
        t.n = b->n_decode;
        t.depth = b->depth.v[i];
        for (int k = 0; k < b->groups.n && rc == B2_OK; k++)
            rc = measure_row(b, threads, (int)b->groups.v[k], &t, err);
    }
    return rc;
}

static void on_interrupt(void *ctx)
{
    const struct bench *b = ctx;

    if (b->session)
        session_cancel(b->session);
}

/* The sessions beside the first that the largest group needs. They read no long prompts:
 * a small batch saves memory. */
static enum b2_status open_group(struct bench *b, struct backend *be,
                                 struct session_params sp, struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    int64_t most = 1;

    for (int i = 0; i < b->groups.n; i++)
        most = max_i64(most, b->groups.v[i]);
    sp.batch = min_i64(sp.batch, GROUP_BATCH);
    sp.log = NULL;
    for (int64_t i = 1; i < most && rc == B2_OK; i++)
        rc = session_new(&b->group[i], b->model, be, &sp, err);
    return rc;
}

static void close_group(struct bench *b)
{
    for (int i = 1; i < SESSIONS_MAX; i++) {
        session_free(b->group[i]);
        b->group[i] = NULL;
    }
}

/* All tests with one number of threads. */
static enum b2_status measure_threads(struct bench *b, int64_t threads,
                                      struct b2_err *err)
{
    struct backend_config cfg = {.cpu = b->cpu, .log = &b->log};
    struct session_params sp = {
        .batch = b->batch, .mem_limit = b->common.mem_limit, .log = &b->log};
    struct session *s = NULL;
    struct backend *be = NULL;
    int64_t ctx = 1;

    for (int i = 0; i < b->prefill.n; i++)
        ctx = max_i64(ctx, b->prefill.v[i]);
    for (int i = 0; i < b->depth.n; i++)
        ctx = max_i64(ctx, b->depth.v[i] + b->n_decode);
    sp.ctx = b->cache.window ? ctx : min_i64(ctx, b->model->hp.ctx_train);
    cache_words_apply(&b->cache, &sp);
    cfg.pool = pool_new((int)threads);
    if (!cfg.pool)
        return err_set(err, B2_ENOMEM, "cannot start %lld threads", (long long)threads);
    enum b2_status rc = backend_cpu_new(&be, &cfg, err);
    if (rc == B2_OK)
        rc = cache_words_repack(&b->cache, b->model, be, &sp, b->common.quiet, false,
                                err);
    if (rc == B2_OK)
        rc = session_new(&s, b->model, be, &sp, err);
    if (rc == B2_OK)
        rc = open_group(b, be, sp, err);
    if (rc == B2_OK) {
        snprintf(b->kernel, sizeof b->kernel, "%s", backend_kernel_name(be));
        b->session = b->group[0] = s;
        rc = cli_interrupted() ? err_set(err, B2_ECANCEL, "interrupted")
                               : measure_session(b, threads, err);
        b->session = NULL;
    }
    close_group(b);
    session_free(s);
    backend_free(be);
    pool_free(cfg.pool);
    return rc;
}

/* After everything else: its buffer is no part of the model's memory. */
static enum b2_status measure_memory(struct bench *b, struct b2_err *err)
{
    for (int i = 0; i < b->threads.n; i++) {
        struct pool *pool = pool_new((int)b->threads.v[i]);
        if (!pool)
            return err_set(err, B2_ENOMEM, "cannot start %lld threads",
                           (long long)b->threads.v[i]);
        enum b2_status rc = speed_memory(&b->dram[i], pool, MEMORY_BYTES, err);
        pool_free(pool);
        if (rc)
            return rc;
        for (int j = 0; j < b->n_rows; j++)
            if (b->row[j].threads == b->threads.v[i] && b->dram[i] > 0)
                b->row[j].share = b->row[j].speed.gbps / b->dram[i];
    }
    return B2_OK;
}

static enum b2_status measure(struct bench *b, struct b2_err *err)
{
    const struct model_params mp = {.log = &b->log};
    struct pool *pool;
    enum b2_status rc = cli_cpu(&b->cpu, &b->common, err);

    if (rc)
        return rc;
    default_threads(b);
    pool = pool_new((int)b->threads.v[b->threads.n - 1]);
    if (!pool)
        return err_set(err, B2_ENOMEM, "cannot start threads");
    rc = measure_load(b, pool, err);
    pool_free(pool);
    if (rc == B2_OK)
        rc = model_open(&b->model, b->model_path, &mp, err);
    if (rc)
        return rc;
    snprintf(b->fingerprint, sizeof b->fingerprint, "%s", b->model->fingerprint);
    for (int i = 0; i < b->threads.n && rc == B2_OK; i++)
        rc = measure_threads(b, b->threads.v[i], err);
    b->peak_rss = file_peak_rss();
    return rc ? rc : measure_memory(b, err);
}

/* The row of the fastest generation, or NULL. */
static const struct row *best_decode(const struct bench *b)
{
    const struct row *best = NULL;

    for (int i = 0; i < b->n_rows; i++)
        if (b->row[i].test[0] == 't' &&
            (!best || b->row[i].speed.median_tps > best->speed.median_tps))
            best = &b->row[i];
    return best;
}

static double most(const double *v, int n)
{
    double max = 0;

    for (int i = 0; i < n; i++)
        max = v[i] > max ? v[i] : max;
    return max;
}

static void add_rows(cJSON *o, const struct bench *b)
{
    cJSON *rows = cJSON_AddArrayToObject(o, "rows");
    cJSON *dram = cJSON_AddArrayToObject(o, "dram");

    for (int i = 0; i < b->n_rows; i++) {
        const struct row *r = &b->row[i];
        cJSON *j = cJSON_CreateObject();
        cJSON_AddItemToArray(rows, j);
        cJSON_AddStringToObject(j, "test", r->test);
        cJSON_AddNumberToObject(j, "threads", (double)r->threads);
        cJSON_AddNumberToObject(j, "n", (double)r->n);
        cJSON_AddNumberToObject(j, "median_tps", r->speed.median_tps);
        cJSON_AddNumberToObject(j, "min_tps", r->speed.min_tps);
        cJSON_AddNumberToObject(j, "max_tps", r->speed.max_tps);
        cJSON_AddNumberToObject(j, "gbps", r->speed.gbps);
        cJSON_AddNumberToObject(j, "dram_share", r->share);
    }
    for (int i = 0; i < b->threads.n; i++) {
        cJSON *j = cJSON_CreateObject();
        cJSON_AddItemToArray(dram, j);
        cJSON_AddNumberToObject(j, "threads", (double)b->threads.v[i]);
        cJSON_AddNumberToObject(j, "gbps", b->dram[i]);
    }
}

static cJSON *result_json(const struct bench *b)
{
    const struct row *best = best_decode(b);
    cJSON *o = cJSON_CreateObject();

    if (b->cold_s >= 0)
        cJSON_AddNumberToObject(o, "load_cold_ms", 1e3 * b->cold_s);
    else
        cJSON_AddNullToObject(o, "load_cold_ms");
    cJSON_AddNumberToObject(o, "load_warm_ms", 1e3 * b->warm_s);
    add_rows(o, b);
    cJSON_AddNumberToObject(o, "peak_rss_bytes", (double)b->peak_rss);
    cJSON_AddStringToObject(o, "kernel", b->kernel);
    cJSON_AddNumberToObject(o, "dram_gbps", most(b->dram, b->threads.n));
    if (best) {
        cJSON_AddNumberToObject(o, "dram_share", best->share);
        cJSON_AddNumberToObject(o, "recommended_threads", (double)best->threads);
    } else {
        cJSON_AddNullToObject(o, "dram_share");
        cJSON_AddNullToObject(o, "recommended_threads");
    }
    cJSON_AddStringToObject(o, "processor", b->processor);
    cJSON_AddStringToObject(o, "model", b->model_path);
    cJSON_AddStringToObject(o, "fingerprint", b->fingerprint);
    cJSON_AddNumberToObject(o, "runs", (double)b->runs);
    cJSON_AddNumberToObject(o, "batch", (double)b->batch);
    cJSON_AddStringToObject(o, "cache", b->cache.type);
    cJSON_AddNumberToObject(o, "window", (double)b->cache.window);
    cJSON_AddBoolToObject(o, "filled", b->fill);
    cJSON_AddNumberToObject(o, "seed", (double)b->common.seed);
    return o;
}

static void print_table(const struct bench *b)
{
    const struct row *best = best_decode(b);
    struct str peak = {0};

    str_put_bytes(&peak, b->peak_rss);
    printf("model      %.12s, %s kernels on %s\n", b->fingerprint, b->kernel,
           b->processor);
    printf("cache      %s", b->cache.type);
    if (b->cache.window)
        printf(", the last %lld positions", (long long)b->cache.window);
    printf("\n");
    if (b->cold_s >= 0)
        printf("load       %.0f ms cold, %.0f ms warm, to the first token\n",
               1e3 * b->cold_s, 1e3 * b->warm_s);
    else
        printf("load       %.0f ms warm, to the first token\n", 1e3 * b->warm_s);
    for (int i = 0; i < b->threads.n; i++)
        printf("memory     %.1f GB/s read by %lld thread%s\n", b->dram[i],
               (long long)b->threads.v[i], b->threads.v[i] == 1 ? "" : "s");
    printf("peak       %s resident\n\n", str_ok(&peak) ? peak.data : "?");
    printf("%-14s %7s %10s %10s %10s %9s %7s\n", "test", "threads", "tok/s", "lowest",
           "highest", "GB/s", "memory");
    for (int i = 0; i < b->n_rows; i++) {
        const struct row *r = &b->row[i];
        printf("%-14s %7lld %10.2f %10.2f %10.2f %9.2f %5.0f %%\n", r->test,
               (long long)r->threads, r->speed.median_tps, r->speed.min_tps,
               r->speed.max_tps, r->speed.gbps, 100.0 * r->share);
    }
    if (best && b->threads.n > 1)
        printf("\ngenerating is fastest with --threads %lld\n",
               (long long)best->threads);
    str_free(&peak);
}

static int compare_packings(struct bench *b)
{
    struct b2_err err = {0};

    if (cli_cpu(&b->cpu, &b->common, &err))
        return cli_report_error(&err);
    default_threads(b);
    return bench_packings(&(struct bench_packings){.common = &b->common,
                                                   .log = &b->log,
                                                   .model_path = b->model_path,
                                                   .processor = b->processor,
                                                   .threads = b->threads.v,
                                                   .n_threads = b->threads.n,
                                                   .runs = (int)b->runs,
                                                   .cpu = b->cpu});
}

int cmd_bench(int argc, char **argv)
{
    struct bench *b = mem_calloc(1, sizeof *b);
    struct b2_err err = {0};
    int code;

    if (!b) {
        err_set(&err, B2_ENOMEM, "out of memory");
        return cli_report_error(&err);
    }
    *b = (struct bench){.prefill_words = "64,512",
                        .depth_words = "0",
                        .group_words = "1",
                        .cache = {.type = "f16", .sinks = CACHE_SINKS},
                        .n_decode = 128,
                        .batch = 512,
                        .runs = 3};
    code = parse(b, argc, argv);
    if (code == OPT_RUN) {
        b->log = cli_log(&b->common);
        cpu_model_name(b->processor, sizeof b->processor);
        cli_on_interrupt(on_interrupt, b);
        if (b->packings) {
            code = compare_packings(b);
        } else if (measure(b, &err)) {
            code = cli_report_error(&err);
        } else if (b->common.json) {
            code = cli_print_json(result_json(b));
        } else {
            print_table(b);
            code = CLI_DONE;
        }
        cli_on_interrupt(NULL, NULL);
    }
    model_close(b->model);
    mem_free(b);
    return code;
}
