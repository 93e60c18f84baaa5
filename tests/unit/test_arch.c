/*
 * test_arch.c - each architecture against transformers, on tiny random models.
 *
 * golden/arch holds Hugging Face folders and the logits that transformers computes from
 * them (make.py). Ours must agree from the folder and from our own GGUF of it, and must
 * be the same bits however a sequence is cut.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "compress/convert.h"
#include "unit/golden_logits.h"
#include "unit/scratch.h"

static const char *const folders[] = {
    "llama-linear", "llama-yarn", "llama-llama3", "mistral",       "qwen2",
    "qwen3",        "gemma3",     "gemma3-cap",   "bitnet",        "qwen35",
    "qwen35-vl",    "phi3",       "phi3-long",    "llama-dynamic",
};

static struct scratch scratch;
static float want[GL_T * GL_V], got[GL_T * GL_V];

static void read_golden(struct golden *g, const char *folder)
{
    char name[64];

    snprintf(name, sizeof name, "%s/logits.bin", folder);
    gl_read(g, name);
}

static struct model *open_folder(const char *folder)
{
    struct model *m = NULL;
    struct b2_err err = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, folder);
    gl_must(model_open(&m, path, NULL, &err), &err);
    assert_int_equal(m->hp.vocab, GL_V);
    return m;
}

/* The folder in another format, written and opened by us. */
static struct model *open_export(const char *folder, const char *format,
                                 const char *name)
{
    const struct convert_params p = {.format = format, .force = true};
    struct convert_report report;
    struct modelfile *mf = NULL;
    struct model *m = NULL;
    struct b2_err err = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, folder);
    gl_must(modelfile_open(&mf, path, NULL, &err), &err);
    gl_must(convert_model(mf, scratch_path(&scratch, name), &p, &report, &err), &err);
    modelfile_close(mf);
    /* The logarithm of a decay rate is no brain float before it is rounded to one. */
    if (strncmp(folder, "qwen35", 6) != 0 || strncmp(format, "hf-", 3) != 0)
        assert_int_equal(report.n_lossy, 0);
    gl_must(model_open(&m, scratch.path, NULL, &err), &err);
    return m;
}

static void test_goldens(void **state)
{
    static const struct way whole = {.exact = true, .threads = 2, .piece = GL_T};
    static struct golden g;

    (void)state;
    for (size_t i = 0; i < countof(folders); i++) {
        struct model *m = open_folder(folders[i]);
        read_golden(&g, folders[i]);
        gl_run(want, m, g.ids, &whole);
        model_close(m);
        gl_check(folders[i], &g, want);
        m = open_export(folders[i], "gguf", "m.gguf");
        gl_run(got, m, g.ids, &whole);
        model_close(m);
        if (memcmp(got, want, sizeof want) != 0)
            fail_msg("%s: its GGUF gives other bits", folders[i]);
    }
}

/* A folder that we write is the model that it was read from. */
static void test_folders(void **state)
{
    static const struct way whole = {.exact = true, .threads = 2, .piece = GL_T};
    static struct golden g;

    (void)state;
    for (size_t i = 0; i < countof(folders); i++) {
        struct model *m = open_folder(folders[i]);
        read_golden(&g, folders[i]);
        gl_run(want, m, g.ids, &whole);
        model_close(m);
        m = open_export(folders[i], "hf-bf16", "folder");
        gl_run(got, m, g.ids, &whole);
        model_close(m);
        if (memcmp(got, want, sizeof want) != 0)
            fail_msg("%s: our folder of it gives other bits", folders[i]);
    }
}

/* One batch, pieces, and token by token, in both arithmetics. */
static void test_same_bits(void **state)
{
    static const struct way ways[] = {
        {true, 1, GL_T},  {true, 2, 64},  {true, 2, 7},  {true, 1, 1},
        {false, 1, GL_T}, {false, 2, 64}, {false, 2, 7}, {false, 1, 1},
    };
    static struct golden g;

    (void)state;
    for (size_t i = 0; i < countof(folders); i++) {
        struct model *m = open_folder(folders[i]);
        read_golden(&g, folders[i]);
        for (size_t k = 0; k < countof(ways); k++) {
            gl_run(got, m, g.ids, &ways[k]);
            if (ways[k].piece == GL_T)
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
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_same_bits),
    };

    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
