/*
 * test_opt.c - command lines, number words, and the help text.
 */
#include "base/opt.h"
#include "base/opt_int.h"
#include "unit/unit.h"

#include <math.h>
#include <stdlib.h>

/* Every kind of option, with the value that parsing starts from. */
struct values {
    bool json, verbose;
    const char *model, *effort;
    int64_t number;
    double top_p;
    uint64_t budget;
    struct opt_list rules;
};

enum { OPTS = 9, TEXT = 4000 };

static const struct cmd cmd = {
    "test", "Tests the parser with a sentence.", "FILE [OUT]", 1,
    2,      "bonsai2 test -m model.gguf in.txt"};

static void make_opts(struct opt *opts, struct values *v)
{
    const struct opt table[OPTS] = {
        {OPT_STR, 'm', "model", "FILE", &v->model, 0, 0, "Model to open."},
        {OPT_INT, 'n', "number", "N", &v->number, -1, 1000, "How many. [7]"},
        {OPT_NUM, 0, "top-p", "P", &v->top_p, 0, 1, "Share kept. [0.5]"},
        {OPT_BYTES, 'b', "budget", "BYTES", &v->budget, 0, 0, "Size of the file."},
        {OPT_LIST, 'r', "rule", "GLOB=TYPE", &v->rules, 0, 0, "May be repeated."},
        {OPT_ENUM, 'e', "effort", "fast|normal|best", &v->effort, 0, 0,
         "How long it may take; a long text that has to be broken into two lines or "
         "into more of them. [fast]"},
        {OPT_FLAG, 'j', "json", NULL, &v->json, 0, 0, "One JSON object."},
        {OPT_FLAG, 0, "verbose", NULL, &v->verbose, 0, 0, "More notes."},
        {.kind = OPT_END},
    };

    memset(v, 0, sizeof *v);
    v->number = 7;
    v->top_p = 0.5;
    v->effort = "fast";
    memcpy(opts, table, sizeof table);
}

/* What a run of the parser gave. */
struct result {
    enum opt_result rc;
    struct values v;
    int n_operands;
    char *argv[80];
    char words[600]; /* argv points into this */
    char out[TEXT], err[TEXT];
};

/* Parses a line of words separated by blanks; '~' inside a word stands for a blank. */
static void parse(struct result *r, const char *line)
{
    struct opt opts[OPTS];
    FILE *out = tmpfile(), *err = tmpfile();
    int argc = 1;

    memset(r, 0, sizeof *r);
    make_opts(opts, &r->v);
    r->argv[0] = r->words;
    snprintf(r->words, sizeof r->words, "test %s", line);
    for (char *p = r->words; *p; p++) {
        if (*p == ' ') {
            *p = '\0';
            r->argv[argc++] = p + 1;
        } else if (*p == '~') {
            *p = ' ';
        }
    }
    if (line[0] == '\0')
        argc = 1;
    assert_non_null(out);
    assert_non_null(err);
    r->rc = opt_parse(&cmd, opts, argc, r->argv, &r->n_operands, out, err);
    rewind(out);
    rewind(err);
    r->out[fread(r->out, 1, TEXT - 1, out)] = '\0';
    r->err[fread(r->err, 1, TEXT - 1, err)] = '\0';
    fclose(out);
    fclose(err);
}

static void test_values(void **state)
{
    struct result r;

    (void)state;
    parse(&r,
          "in -m a.gguf --number 12 --top-p=0.25 --budget 5.95GB -r x=y out --rule=z "
          "-e best -j");
    assert_string_equal(r.err, "");
    assert_int_equal(r.rc, OPT_RUN);
    assert_string_equal(r.v.model, "a.gguf");
    assert_int_equal(r.v.number, 12);
    assert_true(r.v.top_p == 0.25);
    assert_true(r.v.budget == 5950000000u);
    assert_int_equal(r.v.rules.n, 2);
    assert_string_equal(r.v.rules.item[0], "x=y");
    assert_string_equal(r.v.rules.item[1], "z");
    assert_string_equal(r.v.effort, "best");
    assert_true(r.v.json && !r.v.verbose);
    assert_int_equal(r.n_operands, 2);
    assert_string_equal(r.argv[1], "in");
    assert_string_equal(r.argv[2], "out");
}

static void test_forms(void **state)
{
    struct result r;

    (void)state;
    parse(&r, "-n-1 -- -m --json");
    assert_int_equal(r.rc, OPT_RUN);
    assert_int_equal(r.v.number, -1);
    assert_int_equal(r.n_operands, 2);
    assert_string_equal(r.argv[1], "-m");
    assert_string_equal(r.argv[2], "--json");
    parse(&r, "-jn=3 -");
    assert_int_equal(r.rc, OPT_RUN);
    assert_true(r.v.json && r.v.number == 3);
    assert_string_equal(r.argv[1], "-"); /* standard input is an operand */
    parse(&r, "x -m --json -n 1 -n 2"); /* a value may look like an option; last wins */
    assert_int_equal(r.rc, OPT_RUN);
    assert_string_equal(r.v.model, "--json");
    assert_true(!r.v.json && r.v.number == 2);
    parse(&r, "x --model=");
    assert_int_equal(r.rc, OPT_RUN);
    assert_string_equal(r.v.model, "");
    parse(&r, "x");
    assert_int_equal(r.rc, OPT_RUN);
    assert_true(r.v.number == 7 && r.v.top_p == 0.5 && !r.v.model);
}

static void test_mistakes(void **state)
{
    static const struct {
        const char *line, *message;
    } rows[] = {
        {"x --modle f", "unknown option '--modle'; did you mean '--model'?"},
        {"x --jsno", "did you mean '--json'?"},
        {"x --verb", "did you mean '--verbose'?"},
        {"x --zzzzzz", "unknown option '--zzzzzz'\n"},
        {"x -z", "unknown option '-z'"},
        {"x -jz", "unknown option '-z'"},
        {"x --number",
         "option '--number' needs a value: a whole number from -1 to 1000"},
        {"x --model", "option '--model' needs a value: FILE\n"},
        {"x --rule", "option '--rule' needs a value: GLOB=TYPE\n"},
        {"x -n 1001", "option '--number': '1001' is not allowed"},
        {"x -n 5k", "'5k' is not allowed: a whole number from -1 to 1000"},
        {"x --top-p 1.5", "'1.5' is not allowed: a number from 0 to 1"},
        {"x --budget big", "a size such as 512MB"},
        {"x --effort slow", "'slow' is not allowed: one of fast|normal|best"},
        {"x --effort fas", "one of fast|normal|best"},
        {"x --effort=", "one of fast|normal|best"},
        {"x --effort fast|normal", "'fast|normal' is not allowed"},
        {"x --effort |", "'|' is not allowed"},
        {"x --json=1", "option '--json' takes no value"},
        {"", "FILE [OUT] is missing"},
        {"a b c", "unexpected argument 'c'"},
    };
    struct result r;

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        parse(&r, rows[i].line);
        if (r.rc != OPT_USAGE || !strstr(r.err, rows[i].message))
            fail_msg("\"%s\": %d \"%s\"", rows[i].line, r.rc, r.err);
        assert_int_equal(strncmp(r.err, "bonsai2 test: ", 14), 0);
        assert_non_null(strstr(r.err, "\nTry 'bonsai2 test --help'.\n"));
        assert_string_equal(r.out, "");
    }
}

static void test_full_list(void **state)
{
    char line[600] = "x";
    struct result r;

    (void)state;
    for (int i = 0; i < 64; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), " -ra");
    parse(&r, line);
    assert_int_equal(r.rc, OPT_RUN);
    assert_int_equal(r.v.rules.n, 64);
    snprintf(line + strlen(line), sizeof line - strlen(line), " -ra");
    parse(&r, line);
    assert_int_equal(r.rc, OPT_USAGE);
    assert_non_null(strstr(r.err, "at most 64 times"));
}

static void test_help(void **state)
{
    static const char want[] =
        "Usage: bonsai2 test [options] FILE [OUT]\n"
        "\n"
        "Tests the parser with a sentence.\n"
        "\n"
        "Options:\n"
        "  -m, --model FILE      Model to open.\n"
        "  -n, --number N        How many. [7]\n"
        "      --top-p P         Share kept. [0.5]\n"
        "  -b, --budget BYTES    Size of the file.\n"
        "  -r, --rule GLOB=TYPE  May be repeated.\n"
        "  -e, --effort fast|normal|best\n"
        "                        How long it may take; a long text that has to be "
        "broken "
        "into two\n"
        "                        lines or into more of them. [fast]\n"
        "  -j, --json            One JSON object.\n"
        "      --verbose         More notes.\n"
        "  -h, --help            Print this help.\n"
        "\n"
        "Example:\n"
        "  bonsai2 test -m model.gguf in.txt\n";
    static const char *const lines[] = {"--help", "-h", "x -jh", "-m f --help --bogus"};
    struct result r;

    (void)state;
    for (size_t i = 0; i < countof(lines); i++) {
        parse(&r, lines[i]);
        assert_int_equal(r.rc, OPT_DONE);
        assert_string_equal(r.out, want);
        assert_string_equal(r.err, "");
    }
}

static void test_parse_int(void **state)
{
    static const struct {
        const char *word;
        bool ok;
        int64_t want;
    } rows[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"007", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"0x10", false, 0},
        {"1e3", false, 0},
        {"1.0", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        int64_t v = 99;
        ROW_CHECK(i,
                  opt_parse_int(&v, rows[i].word, INT64_MIN, INT64_MAX) == rows[i].ok);
        ROW_CHECK(i, v == (rows[i].ok ? rows[i].want : 99));
    }
    int64_t v;
    assert_false(opt_parse_int(&v, "5", 6, 9));
    assert_false(opt_parse_int(&v, "10", 6, 9));
    assert_true(opt_parse_int(&v, "6", 6, 9) && opt_parse_int(&v, "9", 6, 9));
}

static void test_parse_num(void **state)
{
    static const struct {
        const char *word;
        bool ok;
        double want;
    } rows[] = {{"0.7", true, 0.7},   {"-1e-3", true, -1e-3}, {"+2", true, 2.0},
                {".5", true, 0.5},    {"5.", true, 5.0},      {"", false, 0},
                {"nan", false, 0},    {"inf", false, 0},      {"1e999", false, 0},
                {"0x1p3", false, 0},  {" 1", false, 0},       {"1 ", false, 0},
                {"1,5", false, 0},    {"e", false, 0},        {"1e", false, 0},
                {"1e6", true, 1e6},   {"--1", false, 0},      {"1.2.3", false, 0},
                {"1000001", false, 0}};

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        double v = 99.0;
        ROW_CHECK(i, opt_parse_num(&v, rows[i].word, -10, 1e6) == rows[i].ok);
        ROW_CHECK(i, v == (rows[i].ok ? rows[i].want : 99.0));
    }
}

static void test_parse_bytes(void **state)
{
    static const struct {
        const char *word;
        bool ok;
        uint64_t want;
    } rows[] = {
        {"0", true, 0},
        {"512", true, 512},
        {"512B", true, 512},
        {"5.95GB", true, 5950000000u},
        {"5.3 GB", true, 5300000000u},
        {"0.1GB", true, 100000000u},
        {"98.4mb", true, 98400000u},
        {"1KB", true, 1000},
        {"1KiB", true, 1024},
        {"1.5MiB", true, 1572864},
        {"2GiB", true, UINT64_C(2) << 30},
        {"1TB", true, 1000000000000u},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"18446744073709551615KB", false, 0},
        {"1.5", false, 0}, /* half a byte: a unit was forgotten */
        {"1.5B", false, 0},
        {"1.GB", false, 0},
        {".5GB", false, 0},
        {"-1GB", false, 0},
        {"GB", false, 0},
        {"", false, 0},
        {"1G", false, 0},
        {"1GBB", false, 0},
        {"1.7bpw", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        uint64_t v = 99;
        ROW_CHECK(i, opt_parse_bytes(&v, rows[i].word) == rows[i].ok);
        ROW_CHECK(i, v == (rows[i].ok ? rows[i].want : 99));
    }
}

static void test_distance(void **state)
{
    static const struct {
        const char *a, *b;
        int want;
    } rows[] = {{"", "", 0},           {"a", "", 1},
                {"", "abc", 3},        {"model", "model", 0},
                {"modle", "model", 2}, {"kitten", "sitting", 3},
                {"flaw", "lawn", 2},   {"thread", "threads", 1}};

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        ROW_CHECK(i, opt_distance(rows[i].a, rows[i].b) == rows[i].want);
        ROW_CHECK(i, opt_distance(rows[i].b, rows[i].a) == rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),    cmocka_unit_test(test_forms),
        cmocka_unit_test(test_mistakes),  cmocka_unit_test(test_full_list),
        cmocka_unit_test(test_help),      cmocka_unit_test(test_parse_int),
        cmocka_unit_test(test_parse_num), cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_distance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
