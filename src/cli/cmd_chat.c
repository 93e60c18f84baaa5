/*
 * cmd_chat.c - bonsai2 chat: a conversation in the terminal.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cache_opts.h"
#include "cli/cli.h"
#include "cli/lineedit.h"
#include "cli/sampling.h"
#include "cli/talk.h"
#include "cli/terminal.h"
#include "cli/think.h"
#include "model/generate.h"
#include "model/settle.h"

#include <string.h>

struct chat_cmd {
    struct cli_common common;
    const char *model_path, *template_file, *system, *think_word;
    int64_t n_predict, ctx, batch;
    struct cache_words cache;
    struct sampling sampling;
    bool exact, warm;

    struct log log;
    struct pool *pool;
    struct backend *be;
    struct model *model;
    struct session *session;
    struct talk *talk;
    struct lineedit *editor;
    struct sampler_params params;
    struct think think;
    struct tok_ids prompt;
    bool color; /* dim lines on standard output */
    bool tty;   /* keys one by one; else whole lines */
    int64_t n_answers, n_prompt, n_reused, n_generated;
    double prefill_s, decode_s;
};

static const struct cmd command = {
    .name = "chat",
    .summary =
        "Hold a conversation in the terminal; /help lists what else can be typed.",
    .example = "bonsai2 chat -m model.gguf --system 'You are terse.'",
};

static const char help[] =
    "Enter sends. A line that ends in \\ goes on, as does everything between two lines "
    "of\n"
    "\"\"\"; Alt-Enter makes a new line. Ctrl-C stops the answer, Ctrl-D ends.\n"
    "  /system TEXT    set the system message; without TEXT show it, - removes it\n"
    "  /regen          answer the last question again\n"
    "  /clear          forget the conversation, keep the system message\n"
    "  /save FILE      write the conversation as JSON; /save -f FILE replaces a file\n"
    "  /load FILE      read one\n"
    "  /stats          tokens and speed so far\n"
    "  /exit           end (or /quit)\n";

static int parse(struct chat_cmd *c, int argc, char **argv)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE", &c->model_path, 0, 0,
         "Model: a GGUF file or a Hugging Face folder."},
        {OPT_STR, 0, "system", "TEXT", &c->system, 0, 0, "System message. [none]"},
        {OPT_STR, 0, "template", "FILE", &c->template_file, 0, 0,
         "Jinja template to use instead of the model's."},
        {OPT_ENUM, 0, "think", "show|hide|off", &c->think_word, 0, 0,
         "The model's thinking: shown dimmed, hidden, or asked not to be. [show]"},
        {OPT_INT, 'n', "predict", "N", &c->n_predict, 0, 1 << 28,
         "Most tokens of an answer; 0: until the context is full. [0]"},
        {OPT_INT, 'c', "ctx", "N", &c->ctx, 1, 1 << 28,
         "Positions of the cache. [8192, or what the model was trained for, or what "
         "memory has room for]"},
        {OPT_INT, 'b', "batch", "N", &c->batch, 1, 1 << 16,
         "Most prompt tokens per pass. [512]"},
        CACHE_OPTS(&c->cache),
        SAMPLING_OPTS(&c->sampling, "what the model advises, or 0.7 with top-p 0.95"),
        {OPT_FLAG, 0, "exact", NULL, &c->exact, 0, 0,
         "Activations and sums in F32: slow, the yardstick."},
        {OPT_FLAG, 0, "warm", NULL, &c->warm, 0, 0,
         "Read the whole file ahead before the first token."},
        CLI_COMMON_OPTS(&c->common),
        {.kind = OPT_END},
    };
    int n_operands = 0, rc = cli_parse(&command, opts, argc, argv, &n_operands);

    if (rc != OPT_RUN)
        return rc;
    if (!c->model_path)
        return cli_usage_error(&command, "-m FILE is missing");
    if (c->common.json)
        return cli_usage_error(&command, "a conversation is no JSON object; run --chat "
                                         "--json answers one message");
    return OPT_RUN;
}

static enum b2_status prepare(struct chat_cmd *c, struct b2_err *err)
{
    const struct model_params mp = {.log = &c->log, .warm = c->warm};
    struct backend_config cfg = {.exact = c->exact, .log = &c->log};
    struct session_params sp = {.ctx = c->ctx,
                                .batch = c->batch,
                                .mem_limit = c->common.mem_limit,
                                .log = &c->log};
    enum b2_status rc = cli_cpu(&cfg.cpu, &c->common, err);

    if (rc == B2_OK)
        rc = model_open(&c->model, c->model_path, &mp, err);
    if (rc)
        return rc;
    const struct meta *m = modelfile_meta(c->model->mf);
    rc = talk_new(&c->talk, m, c->template_file, c->model->tok, err);
    if (rc == B2_OK && c->system)
        rc = talk_set_system(c->talk, c->system, err);
    if (rc)
        return rc;
    c->editor = lineedit_new();
    if (!c->editor)
        return err_set(err, B2_ENOMEM, "out of memory");
    c->pool = cli_pool(&c->common, err);
    if (!c->pool)
        return err->status;
    cfg.pool = c->pool;
    rc = backend_cpu_new(&c->be, &cfg, err);
    cache_words_apply(&c->cache, &sp);
    if (rc == B2_OK)
        rc = cache_words_repack(&c->cache, c->model, c->be, &sp, c->common.quiet, false,
                                err);
    if (rc == B2_OK)
        rc = session_new(&c->session, c->model, c->be, &sp, err);
    c->params = sampling_resolve(&c->sampling, m, true, &c->common);
    return rc;
}

/* ---- an answer ---- */

/* A line about the conversation, not of it. */
static void note(const struct chat_cmd *c, const char *text)
{
    bool dim = terminal_stderr_is_tty();

    if (!c->common.quiet)
        fprintf(stderr, "%s%s%s\n", dim ? "\033[2m" : "", text, dim ? "\033[0m" : "");
}

/* The prompt of the conversation, without the oldest questions that do not fit. */
static enum b2_status make_prompt(struct chat_cmd *c, struct b2_err *err)
{
    int64_t ctx = session_ctx(c->session);
    int64_t room = max_i64(ctx / 4, 1);
    int dropped = 0;
    struct str text = {0};

    if (c->n_predict)
        room = min_i64(room, c->n_predict);
    for (;;) {
        enum b2_status rc = talk_prompt(c->talk, &c->prompt, err);
        if (rc)
            return rc;
        if (c->prompt.n + room <= ctx || !talk_drop_oldest(c->talk))
            break;
        dropped++;
    }
    if (dropped) {
        str_printf(
            &text, "[the context of %lld tokens is full: the oldest %s dropped%s]",
            (long long)ctx, dropped == 1 ? "question and answer were" : "turns were",
            talk_system(c->talk) ? ", the system message is kept" : "");
        note(c, str_ok(&text) ? text.data : "[the oldest turns were dropped]");
        str_free(&text);
    }
    if (c->prompt.n >= ctx) {
        struct settle_hint hint;
        settle_way_out(&hint, c->model, c->cache.window, c->prompt.n + 1);
        return err_set(err, B2_EARG,
                       "the message makes a prompt of %lld tokens, but the context has "
                       "%lld: %s",
                       (long long)c->prompt.n, (long long)ctx, hint.text);
    }
    return B2_OK;
}

static bool on_text(void *ctx, const char *text, size_t n)
{
    struct chat_cmd *c = ctx;

    return think_put(&c->think, text, n);
}

static void on_interrupt(void *session)
{
    session_cancel(session);
}

static double rate(int64_t n, double seconds)
{
    return n > 0 && seconds > 0 ? (double)n / seconds : 0.0;
}

static void tell_timing(struct chat_cmd *c, const struct generate_result *g)
{
    struct str s = {0};

    c->n_answers++;
    c->n_prompt += g->prompt_tokens - g->prompt_reused;
    c->n_reused += g->prompt_reused;
    c->n_generated += g->tokens.n;
    c->prefill_s += g->prefill_s;
    c->decode_s += g->decode_s;
    str_printf(&s,
               "[%lld new + %lld reused tokens, first after %.0f ms; %lld tokens, %.1f "
               "tok/s",
               (long long)(g->prompt_tokens - g->prompt_reused),
               (long long)g->prompt_reused, 1e3 * g->first_token_s,
               (long long)g->tokens.n, rate(g->tokens.n - 1, g->decode_s));
    if (g->finish == FINISH_CANCEL)
        str_put(&s, "; stopped");
    else if (g->finish == FINISH_LENGTH &&
             g->prompt_tokens + g->tokens.n >= session_ctx(c->session))
        str_printf(&s, "; stopped: the context of %lld tokens is full",
                   (long long)session_ctx(c->session));
    else if (g->finish == FINISH_LENGTH)
        str_put(&s, "; stopped: --predict is reached");
    str_put(&s, "]");
    if (str_ok(&s))
        note(c, s.data);
    str_free(&s);
}

/* A zero byte would end the text of a message: U+FFFD stands for it. */
static enum b2_status keep_answer(struct chat_cmd *c, const struct str *text,
                                  struct b2_err *err)
{
    struct str copy = {0};
    enum b2_status rc;

    if (talk_starts_thinking(c->talk))
        str_put(&copy, "<think>\n");
    for (size_t i = 0, n; i < text->len; i += n + 1) {
        n = strlen(text->data + i);
        str_putn(&copy, text->data + i, n);
        if (i + n < text->len)
            str_put(&copy, "\xef\xbf\xbd");
    }
    str_put(&copy, "");
    rc = str_ok(&copy) ? talk_add_answer(c->talk, copy.data, err)
                       : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&copy);
    return rc;
}

/* Runs the prompt; a wish to stop that came after the last answer's end is not for this
 * one, so it is tried again. */
static enum b2_status run_prompt(struct chat_cmd *c, struct sampler *smp,
                                 struct generate_result *g, struct b2_err *err)
{
    const struct generate_params gp = {
        .max_tokens = c->n_predict, .on_text = on_text, .ctx = c};
    enum b2_status rc;

    terminal_on_ctrl_c(on_interrupt, c->session, false);
    rc = generate_run(c->session, smp, c->prompt.id, c->prompt.n, &gp, g, err);
    if (rc == B2_ECANCEL && !terminal_interrupted()) {
        generate_result_free(g);
        *g = (struct generate_result){0};
        rc = generate_run(c->session, smp, c->prompt.id, c->prompt.n, &gp, g, err);
    }
    terminal_on_ctrl_c(NULL, NULL, c->tty);
    return rc;
}

/* Answers the last question. On failure the question is forgotten. */
static enum b2_status answer(struct chat_cmd *c, struct b2_err *err)
{
    struct generate_result g = {0};
    struct sampler *smp = NULL;
    struct sampler_params params = c->params;
    enum b2_status rc = make_prompt(c, err);

    params.seed += (uint64_t)c->n_answers; /* another draw for each answer */
    if (rc == B2_OK)
        rc = sampler_new(&smp, &params, c->model->hp.vocab, err);
    if (rc) {
        talk_pop(c->talk);
        return rc;
    }
    think_start(&c->think, talk_starts_thinking(c->talk));
    rc = run_prompt(c, smp, &g, err);
    (void)think_end(&c->think);
    if (rc == B2_OK || rc == B2_ECANCEL) {
        g.finish = rc ? FINISH_CANCEL : g.finish;
        rc = keep_answer(c, &g.text, err);
        (void)cli_write("\n", 1);
        tell_timing(c, &g);
    } else {
        talk_pop(c->talk);
    }
    generate_result_free(&g);
    sampler_free(smp);
    return rc;
}

/* ---- commands ---- */

static void tell_stats(const struct chat_cmd *c)
{
    struct str s = {0}, peak = {0};

    str_put_bytes(&peak, file_peak_rss());
    str_printf(&s,
               "%d messages; %lld of %lld positions of the context in use\n"
               "prompts    %6lld tokens new, %lld reused, %.1f tok/s\n"
               "answers    %6lld tokens in %lld answers, %.1f tok/s\n"
               "memory     %s at most; %d thread%s, %s kernels\n"
               "model      %.12s, seed %lld\n",
               talk_count(c->talk), (long long)session_pos(c->session),
               (long long)session_ctx(c->session), (long long)c->n_prompt,
               (long long)c->n_reused, rate(c->n_prompt, c->prefill_s),
               (long long)c->n_generated, (long long)c->n_answers,
               rate(c->n_generated - c->n_answers, c->decode_s),
               str_ok(&peak) ? peak.data : "?", pool_threads(c->pool),
               pool_threads(c->pool) == 1 ? "" : "s", backend_kernel_name(c->be),
               c->model->fingerprint, (long long)c->common.seed);
    if (str_ok(&s))
        (void)cli_write(s.data, s.len);
    str_free(&s);
    str_free(&peak);
}

static enum b2_status set_system(struct chat_cmd *c, const char *text,
                                 struct b2_err *err)
{
    if (*text) {
        enum b2_status rc =
            talk_set_system(c->talk, strcmp(text, "-") == 0 ? NULL : text, err);
        if (rc == B2_OK)
            note(c, *text == '-' && !text[1] ? "[no system message]"
                                             : "[the system message is set]");
        return rc;
    }
    const char *now = talk_system(c->talk);
    if (!now)
        note(c, "[no system message]");
    else if (cli_write(now, strlen(now)))
        (void)cli_write("\n", 1);
    return B2_OK;
}

static enum b2_status regenerate(struct chat_cmd *c, struct b2_err *err)
{
    if (strcmp(talk_last_role(c->talk), "assistant") == 0)
        talk_pop(c->talk);
    if (strcmp(talk_last_role(c->talk), "user") != 0)
        return err_set(err, B2_EARG, "there is no question to answer again");
    return answer(c, err);
}

static enum b2_status save(struct chat_cmd *c, const char *path, struct b2_err *err)
{
    bool force = strncmp(path, "-f ", 3) == 0;

    path += force ? 3 : 0;
    path += strspn(path, " ");
    if (!*path)
        return err_set(err, B2_EARG, "/save needs a file name");
    enum b2_status rc = talk_save(c->talk, path, force, err);
    if (rc == B2_EEXIST)
        return err_set(err, rc, "%s exists; /save -f %s replaces it", path, path);
    if (rc == B2_OK)
        note(c, "[saved]");
    return rc;
}

static enum b2_status load(struct chat_cmd *c, const char *path, struct b2_err *err)
{
    struct str s = {0};

    if (!*path)
        return err_set(err, B2_EARG, "/load needs a file name");
    enum b2_status rc = talk_load(c->talk, path, err);
    if (rc)
        return rc;
    str_printf(&s, "[%d messages]", talk_count(c->talk));
    note(c, str_ok(&s) ? s.data : "[loaded]");
    str_free(&s);
    return B2_OK;
}

/* False: /exit. */
static bool run_command(struct chat_cmd *c, const char *line)
{
    struct b2_err err = {0};
    size_t n = strcspn(line, " \n");
    const char *rest = line + n + strspn(line + n, " \n");
    enum b2_status rc = B2_OK;

    if (n == 5 && memcmp(line, "/help", n) == 0) {
        (void)cli_write(help, sizeof help - 1);
    } else if (n == 7 && memcmp(line, "/system", n) == 0) {
        rc = set_system(c, rest, &err);
    } else if (n == 6 && memcmp(line, "/regen", n) == 0) {
        rc = regenerate(c, &err);
    } else if (n == 6 && memcmp(line, "/clear", n) == 0) {
        talk_clear(c->talk);
        note(c, "[the conversation is forgotten]");
    } else if (n == 5 && memcmp(line, "/save", n) == 0) {
        rc = save(c, rest, &err);
    } else if (n == 5 && memcmp(line, "/load", n) == 0) {
        rc = load(c, rest, &err);
    } else if (n == 6 && memcmp(line, "/stats", n) == 0) {
        tell_stats(c);
    } else if (n == 5 &&
               (memcmp(line, "/exit", n) == 0 || memcmp(line, "/quit", n) == 0)) {
        return false;
    } else {
        rc = err_set(&err, B2_EARG, "unknown command %.*s; /help lists them",
                     n < 40 ? (int)n : 40, line);
    }
    if (rc)
        (void)cli_report_error(&err);
    return true;
}

/* Reads and answers until the end. The exit code: an error of the last answer of an
 * input without a terminal is the program's. */
static int converse(struct chat_cmd *c)
{
    struct str line = {0};
    bool go_on = true;
    int code = CLI_DONE, interrupts = 0;

    if (c->tty)
        note(c, "/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends.");
    terminal_on_ctrl_c(NULL, NULL, c->tty);
    while (go_on) {
        enum lineedit_result r = lineedit_read(c->editor, "> ", &line);
        struct b2_err err = {0};
        if (r == LINE_NOMEM)
            err_set(&err, B2_ENOMEM, "out of memory");
        if (r == LINE_INTERRUPT) {
            if (++interrupts > 1)
                note(c, "[Ctrl-D or /exit ends the conversation]");
            continue;
        }
        interrupts = 0;
        if (r != LINE_OK) {
            code = r == LINE_END ? code : cli_report_error(&err);
            break;
        }
        if (line.data[strspn(line.data, " \n\t")] == '\0')
            continue;
        if (line.data[0] == '/') {
            go_on = run_command(c, line.data);
            continue;
        }
        enum b2_status rc = talk_add(c->talk, "user", line.data, &err);
        if (rc == B2_OK)
            rc = answer(c, &err);
        code = rc ? cli_report_error(&err) : CLI_DONE;
        if (ferror(stdout))
            break; /* main() says so */
    }
    str_free(&line);
    return c->tty ? CLI_DONE : code;
}

static void free_all(struct chat_cmd *c)
{
    tok_ids_free(&c->prompt);
    lineedit_free(c->editor);
    talk_free(c->talk);
    session_free(c->session);
    model_close(c->model);
    backend_free(c->be);
    pool_free(c->pool);
}

static bool put(const char *s, size_t n)
{
    return cli_write(s, n);
}

int cmd_chat(int argc, char **argv)
{
    struct chat_cmd c = {
        .cache = CACHE_WORDS_INIT, .sampling = SAMPLING_INIT, .think_word = "show"};
    struct b2_err err = {0};
    int code = parse(&c, argc, argv);

    if (code != OPT_RUN)
        return code;
    c.log = cli_log(&c.common);
    c.color = terminal_stdout_is_tty();
    c.tty = c.color && terminal_stdin_is_tty();
    c.think = (struct think){
        .hide = strcmp(c.think_word, "show") != 0, .color = c.color, .put = put};
    enum b2_status rc = prepare(&c, &err);
    if (rc == B2_OK)
        talk_think_off(c.talk, strcmp(c.think_word, "off") == 0);
    code = rc ? cli_report_error(&err) : converse(&c);
    free_all(&c);
    return code;
}
