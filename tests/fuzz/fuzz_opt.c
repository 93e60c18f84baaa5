/*
 * fuzz_opt.c - command lines: words separated by zero bytes.
 *
 * Whatever stands there, the parser returns one of its three results, leaves the
 * operands at the front, stays inside argv, and never stores a number out of its range.
 */
#include "base/opt.h"
#include "fuzz.h"

enum { WORDS_MAX = 200 };

/* Splits the input into argv; gives the number of words. */
static int split(char *text, size_t size, char **argv)
{
    static char name[] = "fuzz";
    int argc = 0;

    argv[argc++] = name;
    for (size_t i = 0; i < size && argc < WORDS_MAX; i += strlen(text + i) + 1)
        argv[argc++] = text + i;
    argv[argc] = NULL;
    return argc;
}

static void check_parsers(const char *word)
{
    int64_t i = 0;
    double v = 0.0;
    uint64_t bytes;

    if (opt_parse_int(&i, word, -5, 5))
        fuzz_require(i >= -5 && i <= 5, "opt_parse_int keeps the range");
    (void)opt_parse_int(&i, word, INT64_MIN, INT64_MAX);
    if (opt_parse_num(&v, word, 0.0, 1.0))
        fuzz_require(v >= 0.0 && v <= 1.0, "opt_parse_num keeps the range");
    (void)opt_parse_bytes(&bytes, word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct cmd cmd = {"fuzz", "Parses.", "FILE", 0, 3, "bonsai2 fuzz"};
    bool flag = false, verbose = false;
    const char *model = NULL, *effort = "fast";
    int64_t n = 1;
    double top_p = 0.5;
    uint64_t bytes = 0;
    struct opt_list list = {.n = 0};
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE", &model, 0, 0, "A file."},
        {OPT_INT, 'n', "number", "N", &n, 1, 8, "A number. [1]"},
        {OPT_NUM, 0, "top-p", "P", &top_p, 0, 1, "A share. [0.5]"},
        {OPT_BYTES, 'b', "budget", "BYTES", &bytes, 0, 0, "A size."},
        {OPT_LIST, 'r', "rule", "RULE", &list, 0, 0, "Repeated."},
        {OPT_ENUM, 'e', "effort", "fast|normal|best", &effort, 0, 0, "A word."},
        {OPT_FLAG, 'j', "json", NULL, &flag, 0, 0, "A flag."},
        {OPT_FLAG, 'v', "verbose", NULL, &verbose, 0, 0, "A flag."},
        {.kind = OPT_END},
    };
    static FILE *null;
    char *argv[WORDS_MAX + 1];
    char *text = fuzz_string(data, size);
    int n_operands = 0;

    if (!null)
        null = fopen("/dev/null", "w");
    if (!text || !null) {
        free(text);
        return 0;
    }
    int argc = split(text, size, argv);
    for (int i = 1; i < argc; i++)
        check_parsers(argv[i]);
    enum opt_result rc = opt_parse(&cmd, opts, argc, argv, &n_operands, null, null);
    fuzz_require(rc == OPT_RUN || rc == OPT_DONE || rc == OPT_USAGE, "a known result");
    fuzz_require(n >= 1 && n <= 8, "--number in range");
    fuzz_require(top_p >= 0.0 && top_p <= 1.0, "--top-p in range");
    fuzz_require(list.n >= 0 && list.n <= (int)countof(list.item), "list in bounds");
    fuzz_require(!strcmp(effort, "fast") || !strcmp(effort, "normal") ||
                     !strcmp(effort, "best"),
                 "a word of the list");
    if (rc == OPT_RUN) {
        fuzz_require(n_operands >= 0 && n_operands <= 3, "operands counted");
        for (int i = 1; i <= n_operands; i++)
            fuzz_touch(argv[i], strlen(argv[i]));
    }
    free(text);
    return 0;
}
