/*
 * test_ifeval.c - checks of instructions against the original checkers.
 *
 * golden/eval/ifeval.jsonl.gz: verdicts of lm-evaluation-harness's IFEval on made answers
 * (make_ifeval.py), and languages by langdetect. The instructions of Spanish, French
 * and Japanese have hand-made cases here; the sentences too.
 */
#include "eval/ifeval.h"

#include "eval/table.h"
#include "unit/unit.h"

#include <stdlib.h>

static const char *str(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

    return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* As the original: an answer of nothing follows nothing. */
static bool follows(const char *id, const cJSON *args, const char *answer)
{
    struct ifeval_result r = {0};
    struct b2_err err = {0};
    cJSON *row = cJSON_CreateObject(),
          *ids = cJSON_AddArrayToObject(row, "instruction_id_list");
    cJSON *list = cJSON_AddArrayToObject(row, "kwargs");

    cJSON_AddItemToArray(ids, cJSON_CreateString(id));
    cJSON_AddItemToArray(list,
                         args ? cJSON_Duplicate(args, true) : cJSON_CreateObject());
    if (ifeval_judge(&r, row, answer, &err))
        fail_msg("%s", err.msg);
    assert_true(r.loose >= r.strict);
    cJSON_Delete(row);
    return r.followed[0];
}

static void test_original(void **state)
{
    struct table t = {0};
    int wrong = 0, n = 0;

    (void)state;
    assert_int_equal(table_read(&t, B2_GOLDEN_DIR "/eval/ifeval.jsonl.gz", NULL),
                     B2_OK);
    for (int64_t i = 0; i < t.n; i++) {
        const cJSON *row = t.row[i];
        const char *answer = str(row, "answer"), *id = str(row, "id");
        if (!id) {
            const char *want = str(row, "language"), *got;
            got = ifeval_language(answer, strlen(answer));
            if (strcmp(got, want) != 0)
                fail_msg("%s: taken for %s", want, got);
            continue;
        }
        const cJSON *args = cJSON_GetObjectItemCaseSensitive(row, "args");
        bool want = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "follows"));
        n++;
        if (follows(id, args, answer) != want) {
            char *text = cJSON_PrintUnformatted(row);
            print_error("differs: %.300s\n", text);
            cJSON_free(text);
            wrong++;
        }
    }
    assert_true(n > 1000);
    assert_int_equal(wrong, 0);
    table_free(&t);
}

static void test_sentences(void **state)
{
    static const struct {
        const char *text;
        bool japanese;
        int want;
    } table[] = {
        {"", false, 0},
        {"One", false, 1},
        {"One. Two.", false, 2},
        {"One. Two. And a rest", false, 3},
        {"Mr. Smith met Dr. J. R. Jones. They spoke.", false, 2},
        {"He said \"No.\" She left.", false, 2},
        {"It costs 3.50 dollars. Fine!", false, 2},
        {"Wait... what? Yes!", false, 2},
        {"e.g. this, i.e. that.", false, 1},
        {"1. First item.\n2. Second item.", false, 2},
        {"So do I. So does he.", false, 2},
        {"See www.example.org for more. Bye.", false, 2},
        {"今日は晴れ。明日は雨！本当？", true, 3},
        {"一行目\n二行目", true, 2},
        {"「はい。」と言った。", true, 2},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        int64_t got =
            ifeval_sentences(table[i].text, strlen(table[i].text), table[i].japanese);
        if (got != table[i].want)
            fail_msg("row %d: got %d want %d", (int)i, (int)got, table[i].want);
    }
}

static void test_other_tongues(void **state)
{
    static const struct {
        const char *id, *args, *answer;
        bool want;
    } table[] = {
        {"es:special_character:enie", "{\"let_frequency\":2}", "El niño y la caña.",
         true},
        {"es:special_character:enie", "{\"let_frequency\":2}", "ñoño", false},
        {"es:special_character:dieresis", "{\"let_frequency\":1}", "El pingüino.",
         true},
        {"es:special_character:tildes", "{\"relation\":\"al menos\",\"num_words\":2}",
         "Está aquí.", true},
        {"es:special_character:tildes",
         "{\"relation\":\"como máximo\",\"num_words\":1}", "Está aquí.", false},
        {"es:punctuation:question_marks", "{}", "¿Qué?", true},
        {"es:punctuation:question_marks", "{}", "Qué?", false},
        {"es:punctuation:exclamation_marks", "{}", "¡Sí!", true},
        {"es:change_case:spanish_capital", "{}",
         "ESTA ES LA RESPUESTA QUE SE PIDE Y NO ES UNA PREGUNTA.", true},
        {"es:detectable_format:constrained_response", "{}", "Sí.", true},
        {"es:detectable_format:constrained_response", "{}", "Yes.", false},
        {"es:length_constraints:nth_paragraph_first_word",
         "{\"num_paragraphs\":2,\"nth_paragraph\":2,\"first_word\":\"En mi opinión\"}",
         "Uno.\n\nEn mi opinión, no.", true},
        {"fr:detectable_content:informal_address", "{}", "Je te dis que tu as raison.",
         true},
        {"fr:detectable_content:informal_address", "{}", "Je vous dis.", false},
        {"fr:detectable_content:no_digits", "{}", "dix ans", true},
        {"fr:detectable_content:no_digits", "{}", "10 ans", false},
        {"fr:special_character:accents",
         "{\"word_to_accentuate\":{\"a\":\"à\",\"ecole\":\"école\"}}", "À l'École",
         true},
        {"fr:special_character:accents",
         "{\"word_to_accentuate\":{\"ecole\":\"école\"}}", "l'ecole", false},
        {"fr:special_character:ethel_or_cedilla", "{\"forbidden_char\":\"ç\"}",
         "FAÇADE", false},
        {"fr:special_character:no_accents", "{}", "ca va", true},
        {"fr:special_character:no_accents", "{}", "été", false},
        {"fr:detectable_format:title", "{}", "##Mon titre##", true},
        {"fr:detectable_format:title", "{}", "## Mon titre", false},
        {"fr:startend:quotation", "{}", "« Oui. »", true},
        {"ja:letters:hiragana_only", "{}", "これは ひらがな です。", true},
        {"ja:letters:hiragana_only", "{}", "これは漢字です。", false},
        {"ja:letters:katakana_only", "{}", "コレハカタカナデス。スーパー", true},
        {"ja:letters:no_hiragana", "{}", "日本国憲法 第九条", true},
        {"ja:letters:no_katakana", "{}", "テスト", false},
        {"ja:letters:kanji", "{\"relation\":\"以上\",\"kanji_limit\":3}", "日本国",
         true},
        {"ja:letters:kanji", "{\"relation\":\"未満\",\"kanji_limit\":3}", "日本国",
         false},
        {"ja:letters:furigana", "{}", "日本（にほん）の山（やま）", true},
        {"ja:letters:furigana", "{}", "日本（にほん）の山", false},
        {"ja:letters:kansuuji", "{}", "千百九十二年", true},
        {"ja:letters:kansuuji", "{}", "１１９２年", false},
        {"ja:punctuation:no_comma", "{}", "はい、そうです", false},
        {"ja:punctuation:no_period", "{}", "はい", true},
        {"ja:detectable_format:number_bullet_lists", "{\"num_bullets\":2}",
         "・一\n・二", true},
        {"ja:detectable_format:number_numbered_lists", "{\"num_items\":2}",
         "1. 一\n2. 二", true},
        {"ja:detectable_format:number_highlighted_sections", "{\"num_highlights\":2}",
         "《一》と《二》", true},
        {"ja:detectable_format:title", "{}", "『題名』", true},
        {"ja:detectable_format:multiple_sections",
         "{\"section_spliter\":\"章\",\"num_sections\":2}", "第1章\n一\n第2章\n二",
         true},
        {"ja:startend:quotation", "{}", "「はい」", true},
        {"ja:startend:sentence_unified_end", "{\"ending\":\"です\"}",
         "これです。それです。", true},
        {"ja:startend:sentence_unified_end", "{\"ending\":\"です\"}",
         "これです。それだ。", false},
        {"ja:detectable_format:nominal_ending", "{\"count\":2}",
         "静かな海。青い空。終わる。", true},
        {"ja:length_constraints:number_letters",
         "{\"relation\":\"未満\",\"num_letters\":5}", "一二 三四", true},
        {"ja:detectable_format:constrained_response", "{}", "はい、そうです。", true},
        {"ja:keywords:forbidden_words", "{\"forbidden_words\":[\"美容\"]}", "美容院",
         false},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        cJSON *args = cJSON_Parse(table[i].args);
        ROW_CHECK(i, args != NULL);
        if (follows(table[i].id, args, table[i].answer) != table[i].want)
            fail_msg("row %d: %s: %s", (int)i, table[i].id, table[i].answer);
        cJSON_Delete(args);
    }
}

static void test_loose(void **state)
{
    static const struct {
        const char *id, *answer;
        bool strict, loose;
    } table[] = {
        {"en:punctuation:no_comma", "Sure, here it is:\nNo more", false, true},
        {"en:punctuation:no_comma", "It is so\nBye, friend", false, true},
        {"en:punctuation:no_comma", "Well, then\nIt is so\nBye, friend", false, true},
        {"en:punctuation:no_comma", "a, b", false, false},
        {"en:startend:quotation", "**\"Quoted\"**", false, true},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct ifeval_result r = {0};
        cJSON *row = cJSON_Parse("{\"kwargs\":[{}]}");
        cJSON *ids = cJSON_AddArrayToObject(row, "instruction_id_list");
        cJSON_AddItemToArray(ids, cJSON_CreateString(table[i].id));
        ROW_CHECK(i, ifeval_judge(&r, row, table[i].answer, NULL) == B2_OK);
        ROW_CHECK(i, r.followed[0] == table[i].strict && r.loose == table[i].loose);
        cJSON_Delete(row);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *row, *want;
    } table[] = {
        {"{}", "instruction_id_list"},
        {"{\"instruction_id_list\":[\"a\"],\"kwargs\":[]}", "equal length"},
        {"{\"instruction_id_list\":[7],\"kwargs\":[{}]}", "no string"},
        {"{\"instruction_id_list\":[\"en:no:such\"],\"kwargs\":[{}]}", "'en:no:such'"},
        {"{\"instruction_id_list\":[\"en:length_constraints:number_words\"],\"kwargs\":"
         "[{}]}",
         "num_words"},
        {"{\"instruction_id_list\":[\"en:length_constraints:number_words\"],\"kwargs\":"
         "[{"
         "\"num_words\":3,\"relation\":\"around\"}]}",
         "relation"},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct ifeval_result r = {0};
        struct b2_err err = {0};
        cJSON *row = cJSON_Parse(table[i].row);
        ROW_CHECK(i, ifeval_judge(&r, row, "text", &err) == B2_EARG);
        ROW_CHECK(i, strstr(err.msg, table[i].want) != NULL);
        cJSON_Delete(row);
    }
}

/* Every instruction of the shared data is known, with its arguments. */
static void test_data(void **state)
{
    static const char *const files[] = {"en", "es", "fr", "ja"};
    const char *data = getenv("B2_DATA");

    (void)state;
    for (size_t f = 0; f < countof(files); f++) {
        struct table t = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/ifeval/%s_input_data.jsonl",
                 data && *data ? data : B2_GOLDEN_DIR "/../../../shared/data",
                 files[f]);
        if (table_read(&t, path, NULL))
            continue; /* the data are not on this machine */
        for (int64_t i = 0; i < t.n; i++) {
            struct ifeval_result r = {0};
            struct b2_err err = {0};
            if (ifeval_judge(&r, t.row[i], "A plain answer.", &err))
                fail_msg("%s row %d: %s", files[f], (int)i, err.msg);
        }
        table_free(&t);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_original),      cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_other_tongues), cmocka_unit_test(test_loose),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
