/*
 * eval_loops.c - answering prompt by prompt; what is kept is gone on with.
 *
 * The file's first line holds the settings; a file of other settings is refused.
 */
#include "cli/eval_loops.h"

#include "cli/eval_keep.h"

#include <cjson/cJSON.h>

/* Answers that an earlier run left. */
struct earlier {
    struct loops_answer *out;
    int64_t done, most;
};

static cJSON *head_json(const struct eval_side *side, const struct eval_loops_params *p)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "loops", eval_name(side->path));
    cJSON_AddStringToObject(j, "fingerprint", side->model->fingerprint);
    cJSON_AddStringToObject(j, "weights_sha256", side->weights);
    cJSON_AddStringToObject(j, "prompts_sha256", p->prompts->sha256);
    cJSON_AddNumberToObject(j, "max_tokens", (double)p->how.max_tokens);
    cJSON_AddNumberToObject(j, "temperature", p->how.temperature);
    cJSON_AddNumberToObject(j, "seed", (double)p->how.seed);
    cJSON_AddNumberToObject(j, "samples", (double)p->samples);
    cJSON_AddBoolToObject(j, "template", !p->how.raw && eval_has_template(side));
    cJSON_AddBoolToObject(j, "exact", p->exact);
    eval_json_cache(j, p->cache);
    return j;
}

static double number(const cJSON *j, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, key);

    return cJSON_IsNumber(v) ? v->valuedouble : 0.0;
}

static struct loops_answer answer_of(const cJSON *j)
{
    return (struct loops_answer){
        .n_tokens = (int64_t)number(j, "n_tokens"),
        .cycle = (int64_t)number(j, "cycle"),
        .loop = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "loop")),
        .limit = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "limit")),
        .distinct4 = number(j, "distinct4"),
        .compression = number(j, "compression"),
    };
}

static cJSON *answer_json(const struct loops_answer *a, const struct loops_prompt *p,
                          int64_t sample, const struct str *text)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "slice", p->slice);
    cJSON_AddStringToObject(j, "prompt", p->text);
    cJSON_AddNumberToObject(j, "sample", (double)sample);
    cJSON_AddNumberToObject(j, "n_tokens", (double)a->n_tokens);
    cJSON_AddBoolToObject(j, "loop", a->loop);
    cJSON_AddBoolToObject(j, "limit", a->limit);
    cJSON_AddNumberToObject(j, "distinct4", a->distinct4);
    cJSON_AddNumberToObject(j, "compression", a->compression);
    cJSON_AddNumberToObject(j, "cycle", (double)a->cycle);
    cJSON_AddStringToObject(j, "answer", text->data ? text->data : "");
    return j;
}

static bool take_answer(void *ctx, const cJSON *line)
{
    struct earlier *e = ctx;

    if (e->done == e->most)
        return false;
    e->out[e->done++] = answer_of(line);
    return true;
}

static enum b2_status keep_open(struct eval_keep **out, struct earlier *e,
                                const struct eval_side *side,
                                const struct eval_loops_params *p, struct b2_err *err)
{
    struct str name = {0};
    enum b2_status rc;

    str_printf(&name, "loops-%s.ndjson", eval_name(side->path));
    rc = str_ok(&name) ? eval_keep_open(out, p->scores, name.data, head_json(side, p),
                                        p->anew, take_answer, e, err)
                       : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&name);
    return rc;
}

/* One answer, measured and kept. */
static enum b2_status answer_one(struct loops_answer *out, struct eval_keep *k,
                                 const struct eval_side *side,
                                 const struct eval_loops_params *p, int64_t i,
                                 struct b2_err *err)
{
    const struct loops_prompt *prompt = &p->prompts->p[i / p->samples];
    struct eval_answering how = p->how;
    struct generate_result g = {0};
    enum b2_status rc;

    how.seed += (uint64_t)(i % p->samples);
    rc = eval_answer(&g, side, &how, prompt->text, err);
    if (!rc)
        rc = eval_answer_loops(out, &g, err);
    if (rc && rc != B2_ECANCEL)
        err_wrap(err, "%s: prompt %lld", side->path, (long long)(i / p->samples) + 1);
    if (!rc && k)
        rc = eval_keep_add(k, answer_json(out, prompt, i % p->samples, &g.text), err);
    generate_result_free(&g);
    return rc;
}

enum b2_status eval_loops_run(struct loops_answer *out, struct eval_side *side,
                              const struct eval_env *env, const char *path,
                              const struct eval_loops_params *p, struct b2_err *err)
{
    int64_t n = p->prompts->n * p->samples, loops = 0;
    struct progress pr = cli_progress(&env->common, "answers", "loops", (uint64_t)n);
    struct eval_cancel cancel = {0};
    struct eval_keep *k = NULL;
    struct earlier e = {.out = out, .most = n};
    enum b2_status rc;

    side->cache = p->cache;
    rc = eval_side_model(side, env, path, p->exact, err);

    if (!rc)
        rc = eval_side_session(side, env,
                               eval_answer_ctx(side->model, p->how.max_tokens), err);
    if (!rc && p->scores)
        rc = keep_open(&k, &e, side, p, err);
    cancel.a = side->s;
    cli_on_interrupt(eval_cancel_both, &cancel);
    for (int64_t i = 0; i < n && !rc; i++) {
        if (i >= e.done)
            rc = answer_one(&out[i], k, side, p, i, err);
        loops += rc ? 0 : out[i].loop;
        if (!rc)
            progress_update(&pr, (uint64_t)i + 1, (double)loops / (double)(i + 1));
    }
    cli_on_interrupt(NULL, NULL);
    return eval_keep_close(k, rc, err);
}
