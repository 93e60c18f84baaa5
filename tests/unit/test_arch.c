/*
 * test_arch.c - each architecture against transformers, on tiny random models.
 *
 * golden/arch holds Hugging Face folders and the logits that transformers computes from
 * them (make.py). Ours must agree from the folder and from our own GGUF of it, and must
 * be the same bits however a sequence is cut.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "compress/convert.h"
#include "tensor/f16.h"
#include "unit/scratch.h"
#include "unit/unit.h"
#include "unit/variant.h"

#include <math.h>

enum { V = 320, T = 200, EVERY = 10, ROWS = T / EVERY };

static const float error_bound = 2e-3f; /* of a row of logits, relative to its size */

static const char *const folders[] = {
    "llama-linear", "llama-yarn", "llama-llama3", "mistral", "qwen2",     "qwen3",
    "gemma3",       "gemma3-cap", "bitnet",       "qwen35",  "qwen35-vl",
};

struct golden {
    int32_t ids[T], top1[T];
    float rows[ROWS][V];
};

static struct scratch scratch;
static float want[T * V], got[T * V];

static void must(enum b2_status rc, const struct b2_err *err)
{
    if (rc)
        fail_msg("%s", err->msg);
}

static void read_golden(struct golden *g, const char *folder)
{
    char path[512];
    char *bytes = NULL;
    size_t n = 0;
    struct b2_err err = {0};

    snprintf(path, sizeof path, "%s/arch/%s/logits.bin", B2_GOLDEN_DIR, folder);
    must(file_read_all(&bytes, &n, path, 1 << 20, &err), &err);
    assert_int_equal(n, 4 * (2 * T + ROWS * V));
    const uint8_t *p = (const uint8_t *)bytes;
    for (int i = 0; i < T; i++, p += 4)
        g->ids[i] = (int32_t)le_get32(p);
    for (int i = 0; i < T; i++, p += 4)
        g->top1[i] = (int32_t)le_get32(p);
    for (int i = 0; i < ROWS * V; i++, p += 4)
        g->rows[i / V][i % V] = f32_from_bits(le_get32(p));
    mem_free(bytes);
}

static struct model *open_folder(const char *folder)
{
    struct model *m = NULL;
    struct b2_err err = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, folder);
    must(model_open(&m, path, NULL, &err), &err);
    assert_int_equal(m->hp.vocab, V);
    return m;
}

/* The folder as a GGUF, written and opened by us. */
static struct model *open_export(const char *folder)
{
    const struct convert_params p = {.format = "gguf", .force = true};
    struct convert_report report;
    struct modelfile *mf = NULL;
    struct model *m = NULL;
    struct b2_err err = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, folder);
    must(modelfile_open(&mf, path, NULL, &err), &err);
    must(convert_model(mf, scratch_path(&scratch, "m.gguf"), &p, &report, &err), &err);
    modelfile_close(mf);
    assert_int_equal(report.n_lossy, 0);
    must(model_open(&m, scratch.path, NULL, &err), &err);
    return m;
}

/* How a sequence is run. */
struct way {
    bool exact;
    int threads;
    int64_t piece;
};

static void run(float *logits, const struct model *m, const int32_t *ids,
                const struct way *w)
{
    const struct session_params sp = {.ctx = T, .batch = w->piece};
    struct b2_err err = {0};
    struct rig r;

    must(rig_open(&r, m, w->threads, w->exact, &sp, &err), &err);
    for (int64_t i = 0; i < T; i += w->piece)
        must(session_eval(r.s, ids + i, min_i64(w->piece, T - i), logits + i * V, &err),
             &err);
    rig_close(&r);
}

static int32_t best_of(const float *row)
{
    int32_t best = 0;

    for (int32_t i = 1; i < V; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

/* |a - b| / |b| */
static float relative_error(const float *a, const float *b)
{
    double diff = 0, size = 0;

    for (int i = 0; i < V; i++) {
        diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return (float)sqrt(diff / size);
}

static void check_golden(const char *what, const struct golden *g, const float *logits)
{
    for (int i = 0; i < T; i++)
        if (best_of(logits + i * V) != g->top1[i])
            fail_msg("%s: after token %d the most likely is %d, golden %d", what, i,
                     best_of(logits + i * V), g->top1[i]);
    for (int r = 0; r < ROWS; r++) {
        int at = (r + 1) * EVERY - 1;
        float e = relative_error(logits + at * V, g->rows[r]);
        if (!(e < error_bound))
            fail_msg("%s: logits after token %d are off by %g", what, at, (double)e);
    }
}

static void test_goldens(void **state)
{
    static const struct way whole = {.exact = true, .threads = 2, .piece = T};
    static struct golden g;

    (void)state;
    for (size_t i = 0; i < countof(folders); i++) {
        struct model *m = open_folder(folders[i]);
        read_golden(&g, folders[i]);
        run(want, m, g.ids, &whole);
        model_close(m);
        check_golden(folders[i], &g, want);
        m = open_export(folders[i]);
        run(got, m, g.ids, &whole);
        model_close(m);
        if (memcmp(got, want, sizeof want) != 0)
            fail_msg("%s: its GGUF gives other bits", folders[i]);
    }
}

/* One batch, pieces, and token by token, in both arithmetics. */
static void test_same_bits(void **state)
{
    static const struct way ways[] = {
        {true, 1, T},  {true, 2, 64},  {true, 2, 7},  {true, 1, 1},
        {false, 1, T}, {false, 2, 64}, {false, 2, 7}, {false, 1, 1},
    };
    static struct golden g;

    (void)state;
    for (size_t i = 0; i < countof(folders); i++) {
        struct model *m = open_folder(folders[i]);
        read_golden(&g, folders[i]);
        for (size_t k = 0; k < countof(ways); k++) {
            run(got, m, g.ids, &ways[k]);
            if (ways[k].piece == T)
                memcpy(want, got, sizeof want);
            if (memcmp(got, want, sizeof want) != 0)
                fail_msg("%s: %s, pieces of %d: other bits", folders[i],
                         ways[k].exact ? "exact" : "default", (int)ways[k].piece);
        }
        model_close(m);
    }
}

static int make_scratch(void **state)
{
    (void)state;
    scratch_make(&scratch);
    return 0;
}

static int remove_scratch(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_same_bits),
    };

    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
