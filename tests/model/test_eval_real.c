/*
 * test_eval_real.c - perplexity and the cost of 8-bit activations on a real model.
 *
 *   test_eval_real smollm2|gemma3
 *
 * Golden values: llama.cpp on the same file dequantised to F32 (tests/golden/eval/
 * SOURCE.txt), wikitext-2/wiki.test.raw, windows of 512. One pass serves all: the first
 * windows with both paths (divergence, and the exact path's perplexity), as many more
 * with the exact path alone.
 */
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "eval/divergence.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CTX = 512, SCORED = 255 /* positions of a window */ };

static const double ppl_tolerance = 0.005; /* relative */

/* The models of tools/fetch_model.sh. The bound on the divergence is what llama.cpp's
 * own 8-bit activations cost on the file. Gemma has twice the arithmetic and is here for
 * its architecture: few windows do. */
static const struct golden {
    const char *name, *file;
    int windows;
    double ppl, ppl_twice; /* of the first windows; of twice as many, 0: not measured */
    double kld_bound;
} goldens[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 32, 22.5870, 23.5834, 2.8e-3},
    {"gemma3", "gemma-3-270m-q4_k_m.gguf", 2, 15.5650, 0, 4.6e-3},
};

static const struct golden *golden;

struct real {
    struct model *model;
    struct pool *pool;
    struct backend *be[2]; /* 8-bit activations, exact */
    struct session *s[2];
    struct textset text;
};

static struct str model_path, text_path;

/* Where tools/fetch_model.sh puts the model, and where the large texts lie. */
static bool find_files(void)
{
    const char *cache = getenv("B2_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME"), *data = getenv("B2_DATA");

    if (cache && *cache)
        str_put(&model_path, cache);
    else if (xdg && *xdg)
        str_printf(&model_path, "%s/bonsai2", xdg);
    else
        str_printf(&model_path, "%s/.cache/bonsai2", home ? home : ".");
    str_printf(&model_path, "/%s", golden->file);
    str_put(&text_path, data && *data ? data : B2_GOLDEN_DIR "/../../../shared/data");
    str_put(&text_path, "/wikitext-2/wiki.test.raw");
    if (!str_ok(&model_path) || !file_exists(model_path.data)) {
        printf("skipped: the model is not in the cache: run tools/fetch_model.sh %s\n",
               golden->name);
        return false;
    }
    if (!str_ok(&text_path) || !file_exists(text_path.data)) {
        puts("skipped: no wikitext-2/wiki.test.raw in B2_DATA or ../shared/data");
        return false;
    }
    return true;
}

static void must(enum b2_status rc, const struct b2_err *err)
{
    if (rc)
        fail_msg("%s", err->msg);
}

static void real_open(struct real *r)
{
    struct session_params sp = {.ctx = CTX, .batch = CTX};
    struct backend_config cfg = {.cpu = cpu_features()};
    struct model_params mp = {0};
    struct b2_err err = {0};
    char *text = NULL;
    size_t n = 0;

    must(model_open(&r->model, model_path.data, &mp, &err), &err);
    r->pool = pool_new(0);
    assert_non_null(r->pool);
    cfg.pool = r->pool;
    for (int i = 0; i < 2; i++) {
        cfg.exact = i == 1;
        must(backend_cpu_new(&r->be[i], &cfg, &err), &err);
        must(session_new(&r->s[i], r->model, r->be[i], &sp, &err), &err);
    }
    must(file_read_all(&text, &n, text_path.data, 1 << 24, &err), &err);
    must(textset_make(&r->text, r->model->tok, text, n, CONV_LLAMA_CPP, CTX,
                      2 * golden->windows, &err),
         &err);
    mem_free(text);
}

static void real_close(struct real *r)
{
    textset_free(&r->text);
    for (int i = 0; i < 2; i++) {
        session_free(r->s[i]);
        backend_free(r->be[i]);
    }
    pool_free(r->pool);
    model_close(r->model);
}

static void check_ppl(const char *what, double got, double want)
{
    if (!(fabs(got / want - 1.0) <= ppl_tolerance))
        fail_msg("%s: perplexity %.4f, llama.cpp has %.4f", what, got, want);
}

static void test_perplexity_and_activations(void **state)
{
    struct real r = {0};
    struct kld_result k = {0};
    struct ppl_result p = {0};
    struct b2_err err = {0};

    (void)state;
    real_open(&r);
    assert_string_equal(
        r.text.sha256,
        "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08");
    const int n = golden->windows;
    assert_int_equal(r.text.n_scored, 2 * n * SCORED);

    struct textset first = r.text, second = r.text;
    first.n_windows = second.n_windows = n;
    first.n_scored = second.n_scored = n * SCORED;
    second.win += n;
    must(divergence_kld(&k, r.s[0], r.s[1], &first, NULL, &err), &err);
    assert_int_equal(k.n_tokens, n * SCORED);
    check_ppl("first windows, exact", k.ppl_baseline, golden->ppl);
    if (!(k.mean_kld <= golden->kld_bound))
        fail_msg("8-bit activations cost %.5f nat, at most %.5f is allowed", k.mean_kld,
                 golden->kld_bound);
    if (golden->ppl_twice > 0) {
        struct divergence_walk w = {.cand = r.s[1], .text = &second};
        must(divergence_ppl(&p, &w, &err), &err);
        check_ppl("twice as many, exact", sqrt(k.ppl_baseline * p.ppl),
                  golden->ppl_twice);
    }
    real_close(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_perplexity_and_activations),
    };
    int rc;

    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++)
        if (argc == 2 && strcmp(argv[1], goldens[i].name) == 0)
            golden = &goldens[i];
    if (!golden) {
        fputs("usage: test_eval_real smollm2|gemma3\n", stderr);
        return 2;
    }
    if (!find_files())
        return 77;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    str_free(&model_path);
    str_free(&text_path);
    return rc;
}
