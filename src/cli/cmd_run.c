/*
 * cmd_run.c - bonsai2 run: one completion of a raw prompt, or of one chat message.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cache_opts.h"
#include "cli/cli.h"
#include "cli/sampling.h"
#include "cli/talk.h"
#include "cli/terminal.h"
#include "format/hash.h"
#include "model/generate.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROMPT_BYTES = 64 << 20 };

/* What the words say, and what is made from them. */
struct run {
    struct cli_common common;
    const char *model_path, *text, *file;
    const char *system, *template_file;
    int64_t n_predict, ctx, batch;
    struct cache_words cache;
    struct sampling sampling;
    bool ignore_eos, exact, chat, warm;
    struct opt_list stop;

    struct log log;
    struct pool *pool;
    struct backend *be;
    struct model *model;
    struct session *session;
    struct sampler *sampler;
    struct sampler_params params;
    struct tok_ids prompt;
    struct generate_result result;
    char logits_sha256[HASH_HEX];
};

static const struct cmd command = {
    .name = "run",
    .summary = "Complete a prompt. The prompt is -p TEXT, -f FILE or standard input; "
               "control tokens written in it are recognised.",
    .example = "bonsai2 run -m model.gguf -p 'The capital of France is' -n 32",
};

static int parse(struct run *r, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE", &r->model_path, 0, 0,
         "Model: a GGUF file or a Hugging Face folder."},
        {OPT_STR, 'p', "prompt", "TEXT", &r->text, 0, 0, "Text to continue."},
        {OPT_STR, 'f', "file", "FILE", &r->file, 0, 0,
         "File with the text to continue; - is standard input."},
        {OPT_FLAG, 0, "chat", NULL, &r->chat, 0, 0,
         "The text is a user's message: apply the model's chat template."},
        {OPT_STR, 0, "system", "TEXT", &r->system, 0, 0,
         "System message before it (with --chat)."},
        {OPT_STR, 0, "template", "FILE", &r->template_file, 0, 0,
         "Jinja template to use instead of the model's (with --chat)."},
        {OPT_INT, 'n', "predict", "N", &r->n_predict, 0, 1 << 28,
         "Most tokens to generate; 0: until the context is full. [256]"},
        {OPT_INT, 'c', "ctx", "N", &r->ctx, 1, 1 << 28,
         "Positions of the cache. [prompt and answer]"},
        {OPT_INT, 'b', "batch", "N", &r->batch, 1, 1 << 16,
         "Most prompt tokens per pass. [512]"},
        CACHE_OPTS(&r->cache),
        SAMPLING_OPTS(&r->sampling, "0; with --chat what the model advises"),
        {OPT_LIST, 0, "stop", "TEXT", &r->stop, 0, 0,
         "End before this text; may be repeated."},
        {OPT_FLAG, 0, "ignore-eos", NULL, &r->ignore_eos, 0, 0,
         "Go on past the end token."},
        {OPT_FLAG, 0, "exact", NULL, &r->exact, 0, 0,
         "Activations and sums in F32: slow, the yardstick."},
        {OPT_FLAG, 0, "warm", NULL, &r->warm, 0, 0,
         "Read the whole file ahead before the first token."},
        CLI_COMMON_OPTS(&r->common),
        {.kind = OPT_END},
    };
    int n_operands = 0, rc = cli_parse(&command, opts, argc, argv, &n_operands);

    if (rc != OPT_RUN)
        return rc;
    if (!r->model_path)
        return cli_usage_error(&command, "-m FILE is missing");
    if (r->text && r->file)
        return cli_usage_error(&command, "-p and -f do not go together");
    if (!r->text && !r->file && terminal_stdin_is_tty())
        return cli_usage_error(&command, "a prompt is missing: -p TEXT, -f FILE or "
                                         "standard input");
    if (r->system && !r->chat)
        return cli_usage_error(&command, "--system needs --chat");
    if (r->template_file && !r->chat)
        return cli_usage_error(&command, "--template needs --chat");
    for (int i = 0; i < r->stop.n; i++)
        if (r->stop.item[i][0] == '\0')
            return cli_usage_error(&command, "--stop with an empty text");
    return OPT_RUN;
}

/* The prompt of a conversation of one message; the template writes its begin token. */
static enum b2_status apply_template(struct run *r, const char *text,
                                     struct b2_err *err)
{
    struct talk *t = NULL;
    enum b2_status rc = talk_new(&t, modelfile_meta(r->model->mf), r->template_file,
                                 r->model->tok, err);

    if (rc == B2_OK && r->system)
        rc = talk_set_system(t, r->system, err);
    if (rc == B2_OK)
        rc = talk_add(t, "user", text, err);
    if (rc == B2_OK)
        rc = talk_prompt(t, &r->prompt, err);
    talk_free(t);
    return rc;
}

static enum b2_status read_prompt(struct run *r, struct b2_err *err)
{
    const char *text = r->text;
    char *owned = NULL;
    size_t n = text ? strlen(text) : 0;
    enum b2_status rc = B2_OK;

    if (!text) {
        rc = file_read_all(&owned, &n, r->file ? r->file : "-", MAX_PROMPT_BYTES, err);
        text = owned;
    }
    if (rc == B2_OK && r->chat)
        rc = apply_template(r, text, err);
    else if (rc == B2_OK)
        rc = tok_encode(r->model->tok, text, n, TOK_SPECIAL | TOK_ADD_BOS, &r->prompt,
                        err);
    mem_free(owned);
    if (rc == B2_OK && r->prompt.n == 0)
        return err_set(err, B2_EARG, "the prompt is empty: nothing to continue");
    return rc;
}

/* Enough positions for prompt and answer, unless --ctx says how many. */
static int64_t choose_ctx(const struct run *r)
{
    int64_t answer = r->n_predict ? r->n_predict : 4096;

    if (r->ctx)
        return r->ctx;
    if (r->cache.window) /* no end to what it can go on to */
        return r->prompt.n + answer;
    return min_i64(r->model->hp.ctx_train, r->prompt.n + answer);
}

static enum b2_status prepare(struct run *r, struct b2_err *err)
{
    const struct model_params mp = {.log = &r->log, .warm = r->warm};
    struct backend_config cfg = {.exact = r->exact, .log = &r->log};
    struct session_params sp = {
        .batch = r->batch, .mem_limit = r->common.mem_limit, .log = &r->log};
    enum b2_status rc = cli_cpu(&cfg.cpu, &r->common, err);

    if (rc == B2_OK)
        rc = model_open(&r->model, r->model_path, &mp, err);
    if (rc == B2_OK)
        rc = read_prompt(r, err);
    if (rc)
        return rc;
    r->pool = cli_pool(&r->common, err);
    if (!r->pool)
        return err->status;
    cfg.pool = r->pool;
    rc = backend_cpu_new(&r->be, &cfg, err);
    sp.ctx = choose_ctx(r);
    cache_words_apply(&r->cache, &sp);
    if (rc == B2_OK)
        rc = cache_words_repack(&r->cache, r->model, r->be, &sp, r->common.quiet, false,
                                err);
    if (rc == B2_OK)
        rc = session_new(&r->session, r->model, r->be, &sp, err);
    r->params = sampling_resolve(&r->sampling, modelfile_meta(r->model->mf), r->chat,
                                 &r->common);
    if (rc == B2_OK)
        rc = sampler_new(&r->sampler, &r->params, r->model->hp.vocab, err);
    return rc;
}

static bool on_text(void *ctx, const char *text, size_t n)
{
    const struct run *r = ctx;

    return r->common.json || cli_write(text, n);
}

static void on_first_logits(void *ctx, const float *logits, int64_t vocab)
{
    struct run *r = ctx;

    if (hash_sha256(r->logits_sha256, logits, (size_t)vocab * sizeof *logits, NULL))
        r->logits_sha256[0] = '\0';
}

static void on_interrupt(void *session)
{
    session_cancel(session);
}

static double rate(int64_t n, double seconds)
{
    return n > 0 && seconds > 0 ? (double)n / seconds : 0.0;
}

static double prefill_tps(const struct generate_result *g)
{
    return rate(g->prompt_done - g->prompt_reused, g->prefill_s);
}

static double decode_tps(const struct generate_result *g)
{
    return rate(g->tokens.n - 1, g->decode_s);
}

/* Whether the answer ended for want of positions, before --predict was reached. */
static bool context_is_full(const struct run *r)
{
    return r->result.finish == FINISH_LENGTH &&
           (r->n_predict == 0 || r->result.tokens.n < r->n_predict);
}

static void print_timing(const struct run *r)
{
    const struct generate_result *g = &r->result;
    struct str peak = {0};

    str_put_bytes(&peak, file_peak_rss());
    fprintf(stderr, "\nprompt     %6lld tokens  %8.1f tok/s\n",
            (long long)g->prompt_tokens, prefill_tps(g));
    fprintf(stderr,
            "generated  %6lld tokens  %8.1f tok/s  first after %.0f ms, end: %s%s\n",
            (long long)g->tokens.n, decode_tps(g), 1e3 * g->first_token_s,
            finish_reason_name(g->finish),
            context_is_full(r) ? ", the context is full" : "");
    fprintf(stderr, "memory     %s at most; %d thread%s, %s kernels%s\n",
            str_ok(&peak) ? peak.data : "?", pool_threads(r->pool),
            pool_threads(r->pool) == 1 ? "" : "s", backend_kernel_name(r->be),
            r->exact ? ", exact" : "");
    fprintf(stderr, "model      %.12s  seed %lld\n", r->model->fingerprint,
            (long long)r->common.seed);
    str_free(&peak);
}

/* JSON strings here are C strings: a zero byte in the text is shown as U+FFFD. */
static void add_text(cJSON *o, const struct str *text)
{
    struct str copy = {0};

    for (size_t i = 0, n; i < text->len; i += n + 1) {
        n = strlen(text->data + i);
        str_putn(&copy, text->data + i, n);
        if (i + n < text->len)
            str_put(&copy, "\xef\xbf\xbd");
    }
    cJSON_AddStringToObject(o, "text", copy.len ? copy.data : "");
    str_free(&copy);
}

static void add_ids(cJSON *o, const char *key, const struct tok_ids *ids)
{
    cJSON *array = cJSON_AddArrayToObject(o, key);

    for (int64_t i = 0; i < ids->n; i++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber(ids->id[i]));
}

/* A float as the shortest double that it stands for: 0.1, not 0.100000001. */
static double plain(float f)
{
    char word[32];

    (void)snprintf(word, sizeof word, "%.7g", (double)f);
    return strtod(word, NULL);
}

static void add_sampling(cJSON *o, const struct sampler_params *p)
{
    cJSON_AddNumberToObject(o, "temperature", plain(p->temperature));
    cJSON_AddNumberToObject(o, "top_k", (double)p->top_k);
    cJSON_AddNumberToObject(o, "top_p", plain(p->top_p));
    cJSON_AddNumberToObject(o, "min_p", plain(p->min_p));
    cJSON_AddNumberToObject(o, "repeat_penalty", plain(p->repeat_penalty));
    cJSON_AddNumberToObject(o, "presence_penalty", plain(p->presence_penalty));
    cJSON_AddNumberToObject(o, "frequency_penalty", plain(p->frequency_penalty));
    cJSON_AddNumberToObject(o, "penalty_last_n", (double)p->penalty_last_n);
}

static cJSON *result_json(const struct run *r)
{
    const struct generate_result *g = &r->result;
    cJSON *o = cJSON_CreateObject(), *first;

    cJSON_AddNumberToObject(o, "prompt_tokens", (double)g->prompt_tokens);
    add_ids(o, "prompt_ids", &r->prompt);
    add_ids(o, "tokens", &g->tokens);
    add_text(o, &g->text);
    cJSON_AddStringToObject(o, "finish_reason", finish_reason_name(g->finish));
    first = cJSON_AddArrayToObject(o, "first_logits");
    for (int i = 0; i < g->n_first; i++) {
        const double pair[] = {g->first_ids[i], (double)g->first_logits[i]};
        cJSON_AddItemToArray(first, cJSON_CreateDoubleArray(pair, 2));
    }
    cJSON_AddStringToObject(o, "logits_sha256", r->logits_sha256);
    cJSON_AddNumberToObject(o, "prefill_tps", prefill_tps(g));
    cJSON_AddNumberToObject(o, "decode_tps", decode_tps(g));
    cJSON_AddNumberToObject(o, "first_token_ms", 1e3 * g->first_token_s);
    cJSON_AddNumberToObject(o, "peak_rss_bytes", (double)file_peak_rss());
    cJSON_AddStringToObject(o, "model", r->model_path);
    cJSON_AddStringToObject(o, "fingerprint", r->model->fingerprint);
    cJSON_AddNumberToObject(o, "seed", (double)r->common.seed);
    cJSON_AddNumberToObject(o, "threads", pool_threads(r->pool));
    cJSON_AddStringToObject(o, "kernel", backend_kernel_name(r->be));
    cJSON_AddBoolToObject(o, "exact", r->exact);
    cJSON_AddNumberToObject(o, "ctx", (double)session_ctx(r->session));
    cJSON_AddNumberToObject(o, "batch", (double)session_batch(r->session));
    cJSON_AddStringToObject(o, "cache",
                            cache_type_word(session_cache(r->session)->type));
    cJSON_AddNumberToObject(o, "window", (double)session_cache(r->session)->window);
    add_sampling(o, &r->params);
    return o;
}

/* Generates and reports; an interrupted run shows what there was. */
static int generate(struct run *r, struct b2_err *err)
{
    const struct generate_params gp = {
        .max_tokens = r->n_predict,
        .stop = r->stop.item,
        .n_stop = r->stop.n,
        .ignore_eos = r->ignore_eos,
        .on_text = on_text,
        .on_first_logits = on_first_logits,
        .ctx = r,
    };
    const struct str *text = &r->result.text;
    int code = CLI_DONE;

    cli_on_interrupt(on_interrupt, r->session);
    enum b2_status rc = generate_run(r->session, r->sampler, r->prompt.id, r->prompt.n,
                                     &gp, &r->result, err);
    cli_on_interrupt(NULL, NULL);
    if (rc && rc != B2_ECANCEL)
        return cli_report_error(err);
    if (r->common.json) {
        code = cli_print_json(result_json(r));
    } else {
        if (text->len > 0 && text->data[text->len - 1] != '\n')
            cli_write("\n", 1);
        if (!r->common.quiet)
            print_timing(r);
    }
    return rc == B2_ECANCEL ? CLI_INTERRUPTED : code;
}

static void free_all(struct run *r)
{
    generate_result_free(&r->result);
    tok_ids_free(&r->prompt);
    sampler_free(r->sampler);
    session_free(r->session);
    model_close(r->model);
    backend_free(r->be);
    pool_free(r->pool);
}

int cmd_run(int argc, char **argv)
{
    struct run r = {
        .n_predict = 256, .cache = CACHE_WORDS_INIT, .sampling = SAMPLING_INIT};
    struct b2_err err = {0};
    int code = parse(&r, argc, argv);

    if (code != OPT_RUN)
        return code;
    r.log = cli_log(&r.common);
    code = prepare(&r, &err) ? cli_report_error(&err) : generate(&r, &err);
    free_all(&r);
    return code;
}
