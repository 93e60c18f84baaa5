/*
 * cli.c - messages, exit codes and the objects that most commands need.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "cli/terminal.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

/* The moving line of some work stands on the terminal: whatever comes takes its place. */
static bool live_line;

static void clear_live_line(void)
{
    if (live_line)
        fputs("\r\033[K", stderr);
    live_line = false;
}

int cli_parse(const struct cmd *cmd, const struct opt *opts, int argc, char **argv,
              int *n_operands)
{
    return opt_parse(cmd, opts, argc, argv, n_operands, stdout, stderr);
}

int cli_usage_error(const struct cmd *cmd, const char *fmt, ...)
{
    char msg[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    fprintf(stderr, "bonsai2 %s: %s\nTry 'bonsai2 %s --help'.\n", cmd->name, msg,
            cmd->name);
    return CLI_USAGE;
}

int cli_report_error(const struct b2_err *err)
{
    const char *msg = err->msg[0] ? err->msg : err_status_name(err->status);

    clear_live_line();
    fprintf(stderr, "bonsai2: %s\n", msg);
    return err->status == B2_ECANCEL ? CLI_INTERRUPTED : CLI_FAILED;
}

static void log_sink(void *ctx, enum log_level level, const char *line)
{
    static const char *const prefix[] = {"error: ", "warning: ", "", ""};

    (void)ctx;
    clear_live_line();
    fprintf(stderr, "bonsai2: %s%s\n", prefix[level], line);
}

struct log cli_log(const struct cli_common *c)
{
    enum log_level level = c->quiet ? LOG_ERROR : c->verbose ? LOG_DEBUG : LOG_INFO;

    return (struct log){.level = level, .sink = log_sink, .strict = c->strict};
}

struct progress cli_progress(const struct cli_common *c, const char *what,
                             const char *quality, uint64_t total)
{
    struct progress p = progress_start(c->quiet ? NULL : stderr,
                                       terminal_stderr_is_tty(), what, quality, total);

    p.open = &live_line;
    return p;
}

struct pool *cli_pool(const struct cli_common *c, struct b2_err *err)
{
    char why[160];
    struct log log = cli_log(c);
    int n = pool_default_threads(why, sizeof why);

    struct pool *p = pool_new(c->threads ? (int)c->threads : n);
    if (!p) {
        err_set(
            err, B2_ENOMEM,
            "cannot start %d threads: out of memory, or over a limit; try a smaller "
            "--threads",
            c->threads ? (int)c->threads : n);
        return NULL;
    }
    if (c->threads)
        log_line(&log, LOG_DEBUG, "%d threads as asked (by default %s)",
                 pool_threads(p), why);
    else
        log_line(&log, LOG_DEBUG, "%s", why);
    return p;
}

enum b2_status cli_cpu(unsigned *features, const struct cli_common *c,
                       struct b2_err *err)
{
    char name[128];
    struct log log = cli_log(c);
    enum b2_status rc = cpu_limit(features, cpu_features(), getenv("B2_CPU"), err);

    if (rc) {
        err_wrap(err, "B2_CPU");
        return rc;
    }
    cpu_model_name(name, sizeof name);
    log_line(&log, LOG_DEBUG, "processor %s, kernel level %s", name,
             cpu_level_name(*features));
    return B2_OK;
}

void cli_limit_memory(const struct cli_common *c)
{
    if (c->mem_limit)
        terminal_limit_memory(c->mem_limit);
}

int cli_print_json(struct cJSON *json)
{
    char *text = json ? cJSON_Print(json) : NULL;

    cJSON_Delete(json);
    if (!text) {
        fputs("bonsai2: out of memory for the JSON output\n", stderr);
        return CLI_FAILED;
    }
    clear_live_line();
    puts(text);
    cJSON_free(text);
    return CLI_DONE;
}

bool cli_write(const char *text, size_t n)
{
    clear_live_line();
    return fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0;
}

int64_t cli_local_now(void)
{
    time_t now = (time_t)clock_unix_s();
    const struct tm *l = localtime(&now), *u;
    struct tm local;

    if (!l)
        return (int64_t)now;
    local = *l;
    u = gmtime(&now);
    if (!u)
        return (int64_t)now;
    int days = local.tm_year != u->tm_year ? (local.tm_year > u->tm_year ? 1 : -1)
                                           : local.tm_yday - u->tm_yday;
    return (int64_t)now + days * 86400 + (local.tm_hour - u->tm_hour) * 3600 +
           (local.tm_min - u->tm_min) * 60;
}

void cli_on_interrupt(void (*fn)(void *ctx), void *ctx)
{
    terminal_on_interrupt(fn, ctx);
}

bool cli_interrupted(void)
{
    return terminal_interrupted();
}

const char *cli_data_dir(const char *given)
{
    static const char beside[] = "../shared/data";
    const char *env = getenv("B2_DATA");

    if (given)
        return given;
    if (env && env[0])
        return env;
    return file_is_dir(beside) ? beside : NULL;
}
