/*
 * test_textkind.c - scripts and code, by pieces of each.
 */
#include "compress/textkind.h"

#include "base/util.h"
#include "unit/unit.h"

static void test_kinds(void **state)
{
    static const struct {
        const char *text;
        enum text_kind want;
    } rows[] = {
        {"", KIND_OTHER},
        {"12 + 30 = 42", KIND_OTHER},
        {"It is a truth universally acknowledged.", KIND_LATIN},
        {"\u00c9t\u00e9 comme hiver, il fait beau.", KIND_LATIN},
        {"for (int i = 0; i < n; i++) { sum += x[i] * y[i]; }", KIND_CODE},
        {"def f(x):\n    return {k: v for k, v in x.items() if v > 0}", KIND_CODE},
        {"Tom has 3 apples and buys 4 more: 3 + 4 = 7 apples in all.", KIND_LATIN},
        {"\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed"
         "\u3002",
         KIND_HAN},
        {"\u4eca\u65e5\u306f\u3044\u3044\u5929\u6c17\u3067\u3059\u306d\u3002",
         KIND_KANA},
        {"\uc624\ub298\uc740 \ub0a0\uc528\uac00 \uc88b\ub124\uc694", KIND_HANGUL},
        {"\u0421\u0435\u0433\u043e\u0434\u043d\u044f "
         "\u0445\u043e\u0440\u043e\u0448\u043e",
         KIND_CYRILLIC},
        {"\u0627\u0644\u0637\u0642\u0633 \u062c\u0645\u064a\u0644", KIND_ARABIC},
        {"\u0906\u091c \u092e\u094c\u0938\u092e", KIND_INDIC},
        {"\xff\xfe\xc3", KIND_OTHER}, /* no UTF-8 */
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++)
        ROW_CHECK(i, text_kind(rows[i].text, strlen(rows[i].text)) == rows[i].want);
    for (int k = 0; k < N_TEXT_KINDS; k++)
        assert_true(strlen(text_kind_name((enum text_kind)k)) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
