/*
 * eval_cmd.c - opening, naming and finishing, the same for every measure.
 */
#include "cli/eval_cmd.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/cache_opts.h"
#include "eval/page.h"
#include "format/json.h"
#include "text/utf8.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { EVAL_BATCH = 512, MAX_RESULT_BYTES = 256 << 20, MAX_RESULT_VALUES = 1 << 22 };

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

enum b2_status eval_side_model(struct eval_side *s, const struct eval_env *env,
                               const char *path, bool exact, struct b2_err *err)
{
    struct model_params mp = {.log = &env->log};
    struct backend_config cfg = {
        .pool = env->pool, .cpu = env->cpu, .exact = exact, .log = &env->log};
    enum b2_status rc = model_open(&s->model, path, &mp, err);

    s->path = path;
    if (!rc && (rc = modelfile_sample(s->model->mf, s->weights, err)) != B2_OK)
        err_wrap(err, "%s", path);
    return rc ? rc : backend_cpu_new(&s->be, &cfg, err);
}

static enum b2_status new_session(struct eval_side *s, int64_t ctx, uint64_t limit,
                                  const struct log *log, struct b2_err *err)
{
    struct session_params sp = {.ctx = ctx,
                                .batch = ctx ? min_i64(ctx, EVAL_BATCH) : EVAL_BATCH,
                                .mem_limit = limit,
                                .cache = cache_word_type(s->cache ? s->cache : "f16"),
                                .log = log};

    return session_new(&s->s, s->model, s->be, &sp, err);
}

enum b2_status eval_side_session(struct eval_side *s, const struct eval_env *env,
                                 int64_t ctx, struct b2_err *err)
{
    return new_session(s, ctx, env->common.mem_limit, &env->log, err);
}

enum b2_status eval_side_open(struct eval_side *s, const struct eval_env *env,
                              const char *path, bool exact, int64_t ctx,
                              struct b2_err *err)
{
    enum b2_status rc = eval_side_model(s, env, path, exact, err);

    return rc ? rc : new_session(s, ctx, 0, &env->log, err);
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

int eval_width(const char *text)
{
    int all = 0, width;

    for (size_t n = strlen(text), k; n > 0; n -= k, text += k) {
        k = utf8_cluster(text, n, &width);
        all += width;
    }
    return all;
}

void eval_cell(const char *text, int width)
{
    bool cut = eval_width(text) > width;
    int left = width - cut, w = 0;

    for (size_t n = strlen(text), k; n > 0; n -= k, text += k) {
        k = utf8_cluster(text, n, &w);
        if (w > left)
            break;
        left -= w;
        fwrite(text, 1, k, stdout);
    }
    printf("%s%*s", cut ? "…" : "", left, "");
}

static enum b2_status two_names(const char *a, const char *b, struct b2_err *err)
{
    if (strcmp(eval_name(a), eval_name(b)) != 0 || strcmp(a, b) == 0)
        return B2_OK;
    return err_set(err, B2_EARG,
                   "%s and %s have one name, by which --scores would keep both: rename "
                   "one, or link to it under another name",
                   a, b);
}

enum b2_status eval_names_differ(const char *baseline, const struct opt_list *models,
                                 struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int i = 0; i < models->n && !rc; i++) {
        if (baseline)
            rc = two_names(baseline, models->item[i], err);
        for (int k = 0; k < i && !rc; k++)
            rc = two_names(models->item[k], models->item[i], err);
    }
    return rc;
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
    cJSON_AddStringToObject(j, "cache", s->cache ? s->cache : "f16");
    cJSON_AddStringToObject(j, "kernel", backend_kernel_name(s->be));
    cJSON_AddNumberToObject(j, "threads", pool_threads(env->pool));
    cJSON_AddNumberToObject(j, "seed", (double)env->common.seed);
    cJSON_AddStringToObject(j, "version", B2_VERSION);
}

void eval_json_model(cJSON *j, const struct eval_side *s)
{
    cJSON_AddStringToObject(j, "model", s->path);
    cJSON_AddStringToObject(j, "fingerprint", s->model->fingerprint);
    cJSON_AddStringToObject(j, "weights_sha256", s->weights);
    cJSON_AddNumberToObject(j, "model_bytes", (double)modelfile_bytes(s->model->mf));
}

void eval_json_weights(cJSON *j, const char *key, const char *settings)
{
    cJSON *s = cJSON_Parse(settings);
    const cJSON *hex = cJSON_GetObjectItemCaseSensitive(s, "weights_sha256");

    if (cJSON_IsString(hex))
        cJSON_AddStringToObject(j, key, hex->valuestring);
    cJSON_Delete(s);
}

const char *eval_cache_kept(const char *cache)
{
    return cache && strcmp(cache, "f16") != 0 ? cache : NULL;
}

void eval_json_cache(cJSON *j, const char *cache)
{
    if (eval_cache_kept(cache))
        cJSON_AddStringToObject(j, "cache", cache);
}

const char *eval_activations(bool exact)
{
    return exact ? "F32 activations" : "8-bit activations";
}

/* Adds the results of a file to list. */
static enum b2_status include(cJSON *list, const char *path, struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;
    cJSON *j = NULL;
    enum b2_status rc = file_read_all(&text, &n, path, MAX_RESULT_BYTES, err);

    if (!rc) {
        rc = json_parse_bounded(&j, text, n, MAX_RESULT_VALUES, err);
        if (rc)
            err_wrap(err, "%s: no result of --json", path);
    }
    mem_free(text);
    if (!rc && (rc = page_check(j, err)) != B2_OK)
        err_wrap(err, "%s", path);
    if (rc)
        cJSON_Delete(j);
    else
        cJSON_AddItemToArray(list, j);
    return rc;
}

enum b2_status eval_check_report(const char *report, const struct opt_list *more,
                                 bool force, struct b2_err *err)
{
    cJSON *list;
    enum b2_status rc = B2_OK;

    if (!report)
        return B2_OK;
    rc = file_check_output(report, NULL, force, err);
    if (!rc)
        rc = file_check_folder(report, err);
    list = cJSON_CreateArray();
    for (int i = 0; i < more->n && !rc; i++)
        rc = include(list, more->item[i], err);
    cJSON_Delete(list);
    return rc;
}

enum b2_status eval_write_report(const char *path, cJSON *list,
                                 const struct opt_list *more, bool force,
                                 struct b2_err *err)
{
    struct str page = {0};
    enum b2_status rc = B2_OK;

    for (int i = 0; i < more->n && !rc; i++)
        rc = include(list, more->item[i], err);
    if (!rc)
        rc = page_html(&page, list, err);
    if (!rc)
        rc = file_write_all(path, page.data, page.len, force, err);
    str_free(&page);
    return rc;
}

cJSON *eval_join(const char *measure, cJSON **results)
{
    cJSON *list = *results, *j;

    *results = NULL;
    if (cJSON_GetArraySize(list) == 1) {
        j = cJSON_DetachItemFromArray(list, 0);
        cJSON_Delete(list);
        return j;
    }
    j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "measure", measure);
    cJSON_AddItemToObject(j, "candidates", list);
    return j;
}

int eval_finish(const struct cli_common *c, cJSON *j, const char *report,
                const struct opt_list *more, bool force)
{
    struct b2_err err = {0};
    enum b2_status rc = B2_OK;

    if (report && j) {
        cJSON *list = cJSON_CreateArray();
        cJSON_AddItemReferenceToArray(list, j);
        rc = eval_write_report(report, list, more, force, &err);
        cJSON_Delete(list);
        if (!rc && !c->quiet)
            fprintf(stderr, "page         %s\n", report);
    }
    if (c->json) { /* what was measured is told whatever became of the page */
        int code = cli_print_json(j);
        return rc ? cli_report_error(&err) : code;
    }
    cJSON_Delete(j);
    return rc ? cli_report_error(&err) : CLI_DONE;
}
