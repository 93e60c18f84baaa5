/*
 * cmd_eval_blind.c - bonsai2 eval blind: a person judges, without knowing whose answer.
 *
 * Two ways: in the terminal, at once; or with a page (-o) that saves a votes file, which
 * a second call (--votes, --key) turns into a result.
 */
#include "base/file.h"
#include "base/mem.h"
#include "cli/eval_blind.h"
#include "cli/eval_keep.h"
#include "cli/terminal.h"
#include "format/json.h"

#include <string.h>

enum { MAX_KEY = 64 << 20, KEY_VALUES = 1 << 20 };

struct blind_cmd {
    struct eval_env env;
    struct opt_list include;
    const char *model, *baseline, *prompt_file, *page, *key, *votes, *report, *scores,
        *cache;
    int64_t limit;
    struct eval_answering how;
    bool exact, anew, force;
    struct eval_prompts prompts;
    struct blind b;
    cJSON *head; /* models and conditions: of the key, then of the result */
};

static const struct cmd command = {
    .name = "eval blind",
    .summary =
        "Let a person compare answers of a model and a baseline without knowing whose "
        "they are: in the terminal, or on a page (-o, --key) whose saved votes a "
        "second "
        "call counts (--votes, --key).",
    .example =
        "bonsai2 eval blind -m small.gguf --baseline model.gguf -o page.html --key "
        "key.json",
};

/* Answers of one model; earlier ones come from a kept file. */
struct answering {
    struct blind_cmd *c;
    bool model;
    int64_t done;
};

static char **slot(const struct answering *a, int64_t i)
{
    struct blind_pair *p = &a->c->b.pair[i];

    return a->model ? &p->model : &p->baseline;
}

static bool take_answer(void *ctx, const cJSON *line)
{
    struct answering *a = ctx;
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(line, "answer"));

    if (!text || a->done == a->c->b.n)
        return false;
    *slot(a, a->done) = mem_strdup(text);
    if (!*slot(a, a->done))
        return false; /* it is made again, or memory runs out there */
    a->done++;
    return true;
}

static enum b2_status keep_open(struct eval_keep **out, struct answering *a,
                                const struct eval_side *side, struct b2_err *err)
{
    const struct blind_cmd *c = a->c;
    struct str name = {0};
    cJSON *head = cJSON_CreateObject();
    enum b2_status rc;

    cJSON_AddStringToObject(head, "fingerprint", side->model->fingerprint);
    cJSON_AddStringToObject(head, "weights_sha256", side->weights);
    cJSON_AddStringToObject(head, "prompts_sha256", c->prompts.sha256);
    cJSON_AddNumberToObject(head, "max_tokens", (double)c->how.max_tokens);
    cJSON_AddNumberToObject(head, "temperature", c->how.temperature);
    cJSON_AddNumberToObject(head, "seed", (double)c->how.seed);
    cJSON_AddBoolToObject(head, "raw", c->how.raw);
    cJSON_AddBoolToObject(head, "exact", c->exact);
    eval_json_cache(head, c->cache);
    str_printf(&name, "blind-%s.ndjson", eval_name(side->path));
    rc = eval_keep_open(out, c->scores, str_ok(&name) ? name.data : "blind.ndjson",
                        head, c->anew, take_answer, a, err);
    str_free(&name);
    return rc;
}

/* One answer, into its slot and the kept file. */
static enum b2_status answer_one(const struct answering *a,
                                 const struct eval_side *side, struct eval_keep *k,
                                 int64_t i, struct b2_err *err)
{
    struct generate_result g = {0};
    cJSON *line = NULL;
    enum b2_status rc = eval_answer(&g, side, &a->c->how, a->c->prompts.p[i].text, err);

    if (rc && rc != B2_ECANCEL)
        err_wrap(err, "%s: prompt %lld", side->path, (long long)i + 1);
    if (!rc) {
        *slot(a, i) = mem_strdup(g.text.data ? g.text.data : "");
        if (!*slot(a, i))
            rc = err_set(err, B2_ENOMEM, "out of memory");
    }
    if (!rc && k) {
        line = cJSON_CreateObject();
        cJSON_AddStringToObject(line, "answer", *slot(a, i));
        rc = eval_keep_add(k, line, err);
    }
    generate_result_free(&g);
    return rc;
}

/* The answers of one model to all prompts. */
static enum b2_status answers_of(struct blind_cmd *c, const char *path, bool model,
                                 struct b2_err *err)
{
    struct eval_side side = {.cache = c->cache};
    struct eval_cancel cancel = {0};
    struct answering a = {.c = c, .model = model};
    struct eval_keep *k = NULL;
    struct progress pr = cli_progress(&c->env.common, model ? "model" : "baseline",
                                      NULL, (uint64_t)c->prompts.n);
    enum b2_status rc = eval_side_model(&side, &c->env, path, c->exact, err);

    if (!rc)
        rc = eval_side_session(&side, &c->env,
                               eval_answer_ctx(side.model, c->how.max_tokens), err);
    if (!rc && c->scores)
        rc = keep_open(&k, &a, &side, err);
    cancel.a = side.s;
    cli_on_interrupt(eval_cancel_both, &cancel);
    for (int64_t i = 0; i < c->prompts.n && !rc; i++) {
        if (i >= a.done)
            rc = answer_one(&a, &side, k, i, err);
        if (!rc)
            progress_update(&pr, (uint64_t)i + 1, 0.0);
    }
    cli_on_interrupt(NULL, NULL);
    rc = eval_keep_close(k, rc, err);
    if (!rc) {
        cJSON_AddStringToObject(c->head, model ? "fingerprint" : "fingerprint_baseline",
                                side.model->fingerprint);
        cJSON_AddStringToObject(c->head,
                                model ? "weights_sha256" : "weights_sha256_baseline",
                                side.weights);
    }
    eval_side_close(&side);
    return rc;
}

static enum b2_status make_pairs(struct blind_cmd *c, struct b2_err *err)
{
    enum b2_status rc = eval_prompts_open(&c->prompts, c->prompt_file, c->limit, err);

    c->how.seed = (uint64_t)c->env.common.seed;
    if (!rc)
        rc = eval_env_open(&c->env, err);
    if (rc)
        return rc;
    cJSON_AddStringToObject(c->head, "model", c->model);
    cJSON_AddStringToObject(c->head, "baseline", c->baseline);
    cJSON_AddNumberToObject(c->head, "max_tokens", (double)c->how.max_tokens);
    cJSON_AddNumberToObject(c->head, "temperature", c->how.temperature);
    cJSON_AddNumberToObject(c->head, "seed", (double)c->env.common.seed);
    cJSON_AddStringToObject(c->head, "prompts_sha256", c->prompts.sha256);
    cJSON_AddStringToObject(c->head, "cache", c->cache);
    cJSON_AddStringToObject(c->head, "version", B2_VERSION);
    c->b.n = c->prompts.n;
    c->b.pair = mem_calloc((size_t)c->b.n, sizeof *c->b.pair);
    if (!c->b.pair)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < c->b.n; i++) {
        c->b.pair[i].slice = c->prompts.p[i].slice;
        c->b.pair[i].prompt = c->prompts.p[i].text;
    }
    rc = answers_of(c, c->baseline, false, err);
    if (!rc)
        rc = answers_of(c, c->model, true, err);
    return rc ? rc : blind_seal(&c->b, (uint64_t)c->env.common.seed, err);
}

static enum b2_status write_page(struct blind_cmd *c, struct b2_err *err)
{
    struct str page = {0};
    char *key;
    enum b2_status rc;

    blind_page(&page, &c->b);
    cJSON_AddStringToObject(c->head, "id", c->b.id);
    cJSON_AddItemToObject(c->head, "pairs", blind_sides(&c->b));
    key = cJSON_Print(c->head);
    rc = str_ok(&page) && key ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
    if (!rc && key)
        rc = file_write_all(c->key, key, strlen(key), c->force, err);
    if (!rc)
        rc = file_write_all(c->page, page.data, page.len, c->force, err);
    cJSON_free(key);
    str_free(&page);
    if (!rc)
        printf("Open %s, vote, save the votes; then:\n"
               "  bonsai2 eval blind --votes votes.json --key %s\n",
               c->page, c->key);
    return rc;
}

static int finish(struct blind_cmd *c, const struct blind_result *r)
{
    cJSON *j = c->head;

    c->head = NULL;
    if (!c->env.common.json) {
        printf("model        %s\nbaseline     %s\n",
               cJSON_GetStringValue(cJSON_GetObjectItem(j, "model")),
               cJSON_GetStringValue(cJSON_GetObjectItem(j, "baseline")));
        printf("votes        %lld: model better %lld, baseline better %lld, no "
               "difference %lld\n",
               (long long)r->n, (long long)r->wins, (long long)r->losses,
               (long long)r->ties);
        if (r->wins + r->losses > 0)
            printf("preferred    %.1f %% of the decided votes (95 %%: %.1f to %.1f); "
                   "by chance alone: p = %.3f\n",
                   100.0 * r->preference, 100.0 * r->low, 100.0 * r->high, r->p);
        else
            puts("preferred    not known: no vote was for one of them");
    }
    cJSON_DeleteItemFromObjectCaseSensitive(j, "pairs");
    cJSON_AddStringToObject(j, "measure", "blind");
    cJSON_AddNumberToObject(j, "n", (double)r->n);
    cJSON_AddNumberToObject(j, "wins", (double)r->wins);
    cJSON_AddNumberToObject(j, "losses", (double)r->losses);
    cJSON_AddNumberToObject(j, "ties", (double)r->ties);
    cJSON_AddNumberToObject(j, "preference", r->preference);
    cJSON_AddNumberToObject(j, "ci_low", r->low);
    cJSON_AddNumberToObject(j, "ci_high", r->high);
    cJSON_AddNumberToObject(j, "p", r->p);
    return eval_finish(&c->env.common, j, c->report, &c->include, c->force);
}

/* ---- in the terminal ---- */

/* One vote from standard input: a letter, or '-' at its end. */
static char ask(int64_t i, int64_t n)
{
    char line[64];

    for (;;) {
        fprintf(stderr,
                "\n%lld of %lld: which is better? [l]eft, [r]ight, [s]ame, [q]uit: ",
                (long long)i + 1, (long long)n);
        if (!fgets(line, sizeof line, stdin) || line[0] == 'q')
            return '-';
        if (line[0] == 'l' || line[0] == 'r' || line[0] == 's')
            return line[0];
    }
}

static enum b2_status vote_here(struct blind_cmd *c, struct blind_result *out,
                                struct b2_err *err)
{
    char *votes = mem_calloc((size_t)c->b.n, 1);
    bool *sides = mem_calloc((size_t)c->b.n, sizeof *sides);
    bool more = true;

    if (!votes || !sides) {
        mem_free(votes);
        mem_free(sides);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    for (int64_t i = 0; i < c->b.n; i++) {
        const struct blind_pair *p = &c->b.pair[i];
        sides[i] = p->model_left;
        votes[i] = '-';
        if (!more)
            continue;
        fprintf(stderr, "\n==== %s\n\n---- left\n%s\n\n---- right\n%s\n", p->prompt,
                p->model_left ? p->model : p->baseline,
                p->model_left ? p->baseline : p->model);
        votes[i] = ask(i, c->b.n);
        more = votes[i] != '-';
    }
    *out = blind_count(votes, sides, c->b.n);
    mem_free(votes);
    mem_free(sides);
    return B2_OK;
}

/* ---- votes of a page ---- */

static enum b2_status read_json(cJSON **out, const char *path, struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc = file_read_all(&text, &n, path, MAX_KEY, err);

    if (rc)
        return rc;
    rc = json_parse_bounded(out, text, n, KEY_VALUES, err);
    if (rc)
        err_wrap(err, "%s", path);
    mem_free(text);
    return rc;
}

static enum b2_status count_votes(struct blind_cmd *c, struct blind_result *out,
                                  struct b2_err *err)
{
    cJSON *votes = NULL;
    char *letters = NULL;
    bool *sides = NULL;
    int64_t n = 0;
    enum b2_status rc = read_json(&votes, c->votes, err);

    cJSON_Delete(c->head);
    c->head = NULL;
    if (!rc)
        rc = read_json(&c->head, c->key, err);
    if (!rc)
        rc = blind_read(&letters, &sides, &n, votes, c->head, err);
    if (!rc && (!cJSON_IsString(cJSON_GetObjectItem(c->head, "model")) ||
                !cJSON_IsString(cJSON_GetObjectItem(c->head, "baseline"))))
        rc = err_set(err, B2_EFORMAT, "%s: names no model and baseline", c->key);
    if (!rc)
        *out = blind_count(letters, sides, n);
    cJSON_Delete(votes);
    mem_free(letters);
    mem_free(sides);
    return rc;
}

static int parse(struct blind_cmd *c, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &c->model, 0, 0, "Model to judge."},
        {OPT_STR, 0, "baseline", "FILE|DIR", &c->baseline, 0, 0,
         "Model to compare with."},
        {OPT_STR, 'o', "output", "FILE", &c->page, 0, 0,
         "Write a page to vote on; without it the votes are given here."},
        {OPT_STR, 0, "key", "FILE", &c->key, 0, 0,
         "Who is who: written beside the page, read with the votes."},
        {OPT_STR, 0, "votes", "FILE", &c->votes, 0, 0,
         "Count votes that a page saved."},
        {OPT_STR, 0, "prompts", "FILE", &c->prompt_file, 0, 0,
         "Prompts, as for eval loops. [own]"},
        {OPT_INT, 0, "limit", "N", &c->limit, 0, 1e6,
         "Prompts of each slice; 0: all. [5]"},
        {OPT_INT, 'n', "predict", "N", &c->how.max_tokens, 16, 1 << 20,
         "Most tokens of an answer. [256]"},
        {OPT_NUM, 0, "temp", "T", &c->how.temperature, 0, 100,
         "Temperature; 0 always takes the likeliest token. [0]"},
        {OPT_FLAG, 0, "raw", NULL, &c->how.raw, 0, 0,
         "Continue the bare prompt, without the chat template."},
        {OPT_STR, 0, "scores", "DIR", &c->scores, 0, 0,
         "Keep all answers there, blind-MODEL.ndjson; goes on with it."},
        {OPT_FLAG, 0, "exact", NULL, &c->exact, 0, 0,
         "Activations and sums in F32; slow."},
        EVAL_CACHE_OPT(&c->cache),
        EVAL_ANEW_OPT(&c->anew),
        EVAL_REPORT_OPTS(&c->report, &c->include, &c->force),
        CLI_COMMON_OPTS(&c->env.common),
        {.kind = OPT_END},
    };
    int n_operands = 0, code = cli_parse(&command, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    if (c->votes)
        return c->key
                   ? OPT_RUN
                   : cli_usage_error(&command, "--key FILE is missing: whose page the "
                                               "votes are of");
    if (!c->model || !c->baseline)
        return cli_usage_error(&command, "-m FILE and --baseline FILE are needed");
    if (!c->page != !c->key)
        return cli_usage_error(&command, "-o and --key go together: the page must not "
                                         "know who is who");
    return OPT_RUN;
}

static enum b2_status work(struct blind_cmd *c, struct blind_result *r,
                           struct b2_err *err)
{
    enum b2_status rc = eval_check_report(c->report, &c->include, c->force, err);

    if (rc)
        return rc;
    if (c->votes)
        return count_votes(c, r, err);
    if (c->page)
        rc = file_check_output(c->page, NULL, c->force, err);
    if (!rc && c->key)
        rc = file_check_output(c->key, NULL, c->force, err);
    if (!rc)
        rc = make_pairs(c, err);
    if (rc)
        return rc;
    return c->page ? write_page(c, err) : vote_here(c, r, err);
}

int cmd_eval_blind(int argc, char **argv)
{
    struct blind_cmd c = {.limit = 5, .cache = "f16", .how = {.max_tokens = 256}};
    struct blind_result r = {0};
    struct b2_err err = {0};
    int code = parse(&c, argc, argv);

    if (code != OPT_RUN)
        return code;
    c.head = cJSON_CreateObject();
    if (work(&c, &r, &err))
        code = cli_report_error(&err);
    else
        code = c.page && !c.votes ? CLI_DONE : finish(&c, &r);
    cJSON_Delete(c.head);
    blind_free(&c.b);
    eval_prompts_free(&c.prompts);
    eval_env_close(&c.env);
    return code;
}
