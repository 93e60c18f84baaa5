/*
 * calib_cmd.c - around long work with calibration texts.
 */
#include "cli/calib_cmd.h"

#include "base/file.h"
#include "model/model.h"

#include <cjson/cJSON.h>
#include <string.h>

/* The handler only has to be there: terminal.c keeps the flag. */
static void on_interrupt(void *ctx)
{
    (void)ctx;
}

enum b2_status calib_cmd_begin(struct calib_cmd *c, const struct cli_common *common,
                               struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    c->common = common;
    if (!c->plans)
        cli_limit_memory(common);
    c->log = cli_log(common);
    c->pool = cli_pool(common, err);
    if (!c->pool)
        rc = B2_ENOMEM;
    if (!rc)
        rc = calib_words_make(&c->texts, c->calib.item, c->calib.n,
                              cli_data_dir(c->data), err);
    c->params = (struct calib_params){.files = c->texts.word,
                                      .n_files = c->texts.n,
                                      .avoid = c->avoid.item,
                                      .n_avoid = c->avoid.n,
                                      .n_tokens = c->tokens,
                                      .ctx = c->ctx};
    cli_on_interrupt(on_interrupt, NULL);
    return rc;
}

/* missing: not NULL: makes none, only looks. */
static enum b2_status answer(struct calib_cmd *c, const struct answers_how *how,
                             const struct calib_self *self, bool *missing,
                             struct b2_err *err)
{
    const struct model_params mp = {.log = &c->log};
    struct answers_env env = {.from = &c->params,
                              .seed = (uint64_t)c->common->seed,
                              .mem_limit = c->common->mem_limit,
                              .missing = missing,
                              .pool = c->pool,
                              .log = &c->log,
                              .progress = &c->progress,
                              .cancelled = calib_cmd_cancelled,
                              .ctx = c};
    struct model *m = NULL;
    enum b2_status rc = cli_cpu(&env.cpu, c->common, err);

    if (!rc)
        rc = model_open(&m, self->source, &mp, err);
    if (!rc && !m->tok)
        rc = err_set(err, B2_ENOTFOUND, "%s: has no tokenizer", self->source);
    if (!rc && !missing)
        calib_cmd_stage(c, "answer", (uint64_t)how->n);
    if (!rc)
        rc = answers_make(m, how, &env, err);
    model_close(m);
    return rc;
}

/* Not a file that this command writes or reads. */
static enum b2_status check_path(const char *path, const struct calib_self *self,
                                 struct b2_err *err)
{
    const char *const others[] = {self->source, self->output, self->beside[0],
                                  self->beside[1]};

    for (size_t i = 0; i < countof(others); i++)
        if (others[i] && (strcmp(path, others[i]) == 0 || file_same(path, others[i])))
            return err_set(err, B2_EARG,
                           "--self-file %s: this command reads or writes it already; "
                           "give another name",
                           path);
    return B2_OK;
}

/* What a dry run does without answers. */
static enum b2_status go_without(const struct calib_cmd *c, const char *path,
                                 enum calib_answers want, struct b2_err *err)
{
    if (want == ANSWERS_NEEDED)
        return err_set(err, B2_EARG,
                       "%s: answers are missing, and a dry run makes none, but "
                       "measures with them; leave out --self, or make them before: "
                       "`bonsai2 analyze --quick` with the same texts, --self and "
                       "--self-file",
                       path);
    log_line(&c->log, LOG_WARN,
             "%s: answers are missing, and a dry run makes none: goes without them",
             path);
    return B2_OK;
}

enum b2_status calib_cmd_self(struct calib_cmd *c, const struct calib_self *self,
                              struct b2_err *err)
{
    struct answers_how how = c->self;
    struct str path = {0};
    bool missing = false;

    if (how.n == 0)
        return B2_OK;
    if (c->params.n_files == 0)
        return err_set(err, B2_EARG, "--self needs --calib FILE: what to ask about");
    if (how.path)
        str_put(&path, how.path);
    else
        str_printf(&path, "%s.answers.jsonl",
                   self->output ? self->output : self->source);
    how.path = path.data;
    enum b2_status rc =
        str_ok(&path) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = check_path(how.path, self, err);
    if (!rc && self->want == ANSWERS_MADE && !self->folder)
        rc = file_check_output(self->output, self->source, self->force, err);
    if (!rc && self->want == ANSWERS_MADE && !self->folder)
        rc = file_check_folder(self->output, err);
    if (!rc)
        rc = calib_words_add(&c->texts, how.path, err);
    if (!rc)
        rc = answer(c, &how, self, self->want == ANSWERS_MADE ? NULL : &missing, err);
    if (!rc && missing) {
        rc = go_without(c, how.path, self->want, err);
    } else if (!rc) {
        c->params.own = c->texts.word[c->params.n_files];
        c->params.n_files = c->texts.n;
    }
    str_free(&path);
    return rc;
}

void calib_cmd_end(struct calib_cmd *c)
{
    cli_on_interrupt(NULL, NULL);
    calib_words_free(&c->texts);
    pool_free(c->pool);
    c->pool = NULL;
}

bool calib_cmd_cancelled(void *ctx)
{
    (void)ctx;
    return cli_interrupted();
}

void calib_cmd_stage(void *ctx, const char *name, uint64_t total)
{
    struct calib_cmd *c = ctx;
    const bool learns = strcmp(name, "distil") == 0 || strcmp(name, "score") == 0;

    c->progress = cli_progress(c->common, name, learns ? "kld" : NULL, total);
}

enum b2_status calib_cmd_check_beside(const char *option, const char *path,
                                      const char *output, const char *source,
                                      struct b2_err *err)
{
    struct file_out *f = NULL;

    if (output && (strcmp(path, output) == 0 || file_same(path, output)))
        return err_set(err, B2_EARG, "%s %s: is the output", option, path);
    enum b2_status rc = file_check_output(path, source, true, err);
    if (!rc)
        rc = file_out_open(&f, path, true, err);
    file_out_abort(f);
    if (rc)
        err_wrap(err, "%s", option);
    return rc;
}

int calib_cmd_print(const struct cli_common *common, struct cJSON *json,
                    struct str *text)
{
    int code = CLI_DONE;

    if (common->json) {
        if (json)
            cJSON_AddNumberToObject(json, "peak_rss_bytes", (double)file_peak_rss());
        code = cli_print_json(json);
    } else {
        if (str_ok(text))
            cli_write(text->data, text->len);
        cJSON_Delete(json);
    }
    str_free(text);
    return code;
}
