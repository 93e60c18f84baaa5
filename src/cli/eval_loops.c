/*
 * eval_loops.c - answering prompt by prompt; what is kept is gone on with.
 *
 * The file's first line holds the settings; a file of other settings is refused.
 */
#include "cli/eval_loops.h"

#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "format/json.h"

#include <string.h>

enum { MAX_FILE = 1 << 30, LINE_VALUES = 64 };

struct keeper {
    struct file_append *out; /* NULL: nothing is kept */
    int64_t done;            /* answers that the file has */
};

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory");
}

/* Prints j on a line of its own and deletes it. */
static enum b2_status put_line(struct file_append *f, cJSON *j, struct b2_err *err)
{
    char *text = cJSON_PrintUnformatted(j);
    struct str line = {0};
    enum b2_status rc;

    cJSON_Delete(j);
    str_put(&line, text ? text : "");
    str_put(&line, "\n");
    rc = text && str_ok(&line) ? file_append_write(f, line.data, line.len, err)
                               : no_memory(err);
    cJSON_free(text);
    str_free(&line);
    return rc;
}

static cJSON *head_json(const struct eval_side *side, const struct eval_loops_params *p)
{
    cJSON *j = cJSON_CreateObject();

    cJSON_AddStringToObject(j, "loops", eval_name(side->path));
    cJSON_AddStringToObject(j, "fingerprint", side->model->fingerprint);
    cJSON_AddStringToObject(j, "prompts_sha256", p->prompts->sha256);
    cJSON_AddNumberToObject(j, "max_tokens", (double)p->how.max_tokens);
    cJSON_AddNumberToObject(j, "temperature", p->how.temperature);
    cJSON_AddNumberToObject(j, "seed", (double)p->how.seed);
    cJSON_AddNumberToObject(j, "samples", (double)p->samples);
    cJSON_AddBoolToObject(j, "template", !p->how.raw && eval_has_template(side));
    cJSON_AddBoolToObject(j, "exact", p->exact);
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

/* Reads what an earlier run left: whole lines behind the same first line. *kept: bytes. */
static enum b2_status take_old(struct loops_answer *out, struct keeper *k, size_t *kept,
                               const char *path, const char *head, int64_t most,
                               struct b2_err *err)
{
    char *text = NULL;
    size_t size = 0, n_head = strlen(head);
    enum b2_status rc = file_read_all(&text, &size, path, MAX_FILE, err);

    if (!rc && size > 0 &&
        (size <= n_head || memcmp(text, head, n_head) != 0 || text[n_head] != '\n'))
        rc = err_set(err, B2_EEXIST,
                     "%s: holds answers of another model or other settings: give "
                     "another --scores folder, or --force to begin anew",
                     path);
    *kept = rc || size == 0 ? 0 : n_head + 1;
    while (!rc && *kept < size && k->done < most) {
        const char *line = text + *kept;
        const char *end = memchr(line, '\n', size - *kept);
        cJSON *j = NULL;
        if (!end)
            break;
        rc = json_parse_bounded(&j, line, (size_t)(end - line), LINE_VALUES, err);
        if (rc)
            err_wrap(err, "%s: answer %lld", path, (long long)k->done + 1);
        else
            out[k->done++] = answer_of(j);
        cJSON_Delete(j);
        *kept = (size_t)(end - text) + 1;
    }
    mem_free(text);
    return rc;
}

static enum b2_status keeper_open(struct keeper *k, struct loops_answer *out,
                                  const struct eval_side *side,
                                  const struct eval_loops_params *p, struct b2_err *err)
{
    struct str path = {0};
    cJSON *j = head_json(side, p);
    char *head = cJSON_PrintUnformatted(j);
    size_t kept = 0;
    enum b2_status rc = file_make_dir(p->scores, err);

    str_printf(&path, "%s/loops-%s.ndjson", p->scores, eval_name(side->path));
    if (!rc && (!head || !str_ok(&path)))
        rc = no_memory(err);
    if (!rc && !p->force && file_exists(path.data))
        rc = take_old(out, k, &kept, path.data, head, p->prompts->n * p->samples, err);
    if (!rc)
        rc = file_append_open(&k->out, path.data, kept, err);
    if (!rc && kept == 0) {
        rc = put_line(k->out, j, err);
        j = NULL;
    }
    cJSON_Delete(j);
    cJSON_free(head);
    str_free(&path);
    return rc;
}

/* One answer, measured and kept. */
static enum b2_status answer_one(struct loops_answer *out, struct keeper *k,
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
    if (!rc && k->out)
        rc = put_line(k->out, answer_json(out, prompt, i % p->samples, &g.text), err);
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
    struct keeper k = {0};
    enum b2_status rc = eval_side_model(side, env, path, p->exact, err);

    if (!rc)
        rc = eval_side_session(side, env,
                               eval_answer_ctx(side->model, p->how.max_tokens), err);
    if (!rc && p->scores)
        rc = keeper_open(&k, out, side, p, err);
    cancel.a = side->s;
    cli_on_interrupt(eval_cancel_both, &cancel);
    for (int64_t i = 0; i < n && !rc; i++) {
        if (i >= k.done)
            rc = answer_one(&out[i], &k, side, p, i, err);
        loops += rc ? 0 : out[i].loop;
        if (!rc)
            progress_update(&pr, (uint64_t)i + 1, (double)loops / (double)(i + 1));
    }
    cli_on_interrupt(NULL, NULL);
    if (rc)
        file_append_abort(k.out);
    else if (k.out)
        rc = file_append_close(k.out, err);
    return rc;
}
