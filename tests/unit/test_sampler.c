/*
 * test_sampler.c - every filter against a brute-force distribution; penalties, ties, NaN.
 */
#include "base/rng.h"
#include "model/sampler.h"

#include "unit/unit.h"

#include <math.h>
#include <stdlib.h>

enum { V = 12, DRAWS = 20000 };

static const float logits[V] = {1.5f, -0.3f, 2.2f, 0.0f, 2.2f, -4.0f,
                                0.9f, 1.1f,  3.0f, 0.2f, -9.f, 0.7f};

static struct sampler *make(const struct sampler_params *p)
{
    struct sampler *s = NULL;
    struct b2_err err = {0};

    if (sampler_new(&s, p, V, &err) != B2_OK)
        fail_msg("%s", err.msg);
    return s;
}

static int32_t pick(struct sampler *s, const float *l)
{
    int32_t id = -1;
    struct b2_err err = {0};

    if (sampler_pick(s, l, &id, &err) != B2_OK)
        fail_msg("%s", err.msg);
    return id;
}

/* ---- brute force: sort everything, apply the definitions one by one ---- */

struct slot {
    double p;
    int id;
};

static int by_falling_p(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;

    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->id - y->id;
}

static void normalise(struct slot *s, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += s[i].p;
    for (int i = 0; i < n; i++)
        s[i].p /= sum;
}

static void expect(double out[V], const struct sampler_params *p)
{
    struct slot s[V];
    int n = V;

    for (int i = 0; i < V; i++)
        s[i] = (struct slot){exp((double)logits[i] / (double)p->temperature), i};
    qsort(s, V, sizeof *s, by_falling_p);
    if (p->top_k > 0 && p->top_k < n)
        n = (int)p->top_k;
    normalise(s, n);
    if (p->top_p < 1.0f) {
        double sum = 0;
        int k = 0;
        while (k < n && sum < (double)p->top_p)
            sum += s[k++].p;
        n = k > 0 ? k : 1;
    }
    int kept = 0;
    while (kept < n && s[kept].p >= (double)p->min_p * s[0].p)
        kept++;
    normalise(s, kept);
    memset(out, 0, V * sizeof *out);
    for (int i = 0; i < kept; i++)
        out[s[i].id] = s[i].p;
}

/* Chi-square of the draws; tokens that must not come may not come once. */
static void test_distributions(void **state)
{
    static const struct sampler_params rows[] = {
        {.temperature = 1, .top_p = 1},
        {.temperature = 0.5f, .top_p = 1},
        {.temperature = 3, .top_p = 1},
        {.temperature = 1, .top_p = 1, .top_k = 1},
        {.temperature = 1, .top_p = 1, .top_k = 3},
        {.temperature = 1, .top_p = 1, .top_k = 12},
        {.temperature = 1, .top_p = 0.5f},
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 1, .top_p = 0},
        {.temperature = 1, .top_p = 1, .min_p = 0.2f},
        {.temperature = 1, .top_p = 1, .min_p = 1},
        {.temperature = 1.5f, .top_p = 0.8f, .top_k = 7, .min_p = 0.1f},
        {.temperature = 0.8f, .top_p = 0.95f, .top_k = 5},
    };

    (void)state;
    for (size_t r = 0; r < countof(rows); r++) {
        struct sampler_params p = rows[r];
        p.repeat_penalty = 1;
        p.seed = 11 + r;
        struct sampler *s = make(&p);
        double want[V], chi2 = 0;
        int seen[V] = {0}, freedom = -1;
        expect(want, &p);
        for (int i = 0; i < DRAWS; i++)
            seen[pick(s, logits)]++;
        for (int i = 0; i < V; i++) {
            double e = want[i] * DRAWS, d = seen[i] - e;
            ROW_CHECK(r, want[i] > 0 || seen[i] == 0);
            if (e > 5) {
                chi2 += d * d / e;
                freedom++;
            }
        }
        /* mean + 4 standard deviations; the seeds are fixed, so this never flickers */
        if (freedom > 0 && chi2 > freedom + 4 * sqrt(2.0 * freedom))
            fail_msg("row %zu: chi-square %g with %d degrees", r, chi2, freedom);
        sampler_free(s);
    }
}

struct ranked {
    float logit;
    int32_t id;
};

static int falling(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id - y->id;
}

/* A large vocabulary, where classes of magnitude come before any order: no draw may leave
 * the prefix that a whole sort gives, and its rarer half is met. */
static void test_large_vocabulary(void **state)
{
    enum { LARGE = 20000, PICKS = 300 };
    static float l[LARGE];
    static struct ranked sorted[LARGE];
    static bool allowed[LARGE];
    const float spread[] = {0.0f, 0.3f, 3.0f, 40.0f};
    struct rng rng = rng_make(5);

    (void)state;
    for (size_t row = 0; row < 2 * countof(spread); row++) {
        struct sampler_params p = SAMPLER_PARAMS_GREEDY;
        struct sampler *s = NULL;
        double total = 0, sum = 0;
        int n = 0, rare = 0;
        p.temperature = 1;
        if (row % 2)
            p.top_k = 50;
        else
            p.top_p = 0.7f;
        for (int i = 0; i < LARGE; i++) {
            l[i] = spread[row / 2] * (float)rng_normal(&rng);
            sorted[i] = (struct ranked){l[i], i};
            allowed[i] = false;
        }
        qsort(sorted, LARGE, sizeof *sorted, falling);
        for (int i = 0; i < LARGE; i++)
            total += exp((double)sorted[i].logit - (double)sorted[0].logit);
        /* A draw at the very end may differ by rounding: one more is let in. */
        while (n < LARGE && (row % 2 ? n < 50 : sum < 0.7 * (1 + 1e-9) * total)) {
            sum += exp((double)sorted[n].logit - (double)sorted[0].logit);
            allowed[sorted[n++].id] = true;
        }
        assert_int_equal(sampler_new(&s, &p, LARGE, NULL), B2_OK);
        for (int i = 0; i < PICKS; i++) {
            int32_t id = -1;
            assert_int_equal(sampler_pick(s, l, &id, NULL), B2_OK);
            ROW_CHECK(row, allowed[id]);
            rare += l[id] <= sorted[n / 2].logit;
        }
        ROW_CHECK(row, spread[row / 2] > 1 || rare > PICKS / 10);
        sampler_free(s);
    }
}

static void test_greedy(void **state)
{
    const float tied[V] = {0, 1, 5, 5, 2, 5, 0, 0, 0, 0, 0, 0};
    struct sampler *s = make(&SAMPLER_PARAMS_GREEDY);

    (void)state;
    assert_int_equal(pick(s, logits), 8);
    assert_int_equal(pick(s, tied), 2); /* ties: the smallest id */
    sampler_free(s);

    struct sampler_params p = SAMPLER_PARAMS_GREEDY;
    p.temperature = 1;
    p.top_k = 1;
    s = make(&p);
    for (int i = 0; i < 50; i++)
        assert_int_equal(pick(s, tied), 2);
    sampler_free(s);
}

static void test_seed(void **state)
{
    struct sampler_params p = {
        .temperature = 2, .top_p = 1, .repeat_penalty = 1, .seed = 42};
    struct sampler *a = make(&p), *b = make(&p);
    int32_t first[20];
    int same = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        first[i] = pick(a, logits);
        assert_int_equal(pick(b, logits), first[i]);
    }
    sampler_reset(a);
    for (int i = 0; i < 20; i++)
        assert_int_equal(pick(a, logits), first[i]);
    sampler_free(b);
    p.seed = 43;
    b = make(&p);
    for (int i = 0; i < 20; i++)
        same += pick(b, logits) == first[i];
    assert_true(same < 20);
    sampler_free(a);
    sampler_free(b);
}

/* Which token is best after some were accepted, by hand. */
static void test_penalties(void **state)
{
    static const struct {
        struct sampler_params p;
        int32_t accepted[6];
        int n;
        int32_t best;
    } rows[] = {
        /* 3.0 / 2 = 1.5 falls behind 2.2 */
        {{.repeat_penalty = 2, .penalty_last_n = 64}, {8}, 1, 2},
        /* both 2.2 are halved too: 1.5 at id 0 ties with 1.5 at id 8 */
        {{.repeat_penalty = 2, .penalty_last_n = 64}, {8, 2, 4}, 3, 0},
        {{.repeat_penalty = 1, .presence_penalty = 1, .penalty_last_n = 64}, {8}, 1, 2},
        /* presence counts once: 3.0 - 0.5 stays first however often it came */
        {{.repeat_penalty = 1, .presence_penalty = 0.5f, .penalty_last_n = 64},
         {8, 8, 8, 8},
         4,
         8},
        {{.repeat_penalty = 1, .frequency_penalty = 0.5f, .penalty_last_n = 64},
         {8, 8, 8, 8},
         4,
         2},
        /* only the last token is looked at: 8 is forgotten */
        {{.repeat_penalty = 2, .penalty_last_n = 1}, {8, 5}, 2, 8},
        {{.repeat_penalty = 2, .penalty_last_n = -1}, {8, 5, 5, 5}, 4, 2},
        {{.repeat_penalty = 2, .penalty_last_n = 0}, {8}, 1, 8},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct sampler_params p = rows[i].p;
        p.top_p = 1;
        struct sampler *s = make(&p);
        for (int k = 0; k < rows[i].n; k++)
            sampler_accept(s, rows[i].accepted[k]);
        ROW_CHECK(i, pick(s, logits) == rows[i].best);
        sampler_reset(s); /* forgets them */
        ROW_CHECK(i, pick(s, logits) == 8);
        sampler_free(s);
    }
}

/* A negative logit is multiplied: it falls as well. */
static void test_negative_penalty(void **state)
{
    const float neg[V] = {-1, -1.5f, -9, -9, -9, -9, -9, -9, -9, -9, -9, -9};
    struct sampler_params p = {.top_p = 1, .repeat_penalty = 2, .penalty_last_n = 8};
    struct sampler *s = make(&p);

    (void)state;
    assert_int_equal(pick(s, neg), 0);
    sampler_accept(s, 0);
    assert_int_equal(pick(s, neg), 1);
    sampler_free(s);
}

static void test_bad_logits(void **state)
{
    float l[V];
    int32_t id = 77;
    struct b2_err err = {0};

    (void)state;
    for (int t = 0; t < 2; t++) {
        struct sampler_params p = SAMPLER_PARAMS_GREEDY;
        p.temperature = (float)t;
        struct sampler *s = make(&p);
        memcpy(l, logits, sizeof l);
        l[V - 1] = (float)NAN;
        assert_int_equal(sampler_pick(s, l, &id, &err), B2_EFORMAT);
        assert_non_null(strstr(err.msg, "token 11"));
        l[V - 1] = (float)INFINITY;
        assert_int_equal(sampler_pick(s, l, &id, &err), B2_EFORMAT);
        for (int i = 0; i < V; i++)
            l[i] = -(float)INFINITY;
        assert_int_equal(sampler_pick(s, l, &id, &err), B2_EFORMAT);
        assert_int_equal(id, 77);
        l[7] = -100;
        assert_int_equal(sampler_pick(s, l, &id, &err), B2_OK);
        assert_int_equal(id, 7);
        id = 77;
        sampler_free(s);
    }
}

static void test_bad_params(void **state)
{
    static const struct sampler_params rows[] = {
        {.temperature = -1, .top_p = 1, .repeat_penalty = 1},
        {.temperature = (float)NAN, .top_p = 1, .repeat_penalty = 1},
        {.top_p = 1.5f, .repeat_penalty = 1},
        {.top_p = 1, .repeat_penalty = 0},
        {.top_p = 1, .repeat_penalty = 1, .min_p = 2},
        {.top_p = 1, .repeat_penalty = 1, .top_k = -1},
        {.top_p = 1, .repeat_penalty = 1, .penalty_last_n = -2},
    };
    struct sampler *s = NULL;

    (void)state;
    for (size_t i = 0; i < countof(rows); i++)
        ROW_CHECK(i, sampler_new(&s, &rows[i], V, NULL) == B2_EARG);
    assert_int_equal(sampler_new(&s, &SAMPLER_PARAMS_GREEDY, 0, NULL), B2_EARG);
    sampler_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distributions), cmocka_unit_test(test_large_vocabulary),
        cmocka_unit_test(test_greedy),        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_penalties),     cmocka_unit_test(test_negative_penalty),
        cmocka_unit_test(test_bad_logits),    cmocka_unit_test(test_bad_params),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
