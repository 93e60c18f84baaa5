/*
 * test_distill_modes.c - what can be trained and with which losses: each way makes a tiny
 * student better, writes what it scored, goes on after a stop with the same bytes, and
 * leaves alone what rests.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "unit/distill_fixture.h"

#include "eval/curve.h"
#include "format/modelfile.h"

#include <math.h>

static struct modelfile *open_file(const char *path)
{
    struct b2_err err = {0};
    struct modelfile *mf;

    if (modelfile_open(&mf, path, NULL, &err))
        fail_msg("%s", err.msg);
    return mf;
}

/* Whether a tensor of the output has the student's bytes. */
static bool same_tensor(const char *name)
{
    struct modelfile *was = open_file(student), *is = open_file(out);
    const struct tensor *a = modelfile_tensor(was, modelfile_find(was, name));
    const struct tensor *b = modelfile_tensor(is, modelfile_find(is, name));
    const bool same = a->type == b->type && a->n_bytes == b->n_bytes &&
                      memcmp(a->data, b->data, a->n_bytes) == 0;

    modelfile_close(was);
    modelfile_close(is);
    return same;
}

static enum dtype type_in_output(const char *name)
{
    struct modelfile *mf = open_file(out);
    const enum dtype t = modelfile_tensor(mf, modelfile_find(mf, name))->type;

    modelfile_close(mf);
    return t;
}

/* The written file as a student scores exactly what was said of it. */
static void check_written(const struct distill_params *of, double after)
{
    struct distill_params p = plain();
    struct distill_report r;

    p.student = of->output;
    p.output = other;
    p.steps = 1;
    p.rates = (struct distill_rates){0, 0, 0};
    run(&r, &p);
    if (r.before != after)
        fail_msg("scored %.17g, the file %.17g", after, r.before);
    distill_report_free(&r);
}

/* Stopped in the middle and gone on with: the same bytes. */
static void check_resume(const struct distill_params *of)
{
    struct distill_params p = *of;
    struct stop stop = {0, 9};
    struct distill_report r;
    struct b2_err err = {0};

    p.output = other;
    p.ctx_of_calls = &stop;
    assert_int_equal(distill_run(&r, &p, &err), B2_ECANCEL);
    distill_report_free(&r);
    stop.after = 0;
    p.force = false;
    assert_int_equal(file_remove(other, &err), B2_OK);
    run(&r, &p);
    assert_true(r.resumed);
    distill_report_free(&r);
    assert_same_file(out, other);
}

static const char *const free_q8[] = {"blk.0.ffn_down.*", "blk.1.attn_*=F16"};
static const char *const freeze[] = {"blk.0.*", "blk.1.ffn_up.weight=6",
                                     "blk.0.attn_k.weight=0"};
static const char *const scales_rest[] = {"*"};

static const struct {
    const char *name;
    struct distill_mode mode;
    struct distill_loss loss;
    double rate, falls; /* to which share of the start */
} ways[] = {
    {"scales", {.kind = LATENT_SCALES}, {.kl = 1}, 3e-3, 0.99},
    {"lora", {.kind = LATENT_LORA, .rank = 4}, {.kl = 1}, 3e-3, 0.9},
    {"soft", {.soft = 0.5}, {.kl = 1}, 3e-3, 0.95},
    {"free", {.free = {free_q8, 2}}, {.kl = 1}, 3e-3, 0.8},
    {"freeze", {.freeze = {freeze, 3}}, {.kl = 1}, 3e-3, 0.95},
    {"scales rest", {.freeze_scales = {scales_rest, 1}}, {.kl = 1}, 3e-3, 0.95},
    {"losses",
     {.kind = LATENT_ALL},
     {.kl = 1,
      .ce = 0.2,
      .hidden = 0.5,
      .scale = 0.1,
      .hidden_layers = 2,
      .hidden_until = 0.6},
     3e-3,
     0.9},
    {"hidden alone",
     {.kind = LATENT_ALL},
     {.hidden = 1, .hidden_layers = 9},
     3e-3,
     0.99},
    {"hidden chosen",
     {.kind = LATENT_ALL},
     {.kl = 1, .hidden = 0.5, .n_chosen = 1, .chosen = {0}},
     3e-3,
     0.95},
    {"brief",
     {.kind = LATENT_LORA, .rank = 16, .freeze_scales = {scales_rest, 1}},
     {.kl = 1, .hidden = 0.5, .scale = 0.1, .hidden_layers = 2, .hidden_until = 1},
     1e-3,
     0.99},
};

static void test_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(ways); i++) {
        struct distill_params p = plain();
        struct distill_report r;
        p.mode = ways[i].mode;
        p.loss = ways[i].loss;
        p.rates = (struct distill_rates){ways[i].rate, ways[i].rate, 1e-3};
        run(&r, &p);
        if (!(r.after < ways[i].falls * r.before) || !r.improved)
            fail_msg("%s: from %g to %g", ways[i].name, r.before, r.after);
        for (int64_t k = 1; k < r.n_points; k++) {
            const struct distill_parts *t = &r.curve[k].train;
            ROW_CHECK(i, isfinite(t->loss) && isfinite(t->kl));
            ROW_CHECK(i, isnan(t->ce) == !(ways[i].loss.ce > 0));
            ROW_CHECK(i, isnan(t->scale) == !(ways[i].loss.scale > 0));
            ROW_CHECK(i, isfinite(t->hidden) || k > 1 || !(ways[i].loss.hidden > 0));
            ROW_CHECK(i, r.curve[k].region[0] == r.curve[k].held);
        }
        check_written(&p, r.after);
        check_resume(&p);
        distill_report_free(&r);
    }
}

/* With all but the loss given, a whole run's weights: parts add up to the loss. */
static void test_parts(void **state)
{
    struct distill_params p = plain();
    struct distill_report r;

    (void)state;
    p.loss = (struct distill_loss){
        .kl = 0.7, .ce = 0, .hidden = 0.5, .scale = 0.1, .hidden_layers = 2};
    p.temperature = 2;
    p.eval_every = 1;
    run(&r, &p);
    for (int64_t k = 1; k < r.n_points; k++) {
        const struct distill_parts *t = &r.curve[k].train;
        const double want = 0.7 * 4 * t->kl + 0.5 * t->hidden + 0.1 * t->scale;
        ROW_CHECK(k, fabs(t->loss - want) < 1e-9 * want);
        ROW_CHECK(k, k == 1 ? t->scale == 0 : t->scale > 0);
    }
    assert_true(r.curve[STEPS].train.hidden < r.curve[1].train.hidden);
    distill_report_free(&r);
}

static void test_rests(void **state)
{
    struct distill_params p = plain();
    struct distill_report r;
    static const char *const layer_0[] = {"blk.0.*"};

    (void)state;
    p.mode.freeze = (struct distill_rules){layer_0, 1};
    run(&r, &p);
    assert_true(same_tensor("blk.0.ffn_down.weight"));
    assert_true(same_tensor("blk.0.attn_norm.weight"));
    assert_false(same_tensor("blk.1.ffn_down.weight"));
    assert_false(same_tensor("blk.1.attn_norm.weight"));
    distill_report_free(&r);

    p.mode = (struct distill_mode){.kind = LATENT_SCALES};
    run(&r, &p);
    assert_int_equal(r.changed, 0);
    assert_false(same_tensor("blk.0.ffn_down.weight"));
    distill_report_free(&r);

    p.mode = (struct distill_mode){.free = {free_q8, 2}};
    run(&r, &p);
    assert_int_equal(type_in_output("blk.0.ffn_down.weight"), DT_Q8_0);
    assert_int_equal(type_in_output("blk.1.attn_v.weight"), DT_F16);
    assert_int_equal(type_in_output("blk.1.ffn_down.weight"), DT_Q2_0);
    distill_report_free(&r);
    /* nothing moves: the teacher's weights in their places are better in themselves */
    p.rates = (struct distill_rates){0, 0, 0};
    p.steps = 1;
    run(&r, &p);
    assert_true(r.improved && r.best_step == 0 && r.after < r.before);
    check_written(&p, r.after);
    distill_report_free(&r);
}

static void test_refused(void **state)
{
    static const char *const bad[] = {"blk.9.*", "=F16", "blk.0.*=Q4_0", "blk.0.*=x"};
    struct distill_params p = plain();
    char lock[600];
    struct b2_err err = {0};
    int fd = -1;

    (void)state;
    p.mode.free = (struct distill_rules){&bad[0], 1};
    refuse(&p, B2_EARG, "no tensor of a layer matches");
    p.mode.free = (struct distill_rules){&bad[1], 1};
    refuse(&p, B2_EARG, "no glob");
    p.mode.free = (struct distill_rules){&bad[2], 1};
    refuse(&p, B2_EARG, "is no type");
    p = plain();
    p.mode.freeze = (struct distill_rules){&bad[3], 1};
    refuse(&p, B2_EARG, "is no number of steps");
    p = plain();
    p.mode = (struct distill_mode){.kind = LATENT_LORA, .rank = 0};
    refuse(&p, B2_EARG, "rank");
    p.mode = (struct distill_mode){.kind = LATENT_SCALES, .soft = 0.5};
    refuse(&p, B2_EARG, "smooth");
    p = plain();
    p.loss.n_chosen = 2; /* 0 and 0 */
    refuse(&p, B2_EARG, "named twice");
    p.loss.chosen[1] = 7;
    refuse(&p, B2_EARG, "layers are 0 to");
    /* another process writes the same output */
    p = plain();
    snprintf(lock, sizeof lock, "%s.b2distill.lock", out);
    assert_int_equal(file_lock(&fd, lock, &err), B2_OK);
    refuse(&p, B2_EEXIST, "another");
    file_unlock(fd);
    struct distill_report r;
    run(&r, &p);
    distill_report_free(&r);
    assert_false(file_exists(lock));
}

/* Lines of a picture; what is no number is left out, names are escaped. */
static void test_curve(void **state)
{
    struct curve c = {.title = "a<b",
                      .x_name = "tokens",
                      .y_name = "kld",
                      .n_lines = 2,
                      .n_points = 3,
                      .name = {"one", "t&w"}};
    struct b2_err err = {0};
    struct str s = {0};
    int circles = 0;

    (void)state;
    assert_int_equal(curve_begin(&c, &err), B2_OK);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++)
            curve_set(&c, k, i, 200000.0 * i, k && !i ? (double)NAN : 2.0 - 0.5 * i);
    curve_svg(&s, &c);
    assert_true(str_ok(&s));
    assert_non_null(strstr(s.data, "http://www.w3.org/2000/svg"));
    assert_non_null(strstr(s.data, "a&lt;b"));
    assert_non_null(strstr(s.data, "t&amp;w"));
    assert_null(strstr(s.data, "nan"));
    assert_null(strstr(s.data, "var(")); /* not all viewers know it */
    assert_non_null(strstr(s.data, ">100 k<"));
    for (const char *p = s.data; (p = strstr(p, "<circle")) != NULL; p++)
        circles++;
    assert_int_equal(circles, 5 + 2); /* points, and the key */
    str_free(&s);
    curve_end(&c);
    c = (struct curve){.title = "", .x_name = "", .y_name = ""}; /* nothing to draw */
    assert_int_equal(curve_begin(&c, &err), B2_OK);
    curve_svg(&s, &c);
    assert_true(str_ok(&s));
    str_free(&s);
    curve_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),  cmocka_unit_test(test_parts),
        cmocka_unit_test(test_rests), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_curve),
    };

    return is_skipped() ? 77 : cmocka_run_group_tests(tests, set_up, tear_down);
}
