/*
 * test_chat.c - chat templates of public models against Jinja2.
 *
 * tests/golden/templates/cases.json: 12 conversations, and for each template the text or
 * the error that Jinja2 gives. semantics.json: single templates for what those do not use
 * (make_semantics.py); random.json: templates put together at random (make_random.py).
 */
#include "base/file.h"
#include "base/mem.h"
#include "model/chat.h"
#include "unit/unit.h"

#include <stdlib.h>

static cJSON *read_json(const char *name)
{
    char path[512];
    char *text = NULL;
    size_t n = 0;
    cJSON *json = NULL;

    (void)snprintf(path, sizeof path, "%s/templates/%s", B2_GOLDEN_DIR, name);
    assert_int_equal(file_read_all(&text, &n, path, 1 << 24, NULL), B2_OK);
    enum b2_status rc = json_parse_bounded(&json, text, n, CHAT_JSON_VALUES, NULL);
    mem_free(text);
    assert_int_equal(rc, B2_OK);
    return json;
}

/* 2026-01-02T03:04:05 */
static const int64_t now_s = 1767323045;

/* What a template makes of a request, or "" and the error's text. */
static char *render(const char *text, size_t n, const cJSON *request,
                    struct b2_err *err)
{
    struct chat *c = NULL;
    struct str out = {0};
    char *copy = NULL;

    if (chat_new_text(&c, text, n, "<s>", "</s>", err))
        return NULL;
    if (chat_render(c, request, now_s, &out, err) == B2_OK)
        copy = mem_strdup(out.data ? out.data : "");
    str_free(&out);
    chat_free(c);
    return copy;
}

static const char *str_of(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

/* One case; prints what differs. 1: it does. */
static int check(const char *name, const char *what, const char *got,
                 const struct b2_err *err, const cJSON *want)
{
    const char *text = str_of(want, "text"), *error = str_of(want, "error");
    const char *msg = err->msg;

    if (strncmp(msg, "chat template: ", 15) == 0)
        msg += 15;
    if (text ? got && strcmp(got, text) == 0 : !got && error && strcmp(msg, error) == 0)
        return 0;
    printf("%s / %s\n  want %s\n  got  %s\n", name, what, text ? text : error,
           got ? got : err->msg);
    return 1;
}

static void test_cases(void **state)
{
    cJSON *root = read_json("cases.json");
    const cJSON *cases = cJSON_GetObjectItemCaseSensitive(root, "cases"), *t, *w;
    int n = 0, bad = 0;

    (void)state;
    cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(root, "expected"))
    {
        char path[512];
        char *text = NULL;
        size_t len = 0;
        (void)snprintf(path, sizeof path, "%s/templates/%s.jinja", B2_GOLDEN_DIR,
                       t->string);
        assert_int_equal(file_read_all(&text, &len, path, 1 << 20, NULL), B2_OK);
        cJSON_ArrayForEach(w, t)
        {
            struct b2_err err = {0};
            const cJSON *request = cJSON_GetObjectItemCaseSensitive(cases, w->string);
            char *got = render(text, len, request, &err);
            bad += check(t->string, w->string, got, &err, w);
            n++;
            mem_free(got);
        }
        mem_free(text);
    }
    cJSON_Delete(root);
    assert_int_equal(bad, 0);
    assert_int_equal(n, 288);
}

/* Messages of syntax errors carry a line here, and those of calls with wrong arguments
 * are CPython's inner business: of both only the type must agree. */
static bool type_only(const char *error)
{
    return strncmp(error, "TemplateSyntaxError", 19) == 0 || strstr(error, "() ") ||
           strstr(error, " argument");
}

static int check_semantics(const cJSON *vars, const cJSON *c)
{
    const char *text = str_of(c, "template"), *error = str_of(c, "error");
    struct b2_err err = {0};
    char *got = render(text, strlen(text), vars, &err);
    int bad = 1;

    if (!got && error && type_only(error)) {
        const char *msg =
            strncmp(err.msg, "chat template: ", 15) ? err.msg : err.msg + 15;
        size_t n = strcspn(error, ":");
        bad = strncmp(msg, error, n) != 0;
    }
    if (bad)
        bad = check(text, "semantics", got, &err, c);
    mem_free(got);
    return bad;
}

static void check_all(const char *file)
{
    cJSON *root = read_json(file);
    const cJSON *vars = cJSON_GetObjectItemCaseSensitive(root, "vars"), *c;
    int bad = 0;

    cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(root, "cases"))
    {
        bad += check_semantics(vars, c);
    }
    cJSON_Delete(root);
    assert_int_equal(bad, 0);
}

static void test_semantics(void **state)
{
    (void)state;
    check_all("semantics.json");
}

static void test_random(void **state)
{
    (void)state;
    check_all("random.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_semantics),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
