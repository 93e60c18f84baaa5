/*
 * test_cli.c - exit codes, messages, JSON and signals of cli/, without a command.
 */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/terminal.h"
#include "unit/unit.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child left: its exit code (or -signal), stdout and stderr. */
struct result {
    int code;
    char out[4000], err[4000];
};

static void read_back(FILE *f, char *text, size_t size)
{
    rewind(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
}

/* Runs fn in a process of its own. */
static struct result run(int (*fn)(void))
{
    struct result r = {0};
    FILE *out = tmpfile(), *err = tmpfile();
    int status = 0;

    assert_non_null(out);
    assert_non_null(err);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(err), STDERR_FILENO);
        int code = fn();
        fflush(NULL);
        _exit(code);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    read_back(out, r.out, sizeof r.out);
    read_back(err, r.err, sizeof r.err);
    return r;
}

static int failed(void)
{
    struct b2_err err = {0};

    err_set(&err, B2_EFORMAT, "m.gguf: bad magic");
    return cli_report_error(&err);
}

static int canceled(void)
{
    struct b2_err err = {0};

    err_set(&err, B2_ECANCEL, "interrupted");
    return cli_report_error(&err);
}

static int without_message(void)
{
    return cli_report_error(&(struct b2_err){.status = B2_ENOMEM});
}

static int wrong_usage(void)
{
    static const struct cmd cmd = {.name = "run"};

    return cli_usage_error(&cmd, "--model is missing, %d", 5);
}

static void test_reports(void **state)
{
    static const struct {
        int (*fn)(void);
        int code;
        const char *err;
    } rows[] = {
        {failed, 1, "bonsai2: m.gguf: bad magic\n"},
        {canceled, 130, "bonsai2: interrupted\n"},
        {without_message, 1, "bonsai2: out of memory\n"},
        {wrong_usage, 2,
         "bonsai2 run: --model is missing, 5\nTry 'bonsai2 run --help'.\n"},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct result r = run(rows[i].fn);
        ROW_CHECK(i, r.code == rows[i].code);
        ROW_CHECK(i, strcmp(r.err, rows[i].err) == 0);
        ROW_CHECK(i, r.out[0] == '\0');
    }
}

static int json(void)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddNumberToObject(o, "n", 3);
    cJSON_AddNumberToObject(o, "nan", (double)NAN);
    return cli_print_json(o);
}

static int no_json(void)
{
    return cli_print_json(NULL);
}

static void test_json(void **state)
{
    struct result r = run(json);

    (void)state;
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "{\n\t\"n\":\t3,\n\t\"nan\":\tnull\n}\n");
    r = run(no_json);
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, "bonsai2: out of memory for the JSON output\n");
    assert_string_equal(r.out, "");
}

/* The rows parse, and --quiet, --verbose set the level of the notes. */
static int common(int argc, char **argv)
{
    static const struct cmd cmd = {"test", "Tests.", NULL, 0, 0, NULL};
    struct cli_common c = {0};
    const struct opt opts[] = {CLI_COMMON_OPTS(&c), {.kind = OPT_END}};
    int n = 0;

    int rc = cli_parse(&cmd, opts, argc, argv, &n);
    if (rc != OPT_RUN)
        return rc;
    struct log log = cli_log(&c);
    log_line(&log, LOG_ERROR, "e");
    log_line(&log, LOG_WARN, "w");
    log_line(&log, LOG_INFO, "i");
    log_line(&log, LOG_DEBUG, "d");
    printf("%d %d %d %d %d", c.json, log.strict, (int)c.threads, (int)c.seed,
           (int)c.mem_limit);
    return 0;
}

static int common_default(void)
{
    char *argv[] = {(char[]){"test"}, NULL};

    return common(1, argv);
}

static int common_all(void)
{
    char *argv[] = {(char[]){"test"},     (char[]){"--json"},
                    (char[]){"-t3"},      (char[]){"--seed"},
                    (char[]){"42"},       (char[]){"--mem-limit"},
                    (char[]){"1KiB"},     (char[]){"-q"},
                    (char[]){"--strict"}, NULL};

    return common(9, argv);
}

static int common_verbose(void)
{
    char *argv[] = {(char[]){"test"}, (char[]){"-v"}, NULL};

    return common(2, argv);
}

static void test_common(void **state)
{
    struct result r = run(common_default);

    (void)state;
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "0 0 0 0 0");
    assert_string_equal(r.err, "bonsai2: error: e\nbonsai2: warning: w\nbonsai2: i\n");
    r = run(common_all);
    assert_string_equal(r.out, "1 1 3 42 1024");
    assert_string_equal(r.err, "bonsai2: error: e\n");
    r = run(common_verbose);
    assert_non_null(strstr(r.err, "bonsai2: d\n"));
}

static int bad_level(void)
{
    static char word[] = "B2_CPU=mmx"; /* the environment keeps it */
    struct b2_err err = {0};
    struct cli_common c = {0};
    unsigned features = 0;

    if (putenv(word))
        return 99;
    return cli_cpu(&features, &c, &err) ? cli_report_error(&err) : 0;
}

static int pool_verbose(void)
{
    struct b2_err err = {0};
    struct cli_common c = {.verbose = true, .threads = 2};
    struct pool *p = cli_pool(&c, &err);
    int n = pool_threads(p);

    if (!p)
        return 99;
    pool_free(p);
    return n;
}

static void test_machine(void **state)
{
    struct result r = run(bad_level);

    (void)state;
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "bonsai2: B2_CPU: unknown processor level \"mmx\""));
    r = run(pool_verbose);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "2 threads as asked (by default "));
}

static int broken_pipe(void)
{
    int ends[2];

    terminal_ignore_closed_pipes();
    if (pipe(ends) || dup2(ends[1], STDOUT_FILENO) < 0 || close(ends[0]))
        return 99;
    return cli_write("text", 4) ? 0 : 7;
}

static volatile sig_atomic_t n_calls;

static void on_signal(void *ctx)
{
    n_calls += *(int *)ctx;
}

static int one_signal(void)
{
    int step = 3;

    cli_on_interrupt(on_signal, &step);
    if (cli_interrupted())
        return 99;
    raise(SIGINT);
    return n_calls == 3 && cli_interrupted() ? 5 : 98;
}

static int two_signals(void)
{
    int step = 1;

    cli_on_interrupt(on_signal, &step);
    raise(SIGINT);
    raise(SIGINT);
    return 0;
}

static int signal_after_handler(void)
{
    int step = 1;

    cli_on_interrupt(on_signal, &step);
    cli_on_interrupt(NULL, NULL);
    raise(SIGTERM);
    return 0;
}

static void test_signals(void **state)
{
    (void)state;
    assert_int_equal(run(broken_pipe).code, 7);
    assert_int_equal(run(one_signal).code, 5);
    assert_int_equal(run(two_signals).code, -SIGINT);
    assert_int_equal(run(signal_after_handler).code, -SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports), cmocka_unit_test(test_json),
        cmocka_unit_test(test_common),  cmocka_unit_test(test_machine),
        cmocka_unit_test(test_signals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
