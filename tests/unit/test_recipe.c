/*
 * test_recipe.c - words to recipes, globs, roles, ternary types by width.
 */
#include "unit/unit.h"

#include "compress/recipe.h"
#include "compress/role.h"

static void test_glob(void **state)
{
    static const struct {
        const char *glob, *name;
        bool match;
    } cases[] = {
        {"*", "", true},
        {"*", "blk.0.attn_q.weight", true},
        {"blk.*.attn_q.weight", "blk.12.attn_q.weight", true},
        {"blk.*.attn_q.weight", "blk.12.attn_k.weight", false},
        {"blk.?.ffn_*", "blk.3.ffn_up.weight", true},
        {"blk.?.ffn_*", "blk.13.ffn_up.weight", false},
        {"blk.[0-3].*", "blk.2.x", true},
        {"blk.[0-3].*", "blk.4.x", false},
        {"blk.[!0-3].*", "blk.4.x", true},
        {"blk.[!0-3].*", "blk.3.x", false},
        {"blk.[024].*", "blk.2.x", true},
        {"[]]", "]", true}, /* a bracket first is itself */
        {"[a-]", "-", true},
        {"a*b*c", "a__b__c", true},
        {"a*b*c", "a__b__d", false},
        {"*.weight", "token_embd.weight", true},
        {"token_embd.weight", "token_embd.weight2", false},
        {"token_embd.weigh", "token_embd.weight", false},
        {"", "", true},
        {"", "a", false},
        {"***a", "bba", true},
        {"[abc", "a", false}, /* unclosed: matches nothing */
        {"*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        ROW_CHECK(i, recipe_glob(cases[i].glob, cases[i].name) == cases[i].match);
}

static void test_budget_words(void **state)
{
    static const struct {
        const char *word;
        enum recipe_budget kind; /* RECIPE_NO_BUDGET: refused */
        uint64_t bytes;
        double bpw;
    } cases[] = {
        {"90MB", RECIPE_BYTES, 90000000, 0},   {"5.95GB", RECIPE_BYTES, 5950000000, 0},
        {"1048576", RECIPE_BYTES, 1048576, 0}, {"1MiB", RECIPE_BYTES, 1048576, 0},
        {"1.76bpw", RECIPE_BPW, 0, 1.76},      {"4bpw", RECIPE_BPW, 0, 4.0},
        {"0", RECIPE_NO_BUDGET, 0, 0},         {"-5MB", RECIPE_NO_BUDGET, 0, 0},
        {"0bpw", RECIPE_NO_BUDGET, 0, 0},      {"bpw", RECIPE_NO_BUDGET, 0, 0},
        {"xbpw", RECIPE_NO_BUDGET, 0, 0},      {"90 apples", RECIPE_NO_BUDGET, 0, 0},
        {"", RECIPE_NO_BUDGET, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct recipe r = {0};
        struct b2_err err = {0};
        enum b2_status rc = recipe_set_budget(&r, cases[i].word, &err);
        ROW_CHECK(i, (rc == B2_OK) == (cases[i].kind != RECIPE_NO_BUDGET));
        ROW_CHECK(i, r.budget == cases[i].kind);
        if (rc == B2_OK && r.budget == RECIPE_BYTES)
            ROW_CHECK(i, r.budget_bytes == cases[i].bytes);
        if (rc == B2_OK && r.budget == RECIPE_BPW)
            ROW_CHECK(i, r.budget_bpw == cases[i].bpw);
        ROW_CHECK(i, rc == B2_OK || strstr(err.msg, "bpw"));
    }
}

static void test_rules(void **state)
{
    static const struct {
        const char *word;
        enum b2_status rc;
        const char *says; /* part of the message */
    } cases[] = {
        {"*=ternary", B2_OK, ""},
        {"blk.*.attn_v.weight=q4_0", B2_OK, ""},
        {"a=b=keep", B2_OK, ""}, /* the last '=' divides */
        {"*=Q3_K", B2_EUNSUP, "can be read, not written"},
        {"*=Q2_0_G128", B2_EUNSUP, "can be read, not written"},
        {"*=I32", B2_EUNSUP, "can be read, not written"},
        {"*=IQ2_XXS", B2_EARG, "unknown type 'IQ2_XXS'"},
        {"*=", B2_EARG, "GLOB=TYPE"},
        {"=keep", B2_EARG, "GLOB=TYPE"},
        {"keep", B2_EARG, "GLOB=TYPE"},
        {"blk.[0-3=keep", B2_EARG, "'[' without ']'"},
    };
    struct recipe r = {0};
    char big[2 * RECIPE_MAX_GLOB];

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct b2_err err = {0};
        int before = r.n_rules;
        ROW_CHECK(i, recipe_add_rule(&r, cases[i].word, &err) == cases[i].rc);
        ROW_CHECK(i, strstr(err.msg, cases[i].says));
        ROW_CHECK(i, r.n_rules == before + (cases[i].rc == B2_OK));
    }
    assert_int_equal(recipe_match(&r, "blk.0.attn_v.weight"), 1); /* last match wins */
    assert_int_equal(recipe_match(&r, "blk.0.attn_q.weight"), 0);
    assert_int_equal(recipe_match(&r, "a=b"), 2);

    memset(big, 'x', sizeof big);
    memcpy(big + sizeof big - 6, "=keep", 6);
    assert_int_equal(recipe_add_rule(&r, big, NULL), B2_EARG);
    while (r.n_rules < RECIPE_MAX_RULES)
        assert_int_equal(recipe_add_rule(&r, "*=keep", NULL), B2_OK);
    assert_int_equal(recipe_add_rule(&r, "*=keep", NULL), B2_EARG);
}

static void test_other_words(void **state)
{
    struct recipe r = {0};
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(recipe_set_rotate(&r, "auto", &err), B2_OK);
    assert_int_equal(r.rotate, RECIPE_ROTATE_AUTO);
    assert_int_equal(recipe_set_rotate(&r, "64", &err), B2_OK);
    assert_int_equal(r.rotate, 64);
    assert_int_equal(recipe_set_rotate(&r, "none", &err), B2_OK);
    assert_int_equal(r.rotate, RECIPE_ROTATE_NONE);
    assert_int_equal(recipe_set_rotate(&r, "48", &err), B2_EARG);
    assert_int_equal(recipe_set_rotate(&r, "1", &err), B2_EARG);
    assert_int_equal(recipe_set_rotate(&r, "full", &err), B2_EARG);

    assert_int_equal(recipe_set_tail(&r, "keep", &err), B2_OK);
    assert_int_equal(r.tail, RECIPE_TAIL_KEEP);
    assert_int_equal(recipe_set_tail(&r, "pad", &err), B2_OK);
    assert_int_equal(r.tail, RECIPE_TAIL_PAD);
    assert_int_equal(recipe_set_tail(&r, "cut", &err), B2_EARG);

    assert_int_equal(recipe_set_ternary_rule(&r, "twn", &err), B2_OK);
    assert_int_equal(r.ternary_rule, TERNARISE_TWN);
    assert_int_equal(recipe_set_ternary_rule(&r, "gptq", &err), B2_EARG);

    assert_int_equal(recipe_set_effort(&r, "normal", &err), B2_OK);
    assert_int_equal(r.effort, RECIPE_NORMAL);
    assert_int_equal(recipe_set_effort(&r, "fast", &err), B2_OK);
    assert_int_equal(r.effort, RECIPE_FAST);
    assert_int_equal(recipe_set_effort(&r, "best", &err), B2_OK);
    assert_int_equal(r.effort, RECIPE_BEST);
    assert_int_equal(recipe_set_effort(&r, "lazy", &err), B2_EARG);
    assert_int_equal(recipe_set_rotate(&r, "each", &err), B2_OK);
    assert_int_equal(r.rotate, RECIPE_ROTATE_EACH);
    assert_int_equal(recipe_set_rotate(&r, "whole", &err), B2_OK);
    assert_int_equal(r.rotate, RECIPE_ROTATE_WHOLE);
}

static void test_ternary_type(void **state)
{
    static const struct {
        int64_t width;
        bool rotated, ok;
        enum dtype type;
    } cases[] = {
        {1536, false, true, DT_TQ1_0}, {1536, true, true, DT_PTQ1_0},
        {576, false, true, DT_Q2_0},   {576, true, true, DT_Q2_0},
        {640, false, true, DT_PTQ1_0}, {640, true, true, DT_PTQ1_0},
        {5120, true, true, DT_PTQ1_0}, {96, false, false, DT_F32},
        {0, false, false, DT_F32},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        enum dtype t = DT_F32;
        ROW_CHECK(i, recipe_ternary_type(&t, cases[i].width, cases[i].rotated) ==
                         cases[i].ok);
        ROW_CHECK(i, t == cases[i].type);
    }
}

static void test_json(void **state)
{
    struct recipe r = {.budget = RECIPE_BYTES, .budget_bytes = 7, .seed = 3};
    struct str s = {0};

    (void)state;
    assert_int_equal(recipe_add_rule(&r, "a\"b\\\x01*=q4_0", NULL), B2_OK);
    recipe_json(&r, &s);
    assert_true(str_ok(&s));
    assert_string_equal(
        s.data, "{\"effort\":\"fast\",\"budget_bytes\":7,\"budget_bpw\":null,"
                "\"rules\":[[\"a\\\"b\\\\\\u0001*\",\"Q4_0\"]],\"rotate\":\"none\","
                "\"ternary_rule\":\"ls\",\"ternary_scale\":\"least squares\","
                "\"tail\":\"refuse\",\"seed\":3}");
    str_free(&s);
}

static void test_roles(void **state)
{
    static const struct {
        const char *name;
        enum role role;
        int layer;
        bool foldable;
    } cases[] = {
        {"token_embd.weight", ROLE_EMBED, -1, false},
        {"output.weight", ROLE_HEAD, -1, true},
        {"output_norm.weight", ROLE_OTHER, -1, false},
        {"blk.0.attn_q.weight", ROLE_Q, 0, true},
        {"blk.17.attn_output.weight", ROLE_O, 17, true},
        {"blk.3.ffn_down.weight", ROLE_DOWN, 3, true},
        {"blk.3.ffn_down_exps.weight", ROLE_DOWN, 3, true},
        {"blk.3.ffn_gate_inp.weight", ROLE_OTHER, 3, false},
        {"blk.3.attn_norm.weight", ROLE_OTHER, 3, false},
        {"blk.3.attn_q.bias", ROLE_OTHER, 3, false},
        {"blk.3.ssm_out.weight", ROLE_SSM_OUT, 3, true},
        {"blk.3.ssm_alpha.weight", ROLE_OTHER, 3, false},
        {"blk.3.ssm_beta.weight", ROLE_OTHER, 3, false},
        {"blk.3.ssm_conv1d.weight", ROLE_OTHER, 3, false},
        {"blk.3.ssm_a", ROLE_OTHER, 3, false},
        {"blk.3.attn_gate.weight", ROLE_ATTN_GATE, 3, true},
        {"blk.x.attn_q.weight", ROLE_OTHER, -1, false},
        {"blk.99999999999999999999.attn_q.weight", ROLE_OTHER, -1, false},
        {"attn_q.weight", ROLE_OTHER, -1, false},
        {"weight", ROLE_OTHER, -1, false},
        {"", ROLE_OTHER, -1, false},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        int layer = -2;
        enum role r = role_of(cases[i].name, &layer);
        ROW_CHECK(i, r == cases[i].role && layer == cases[i].layer);
        ROW_CHECK(i, role_foldable(r) == cases[i].foldable);
        ROW_CHECK(i, role_name(r)[0] && role_prior(r, layer, 30, true) > 0.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glob),         cmocka_unit_test(test_budget_words),
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_other_words),
        cmocka_unit_test(test_ternary_type), cmocka_unit_test(test_json),
        cmocka_unit_test(test_roles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
