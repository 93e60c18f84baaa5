/*
 * test_distill_qwen35.c - models with gated delta nets as nets that are trained: they say
 * what the runtime says, their latents write the bytes that they came from, and a tiny
 * student learns from its teacher.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "base/cpu.h"
#include "base/pool.h"
#include "compress/distill.h"
#include "compress/netmodel.h"
#include "compress/pipeline.h"
#include "kernel/kernel.h"
#include "train/blas.h"
#include "unit/golden_logits.h"
#include "unit/scratch.h"

static struct scratch scratch;
static struct kernels kernels;
static struct env env;
static float want[GL_T * GL_V], got[GL_T * GL_V];
static char student[300], text[300], held[300], out[300], other[300];

static struct model *open_model(const char *path)
{
    const struct model_params p = {.no_tokenizer = true};
    struct model *m = NULL;
    struct b2_err err = {0};

    gl_must(model_open(&m, path, &p, &err), &err);
    return m;
}

/* ---- the same numbers as the runtime's ---- */

static void run_net(float *logits, const struct netmodel *n, const int32_t *ids)
{
    int32_t pos[GL_T];
    const struct layer_batch b = {1, GL_T, pos, NULL};
    const struct head head = netmodel_head(n);
    struct net_work *w = net_work_new(&n->net, &n->layer, &b, 2, NET_FORWARD);
    float *rows = mem_calloc((size_t)(GL_V * n->net.d), sizeof *rows);

    assert_true(w && rows && head.vocab == GL_V);
    for (int i = 0; i < GL_T; i++)
        pos[i] = i;
    netmodel_embed(n, net_input(w), ids, GL_T);
    const float *h = net_forward(&env, w, &n->net, &b);
    head.rows(head.ctx, rows, 0, GL_V);
    mm(&env, logits, GL_V, (struct mm_size){GL_T, GL_V, n->net.d},
       (struct mat){h, n->net.d, false}, (struct mat){rows, n->net.d, true},
       (struct mm_how){1, false});
    mem_free(rows);
    net_work_free(w);
}

static void assert_near(const char *what, const float *a, const float *b, float bound)
{
    for (int i = 0; i < GL_T; i++) {
        const float e = gl_error(a + i * GL_V, b + i * GL_V, GL_V);
        if (!(e < bound))
            fail_msg("%s: logits after token %d are off by %g", what, i, (double)e);
    }
}

/* Latents that start at the file's own weights write the file's own bytes. */
static void check_latents(const struct netmodel *n)
{
    char name[64];

    for (int64_t i = 0; i < n->net.n_layers * N_LINEARS; i++) {
        const struct latent *l =
            netmodel_latent(n, i / N_LINEARS, (int)(i % N_LINEARS));
        netmodel_linear_name(name, i / N_LINEARS, (int)(i % N_LINEARS));
        const int64_t at = modelfile_find(n->m->mf, name);
        if (!l) {
            ROW_CHECK(i, at < 0 || strstr(name, "alpha") || strstr(name, "beta"));
            continue;
        }
        uint8_t *bytes = mem_calloc((size_t)latent_packed_bytes(l), 1);
        latent_pack(l, &env, bytes, n->dw[i % N_LINEARS]);
        assert_memory_equal(bytes, modelfile_tensor(n->m->mf, at)->data,
                            (size_t)latent_packed_bytes(l));
        mem_free(bytes);
    }
}

static void test_forward(void **state)
{
    static const struct {
        const char *file, *golden;
        bool ternary;
    } cases[] = {{"qwen35", "qwen35/logits.bin", false},
                 {"rotated-pq2_0.gguf", "rotated.bin", true},
                 {"rotated-ptq1_0.gguf", "rotated.bin", true},
                 {"rotated-tied.gguf", "rotated-tied.bin", true}};
    static const struct way exact = {.exact = true, .threads = 2, .piece = GL_T};
    static struct golden g;

    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct netmodel n;
        struct b2_err err = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, cases[i].file);
        struct model *m = open_model(path);
        struct netmodel_how how = {
            .seed = 1, .ctx = GL_T, .pool = env.pool, .env = &env};
        gl_read(&g, cases[i].golden);
        gl_run(want, m, g.ids, &exact);
        gl_must(netmodel_new(&n, m, &how, &err), &err);
        run_net(got, &n, g.ids);
        netmodel_free(&n);
        gl_check(cases[i].file, &g, got);
        assert_near(cases[i].file, got, want, 1e-4f);
        if (cases[i].ternary) {
            how.teacher = m;
            gl_must(netmodel_new(&n, m, &how, &err), &err);
            assert_int_equal(n.n_latents, 3 * 6 + 7);
            run_net(got, &n, g.ids);
            assert_near("latents", got, want, 1e-4f);
            check_latents(&n);
            netmodel_free(&n);
        }
        model_close(m);
    }
}

/* ---- distillation ---- */

static bool is_cancelled(void *ctx)
{
    int *left = ctx;

    return *left > 0 && --*left == 0;
}

static const char *const files[] = {text}, *const regions[] = {held};
static const struct calib_params data = {.files = files, .n_files = 1};

static struct distill_params plain(int *left)
{
    return (struct distill_params){.teacher = B2_GOLDEN_DIR "/arch/qwen35",
                                   .student = student,
                                   .output = out,
                                   .force = true,
                                   .data = &data,
                                   .held = regions,
                                   .n_held = 1,
                                   .held_tokens = 400,
                                   .steps = 20,
                                   .batch = 2,
                                   .micro = 2,
                                   .ctx = 80, /* more than a chunk of the delta rule */
                                   .eval_every = 5,
                                   .rates = {2e-2, 2e-2, 2e-2},
                                   .schedule = {SCHEDULE_COSINE, 2, 0, 0.05},
                                   .loss = {.kl = 1},
                                   .temperature = 1,
                                   .clip = 1,
                                   .seed = 5,
                                   .cancelled = is_cancelled,
                                   .ctx_of_calls = left};
}

static void run(struct distill_report *r, const struct distill_params *p)
{
    struct b2_err err = {0};

    if (distill_run(r, p, &err))
        fail_msg("%s", err.msg);
}

static void assert_same_file(const char *a, const char *b)
{
    size_t na, nb;
    char *x, *y;
    struct b2_err err = {0};

    gl_must(file_read_all(&x, &na, a, 1 << 22, &err), &err);
    gl_must(file_read_all(&y, &nb, b, 1 << 22, &err), &err);
    assert_int_equal(na, nb);
    assert_memory_equal(x, y, na);
    mem_free(x);
    mem_free(y);
}

/* Which tensors changed: ternary matrices and norms, nothing else. */
static void check_changes(void)
{
    struct modelfile *was, *is;
    struct b2_err err = {0};
    int64_t norms = 0;

    gl_must(modelfile_open(&was, student, NULL, &err), &err);
    gl_must(modelfile_open(&is, out, NULL, &err), &err);
    for (int64_t i = 0; i < modelfile_n_tensors(was); i++) {
        const struct tensor *a = modelfile_tensor(was, i), *b = modelfile_tensor(is, i);
        const bool moved = memcmp(a->data, b->data, a->n_bytes) != 0;
        const bool ternary = a->type == DT_B2_T64, norm = strstr(a->name, "norm");
        if (moved && !ternary && !norm)
            fail_msg("%s was trained", a->name);
        if (!moved && ternary)
            fail_msg("%s was not trained", a->name);
        norms += moved && norm;
    }
    assert_int_equal(norms, 4 * 2 + 3 + 2 + 1);
    modelfile_close(was);
    modelfile_close(is);
}

/* The divergence falls, what is written scores exactly what was said of it. */
static void test_falls(void **state)
{
    int never = 0;
    struct distill_params p = plain(&never);
    struct distill_report r, again;

    (void)state;
    run(&r, &p);
    assert_true(r.after < 0.9 * r.before && r.best_step > 0 && r.changed > 0);
    assert_int_equal(r.n_latents, 3 * 6 + 7);
    check_changes();
    p.student = out;
    p.output = other;
    p.steps = 1;
    p.rates = (struct distill_rates){0, 0, 0};
    run(&again, &p);
    assert_true(again.before == r.after);
    distill_report_free(&r);
    distill_report_free(&again);
}

/* The same bytes on two threads, after a stop, and with latents on the disk. */
static void test_same_bytes(void **state)
{
    int never = 0, left = 9;
    struct distill_params p = plain(&never);
    struct distill_report r;
    struct b2_err err = {0};

    (void)state;
    run(&r, &p);
    distill_report_free(&r);
    p.pool = pool_new(2);
    p.dry_run = true;
    p.mem_limit = 1;
    assert_int_equal(distill_run(&r, &p, &err), B2_ENOMEM);
    p.mem_limit = r.plan_bytes;
    distill_report_free(&r);
    p.dry_run = false;
    p.output = other;
    p.ctx_of_calls = &left;
    assert_int_equal(distill_run(&r, &p, &err), B2_ECANCEL);
    distill_report_free(&r);
    p.force = false;
    if (file_exists(other))
        gl_must(file_remove(other, &err), &err);
    run(&r, &p);
    assert_true(r.resumed);
    distill_report_free(&r);
    pool_free(p.pool);
    assert_same_file(out, other);
}

/* A student of another order of layers is none of this teacher. */
static void test_refused(void **state)
{
    int never = 0;
    struct distill_params p = plain(&never);
    struct distill_report r;
    struct b2_err err = {0};

    (void)state;
    p.student = B2_GOLDEN_DIR "/arch/rotated-pq2_0.gguf";
    assert_int_equal(distill_run(&r, &p, &err), B2_EUNSUP);
    assert_non_null(strstr(err.msg, "different shapes"));
    distill_report_free(&r);
}

static void write_words(const char *path, int n, int from)
{
    char *s = mem_calloc((size_t)n, 8);
    struct b2_err err = {0};
    int len = 0;

    for (int i = 0; i < n; i++)
        len += snprintf(s + len, 8, "%c%d%c", 'a' + (i * 7 + from) % 13,
                        (i * i + from) % 97, i % 9 ? ' ' : '\n');
    gl_must(file_write_all(path, s, (size_t)len, true, &err), &err);
    mem_free(s);
}

static int make_files(void **state)
{
    static const char *const rules[] = {"*=B2_T64",         "*ssm_alpha*=keep",
                                        "*ssm_beta*=keep",  "*ssm_conv1d*=keep",
                                        "token_embd*=keep", "output.weight=keep"};
    struct recipe recipe = {.seed = 1, .rotate = RECIPE_ROTATE_EACH};
    struct report report;
    struct b2_err err = {0};
    const struct pipeline_params p = {.source = B2_GOLDEN_DIR "/arch/qwen35",
                                      .output = student,
                                      .recipe = &recipe,
                                      .force = true};

    (void)state;
    scratch_make(&scratch);
    snprintf(student, sizeof student, "%s/student.gguf", scratch.dir);
    snprintf(text, sizeof text, "%s/text.txt", scratch.dir);
    snprintf(held, sizeof held, "%s/held.txt", scratch.dir);
    snprintf(out, sizeof out, "%s/out.gguf", scratch.dir);
    snprintf(other, sizeof other, "%s/other.gguf", scratch.dir);
    write_words(text, 6000, 3);
    write_words(held, 600, 5);
    for (size_t i = 0; i < countof(rules); i++)
        gl_must(recipe_add_rule(&recipe, rules[i], &err), &err);
    gl_must(pipeline_run(&report, &p, &err), &err);
    report_free(&report);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_falls),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_refused),
    };
    struct blas *blas = NULL;
    struct b2_err err = {0};

    if (blas_open(&blas, &err)) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    kernels_init(&kernels, cpu_features());
    env = (struct env){.pool = pool_new(2), .blas = blas, .k = &kernels};
    int rc = cmocka_run_group_tests(tests, make_files, remove_files);
    pool_free(env.pool);
    blas_close(blas);
    return rc;
}
