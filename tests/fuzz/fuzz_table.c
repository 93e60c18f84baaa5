/*
 * fuzz_table.c - rows of data: the first byte chooses the form, the rest is the file.
 *
 * Whatever stands there, every row is an object, or an error says what is wrong. The
 * forms are JSON lines, a JSON array, CSV, TSV, a .gz file, the items of a run's file,
 * and an answer under all instructions that need no arguments.
 */
#include "base/mem.h"
#include "eval/ifeval.h"
#include "eval/items.h"
#include "eval/table.h"
#include "format/gunzip.h"
#include "fuzz.h"

#include <string.h>

static void check_table(enum table_kind kind, const char *text, size_t n)
{
    struct table t = {0};
    struct b2_err err = {0};

    if (table_parse(&t, kind, text, n, &err)) {
        fuzz_require(err.msg[0] != '\0', "a refusal says why");
        return;
    }
    for (int64_t i = 0; i < t.n; i++)
        fuzz_require(cJSON_IsObject(t.row[i]), "a row is an object");
    table_free(&t);
}

static void check_gunzip(const void *data, size_t n)
{
    char *out = NULL;
    size_t size = 0;
    struct b2_err err = {0};

    if (gunzip(&out, &size, data, n, 1 << 20, &err)) {
        fuzz_require(err.msg[0] != '\0', "a refusal says why");
        return;
    }
    fuzz_require(size <= 1 << 20 && out[size] == '\0', "the size is bounded");
    mem_free(out);
}

static void check_item(const char *text, size_t n)
{
    struct item_set s = {.metrics = {mem_strdup("acc"), mem_strdup("norm")},
                         .n_metrics = 2};

    if (item_set_add(&s, text, n, NULL) == B2_OK)
        fuzz_require(s.n == 1 && s.item[0].score >= 0 && s.item[0].score <= 1,
                     "a score lies in 0..1");
    item_set_free(&s);
}

static void check_answer(const char *text, size_t n)
{
    static const char *const ids[] = {
        "en:punctuation:no_comma",         "en:detectable_format:title",
        "en:change_case:english_capital",  "en:detectable_format:json_format",
        "en:combination:two_responses",    "en:startend:quotation",
        "fr:special_character:no_accents", "ja:letters:furigana",
        "es:punctuation:question_marks",   "en:detectable_format:constrained_response"};
    char *copy = mem_calloc(n + 1, 1);

    memcpy(copy, text, n);
    (void)ifeval_language(copy, strlen(copy));
    fuzz_require(ifeval_sentences(copy, strlen(copy), false) >= 0 &&
                     ifeval_sentences(copy, strlen(copy), true) >= 0,
                 "sentences are counted");
    for (size_t i = 0; i < countof(ids); i++) {
        bool ok;
        fuzz_require(ifeval_follows(&ok, ids[i], NULL, copy, NULL) == B2_OK,
                     "an instruction without arguments is judged");
    }
    mem_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy;

    if (size == 0)
        return 0;
    copy = mem_calloc(size, 1); /* exact size: reading past it shows */
    memcpy(copy, data + 1, size - 1);
    switch (data[0] % 7) {
    case 4:
        check_gunzip(copy, size - 1);
        break;
    case 5:
        check_item(copy, size - 1);
        break;
    case 6:
        check_answer(copy, size - 1);
        break;
    default:
        check_table((enum table_kind)(data[0] % 7), copy, size - 1);
        break;
    }
    mem_free(copy);
    return 0;
}
