/*
 * eval_cmd.c - opening, naming and finishing, the same for every measure.
 */
#include "cli/eval_cmd.h"

#include "base/file.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { EVAL_BATCH = 512 };

enum b2_status eval_env_open(struct eval_env *env, struct b2_err *err)
{
    env->log = cli_log(&env->common);
    env->pool = cli_pool(&env->common, err);
    if (!env->pool)
        return B2_ENOMEM;
    return cli_cpu(&env->cpu, &env->common, err);
}

void eval_env_close(struct eval_env *env)
{
    pool_free(env->pool);
    env->pool = NULL;
}

enum b2_status eval_side_open(struct eval_side *s, const struct eval_env *env,
                              const char *path, bool exact, int64_t ctx,
                              struct b2_err *err)
{
    struct model_params mp = {.log = &env->log};
    struct backend_config cfg = {
        .pool = env->pool, .cpu = env->cpu, .exact = exact, .log = &env->log};
    struct session_params sp = {.ctx = ctx,
                                .batch = ctx ? min_i64(ctx, EVAL_BATCH) : EVAL_BATCH};
    enum b2_status rc = model_open(&s->model, path, &mp, err);

    s->path = path;
    if (!rc)
        rc = backend_cpu_new(&s->be, &cfg, err);
    if (!rc)
        rc = session_new(&s->s, s->model, s->be, &sp, err);
    return rc;
}

void eval_side_close(struct eval_side *s)
{
    session_free(s->s);
    backend_free(s->be);
    model_close(s->model);
    *s = (struct eval_side){0};
}

const char *eval_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

void eval_cancel_both(void *cancel)
{
    const struct eval_cancel *c = cancel;

    if (c->a)
        session_cancel(c->a);
    if (c->b)
        session_cancel(c->b);
}

void eval_json_env(cJSON *j, const struct eval_env *env, const struct eval_side *s)
{
    cJSON_AddStringToObject(j, "kernel", backend_kernel_name(s->be));
    cJSON_AddNumberToObject(j, "threads", pool_threads(env->pool));
    cJSON_AddNumberToObject(j, "seed", (double)env->common.seed);
    cJSON_AddStringToObject(j, "version", B2_VERSION);
}
