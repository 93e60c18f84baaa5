/*
 * cmd_template.c - bonsai2 template: the prompt that a conversation becomes.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/folder.h"
#include "format/modelfile.h"
#include "model/chat.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_TEMPLATE_BYTES = 4 << 20, MAX_MESSAGES_BYTES = 64 << 20 };

struct words {
    struct cli_common common;
    const char *model, *template, *messages, *bos, *eos, *now, *name;
    int64_t now_s;
};

static const struct cmd command = {
    .name = "template",
    .summary =
        "Show the prompt that a conversation becomes: a JSON object with messages, "
        "tools, add_generation_prompt; any other key becomes a variable of the "
        "template.",
    .example = "bonsai2 template -m model.gguf --messages chat.json",
};

/* Days since 1970 of a civil date (Howard Hinnant's days_from_civil). */
static int64_t days_from_civil(int64_t y, int m, int d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

/* Digits of a fixed place; -1: none there. */
static int digits(const char *s, size_t at, size_t n)
{
    int v = 0;

    for (size_t i = at; i < at + n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        v = v * 10 + (s[i] - '0');
    }
    return v;
}

/* YYYY-MM-DD, and THH:MM:SS or not. */
static bool parse_time(const char *s, int64_t *out)
{
    size_t n = strlen(s);
    int v[6] = {0};

    if ((n != 10 && n != 19) || s[4] != '-' || s[7] != '-')
        return false;
    if (n == 19 && ((s[10] != 'T' && s[10] != ' ') || s[13] != ':' || s[16] != ':'))
        return false;
    v[0] = digits(s, 0, 4);
    for (int i = 1; i < (n == 19 ? 6 : 3); i++)
        v[i] = digits(s, 2 + 3 * (size_t)i, 2);
    if (v[0] < 0 || v[1] < 1 || v[1] > 12 || v[2] < 1 || v[2] > 31 || v[3] < 0 ||
        v[3] > 23 || v[4] < 0 || v[4] > 59 || v[5] < 0 || v[5] > 60)
        return false;
    *out = days_from_civil(v[0], v[1], v[2]) * 86400 + v[3] * 3600 + v[4] * 60 + v[5];
    return true;
}

static int parse(struct words *w, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &w->model, 0, 0,
         "Model whose template and begin and end tokens are used."},
        {OPT_STR, 0, "template", "FILE", &w->template, 0, 0,
         "Jinja template to use instead of the model's."},
        {OPT_STR, 0, "name", "NAME", &w->name, 0, 0,
         "One of the model's named templates (tool_use). [default]"},
        {OPT_STR, 0, "messages", "FILE", &w->messages, 0, 0,
         "JSON object with the conversation; - is standard input."},
        {OPT_STR, 0, "bos", "TEXT", &w->bos, 0, 0,
         "Begin token. [the model's, or none]"},
        {OPT_STR, 0, "eos", "TEXT", &w->eos, 0, 0, "End token. [the model's, or none]"},
        {OPT_STR, 0, "now", "ISO8601", &w->now, 0, 0,
         "What strftime_now tells: 2026-01-02T03:04:05. [the clock]"},
        CLI_COMMON_OPTS(&w->common),
        {.kind = OPT_END},
    };
    int n_operands = 0, rc = cli_parse(&command, opts, argc, argv, &n_operands);

    if (rc != OPT_RUN)
        return rc;
    if (!w->model && !w->template)
        return cli_usage_error(&command, "which template? -m FILE or --template FILE");
    if (!w->messages)
        return cli_usage_error(&command, "which conversation? --messages FILE");
    if (w->template && w->name)
        return cli_usage_error(&command, "--name is for the templates of a model");
    w->now_s = w->now ? 0 : cli_local_now();
    if (w->now && !parse_time(w->now, &w->now_s))
        return cli_usage_error(
            &command, "--now '%s' is no time like 2026-01-02T03:04:05", w->now);
    return OPT_RUN;
}

static enum b2_status open_model(struct chat **out, const struct words *w,
                                 struct b2_err *err)
{
    struct log log = cli_log(&w->common);
    struct modelfile *file = NULL;
    struct meta *own = NULL;
    const struct meta *m;
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc = file_is_dir(w->model)
                            ? folder_tokenizer(&own, w->model, err)
                            : modelfile_open(&file, w->model, &log, err);

    if (rc)
        return rc;
    m = own ? own : modelfile_meta(file);
    if (w->template) {
        rc = file_read_all(&text, &n, w->template, MAX_TEMPLATE_BYTES, err);
        if (rc == B2_OK)
            rc = chat_new_text(out, text, n, chat_token(m, "bos"), chat_token(m, "eos"),
                               err);
        mem_free(text);
    } else {
        rc = chat_new(out, m, w->name, err);
        if (rc)
            err_wrap(err, "%s", w->model);
    }
    meta_free(own);
    modelfile_close(file);
    return rc;
}

static enum b2_status open_chat(struct chat **out, const struct words *w,
                                struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc;

    if (w->model) {
        rc = open_model(out, w, err);
    } else {
        rc = file_read_all(&text, &n, w->template, MAX_TEMPLATE_BYTES, err);
        if (rc == B2_OK)
            rc = chat_new_text(out, text, n, NULL, NULL, err);
        mem_free(text);
    }
    if (rc && w->template)
        err_wrap(err, "%s", w->template);
    return rc ? rc : chat_set_tokens(*out, w->bos, w->eos, err);
}

static enum b2_status read_messages(cJSON **out, const struct words *w,
                                    struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc = file_read_all(&text, &n, w->messages, MAX_MESSAGES_BYTES, err);

    if (rc)
        return rc;
    rc = json_parse_bounded(out, text, n, CHAT_JSON_VALUES, err);
    mem_free(text);
    if (rc)
        err_wrap(err, "%s", w->messages);
    return rc;
}

/* Text with a zero byte cannot be a JSON string of cJSON's; such a prompt is refused. */
static int print_json(const char *key, const char *text)
{
    cJSON *o = cJSON_CreateObject();

    if (!cJSON_AddStringToObject(o, key, text)) {
        cJSON_Delete(o);
        o = NULL;
    }
    return cli_print_json(o);
}

static int print_result(const struct words *w, enum b2_status rc,
                        const struct str *text, const struct b2_err *err)
{
    if (rc) {
        int code = cli_report_error(err);
        if (w->common.json)
            (void)print_json("error", err->msg);
        return code;
    }
    if (w->common.json)
        return print_json("prompt", text->data ? text->data : "");
    return cli_write(text->data ? text->data : "", text->len) ? CLI_DONE : CLI_FAILED;
}

int cmd_template(int argc, char **argv)
{
    struct words w = {.now_s = 0};
    struct b2_err err = {0};
    struct chat *chat = NULL;
    cJSON *request = NULL;
    struct str text = {0};
    int code = parse(&w, argc, argv);

    if (code != OPT_RUN)
        return code;
    enum b2_status rc = open_chat(&chat, &w, &err);
    if (rc == B2_OK)
        rc = read_messages(&request, &w, &err);
    if (rc == B2_OK)
        rc = chat_render(chat, request, w.now_s, &text, &err);
    if (rc == B2_OK && memchr(text.data ? text.data : "", 0, text.len) && w.common.json)
        rc = err_set(&err, B2_EUNSUP, "the prompt has a zero byte: not for --json");
    code = print_result(&w, rc, &text, &err);
    str_free(&text);
    cJSON_Delete(request);
    chat_free(chat);
    return code;
}
