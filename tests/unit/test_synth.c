/*
 * test_synth.c - the keys and tensors of made-up models: those of the published file,
 * as FORMATS.md 1.5 and MODELS.md 1.1-1.2 list them, and a vocabulary that cuts text.
 */
#include "format/synth_int.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/rotation.h"
#include "model/vocab.h"
#include "tensor/quant.h"
#include "unit/unit.h"

#include <math.h>
#include <string.h>

static struct arena *arena;

static int set_up(void **state)
{
    (void)state;
    arena = arena_new(1 << 24);
    return arena ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static void make(struct synth_list *l, struct meta **m, const char *name,
                 enum dtype type, int64_t layers)
{
    const struct synth_params p = {
        .like = name, .type = type, .seed = 3, .layers = layers};
    const struct synth_model *model = synth_model_find(name);

    assert_non_null(model);
    assert_int_equal(
        synth_list_make(l, model, layers ? layers : model->layers, arena, NULL), B2_OK);
    assert_int_equal(synth_meta_make(m, model, l, &p, NULL), B2_OK);
}

static int count(const struct synth_list *l, enum synth_kind kind, int64_t ne0,
                 int64_t ne1)
{
    int n = 0;

    for (int64_t i = 0; i < l->n; i++)
        n += l->t[i].kind == kind && (ne0 == 0 || l->t[i].ne[0] == ne0) &&
             (ne1 == 0 || l->t[i].ne[1] == ne1);
    return n;
}

static void test_bonsai(void **state)
{
    static const struct {
        enum dtype type;
        uint32_t file_type;
        int64_t n_keys;
    } rows[] = {{DT_PTQ1_0, 143, 49}, {DT_PQ2_0, 141, 52}};
    struct synth_list l;
    struct meta *m;
    uint32_t v;

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        make(&l, &m, "bonsai2-27b", rows[i].type, 0);
        assert_int_equal(meta_count(m), rows[i].n_keys);
        assert_int_equal(meta_get_u32(m, "general.file_type", &v, NULL), B2_OK);
        assert_int_equal(v, rows[i].file_type);
        meta_free(m);
    }
    assert_int_equal(l.n, 851);
    assert_int_equal(count(&l, SYNTH_MATRIX, 0, 0), 402);
    assert_int_equal(count(&l, SYNTH_SMALL, 5120, 48), 96);
    assert_int_equal(l.n - 402 - 96, 353);
    assert_int_equal(count(&l, SYNTH_MATRIX, 5120, 12288), 16);  /* attn_q, gated */
    assert_int_equal(count(&l, SYNTH_MATRIX, 5120, 1024), 32);   /* k, v */
    assert_int_equal(count(&l, SYNTH_MATRIX, 5120, 10240), 48);  /* attn_qkv */
    assert_int_equal(count(&l, SYNTH_MATRIX, 5120, 6144), 48);   /* attn_gate */
    assert_int_equal(count(&l, SYNTH_MATRIX, 6144, 5120), 64);   /* outputs of both */
    assert_int_equal(count(&l, SYNTH_MATRIX, 5120, 17408), 128); /* gate, up */
    assert_int_equal(count(&l, SYNTH_MATRIX, 17408, 5120), 64);  /* down */
    assert_int_equal(count(&l, SYNTH_MATRIX, 5120, 248320), 2);
    assert_int_equal(count(&l, SYNTH_NORMAL, 4, 10240), 48);
}

static void test_rotation(void **state)
{
    static const int32_t first[] = {-1, -1, -1, 1, -1, 1, 1, 1};
    static const int32_t widths[] = {5120, 6144, 17408};
    struct synth_list l;
    struct rotation_decl d;
    struct meta *m;
    int minus = 0;

    (void)state;
    make(&l, &m, "bonsai2-27b", DT_PTQ1_0, 0);
    assert_int_equal(rotation_read(&d, m, NULL), B2_OK);
    assert_int_equal(d.version, 1);
    assert_int_equal(d.block, 1024);
    assert_true(d.explicit_signs && d.gdn_v_grouped && !d.tied_output);
    assert_int_equal(d.n_forward, 401);
    assert_int_equal(d.n_inverse, 1);
    assert_int_equal(d.n_widths, 3);
    assert_memory_equal(d.widths, widths, sizeof widths);
    assert_memory_equal(d.signs, first, sizeof first);
    for (int i = 0; i < 28672; i++)
        minus += d.signs[i] == -1;
    assert_int_equal(minus, 14504);
    meta_free(m);
}

/* The vocabulary builds, and text goes through it and back. */
static void test_text(void **state)
{
    static const char *const names[] = {"S", "bonsai2-27b"};
    static const char text[] = "the quick brown fox, 12 \xc3\xa4<|im_end|>\n";
    struct synth_list l;
    struct meta *m;

    (void)state;
    for (size_t i = 0; i < countof(names); i++) {
        struct tokenizer *tok = NULL;
        struct tok_ids ids = {0};
        make(&l, &m, names[i], DT_TQ2_0, 1);
        assert_int_equal(vocab_tokenizer(&tok, m, NULL), B2_OK);
        assert_int_equal(tok_encode(tok, text, strlen(text), TOK_SPECIAL, &ids, NULL),
                         B2_OK);
        /* Words of up to four letters: "the", " qui" + "ck", " bro" + "wn", " fox", … */
        assert_true(ids.n > 10 && ids.n < 20);
        assert_int_equal(ids.id[ids.n - 2], synth_model_find(names[i])->words + 2);
        tok_ids_free(&ids);
        tok_free(tok);
        meta_free(m);
    }
}

/* Random blocks of every type have the deviation that was asked for, around 0. */
static void test_deviation(void **state)
{
    enum { N = 4096 };
    static float row[N * SYNTH_GROUP];

    (void)state;
    for (int t = 0; t < N_DTYPES; t++) {
        struct synth_groups *g = NULL;
        struct rng r = rng_make(1);
        double sum = 0, squares = 0;
        if (!synth_has_type((enum dtype)t))
            continue;
        assert_int_equal(synth_groups_new(&g, (enum dtype)t, 1, NULL), B2_OK);
        uint8_t *bytes = mem_calloc(N, synth_groups_bytes(g));
        assert_non_null(bytes);
        for (int pass = 0; pass < 2; pass++) { /* the second scale is used */
            assert_int_equal(synth_groups_scale(g, pass ? 0.03f : 7.0f, NULL), B2_OK);
            synth_groups_draw(g, &r, bytes, N);
        }
        quant_decode_row((enum dtype)t, row, bytes, (int64_t)N * SYNTH_GROUP);
        for (int i = 0; i < N * SYNTH_GROUP; i++) {
            sum += (double)row[i];
            squares += (double)row[i] * (double)row[i];
        }
        double mean = sum / (N * SYNTH_GROUP), dev = sqrt(squares / (N * SYNTH_GROUP));
        if (!(fabs(mean) < 0.001) || !(fabs(dev / 0.03 - 1) < 0.05))
            fail_msg("%s: mean %g, deviation %g", dtype_info((enum dtype)t)->name, mean,
                     dev);
        mem_free(bytes);
        synth_groups_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bonsai),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_deviation),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
