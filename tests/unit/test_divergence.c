/*
 * test_divergence.c - the walk through windows, on a session whose logits are scripted.
 *
 * This file brings its own session_* functions instead of the model's: the logits
 * after a token r are row r of make_eval.py, and the fake checks that every scored
 * position is fed in order, behind the right prefix, in batches that fit.
 */
#include "eval/divergence.h"

#include "unit/eval_script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct session {
    struct model model;
    bool candidate;
    int64_t ctx, batch, pos;
    int32_t nan_at; /* token whose row holds a NaN; -1: none */
    int64_t rows_given;
};

int64_t session_ctx(const struct session *s)
{
    return s->ctx;
}

int64_t session_batch(const struct session *s)
{
    return s->batch;
}

const struct model *session_model(const struct session *s)
{
    return &s->model;
}

int64_t session_rewind(struct session *s, int64_t pos)
{
    assert_true(pos <= s->pos);
    return s->pos = pos;
}

enum b2_status session_sync(struct session *s, const int32_t *ids, int64_t n,
                            int64_t *n_reused, struct b2_err *err)
{
    (void)n_reused;
    (void)err;
    assert_true(n > 0 && n <= s->ctx);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(ids[i], 40); /* the prefix of every window below */
    s->pos = n;
    return B2_OK;
}

enum b2_status session_eval(struct session *s, const int32_t *ids, int64_t n,
                            float *logits, struct b2_err *err)
{
    (void)err;
    assert_true(n > 0 && n <= s->batch && s->pos + n <= s->ctx);
    for (int64_t i = 0; i < n; i++) {
        float *row = logits + i * s->model.hp.vocab;
        script_row(row, ids[i], s->candidate);
        if (ids[i] == s->nan_at)
            row[2] = NAN;
    }
    s->pos += n;
    s->rows_given += n;
    return B2_OK;
}

static struct session fake(bool candidate, int64_t batch)
{
    return (struct session){.model = {.hp = {.vocab = SCRIPT_VOCAB}},
                            .candidate = candidate,
                            .ctx = 16,
                            .batch = batch,
                            .nan_at = -1};
}

/* Twelve scripted rows in two windows: eight behind a prefix of four, four without. */
struct script {
    int32_t ids[16], target[16];
    struct text_window win[2];
    struct textset text;
};

static void script_make(struct script *s)
{
    *s = (struct script){.text = {.n_windows = 2, .n_scored = SCRIPT_ROWS}};
    for (int i = 0; i < 4; i++) {
        s->ids[i] = 40;
        s->target[i] = -1;
    }
    for (int r = 0; r < SCRIPT_ROWS; r++) {
        s->ids[4 + r] = r;
        s->target[4 + r] = script_want[r].target;
    }
    s->win[0] = (struct text_window){s->ids, 12, 4, 12, s->target};
    s->win[1] = (struct text_window){s->ids + 12, 4, 0, 4, s->target + 12};
    s->text.win = s->win;
}

static double want(const char *name)
{
    static const struct {
        const char *name;
        double value;
    } table[] = {
#include "golden/eval/summary.inc"
    };

    for (size_t i = 0; i < countof(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].value;
    fail_msg("no value named %s", name);
    return 0.0;
}

static void check(const char *name, double got)
{
    double w = want(name);

    if (!(fabs(got - w) <= 1e-12 * fmax(1.0, fabs(w))))
        fail_msg("%s: got %.17g want %.17g", name, got, w);
}

static void test_kld(void **state)
{
    static const int64_t batches[] = {1, 3, 5, 16};
    struct script sc;

    (void)state;
    script_make(&sc);
    for (size_t i = 0; i < countof(batches); i++) {
        struct session c = fake(true, batches[i]), b = fake(false, 16);
        struct kld_result r;
        assert_int_equal(divergence_kld(&r, &c, &b, &sc.text, NULL, NULL), B2_OK);
        assert_int_equal(r.n_tokens, SCRIPT_ROWS);
        assert_int_equal(c.rows_given, SCRIPT_ROWS); /* no logits for prefixes */
        check("mean_kld", r.mean_kld);
        check("kld_stderr", r.kld_stderr);
        check("median_kld", r.median_kld);
        check("p90_kld", r.p90_kld);
        check("p99_kld", r.p99_kld);
        check("max_kld", r.max_kld);
        check("same_top1", r.same_top1);
        check("ppl", r.ppl);
        check("ppl_baseline", r.ppl_baseline);
        check("ppl_ratio", r.ppl_ratio);
    }
}

static void count_row(void *ctx, const struct divergence_row *row)
{
    (void)row;
    ++*(int *)ctx;
}

static void test_ppl(void **state)
{
    struct script sc;
    struct session c = fake(true, 5);
    struct ppl_result r;
    int rows = 0;
    struct divergence_walk w = {
        .cand = &c, .text = &sc.text, .on_row = count_row, .ctx = &rows};

    (void)state;
    script_make(&sc);
    assert_int_equal(divergence_ppl(&r, &w, NULL), B2_OK);
    assert_int_equal(rows, SCRIPT_ROWS);
    check("ppl", r.ppl);
    check("ppl", exp(r.nll));
    assert_int_equal(r.n_tokens, SCRIPT_ROWS);
}

static void test_refused(void **state)
{
    struct script sc;
    struct session c = fake(true, 16), b = fake(false, 16);
    struct kld_result k;
    struct ppl_result p;
    struct divergence_walk w = {.cand = &c, .text = &sc.text};
    struct b2_err err = {0};

    (void)state;
    script_make(&sc);
    b.model.hp.vocab = 51;
    assert_int_equal(divergence_kld(&k, &c, &b, &sc.text, NULL, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "50 tokens"));
    b.model.hp.vocab = 50;
    b.nan_at = 9;
    assert_int_equal(divergence_kld(&k, &c, &b, &sc.text, NULL, &err), B2_EFORMAT);
    assert_non_null(strstr(err.msg, "window 1: position 1: baseline: logit 2"));
    c.ctx = 11;
    assert_int_equal(divergence_ppl(&p, &w, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "12 tokens"));
    c.ctx = 16;
    sc.target[6] = 50;
    assert_int_equal(divergence_ppl(&p, &w, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "token 50"));
}

/* A buffer stays near 64 MB for any vocabulary, and never below one row. */
static void test_rows(void **state)
{
    static const struct {
        int64_t vocab, batch, rows;
    } cases[] = {
        {49152, 512, 325}, {49152, 64, 64},     {262144, 512, 61},
        {512, 512, 512},   {100000000, 512, 1},
    };

    (void)state;
    for (size_t i = 0; i < countof(cases); i++)
        assert_int_equal(divergence_rows(cases[i].vocab, cases[i].batch),
                         cases[i].rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kld),
        cmocka_unit_test(test_ppl),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
