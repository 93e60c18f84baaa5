/*
 * test_sensitivity.c - the file of an analysis: there and back, and what is refused; the
 * tolerable share; the picture.
 */
#include "base/mem.h"
#include "compress/sensitivity.h"
#include "unit/unit.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void test_tolerable(void **state)
{
    static const struct {
        double kld[SENS_SHARES], tolerance, want;
    } cases[] = {
        {{0.1, 0.2, 0.3, 0.4, 0.5}, 0.05, 0.025}, /* half of the way to the first */
        {{0.1, 0.2, 0.3, 0.4, 0.5}, 0.1, 0.05},
        {{0.1, 0.2, 0.3, 0.4, 0.5}, 0.25, 0.15},
        {{0.1, 0.2, 0.3, 0.4, 0.5}, 1.0, 0.5},   /* no more than was measured */
        {{0.1, 0.05, 0.3, 0.4, 0.5}, 0.2, 0.15}, /* a dip does not pull the line down */
        {{0.0, 0.0, 0.0, 0.0, 0.0}, 0.0, 0.5},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        double got = sens_tolerable(cases[i].kld, cases[i].tolerance);
        if (fabs(got - cases[i].want) > 1e-12)
            fail_msg("case %zu: %g, wanted %g", i, got, cases[i].want);
    }
    const double none[SENS_SHARES] = {(double)NAN, 1, 1, 1, 1};
    assert_true(isnan(sens_tolerable(none, 1.0)));
}

/* Two layers with a number or two, the rest unknown. */
static void make(struct sensitivity *s)
{
    struct b2_err err = {0};

    assert_int_equal(sens_new(s, 2, &err), B2_OK);
    for (int i = 0; i < 2; i++) {
        struct sens_layer *l = &s->layer[i];
        assert_true(sens_layer_new(l, 3, 2, 1));
        l->influence = 0.25 + i;
        l->head[1] = 0.5;
        l->neuron[2] = 7.0f;
        l->tensor[PART_DOWN].damage = 0.125;
        snprintf(l->tensor[PART_DOWN].name, SENS_NAME, "blk.%d.ffn_down.weight", i);
    }
    s->source = mem_strdup("a <model> & \"more\"");
    s->source_sha256 = mem_strdup("ab");
    s->arch = mem_strdup("llama");
    s->type = mem_strdup("Q4_0");
}

static void test_there_and_back(void **state)
{
    struct sensitivity a = {0}, b = {0};
    struct b2_err err = {0};
    struct str svg = {0}, text = {0};

    (void)state;
    make(&a);
    cJSON *json = sens_json(&a);
    char *word = cJSON_PrintUnformatted(json);
    cJSON *again = cJSON_Parse(word);
    assert_non_null(again);
    if (sens_read(&b, again, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(b.n_layers, 2);
    assert_true(b.layer[1].influence == 1.25 && b.layer[0].head[1] == 0.5);
    assert_true(isnan(b.layer[0].head[0]) && b.layer[0].neuron[2] == 7.0f);
    assert_true(b.layer[1].tensor[PART_DOWN].damage == 0.125);
    assert_string_equal(b.source, a.source);
    sens_svg(&b, &svg);
    sens_text(&b, &text);
    assert_true(str_ok(&svg) && str_ok(&text));
    assert_non_null(strstr(svg.data, "a &lt;model&gt; &amp; &quot;more&quot;"));
    assert_null(strstr(svg.data, "<model>"));
    str_free(&svg);
    str_free(&text);
    cJSON_Delete(json);
    cJSON_Delete(again);
    cJSON_free(word);
    sens_free(&a);
    sens_free(&b);
}

static void test_refused(void **state)
{
    static const char head[] = "{\"format\":\"bonsai2.sensitivity\",\"version\":1,";
    static const struct {
        const char *tail, *word; /* of the message */
    } cases[] = {
        {"\"layers\":[]}", "layers"},
        {"\"layers\":{\"a\":1}}", "layers"},
        {"\"layers\":[3]}", "layer 0"},
        {"\"layers\":[{\"neurons\":[],\"heads\":[]}]}", "layer 0"},
        {"\"layers\":[{\"neurons\":{\"n\":-1}}]}", "n is not"},
        {"\"layers\":[{\"neurons\":{\"n\":1e300}}]}", "n is not"},
        {"\"layers\":[{\"neurons\":{\"n\":2.5}}]}", "n is not"},
        {"\"layers\":[{\"neurons\":{\"n\":2,\"dead\":0,\"off\":0,\"saturated\":0,"
         "\"cost\":[1]},"
         "\"heads\":{\"n\":1,\"n_kv\":1}}]}",
         "cost"},
        {"\"layers\":[{\"neurons\":{\"n\":2,\"dead\":3,\"off\":0,\"saturated\":0},"
         "\"heads\":{\"n\":1,\"n_kv\":1}}]}",
         "dead"},
    };
    static const char *const others[] = {
        "[]",
        "{}",
        "3",
        "{\"format\":3}",
        "{\"format\":\"x\"}",
        "{\"format\":\"bonsai2.sensitivity\",\"version\":2,\"layers\":[{}]}"};

    (void)state;
    for (size_t i = 0; i < countof(cases) + countof(others); i++) {
        struct sensitivity s;
        struct b2_err err = {0};
        struct str text = {0};
        if (i < countof(cases))
            str_printf(&text, "%s%s", head, cases[i].tail);
        else
            str_put(&text, others[i - countof(cases)]);
        cJSON *json = cJSON_Parse(text.data);
        assert_non_null(json);
        if (sens_read(&s, json, &err) == B2_OK)
            fail_msg("taken: %s", text.data);
        if (i < countof(cases) && !strstr(err.msg, cases[i].word))
            fail_msg("%s: %s", text.data, err.msg);
        cJSON_Delete(json);
        str_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tolerable),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
