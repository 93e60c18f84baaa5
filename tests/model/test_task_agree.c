/*
 * test_task_agree.c - log-likelihoods of task items agree with lm-evaluation-harness.
 *
 *   test_task_agree [N|all]   items per task; 4 without an argument
 *
 * Golden values: tests/golden/eval/task_loglik.jsonl (lm_eval's prompts, llama.cpp's
 * logits in F32, see make_task.py) on SmolLM2-135M-Instruct. Each choice within 0.02, and
 * the same choice taken: acc and acc_norm of the items are equal. Prints the largest
 * difference of each task with "all".
 */
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "eval/table.h"
#include "eval/task_score.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double tolerance = 0.02; /* nat, of a whole continuation */

static struct str model_path, data_path;
static int64_t items_wanted = 4;
static bool verbose;

struct real {
    struct model *model;
    struct pool *pool;
    struct backend *be;
    struct session *s;
    struct scorer sc;
};

/* The items of one task in the golden file. */
struct part {
    const char *task;
    int shots;
    struct task *t;
    int64_t done, hits[2], want[2];
    double largest;
};

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
    str_put(&model_path, "/SmolLM2-135M-Instruct.Q4_1.gguf");
    str_put(&data_path, data && *data ? data : B2_GOLDEN_DIR "/../../../shared/data");
    if (!str_ok(&model_path) || !file_exists(model_path.data)) {
        printf("skipped: the model is not in the cache: run tools/fetch_model.sh\n");
        return false;
    }
    if (!str_ok(&data_path) || !file_is_dir(data_path.data)) {
        printf("skipped: no folder of data at %s: set B2_DATA\n", data_path.data);
        return false;
    }
    return true;
}

static void real_open(struct real *r)
{
    struct model_params mp = {0};
    struct backend_config cfg = {.exact = true};
    struct session_params sp = {.ctx = 2048, .batch = 512};
    struct b2_err err = {0};
    enum b2_status rc = model_open(&r->model, model_path.data, &mp, &err);

    r->pool = pool_new(0);
    assert_non_null(r->pool);
    cfg.pool = r->pool;
    cfg.cpu = cpu_features();
    if (!rc)
        rc = backend_cpu_new(&r->be, &cfg, &err);
    if (!rc)
        rc = session_new(&r->s, r->model, r->be, &sp, &err);
    if (!rc)
        rc = scorer_init(&r->sc, r->s, &err);
    if (rc)
        fail_msg("%s", err.msg);
}

static void real_close(struct real *r)
{
    scorer_free(&r->sc);
    session_free(r->s);
    backend_free(r->be);
    pool_free(r->pool);
    model_close(r->model);
}

static int64_t find_item(const struct task *t, const char *id)
{
    for (int64_t i = 0; i < task_items(t); i++)
        if (strcmp(task_id(t, i), id) == 0)
            return i;
    fail_msg("%s has no item %s", task_name(t), id);
    return -1;
}

static bool best_is(const double *ll, const int64_t *by, int n, int gold)
{
    int at = 0;

    for (int i = 1; i < n; i++)
        if (ll[i] / (double)(by ? by[i] : 1) > ll[at] / (double)(by ? by[at] : 1))
            at = i;
    return at == gold;
}

static void check_item(struct real *r, struct part *p, const cJSON *golden)
{
    const cJSON *want = cJSON_GetObjectItemCaseSensitive(golden, "loglik");
    const char *id = cJSON_GetObjectItemCaseSensitive(golden, "id")->valuestring;
    double ll[TASK_MAX_CHOICES];
    struct task_ask a = {0};
    struct b2_err err = {0};

    if (task_ask_make(&a, p->t, find_item(p->t, id), NULL, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(a.n_choices, cJSON_GetArraySize(want));
    for (int k = 0; k < a.n_choices; k++) {
        struct task_loglik got;
        double w = cJSON_GetArrayItem(want, k)->valuedouble;
        if (scorer_loglik(&got, &r->sc, a.prompt[0], a.choice[k], false, &err))
            fail_msg("%s", err.msg);
        ll[k] = got.sum;
        p->largest = fmax(p->largest, fabs(got.sum - w));
        if (!(fabs(got.sum - w) <= tolerance))
            fail_msg("%s item %s choice %d: got %.6f want %.6f", p->task, id, k,
                     got.sum, w);
    }
    p->hits[0] += best_is(ll, NULL, a.n_choices, a.gold);
    p->hits[1] += best_is(ll, a.n_chars, a.n_choices, a.gold);
    p->want[0] += cJSON_GetObjectItemCaseSensitive(golden, "acc")->valueint;
    p->want[1] += cJSON_GetObjectItemCaseSensitive(golden, "acc_norm")->valueint;
    p->done++;
    task_ask_free(&a);
}

static void open_part(struct part *p)
{
    const struct task_place place = {B2_GOLDEN_DIR "/../../tasks", data_path.data};
    const struct task_options o = {.shots = p->shots};
    struct b2_err err = {0};

    if (task_open(&p->t, p->task, &place, &o, &err))
        fail_msg("%s", err.msg);
}

static void test_agreement(void **state)
{
    struct part parts[] = {{.task = "arc_easy"},
                           {.task = "hellaswag"},
                           {.task = "mmlu"},
                           {.task = "mmlu", .shots = 5}};
    struct table golden = {0};
    struct real r = {0};

    (void)state;
    assert_int_equal(table_read(&golden, B2_GOLDEN_DIR "/eval/task_loglik.jsonl", NULL),
                     B2_OK);
    real_open(&r);
    for (size_t k = 0; k < countof(parts); k++) {
        struct part *p = &parts[k];
        open_part(p);
        for (int64_t i = 0; i < golden.n && p->done < items_wanted; i++) {
            const cJSON *g = golden.row[i];
            if (strcmp(cJSON_GetObjectItemCaseSensitive(g, "task")->valuestring,
                       p->task) == 0 &&
                cJSON_GetObjectItemCaseSensitive(g, "shots")->valueint == p->shots)
                check_item(&r, p, g);
            if (p->shots > 0 && p->done >= 2 && items_wanted < 100)
                break; /* long prompts: two are enough for a quick look */
        }
        if (verbose)
            printf("%s, %d shots: %lld items, largest difference %.2e, acc %lld want "
                   "%lld, acc_norm %lld want %lld\n",
                   p->task, p->shots, (long long)p->done, p->largest,
                   (long long)p->hits[0], (long long)p->want[0], (long long)p->hits[1],
                   (long long)p->want[1]);
        assert_true(p->done > 0);
        assert_int_equal(p->hits[0], p->want[0]);
        assert_int_equal(p->hits[1], p->want[1]);
        task_free(p->t);
    }
    real_close(&r);
    table_free(&golden);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_agreement)};

    if (argc > 1 && strcmp(argv[1], "all") == 0) {
        items_wanted = INT64_MAX;
        verbose = true;
    } else if (argc > 1) {
        items_wanted = strtol(argv[1], NULL, 10);
    }
    if (!find_files())
        return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    str_free(&model_path);
    str_free(&data_path);
    return failed;
}
