/*
 * test_task.c - descriptions, the drawn subset, prompts, judging: all without a model.
 */
#define _GNU_SOURCE
#include "eval/task_judge.h"

#include "base/file_append.h"
#include "base/mem.h"
#include "unit/scratch.h"
#include "unit/unit.h"

#include <math.h>

static struct scratch scratch;

static void put(const char *name, const char *text)
{
    assert_int_equal(
        file_write_all(scratch_path(&scratch, name), text, strlen(text), true, NULL),
        B2_OK);
}

/* The project's own descriptions, the scratch folder's data. */
static const struct task_place *place(void)
{
    static struct task_place p;

    p = (struct task_place){B2_GOLDEN_DIR "/../../tasks", scratch.dir};
    return &p;
}

static struct task *open_with(const char *name, const struct task_options *o)
{
    struct task *t = NULL;
    struct b2_err err = {0};

    if (task_open(&t, name, place(), o, &err))
        fail_msg("%s: %s", name, err.msg);
    return t;
}

static struct task_ask ask(const struct task *t, int64_t i)
{
    struct task_ask a = {0};
    struct b2_err err = {0};

    if (task_ask_make(&a, t, i, NULL, &err))
        fail_msg("%s", err.msg);
    return a;
}

static void put_data(void)
{
    struct str dir = {0};

    for (int i = 0; i < 3; i++) {
        static const char *const folders[] = {"mmlu/test", "mmlu/dev", "commonsense"};
        str_clear(&dir);
        str_printf(&dir, "%s/%s", scratch.dir, folders[i]);
        assert_int_equal(file_make_dir(dir.data, NULL), B2_OK);
    }
    str_free(&dir);
    put("mmlu/test/high_school_physics_test.csv",
        "question,choice0,choice1,choice2,choice3,answer\n"
        "What falls? ,apples,clouds,stars,ideas,0\nTwo?,1,2,3,4,1\n");
    put("mmlu/test/law_test.csv", "question,choice0,choice1,choice2,choice3,answer\n"
                                  "Guilty?,a,b,c,d,3\n");
    put("mmlu/dev/high_school_physics_dev.csv",
        "question,choice0,choice1,choice2,choice3,answer\nOne?,1,2,3,4,0\nThree?,1,2,3,"
        "4,2\n");
    put("mmlu/dev/law_dev.csv", "question,choice0,choice1,choice2,choice3,answer\n"
                                "Fair?,w,x,y,z,1\nLegal?,w,x,y,z,2\n");
    put("commonsense/winogrande_test.jsonl",
        "{\"question\":\"Sarah met Maria so _ "
        "smiled.\",\"choices\":[\"Sarah\",\"Maria\"],"
        "\"answer\":1}\n");
    put("commonsense/arc_easy_test.jsonl",
        "{\"question\":\"Ice is?\",\"choices\":[\"frozen water\",\"hot "
        "é\"],\"answer\":0}\n");
}

static void test_prompts(void **state)
{
    struct task_options o = {.shots = 1};
    struct task *t = open_with("mmlu", &o);
    struct task_ask a = ask(t, 0);

    (void)state;
    assert_int_equal(task_items(t), 3);
    assert_string_equal(task_id(t, 0), "high_school_physics/0");
    assert_string_equal(task_id(t, 2), "law/0");
    assert_string_equal(
        a.prompt[0],
        "The following are multiple choice questions (with answers) about high school "
        "physics.\n\nOne?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: A\n\n"
        "What falls?\nA. apples\nB. clouds\nC. stars\nD. ideas\nAnswer:");
    assert_int_equal(a.n_choices, 4);
    assert_string_equal(a.choice[3], " D");
    assert_int_equal(a.gold, 0);
    task_ask_free(&a);
    task_free(t);

    o.shots = -1; /* what the task says: none */
    t = open_with("winogrande", &o);
    a = ask(t, 0);
    assert_int_equal(a.n_prompts, 2);
    assert_string_equal(a.prompt[0], "Sarah met Maria so Sarah");
    assert_string_equal(a.prompt[1], "Sarah met Maria so Maria");
    assert_string_equal(a.choice[0], " smiled.");
    assert_string_equal(a.choice[1], " smiled.");
    assert_int_equal(a.gold, 1);
    task_ask_free(&a);
    task_free(t);

    t = open_with("arc_easy", &o);
    a = ask(t, 0);
    assert_string_equal(a.prompt[0], "Question: Ice is?\nAnswer:");
    assert_string_equal(a.choice[1], " hot é");
    assert_int_equal(a.n_chars[1], 5);
    assert_int_equal(a.n_bytes[1], 6);
    task_ask_free(&a);
    task_free(t);
}

/* Turns of a conversation: the system text leads the first question. */
static void test_chat(void **state)
{
    static const char text[] =
        "{% for m in messages %}<{{m.role}}>{{m.content}}</>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    struct task_options o = {.shots = 1, .chat = true};
    struct task *t = open_with("mmlu", &o);
    struct chat *chat = NULL;
    struct task_ask a = {0};

    (void)state;
    assert_int_equal(chat_new_text(&chat, text, strlen(text), NULL, NULL, NULL), B2_OK);
    assert_int_equal(task_ask_make(&a, t, 2, chat, NULL), B2_OK);
    assert_string_equal(a.prompt[0],
                        "<user>The following are multiple choice questions (with "
                        "answers) about law.\n\n"
                        "Fair?\nA. w\nB. x\nC. y\nD. z\nAnswer:</><assistant>B</>"
                        "<user>Guilty?\nA. a\nB. b\nC. c\nD. d\nAnswer:</><assistant>");
    assert_string_equal(a.choice[0], "A"); /* no delimiter before an answer */
    task_ask_free(&a);
    chat_free(chat);
    task_free(t);
}

/* One seed draws the same items every time; another draws others. */
static void test_subset(void **state)
{
    struct str rows = {0};
    int64_t first[10], same = 0;

    (void)state;
    for (int i = 0; i < 200; i++)
        str_printf(&rows, "{\"question\":\"q%d\",\"answer\":\"a%d\"}\n", i, i);
    put("many.jsonl", rows.data);
    str_free(&rows);
    for (int run = 0; run < 3; run++) {
        struct task_options o = {.limit = 10, .seed = run == 2 ? 8 : 7, .shots = 2};
        struct task *t = open_with(scratch_path(&scratch, "many.jsonl"), &o);
        int64_t before = -1;
        assert_string_equal(task_name(t), "many");
        assert_int_equal(task_items(t), 10);
        assert_int_equal(task_total(t), 198); /* two are examples */
        for (int64_t i = 0; i < 10; i++) {
            int64_t at = strtol(task_id(t, i), NULL, 10);
            ROW_CHECK(i, at > before);
            before = at;
            if (run == 0)
                first[i] = at;
            else if (run == 1)
                ROW_CHECK(i, at == first[i]);
            else
                same += at == first[i];
        }
        task_free(t);
    }
    assert_true(same < 10);
}

/* A user's own questions, in the forms people have them. */
static void test_own(void **state)
{
    static const struct {
        const char *name, *text, *prompt, *answer; /* of the first item */
        int n, gold;
    } table[] = {
        {"a.csv", "question,answer\nWho?,me\n", "Question: Who?\nAnswer:", "me", 1, -1},
        {"b.csv", "Question,Answer\nWho?,me\n", "Question: Who?\nAnswer:", "me", 1, -1},
        {"c.csv", "Who?,me\nWhat?,that\n", "Question: Who?\nAnswer:", "me", 2, -1},
        {"d.tsv", "问题\t答案\n谁？\t我\n", "Question: 谁？\nAnswer:", "我", 1, -1},
        {"e.jsonl", "{\"question\":\"Who?\",\"answer\":[\"me\",\"I\"]}\n",
         "Question: Who?\nAnswer:", "me\nI", 1, -1},
        {"f.jsonl", "{\"prompt\":\"Who?\",\"response\":\"me\"}\n",
         "Question: Who?\nAnswer:", "me", 1, -1},
        {"g.csv", "question,A,B,C,answer\nWho?,you,me,,B\n",
         "Question: Who?\nAnswer:", "", 1, 1},
        {"h.csv", "question,choices,answer\nWho?,\"[\"\"you\"\",\"\"me\"\"]\",me\n",
         "Question: Who?\nAnswer:", "", 1, 1},
        {"i.jsonl",
         "{\"question\":\"Who?\",\"choices\":[\"you\",\"me\"],\"answer\":0}\n",
         "Question: Who?\nAnswer:", "", 1, 0},
        {"j.jsonl", "{\"question\":\"2+3?\",\"answer\":5}\n",
         "Question: 2+3?\nAnswer:", "5", 1, -1},
        {"k.jsonl", "{\"question\":7,\"answer\":[1.5,\"x\"]}\n",
         "Question: 7\nAnswer:", "1.5\nx", 1, -1},
    };
    struct task_options o = {.shots = -1};

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct task *t;
        struct task_ask a;
        put(table[i].name, table[i].text);
        t = open_with(scratch_path(&scratch, table[i].name), &o);
        a = ask(t, 0);
        ROW_CHECK(i, task_items(t) == table[i].n);
        ROW_CHECK(i, strcmp(a.prompt[0], table[i].prompt) == 0);
        ROW_CHECK(i, strcmp(a.answer, table[i].answer) == 0);
        ROW_CHECK(i, a.gold == table[i].gold);
        /* two choices each, where there are choices */
        ROW_CHECK(i, fabs(task_chance(t) - (table[i].gold >= 0 ? 0.5 : 0)) < 1e-12);
        task_ask_free(&a);
        task_free(t);
    }
}

/* A misspelt column is an error, not an empty text. */
static void test_misspelt_column(void **state)
{
    struct task_options o = {.shots = -1};
    struct task_ask a = {0};
    struct b2_err err = {0};
    struct task *t;

    (void)state;
    put("rows.csv", "question,answer\nWho?,me\n");
    put("slip.json",
        "{\"data\":\"rows.csv\",\"kind\":\"generate\",\"metrics\":[\"match\"],"
        "\"prompt\":\"Q: {{qestion}}\",\"gold\":\"{{answer}}\"}");
    t = open_with(scratch_path(&scratch, "slip.json"), &o);
    assert_int_equal(task_ask_make(&a, t, 0, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "'qestion' is undefined"));
    task_free(t);
}

static void test_text(void **state)
{
    struct task_options o = {.shots = -1};
    struct str s = {0};
    struct task *t;
    struct task_ask a;

    (void)state;
    for (int i = 0; i < 60; i++)
        str_printf(&s, "word%s", i % 10 == 9 ? ".\n" : " ");
    str_put(&s, "The end came when nobody looked at the old house.");
    put("book.txt", s.data);
    str_free(&s);
    t = open_with(scratch_path(&scratch, "book.txt"), &o);
    assert_int_equal(task_kind(t), TASK_CLOZE);
    assert_int_equal(task_items(t), 1); /* the rest has too few words */
    a = ask(t, 0);
    assert_string_equal(a.choice[0], " word");
    assert_int_equal(strlen(a.prompt[0]), 49 * 4 + 48 + 4); /* words, spaces, stops */
    task_ask_free(&a);
    task_free(t);
}

static void test_refused(void **state)
{
    static const struct {
        const char *name, *text, *want;
        enum b2_status rc;
    } table[] = {
        {"no_such_task", NULL, "there are: arc_challenge, arc_easy", B2_ENOTFOUND},
        {"hellaswag", NULL, "its data are missing", B2_ENOTFOUND},
        {"x.json", "{", "x.json", B2_EFORMAT},
        {"x.json", "{\"promt\":\"\"}", "unknown key \"promt\"", B2_EFORMAT},
        {"x.json", "{\"kind\":\"guess\"}", "'guess', which is not known", B2_EFORMAT},
        {"x.json", "{\"metrics\":[\"acc\"],\"choices\":\"c\"}",
         "\"kind\" must be choice, cloze or generate", B2_EFORMAT},
        {"x.json", "{\"kind\":\"choice\",\"metrics\":[\"acc\"],\"choices\":\"c\"}",
         "\"prompt\" is missing", B2_EFORMAT},
        {"x.json",
         "{\"kind\":\"choice\",\"prompt\":\"{{\",\"metrics\":[\"acc\"],\"choices\":"
         "\"c\"}",
         "\"prompt\": ", B2_EFORMAT},
        {"x.json",
         "{\"kind\":\"choice\",\"prompt\":\"\",\"metrics\":[\"bleu\"],\"choices\":"
         "\"c\"}",
         "\"bleu\" is not one of this kind", B2_EFORMAT},
        {"x.json", "{\"kind\":\"generate\",\"prompt\":\"\"}",
         "\"metrics\" must be a list", B2_EFORMAT},
        {"y.csv", "question,answer\nWho?,me\nWhat?,\n",
         "row 2: question and answer must", B2_EFORMAT},
        {"y.jsonl", "{\"question\":\"Who?\",\"answer\":null}\n", "row 1: question and",
         B2_EFORMAT},
        {"y.csv", "question,answer\nWho?,me\nO\xf9?,l\xe0\n", "line 3: not UTF-8",
         B2_EFORMAT},
        {"x.json",
         "{\"prompt\":\"\",\"kind\":\"generate\",\"metrics\":[{\"name\":\"m\","
         "\"find\":\"(\"}]}",
         "pattern '('", B2_EFORMAT},
        {"x.json",
         "{\"prompt\":\"\",\"kind\":\"generate\",\"metrics\":[\"m\"],"
         "\"gold\":\"\",\"stop\":[\"\"]}",
         "none empty", B2_EFORMAT},
        {"y.csv", "question\nWho?\n", "row 1 has no columns question and answer",
         B2_EFORMAT},
        {"y.csv", "question,answer\n", "no rows", B2_EARG},
        {"y.csv", "question,answer\na,b\n", "--shots 3: there are 1 examples", B2_EARG},
        {"y.txt", "Too short.", "no passage", B2_EARG},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct task_options o = {.shots = 3};
        struct task *t = NULL;
        struct b2_err err = {0};
        const char *name = table[i].name;
        if (table[i].text) {
            put(name, table[i].text);
            name = scratch_path(&scratch, table[i].name);
        }
        if (task_open(&t, name, place(), &o, &err) != table[i].rc ||
            !strstr(err.msg, table[i].want))
            fail_msg("row %d: %s", (int)i, err.msg);
    }
}

/* Every description of the project is sound, with and without chat. */
static void test_descriptions(void **state)
{
    char **names = NULL;
    int64_t n = 0;

    (void)state;
    assert_int_equal(task_names(&names, &n, place(), NULL), B2_OK);
    assert_true(n >= 18);
    for (int64_t i = 0; i < 2 * n; i++) {
        struct task_desc d = {0};
        struct b2_err err = {0};
        char path[600], *text = NULL;
        size_t size = 0;
        snprintf(path, sizeof path, "%s/../../tasks/%s.json", B2_GOLDEN_DIR,
                 names[i / 2]);
        assert_int_equal(file_read_all(&text, &size, path, 1 << 20, NULL), B2_OK);
        if (task_desc_parse(&d, names[i / 2], text, size, i % 2, &err))
            fail_msg("%s: %s", names[i / 2], err.msg);
        task_desc_free(&d);
        mem_free(text);
    }
    file_match_free(names, n);
}

static void test_chat_keys(void **state)
{
    static const char *const table[] = {"[1,\"x\"]", "[null]", "\"x\"", "1", "null"};

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct task_desc d = {0};
        struct b2_err err = {0};
        char text[80];
        int n = snprintf(text, sizeof text, "{\"chat\":%s}", table[i]);
        ROW_CHECK(i,
                  task_desc_parse(&d, "x", text, (size_t)n, true, &err) == B2_EFORMAT);
        ROW_CHECK(i, strstr(err.msg, "\"chat\" must be an object") != NULL);
    }
}

static struct task_desc description_of(const char *name)
{
    struct task_desc d = {0};
    char path[600], *text = NULL;
    size_t size = 0;

    snprintf(path, sizeof path, "%s/../../tasks/%s.json", B2_GOLDEN_DIR, name);
    assert_int_equal(file_read_all(&text, &size, path, 1 << 20, NULL), B2_OK);
    assert_int_equal(task_desc_parse(&d, name, text, size, false, NULL), B2_OK);
    mem_free(text);
    return d;
}

static void test_match(void **state)
{
    static const struct {
        const char *task, *right, *answer;
        bool want[2]; /* of the first two metrics */
    } table[] = {
        /* GSM8K: strict wants "####", flexible takes the last number */
        {"gsm8k", "so it is\n#### 18", "16 - 3 = 13\n#### 18", {true, true}},
        {"gsm8k", "x\n#### 1,800", "That makes $1,800.", {false, true}},
        {"gsm8k", "x\n#### 18", "#### 19 or 18", {false, true}},
        {"gsm8k", "x\n#### -5", "the answer is -5", {false, true}},
        {"gsm8k", "x\n#### 18", "no idea", {false, false}},
        /* own: contained as words; equal */
        {"own", "Paris", " paris.\n", {true, true}},
        {"own", "Paris", "It is Paris, of course", {true, false}},
        {"own", "Paris", "Parisian", {false, false}},
        {"own", "me\nI", "i", {true, true}},
        {"own", "北京", "答案是北京。", {true, false}},
        {"own", "3", "13", {false, false}},
        {"own", "", "anything", {false, false}},
    };

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct task_desc d = description_of(table[i].task);
        for (int k = 0; k < 2; k++)
            if (judge_match(&d, &d.metric[k], table[i].right, table[i].answer) !=
                table[i].want[k])
                fail_msg("row %d metric %d", (int)i, k);
        task_desc_free(&d);
    }
}

/* The forms in which models give a function. */
static void test_program(void **state)
{
    static const char row[] =
        "{\"prompt\":\"import math\\ndef f(x):\\n    '''doc'''\\n\","
        "\"entry_point\":\"f\",\"test\":\"def check(g): pass\"}";
    static const char whole[] = "import math\ndef f(x):\n    '''doc'''\n    return x\n";
    static const struct {
        const char *answer, *want; /* what stands before the test */
    } table[] = {
        {"    return x\n", whole},
        {"    return x\n```\nThat is it.", whole},
        {"```python\ndef f(x):\n    return x\n```\nDone.",
         "import math\n\ndef f(x):\n    return x\n"},
        {"Here it is:\n```\ndef f(x):\n    return x\n```",
         "import math\n\ndef f(x):\n    return x\n"},
        {"```python\n    return x\n```", whole},
    };
    cJSON *json = cJSON_Parse(row);

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct str got = {0};
        judge_code_program(&got, json, table[i].answer);
        if (strncmp(got.data, table[i].want, strlen(table[i].want)) != 0 ||
            !strstr(got.data, "def check(g): pass\n\ncheck(f)\n"))
            fail_msg("row %d: %s", (int)i, got.data);
        str_free(&got);
    }
    cJSON_Delete(json);
}

/* HumanEval's own solutions pass, wrong ones do not; needs a sandbox. */
static void test_code(void **state)
{
    static const char row[] =
        "{\"prompt\":\"def f(x):\\n\",\"entry_point\":\"f\","
        "\"test\":\"def check(g):\\n    assert g(2) == 4\\n    assert g(-3) == 9\\n\"}";
    static const struct {
        const char *answer, *verdict;
        bool want;
    } table[] = {
        {"    return x * x\n", "passed", true},
        {"    return x + x\n", "AssertionError", false},
        {"    return x *\n", "SyntaxError: invalid syntax", false},
        {"    raise SystemExit(0)\n", "left before the end", false},
        {"    import os; os._exit(0)\n", "left before the end", false},
        {"    open('/tmp/x', 'w')\n", "Read-only file system", false},
        {"    print('x' * 100000, '\\0')\n    return x * x\n", "passed", true},
    };
    cJSON *json = cJSON_Parse(row);

    (void)state;
    for (size_t i = 0; i < countof(table); i++) {
        struct str details = {0};
        struct b2_err err = {0};
        bool passed = false;
        enum b2_status rc = judge_code(&passed, &details, json, table[i].answer, &err);
        if (rc == B2_EUNSUP || rc == B2_ENOTFOUND) {
            cJSON_Delete(json);
            skip();
        }
        if (rc || passed != table[i].want || !strstr(details.data, table[i].verdict))
            fail_msg("row %d: %s %s", (int)i, err.msg, details.data);
        str_free(&details);
    }
    cJSON_Delete(json);
}

/* HumanEval's own solutions pass their tests in the sandbox: every tenth. */
static void test_canonical(void **state)
{
    const char *data = getenv("B2_DATA");
    const struct task_place p = {B2_GOLDEN_DIR "/../../tasks",
                                 data && *data ? data
                                               : B2_GOLDEN_DIR "/../../../shared/data"};
    const struct task_options o = {.shots = -1};
    struct task *t = NULL;

    (void)state;
    if (task_open(&t, "humaneval", &p, &o, NULL))
        skip(); /* the data are not on this machine */
    assert_int_equal(task_items(t), 164);
    for (int64_t i = 0; i < task_items(t); i += 10) {
        const cJSON *row = task_row(t, i);
        struct str details = {0};
        bool passed = false;
        enum b2_status rc = judge_code(
            &passed, &details, row,
            cJSON_GetObjectItemCaseSensitive(row, "canonical_solution")->valuestring,
            NULL);
        if (rc == B2_EUNSUP || rc == B2_ENOTFOUND) {
            task_free(t);
            skip();
        }
        if (rc || !passed)
            fail_msg("%s: %s", task_id(t, i), details.data);
        str_free(&details);
    }
    task_free(t);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts),         cmocka_unit_test(test_chat),
        cmocka_unit_test(test_subset),          cmocka_unit_test(test_own),
        cmocka_unit_test(test_misspelt_column), cmocka_unit_test(test_text),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_chat_keys),       cmocka_unit_test(test_match),
        cmocka_unit_test(test_program),         cmocka_unit_test(test_code),
        cmocka_unit_test(test_canonical),
    };
    int failed;

    scratch_make(&scratch);
    put_data();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return failed;
}
