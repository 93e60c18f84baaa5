/*
 * test_goldens.c - a real model against llama.cpp's goldens (golden/model/SOURCE.txt).
 *
 *   test_goldens smollm2|gemma3
 *
 * For each prompt: its ids, the best five logits of the first step, and 32 greedy steps.
 * Steps are compared under teacher forcing: the golden token goes on, so that one near
 * tie does not hide the steps after it. Then the same logits, bit for bit, for any
 * number of threads, kernel level and batch, in both arithmetics.
 */
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double near_tie = 0.1;    /* a golden gap below it may go either way */
static const double logit_bound = 0.1; /* of the first step's best five */

/* The models of tools/fetch_model.sh. */
static const struct real {
    const char *name, *file, *env; /* env: another path of the file */
    int n_cases;
    int identity_case; /* of test_same_bits, among all */
} reals[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "B2_MODEL_SMOLLM2", 6, 2},
    {"gemma3", "gemma-3-270m-q4_k_m.gguf", "B2_MODEL_GEMMA3", 4, 7},
};

static const struct real *real;
static struct model *model;
static cJSON *goldens;

/* Where the environment says, or where tools/fetch_model.sh puts the model. */
static bool find_model(struct str *path)
{
    const char *given = getenv(real->env), *cache = getenv("B2_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (given && *given) {
        str_put(path, given);
    } else {
        if (cache && *cache)
            str_put(path, cache);
        else if (xdg && *xdg)
            str_printf(path, "%s/bonsai2", xdg);
        else
            str_printf(path, "%s/.cache/bonsai2", home ? home : ".");
        str_printf(path, "/%s", real->file);
    }
    return str_ok(path) && file_exists(path->data);
}

/* ---- one session under given conditions ---- */

struct conditions {
    bool exact;
    int threads;
    const char *level; /* of the kernels */
    int64_t batch;
};

struct rig {
    struct pool *pool;
    struct backend *be;
    struct session *s;
};

static void rig_close(struct rig *r)
{
    session_free(r->s);
    backend_free(r->be);
    pool_free(r->pool);
}

/* False: this machine lacks the level. */
static bool rig_open(struct rig *r, const struct conditions *c)
{
    const struct session_params sp = {.ctx = 512, .batch = c->batch};
    struct backend_config cfg = {.exact = c->exact};
    struct b2_err err = {0};

    *r = (struct rig){0};
    if (cpu_limit(&cfg.cpu, cpu_features(), c->level, NULL) != B2_OK)
        return false;
    r->pool = pool_new(c->threads);
    assert_non_null(r->pool);
    cfg.pool = r->pool;
    if (backend_cpu_new(&r->be, &cfg, &err) ||
        session_new(&r->s, model, r->be, &sp, &err))
        fail_msg("%s", err.msg);
    return true;
}

/* ---- goldens ---- */

static int64_t ids_of(const cJSON *c, const char *key, int32_t *ids, int64_t cap)
{
    const cJSON *item, *array = cJSON_GetObjectItem(c, key);
    int64_t n = 0;

    cJSON_ArrayForEach(item, array)
    {
        assert_true(n < cap);
        ids[n++] = (int32_t)item->valuedouble;
    }
    return n;
}

static int64_t best_of(const float *logits)
{
    int64_t best = 0;

    for (int64_t i = 1; i < model->hp.vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void check_prompt(const cJSON *c, const int32_t *want, int64_t n)
{
    const char *prompt = cJSON_GetObjectItem(c, "prompt")->valuestring;
    struct tok_ids ids = {0};

    assert_int_equal(tok_encode(model->tok, prompt, strlen(prompt),
                                TOK_SPECIAL | TOK_ADD_BOS, &ids, NULL),
                     B2_OK);
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.id, want, (size_t)n * sizeof *want);
    tok_ids_free(&ids);
}

static void check_first(const cJSON *c, const char *id, const float *logits)
{
    const cJSON *pair, *top = cJSON_GetObjectItem(c, "first_top5");

    cJSON_ArrayForEach(pair, top)
    {
        int token = (int)cJSON_GetArrayItem(pair, 0)->valuedouble;
        double want = cJSON_GetArrayItem(pair, 1)->valuedouble;
        if (fabs((double)logits[token] - want) > logit_bound)
            fail_msg("%s: logit of %d is %g, golden %g", id, token,
                     (double)logits[token], want);
    }
}

static void check_case(struct rig *r, const cJSON *c)
{
    const char *id = cJSON_GetObjectItem(c, "id")->valuestring;
    const cJSON *gaps = cJSON_GetObjectItem(c, "top2_gap");
    int32_t prompt[512], greedy[64];
    int64_t n = ids_of(c, "prompt_ids", prompt, 512);
    int64_t n_greedy = ids_of(c, "greedy_ids", greedy, 64);

    assert_int_equal(n_greedy, 32);
    check_prompt(c, prompt, n);
    assert_int_equal(session_sync(r->s, prompt, n, NULL, NULL), B2_OK);
    check_first(c, id, session_logits(r->s));
    for (int64_t i = 0; i < n_greedy; i++) {
        const float *logits = session_logits(r->s);
        int64_t best = best_of(logits);
        double gap = cJSON_GetArrayItem(gaps, (int)i)->valuedouble;
        if (best != greedy[i] && gap >= near_tie)
            fail_msg("%s step %d: token %d, golden %d with a gap of %g", id, (int)i,
                     (int)best, greedy[i], gap);
        if ((double)(logits[best] - logits[greedy[i]]) > near_tie)
            fail_msg("%s step %d: golden token is behind by %g", id, (int)i,
                     (double)(logits[best] - logits[greedy[i]]));
        assert_int_equal(session_step(r->s, greedy[i], NULL), B2_OK);
    }
}

static void test_greedy(void **state)
{
    const struct conditions exact = {
        .exact = true, .threads = 2, .level = "", .batch = 512};
    const cJSON *c, *cases = cJSON_GetObjectItem(goldens, "cases");
    struct rig r;
    int n = 0;

    (void)state;
    assert_true(rig_open(&r, &exact));
    cJSON_ArrayForEach(c, cases)
    {
        if (strcmp(cJSON_GetObjectItem(c, "model")->valuestring, real->name) != 0)
            continue;
        check_case(&r, c);
        n++;
    }
    rig_close(&r);
    assert_int_equal(n, real->n_cases);
}

/* ---- identity ---- */

/* Logits after a short prompt and three steps. */
static void logits_under(float *out, const struct conditions *c)
{
    int32_t prompt[512], greedy[64];
    const cJSON *c_ids =
        cJSON_GetArrayItem(cJSON_GetObjectItem(goldens, "cases"), real->identity_case);
    int64_t n = ids_of(c_ids, "prompt_ids", prompt, 512);
    struct rig r;

    ids_of(c_ids, "greedy_ids", greedy, 64);
    if (!rig_open(&r, c))
        return; /* the level is not here: out still holds the same answer */
    assert_int_equal(session_sync(r.s, prompt, n, NULL, NULL), B2_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(session_step(r.s, greedy[i], NULL), B2_OK);
    memcpy(out, session_logits(r.s), (size_t)model->hp.vocab * sizeof *out);
    rig_close(&r);
}

static void test_same_bits(void **state)
{
    static const struct conditions ways[] = {
        {false, 2, "", 512},       {false, 1, "", 7},        {false, 2, "", 1},
        {false, 2, "scalar", 512}, {false, 2, "avx2", 16},   {true, 2, "", 512},
        {true, 1, "", 7},          {true, 2, "scalar", 512}, {true, 2, "avx2", 1},
    };
    size_t bytes = (size_t)model->hp.vocab * sizeof(float);
    float *want = mem_calloc(1, bytes), *got = mem_calloc(1, bytes);

    (void)state;
    assert_true(want && got);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (i == 0 || ways[i].exact != ways[i - 1].exact) {
            const struct conditions base = {ways[i].exact, 1, "", 512};
            logits_under(want, &base);
        }
        memcpy(got, want, bytes);
        logits_under(got, &ways[i]);
        if (memcmp(got, want, bytes) != 0)
            fail_msg("%s, %d threads, level '%s', batch %d: other bits",
                     ways[i].exact ? "exact" : "default", ways[i].threads,
                     ways[i].level, (int)ways[i].batch);
    }
    mem_free(want);
    mem_free(got);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_same_bits),
    };
    struct str path = {0};
    struct b2_err err = {0};
    char *text = NULL;
    size_t size;

    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        if (argc == 2 && strcmp(argv[1], reals[i].name) == 0)
            real = &reals[i];
    if (!real) {
        fputs("usage: test_goldens smollm2|gemma3\n", stderr);
        return 2;
    }
    if (!find_model(&path)) {
        printf("skipped: the model is not in the cache: run tools/fetch_model.sh %s\n",
               real->name);
        str_free(&path);
        return 77;
    }
    if (model_open(&model, path.data, NULL, &err) ||
        file_read_all(&text, &size, B2_GOLDEN_DIR "/model/greedy.json", 1 << 20,
                      &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    goldens = cJSON_Parse(text);
    mem_free(text);
    str_free(&path);
    int failed = goldens ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    cJSON_Delete(goldens);
    model_close(model);
    return failed;
}
