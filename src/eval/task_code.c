/*
 * task_code.c - does the program that a model wrote pass its tests? (HumanEval)
 *
 * "Evaluating Large Language Models Trained on Code" (arXiv:2107.03374): prompt, answer,
 * test and check(entry_point) make a program; it passes when it runs to its end. The end
 * prints a word of chance, so leaving early is no success. An answer that sets out to
 * deceive can: Python has no walls inside a process, and the paper's program has none.
 */
#include "eval/task_judge.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/sandbox.h"

#include <string.h>

static const struct sandbox_limits code_limits = {.wall_s = 10.0,
                                                  .cpu_s = 5.0,
                                                  .memory_bytes = (uint64_t)1 << 30,
                                                  .output_bytes = 1 << 16};

static const char *column(const cJSON *row, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(row, key);

    return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* Appends the lines of the prompt before its last function: imports and helpers. */
static void put_head(struct str *out, const char *prompt, const char *entry)
{
    struct str def = {0};
    const char *at;

    str_printf(&def, "def %s(", entry);
    at = str_ok(&def) ? strstr(prompt, def.data) : NULL;
    str_putn(out, prompt, at ? (size_t)(at - prompt) : 0);
    str_put(out, "\n");
    str_free(&def);
}

/* The code of an answer: the inside of its first fence; of a fence that only closes what
 * stands before it (the prompt had opened the block). */
static void find_code(const char **from, size_t *n, const char *answer)
{
    const char *fence = strstr(answer, "```"), *line, *end;

    *from = answer;
    *n = strlen(answer);
    if (!fence)
        return;
    line = strchr(fence, '\n');
    end = line ? strstr(line, "```") : NULL;
    if (!end && strspn(answer, " \t\r\n") < (size_t)(fence - answer)) {
        *n = (size_t)(fence - answer);
        return;
    }
    *from = line ? line + 1 : fence + 3;
    *n = end ? (size_t)(end - *from) : strlen(*from);
}

void judge_code_program(struct str *out, const cJSON *row, const char *answer)
{
    const char *prompt = column(row, "prompt"), *entry = column(row, "entry_point");
    const char *code;
    size_t n;
    struct str def = {0}, text = {0};

    find_code(&code, &n, answer);
    str_putn(&text, code, n);
    str_put(&text, "");
    str_printf(&def, "def %s(", entry);
    if (str_ok(&def) && str_ok(&text) && strstr(text.data, def.data))
        put_head(out, prompt, entry); /* the answer has the whole function */
    else
        str_put(out, prompt);
    str_putn(out, text.data ? text.data : "", text.len);
    str_printf(out, "\n\n%s\n\ncheck(%s)\n", column(row, "test"), entry);
    str_free(&def);
    str_free(&text);
}

/* How it ended, in a few words: the last line of a traceback says most. */
static void put_end(struct str *details, const struct sandbox_result *r, bool passed)
{
    struct str words = {0};
    const char *text = r->output.data;
    size_t n = r->output.len, from;

    while (n > 0 && strchr("\r\n \t", text[n - 1]))
        n--;
    for (from = n; from > 0 && text[from - 1] != '\n'; from--)
        ;
    if (passed)
        str_put(&words, "passed");
    else if (r->end == SANDBOX_TIMEOUT)
        str_put(&words, "out of time");
    else if (r->end == SANDBOX_SIGNAL)
        str_printf(&words, "killed by signal %d", r->code);
    else if (r->code == 0)
        str_put(&words, "left before the end of the tests");
    else
        str_putn(&words, text + from, n - from > 200 ? 200 : n - from);
    str_put(&words, "");
    str_put(details, ",\"verdict\":");
    if (str_ok(&words))
        json_put_string(details, words.data);
    else
        details->bad = true;
    str_free(&words);
}

/* Does the output hold the word? It may hold zero bytes too. */
static bool holds(const struct str *output, const struct str *word)
{
    for (size_t i = 0; i + word->len <= output->len; i++)
        if (memcmp(output->data + i, word->data, word->len) == 0)
            return true;
    return false;
}

enum b2_status judge_code(bool *passed, struct str *details, const cJSON *row,
                          const char *answer, struct b2_err *err)
{
    char python[64];
    const char *argv[] = {python, "-I", "-S", "-B", "-", NULL};
    struct rng r = rng_make((uint64_t)(clock_s() * 1e9));
    struct sandbox_result end = {0};
    struct str program = {0}, word = {0};
    enum b2_status rc;

    if (!column(row, "prompt") || !column(row, "entry_point") || !column(row, "test"))
        return err_set(err, B2_EARG, "a row needs prompt, entry_point and test");
    rc = sandbox_python(python, sizeof python, err);
    if (rc)
        return rc;
    judge_code_program(&program, row, answer);
    str_printf(&word, "%016llx%016llx", (unsigned long long)rng_u64(&r),
               (unsigned long long)rng_u64(&r));
    str_printf(&program, "print(\"\\n%s\")\n", str_ok(&word) ? word.data : "");
    if (!str_ok(&program) || !str_ok(&word))
        rc = err_set(err, B2_ENOMEM, "out of memory for a program");
    if (!rc)
        rc = sandbox_run(&end, argv, program.data, program.len, &code_limits, err);
    if (!rc) {
        *passed = end.end == SANDBOX_EXIT && end.code == 0 && holds(&end.output, &word);
        put_end(details, &end, *passed);
    }
    sandbox_result_free(&end);
    str_free(&program);
    str_free(&word);
    return rc;
}
