/*
 * calib_cmd.c - around long work with calibration texts.
 */
#include "cli/calib_cmd.h"

#include "base/file.h"

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
