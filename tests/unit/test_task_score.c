/*
 * test_task_score.c - log-likelihoods with shared contexts are those of fresh runs.
 *
 * On the small trained model and on a tiny Qwen 3.5, whose recurrent layers cannot go
 * back everywhere. The expected sums come from the logits of a session that reads each
 * sequence whole, by the plain formula; a session's bits do not depend on the way.
 */
#include "eval/task_score.h"

#include "unit/unit.h"
#include "unit/variant.h"

#include <math.h>
#include <stdlib.h>

enum { N = 40 };

static int32_t ids[2][N];

/* log p of cont behind context, the greedy answer too. */
static struct task_loglik brute(const struct model *m, const int32_t *context,
                                int64_t nc, const int32_t *cont, int64_t n)
{
    const struct session_params sp = {.ctx = 2 * N, .batch = 2 * N};
    int64_t vocab = m->hp.vocab;
    struct task_loglik out = {.greedy = true};
    int32_t all[2 * N];
    float *logits = calloc((size_t)(2 * N * vocab), sizeof *logits);
    struct rig r;

    memcpy(all, context, (size_t)nc * sizeof *all);
    memcpy(all + nc, cont, (size_t)n * sizeof *all);
    assert_int_equal(rig_open(&r, m, 1, true, &sp, NULL), B2_OK);
    assert_int_equal(session_eval(r.s, all, nc + n, logits, NULL), B2_OK);
    for (int64_t i = 0; i < n; i++) {
        const float *row = logits + (nc - 1 + i) * vocab;
        double sum = 0.0;
        int64_t top = 0;
        for (int64_t v = 0; v < vocab; v++) {
            sum += exp((double)row[v]);
            top = row[v] > row[top] ? v : top;
        }
        out.sum += (double)row[cont[i]] - log(sum);
        out.greedy = out.greedy && top == cont[i];
    }
    free(logits);
    rig_close(&r);
    return out;
}

static void check_roads(const struct model *m)
{
    static const struct {
        int text, n_context; /* the context is the start of that text */
        int from, n;         /* the continuation: ids[0][from..] */
    } asks[] = {
        {0, 20, 20, 6}, {0, 20, 25, 1}, {0, 20, 3, 9}, {0, 20, 20, 6}, {0, 12, 5, 4},
        {1, 20, 20, 3}, {1, 20, 0, 1},  {0, 20, 7, 2}, {0, 1, 1, 12},  {0, 20, 20, 0},
    };
    const struct session_params sp = {.ctx = N, .batch = 16};
    struct rig r;
    struct scorer sc;

    assert_int_equal(rig_open(&r, m, 2, true, &sp, NULL), B2_OK);
    assert_int_equal(scorer_init(&sc, r.s, NULL), B2_OK);
    sc.n_rows = 4; /* a continuation in several parts */
    for (size_t i = 0; i < countof(asks); i++) {
        const int32_t *context = ids[asks[i].text], *cont = ids[0] + asks[i].from;
        struct task_loglik got = {.greedy = true};
        struct task_loglik want = brute(m, context, asks[i].n_context, cont, asks[i].n);
        assert_int_equal(
            scorer_tokens(&got, &sc, context, asks[i].n_context, cont, asks[i].n, NULL),
            B2_OK);
        if (fabs(got.sum - want.sum) > 1e-9 || got.greedy != want.greedy)
            fail_msg("ask %d: got %.12g want %.12g", (int)i, got.sum, want.sum);
    }
    scorer_free(&sc);
    rig_close(&r);
}

static void fill(int64_t vocab)
{
    for (int i = 0; i < N; i++) {
        ids[0][i] = (int32_t)((7 * i * i + 3 * i) % (vocab - 4) + 2);
        ids[1][i] = i < 10 ? ids[0][i] : (int32_t)((5 * i * i + i) % (vocab - 4) + 2);
    }
}

static void test_llama(void **state)
{
    const struct variant none = {0};
    struct model *m = NULL;

    (void)state;
    assert_int_equal(variant_open(&m, &none, NULL, NULL), B2_OK);
    fill(m->hp.vocab);
    check_roads(m);
    model_close(m);
}

static void test_recurrent(void **state)
{
    struct model *m = NULL;

    (void)state;
    assert_int_equal(model_open(&m, B2_GOLDEN_DIR "/arch/qwen35", NULL, NULL), B2_OK);
    fill(m->hp.vocab);
    check_roads(m);
    model_close(m);
}

/* How prompt and continuation are cut, on the small model's vocabulary. */
static void test_encode(void **state)
{
    static const struct {
        const char *prompt, *cont;
        const char *context_text, *cont_text; /* what the ids say */
    } table[] = {
        {"Once upon", " a time", "Once upon", " a time"},
        {"Once upon ", "a time", "Once upon", " a time"}, /* the space moves */
        {"Once upon\n", "a", "Once upon", "\na"},
        {"", "Once", "", "Once"},
    };
    const struct variant none = {0};
    struct model *m = NULL;

    (void)state;
    assert_int_equal(variant_open(&m, &none, NULL, NULL), B2_OK);
    for (size_t i = 0; i < countof(table); i++) {
        struct tok_ids context = {0}, cont = {0};
        struct str a = {0}, b = {0};
        assert_int_equal(scorer_encode(&context, &cont, m->tok, table[i].prompt,
                                       table[i].cont, false, NULL),
                         B2_OK);
        assert_int_equal(context.id[0], tok_bos(m->tok)); /* this model asks for it */
        for (int64_t k = 0; k < cont.n; k++) {
            size_t n;
            const char *bytes = tok_bytes(m->tok, cont.id[k], false, &n);
            str_putn(&b, bytes, n);
        }
        assert_int_equal(tok_decode(m->tok, context.id, context.n, false, &a, NULL),
                         B2_OK);
        str_put(&a, "");
        str_put(&b, "");
        /* SentencePiece writes a space before the first word of a text. */
        if (strcmp(a.data, table[i].context_text) != 0 ||
            strcmp(b.data + (table[i].prompt[0] == '\0' && b.data[0] == ' '),
                   table[i].cont_text) != 0)
            fail_msg("row %d: '%s' '%s'", (int)i, a.data, b.data);
        str_free(&a);
        str_free(&b);
        tok_ids_free(&context);
        tok_ids_free(&cont);
    }
    model_close(m);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_encode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
