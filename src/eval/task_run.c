/*
 * task_run.c - item after item: ask, judge, write down.
 */
#include "eval/task_run.h"

#include "base/mem.h"
#include "eval/task_int.h"
#include "eval/task_judge.h"
#include "eval/task_score.h"
#include "format/hash.h"
#include "model/generate.h"

#include <string.h>

enum { MAX_SAMPLES = 256, SLACK = 4 };

/* A run on its way. */
struct run {
    const struct task *t;
    const struct task_run_params *p;
    struct scorer sc;    /* choices */
    struct session *s;   /* answers */
    struct sampler *smp; /* answers */
    struct str line;     /* of the item at hand */
};

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for a task");
}

static int64_t answer_tokens(const struct task *t, const struct task_run_params *p)
{
    return p->max_tokens > 0 ? p->max_tokens : t->d.max_tokens;
}

static int64_t n_samples(const struct task *t, const struct task_run_params *p)
{
    return t->d.kind == TASK_GENERATE ? max_i64(p->samples, 1) : 1;
}

/* ---- what the longest item needs ---- */

static enum b2_status count_tokens(int64_t *n, const struct model *m, const char *text,
                                   unsigned flags, struct b2_err *err)
{
    struct tok_ids ids = {0};
    enum b2_status rc = tok_encode(m->tok, text, strlen(text), flags, &ids, err);

    *n = ids.n;
    tok_ids_free(&ids);
    return rc;
}

/* Prompt and continuation are counted apart: where they meet, tokens of one may become
 * tokens of both, but SLACK more they never are. */
static enum b2_status ask_tokens(int64_t *most, const struct task *t,
                                 const struct task_ask *a, const struct model *m,
                                 const struct task_run_params *p, struct b2_err *err)
{
    unsigned flags = TOK_ADD_BOS | (p->chat ? (unsigned)TOK_SPECIAL : 0u);
    int64_t prompt = 0, cont = 0, n = 0;
    enum b2_status rc = B2_OK;

    for (int i = 0; i < a->n_prompts && !rc; i++) {
        rc = count_tokens(&n, m, a->prompt[i], flags, err);
        prompt = max_i64(prompt, n);
    }
    for (int i = 0; i < a->n_choices && !rc; i++) {
        rc = count_tokens(&n, m, a->choice[i], 0, err);
        cont = max_i64(cont, n + SLACK);
    }
    if (t->d.kind == TASK_GENERATE)
        cont = answer_tokens(t, p);
    *most = max_i64(*most, prompt + cont);
    return rc;
}

enum b2_status task_run_context(int64_t *n_tokens, const struct task *t,
                                const struct model *m, const struct task_run_params *p,
                                struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    *n_tokens = 1;
    for (int64_t i = 0; i < t->n_items && !rc; i++) {
        struct task_ask a = {0};
        rc = task_ask_make(&a, t, i, p->chat, err);
        if (!rc)
            rc = ask_tokens(n_tokens, t, &a, m, p, err);
        task_ask_free(&a);
    }
    return rc;
}

/* ---- the record ---- */

static enum b2_status hash_text(struct hash *h, const char *text, struct b2_err *err)
{
    return hash_add(h, text, strlen(text) + 1, err); /* the zero ends each text */
}

/* SHA-256 of all prompts, continuations and right answers, in order. */
static enum b2_status hash_prompts(char hex[HASH_HEX], const struct task *t,
                                   const struct task_run_params *p, struct b2_err *err)
{
    struct hash *h = NULL;
    enum b2_status rc = hash_new(&h, err);

    for (int64_t i = 0; i < t->n_items && !rc; i++) {
        struct task_ask a = {0};
        rc = task_ask_make(&a, t, i, p->chat, err);
        for (int k = 0; k < a.n_prompts && !rc; k++)
            rc = hash_text(h, a.prompt[k], err);
        for (int k = 0; k < a.n_choices && !rc; k++)
            rc = hash_text(h, a.choice[k], err);
        if (!rc)
            rc = hash_text(h, a.answer, err);
        task_ask_free(&a);
    }
    if (!rc)
        rc = hash_hex(h, hex, err);
    hash_free(h);
    return rc;
}

static enum b2_status put_settings(struct str *out, const struct task *t,
                                   const struct model *m,
                                   const struct task_run_params *p, struct b2_err *err)
{
    char weights[HASH_HEX];
    char *desc = cJSON_PrintUnformatted(t->d.json);
    char hex[HASH_HEX];
    enum b2_status rc =
        desc ? hash_sha256(hex, desc, strlen(desc), err) : no_memory(err);

    cJSON_free(desc);
    if (!rc) /* one header may stand before other weights */
        rc = modelfile_sample(m->mf, weights, err);
    if (rc)
        return rc;
    str_printf(out,
               "{\"shots\":%lld,\"seed\":%llu,\"limit\":%lld,\"total\":%lld,"
               "\"chat\":%s,\"exact\":%s,\"ctx\":%lld,\"description_sha256\":\"%s\","
               "\"weights_sha256\":\"%s\"",
               (long long)t->o.shots, (unsigned long long)t->o.seed,
               (long long)t->o.limit, (long long)t->n_total, p->chat ? "true" : "false",
               p->exact ? "true" : "false", (long long)p->ctx, hex, weights);
    if (p->cache) /* absent: the usual one, as in scores kept before there was a choice */
        str_printf(out, ",\"cache\":\"%s\"", p->cache);
    if (t->d.kind == TASK_GENERATE)
        str_printf(out,
                   ",\"max_tokens\":%lld,\"samples\":%lld,\"temperature\":%.6g,"
                   "\"sample_seed\":%llu",
                   (long long)answer_tokens(t, p), (long long)n_samples(t, p),
                   p->temperature, (unsigned long long)p->seed);
    str_put(out, "}");
    return str_ok(out) ? B2_OK : no_memory(err);
}

static enum b2_status describe(struct item_set *out, const struct task *t,
                               const struct session *s, const struct task_run_params *p,
                               struct b2_err *err)
{
    const struct model *m = session_model(s);
    struct str settings = {0};
    char hex[HASH_HEX];
    enum b2_status rc = hash_prompts(hex, t, p, err);

    if (!rc)
        rc = put_settings(&settings, t, m, p, err);
    if (!rc) {
        out->task = mem_strdup(t->d.name);
        out->metric = mem_strdup(t->d.metric[0].name);
        out->model = mem_strdup(p->model ? p->model : "");
        out->fingerprint = mem_strdup(m->fingerprint);
        out->settings = mem_strdup(settings.data);
        out->prompt_sha256 = mem_strdup(hex);
        out->chance = t->d.chance;
        for (int i = 0; i < t->d.n_metrics; i++) {
            out->metrics[i] = mem_strdup(t->d.metric[i].name);
            out->n_metrics += out->metrics[i] != NULL;
        }
        if (!out->task || !out->metric || !out->model || !out->fingerprint ||
            !out->settings || !out->prompt_sha256 || out->n_metrics < t->d.n_metrics)
            rc = no_memory(err);
    }
    str_free(&settings);
    return rc;
}

/* Begins the line of item i: id and scores. */
static void put_scores(struct str *line, const struct task *t, int64_t i,
                       const double *score, const double *weight)
{
    bool weighted = false;

    str_put(line, "{\"id\":");
    json_put_string(line, t->item[i].id);
    str_printf(line, ",\"score\":%.10g,\"scores\":{", score[0]);
    for (int k = 0; k < t->d.n_metrics; k++) {
        str_put(line, k ? "," : "");
        json_put_string(line, t->d.metric[k].name);
        str_printf(line, ":%.10g", score[k]);
        weighted = weighted || weight[k] != 1.0;
    }
    str_put(line, "}");
    if (!weighted)
        return;
    str_put(line, ",\"weights\":{");
    for (int k = 0; k < t->d.n_metrics; k++) {
        str_put(line, k ? "," : "");
        json_put_string(line, t->d.metric[k].name);
        str_printf(line, ":%.10g", weight[k]);
    }
    str_put(line, "}");
}

/* ---- choices ---- */

/* The largest of sum[i] / by[i] (by NULL: 1); of equal ones the first, as NumPy. */
static int best(const struct task_loglik *ll, const int64_t *by, int n)
{
    int at = 0;

    for (int i = 1; i < n; i++) {
        double a = ll[i].sum / (by ? (double)max_i64(by[i], 1) : 1.0);
        double b = ll[at].sum / (by ? (double)max_i64(by[at], 1) : 1.0);
        if (a > b)
            at = i;
    }
    return at;
}

static void score_choice(double *score, const struct task *t, const struct task_ask *a,
                         const struct task_loglik *ll)
{
    for (int k = 0; k < t->d.n_metrics; k++) {
        const char *name = t->d.metric[k].name;
        const int64_t *by = strcmp(name, "acc_norm") == 0    ? a->n_chars
                            : strcmp(name, "acc_bytes") == 0 ? a->n_bytes
                                                             : NULL;
        score[k] = t->d.kind == TASK_CLOZE
                       ? (double)ll[0].greedy
                       : (double)(best(ll, by, a->n_choices) == a->gold);
    }
}

static enum b2_status run_choice(struct run *r, int64_t i, const struct task_ask *a,
                                 struct b2_err *err)
{
    struct task_loglik ll[TASK_MAX_CHOICES] = {0};
    double score[ITEM_SCORES] = {0}, weight[ITEM_SCORES] = {1, 1, 1, 1};
    bool truncated = false;
    enum b2_status rc = B2_OK;

    for (int k = 0; k < a->n_choices && !rc; k++) {
        rc = scorer_loglik(&ll[k], &r->sc, a->prompt[a->n_prompts > 1 ? k : 0],
                           a->choice[k], r->p->chat != NULL, err);
        truncated = truncated || (!rc && ll[k].truncated);
    }
    if (rc)
        return rc;
    score_choice(score, r->t, a, ll);
    put_scores(&r->line, r->t, i, score, weight);
    str_put(&r->line, ",\"loglik\":[");
    for (int k = 0; k < a->n_choices; k++)
        str_printf(&r->line, "%s%.9g", k ? "," : "", ll[k].sum);
    str_put(&r->line, "],\"tokens\":[");
    for (int k = 0; k < a->n_choices; k++)
        str_printf(&r->line, "%s%lld", k ? "," : "", (long long)ll[k].n_tokens);
    str_put(&r->line, "]");
    if (r->t->d.kind == TASK_CHOICE)
        str_printf(&r->line, ",\"pick\":%d,\"gold\":%d", best(ll, NULL, a->n_choices),
                   a->gold);
    str_put(&r->line, truncated ? ",\"truncated\":true}" : "}");
    return B2_OK;
}

/* ---- answers ---- */

/* Ids of a prompt that leave room for the answer; *cut: the beginning was lost. */
static enum b2_status prompt_ids(struct tok_ids *ids, bool *cut, const struct run *r,
                                 const char *prompt, struct b2_err *err)
{
    const struct model *m = session_model(r->s);
    int64_t room = session_ctx(r->s) - answer_tokens(r->t, r->p);
    enum b2_status rc =
        tok_encode(m->tok, prompt, strlen(prompt),
                   TOK_ADD_BOS | (r->p->chat ? (unsigned)TOK_SPECIAL : 0u), ids, err);

    if (rc)
        return rc;
    if (ids->n == 0 || room < 1)
        return err_set(err, B2_EARG,
                       ids->n == 0 ? "the prompt is empty"
                                   : "an answer of %lld tokens leaves no place for a "
                                     "prompt in a context of %lld",
                       (long long)answer_tokens(r->t, r->p),
                       (long long)session_ctx(r->s));
    *cut = ids->n > room;
    if (*cut) {
        memmove(ids->id, ids->id + (ids->n - room), (size_t)room * sizeof *ids->id);
        ids->n = room;
    }
    return B2_OK;
}

static enum b2_status new_sampler(struct run *r, int64_t sample, struct b2_err *err)
{
    struct sampler_params sp = SAMPLER_PARAMS_GREEDY;

    sp.temperature = (float)r->p->temperature;
    sp.seed = r->p->seed + (uint64_t)sample;
    sampler_free(r->smp);
    r->smp = NULL;
    return sampler_new(&r->smp, &sp, session_model(r->s)->hp.vocab, err);
}

/* What all answers of an item came to. */
struct answers {
    double score[ITEM_SCORES], weight[ITEM_SCORES];
    struct str texts, finish, details; /* parts of the line */
    int64_t n_tokens;
};

static enum b2_status one_answer(struct answers *sum, struct run *r, int64_t i,
                                 const struct task_ask *a, const struct tok_ids *ids,
                                 int64_t sample, struct b2_err *err)
{
    struct generate_params gp = {.max_tokens = answer_tokens(r->t, r->p),
                                 .stop = r->t->d.stop,
                                 .n_stop = r->t->d.n_stops};
    struct generate_result g = {0};
    struct verdict v = {0};
    int64_t n = n_samples(r->t, r->p);
    enum b2_status rc = new_sampler(r, sample, err);

    if (!rc)
        rc = generate_run(r->s, r->smp, ids->id, ids->n, &gp, &g, err);
    if (!rc) {
        str_put(&g.text, "");
        rc = str_ok(&g.text) ? judge_answer(&v, r->t, i, a->answer, g.text.data, err)
                             : no_memory(err);
    }
    if (!rc) {
        const char *comma = sample ? "," : "";
        for (int k = 0; k < r->t->d.n_metrics; k++) {
            sum->score[k] += v.score[k] / (double)n;
            sum->weight[k] = v.weight[k];
        }
        str_put(&sum->texts, comma);
        json_put_string(&sum->texts, g.text.data);
        str_printf(&sum->finish, "%s\"%s\"", comma, finish_reason_name(g.finish));
        if (n == 1)
            str_putn(&sum->details, v.details.data, v.details.len);
        sum->n_tokens += g.tokens.n;
    }
    verdict_free(&v);
    generate_result_free(&g);
    return rc;
}

static enum b2_status run_answers(struct run *r, int64_t i, const struct task_ask *a,
                                  struct b2_err *err)
{
    struct answers sum = {0};
    struct tok_ids ids = {0};
    int64_t n = n_samples(r->t, r->p);
    bool cut = false;
    enum b2_status rc = prompt_ids(&ids, &cut, r, a->prompt[0], err);

    for (int64_t k = 0; k < n && !rc; k++)
        rc = one_answer(&sum, r, i, a, &ids, k, err);
    if (!rc) {
        const char *open = n > 1 ? "[" : "", *close = n > 1 ? "]" : "";
        for (int k = 0; k < r->t->d.n_metrics; k++)
            if (sum.score[k] > 1.0)
                sum.score[k] = 1.0; /* n times 1/n may be a hair above */
        put_scores(&r->line, r->t, i, sum.score, sum.weight);
        str_printf(&r->line, ",\"answer%s\":%s%s%s,\"finish\":%s%s%s", n > 1 ? "s" : "",
                   open, sum.texts.data, close, open, sum.finish.data, close);
        str_printf(&r->line, ",\"tokens\":%lld", (long long)sum.n_tokens);
        if (r->t->d.check == TASK_MATCH) {
            str_put(&r->line, ",\"gold\":");
            json_put_string(&r->line, a->answer);
        }
        str_putn(&r->line, sum.details.data, sum.details.len);
        str_put(&r->line, cut ? ",\"truncated\":true}" : "}");
        if (sum.texts.bad || sum.finish.bad || sum.details.bad)
            rc = no_memory(err);
    }
    str_free(&sum.texts);
    str_free(&sum.finish);
    str_free(&sum.details);
    tok_ids_free(&ids);
    return rc;
}

/* ---- the run ---- */

static enum b2_status run_item(struct run *r, int64_t i, struct b2_err *err)
{
    struct task_ask a = {0};
    enum b2_status rc = task_ask_make(&a, r->t, i, r->p->chat, err);

    if (rc)
        return rc;
    str_clear(&r->line);
    rc = r->t->d.kind == TASK_GENERATE ? run_answers(r, i, &a, err)
                                       : run_choice(r, i, &a, err);
    if (!rc && !str_ok(&r->line))
        rc = no_memory(err);
    if (rc && rc != B2_ECANCEL)
        err_wrap(err, "%s: task %s, item %s", r->p->model ? r->p->model : "the model",
                 r->t->d.name, r->t->item[i].id);
    task_ask_free(&a);
    return rc;
}

static enum b2_status check_params(const struct task *t,
                                   const struct task_run_params *p, struct b2_err *err)
{
    if (t->d.kind == TASK_GENERATE && t->d.check == TASK_CODE && !p->allow_code)
        return err_set(err, B2_EUNSUP,
                       "%s runs the code that the model writes: --allow-code permits "
                       "that, in a sandbox",
                       t->d.name);
    if (t->o.chat != (p->chat != NULL))
        return err_set(err, B2_EARG, "%s: opened %s a chat, but run %s a template",
                       t->d.name, t->o.chat ? "for" : "without",
                       p->chat ? "with" : "without");
    if (p->samples > MAX_SAMPLES)
        return err_set(err, B2_EARG, "more than %d answers of an item", MAX_SAMPLES);
    if (p->samples > 1 && p->temperature <= 0.0)
        return err_set(err, B2_EARG,
                       "--samples %lld needs a --temp above 0: greedy answers are all "
                       "the same",
                       (long long)p->samples);
    return B2_OK;
}

/* The items of an earlier part must be the first ones of this task. */
static enum b2_status check_order(const struct item_set *set, const struct task *t,
                                  struct b2_err *err)
{
    for (int64_t i = 0; i < set->n; i++)
        if (i >= t->n_items || strcmp(set->item[i].id, t->item[i].id) != 0)
            return err_set(err, B2_EFORMAT,
                           "item %lld of the earlier run is '%s', not '%s': --anew "
                           "begins again",
                           (long long)i, set->item[i].id,
                           i < t->n_items ? t->item[i].id : "none");
    return B2_OK;
}

enum b2_status task_run(struct item_set *out, const struct task *t, struct session *s,
                        const struct task_run_params *p, struct progress *pr,
                        struct b2_err *err)
{
    struct run r = {.t = t, .p = p, .s = s};
    struct item_file *file = NULL;
    double sum = 0.0;
    enum b2_status rc = check_params(t, p, err);

    *out = (struct item_set){0};
    if (!rc && t->d.kind != TASK_GENERATE)
        rc = scorer_init(&r.sc, s, err);
    if (!rc)
        rc = describe(out, t, s, p, err);
    if (!rc)
        rc = item_file_open(&file, out, p->scores, t->n_items, p->force, err);
    if (!rc)
        rc = check_order(out, t, err);
    if (pr && out->n < t->n_items) /* time left counts what is left */
        pr->total = (uint64_t)(t->n_items - out->n);
    for (int64_t i = 0; i < out->n; i++)
        sum += out->item[i].score;
    for (int64_t i = out->n, first = i; i < t->n_items && !rc; i++) {
        rc = run_item(&r, i, err);
        if (!rc)
            rc = item_file_add(file, out, r.line.data, r.line.len, err);
        if (!rc) {
            sum += out->item[i].score;
            progress_update(pr, (uint64_t)(i + 1 - first), sum / (double)(i + 1));
        }
    }
    if (file) {
        enum b2_status closed = item_file_close(file, rc ? NULL : err);
        rc = rc ? rc : closed;
    }
    scorer_free(&r.sc);
    sampler_free(r.smp);
    str_free(&r.line);
    return rc;
}
