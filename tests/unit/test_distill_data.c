/*
 * test_distill_data.c - blocks of training texts: documents kept apart, what is scored
 * never learnt from and the same for every length of training, shares by tokens.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "base/mem.h"
#include "base/rng.h"
#include "compress/distill_int.h"
#include "unit/scratch.h"
#include "unit/tiny_model.h"
#include "unit/unit.h"

enum { CTX = 16, MAX_HELD = 64 };

static struct scratch scratch;
static char teacher[300], docs[300], lines[320], region[300];
static struct model *model;

/* Texts of documents: words of one letter are one token, so that places can be counted. */
static void write_docs(const char *path, int n_docs, uint64_t seed, bool json)
{
    struct rng r = rng_make(seed);
    struct str s = {0};
    struct b2_err err = {0};

    for (int i = 0; i < n_docs; i++) {
        const int words = 1 + (int)rng_below(&r, 30);
        str_put(&s, json ? "{\"text\":\"" : "");
        for (int k = 0; k < words; k++)
            str_printf(&s, "%c", (char)('a' + (int)rng_below(&r, 26)));
        str_put(&s, json ? "\"}\n" : i % 2 ? "\n\f\n" : "\n<|endoftext|>\n");
    }
    assert_int_equal(file_write_all(path, s.data, s.len, true, &err), B2_OK);
    str_free(&s);
}

static void make(struct distill *d, struct distill_report *r,
                 const struct distill_params *p)
{
    struct b2_err err = {0};

    *r = (struct distill_report){0};
    *d = (struct distill){.p = p, .r = r, .tm = model};
    if (distill_data(d, &err))
        fail_msg("%s", err.msg);
}

/* A document's start is what the stream says, brute force. */
static void check_first(const struct calib_stream *s, int64_t block, const int32_t *ids,
                        const int32_t *first)
{
    for (int64_t t = 0; t < CTX; t++) {
        int64_t want = 0;
        for (int64_t k = 0; k < s->n_docs; k++)
            if (s->doc[k] >= block * CTX && s->doc[k] <= block * CTX + t)
                want = s->doc[k] - block * CTX;
        assert_int_equal(first[t], want);
        if (t > 0 || !tok_adds_bos(model->tok))
            assert_int_equal(ids[t], s->ids.id[block * CTX + t]);
    }
}

static void test_blocks(void **state)
{
    static const int64_t steps[] = {3, 50};
    const char *const files[] = {docs, lines};
    const struct calib_params data = {.files = files, .n_files = 2};
    int32_t ids[CTX], first[CTX], held[2][MAX_HELD * 2 * CTX];
    int64_t n_held[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct distill_params p = {.data = &data,
                                         .steps = steps[i],
                                         .batch = 4,
                                         .ctx = CTX,
                                         .held_tokens = 5 * CTX,
                                         .seed = 3};
        struct distill d;
        struct distill_report r;
        int64_t inside = 0;
        make(&d, &r, &p);
        assert_int_equal(d.n_order, 4 * steps[i]);
        assert_int_equal(r.n_regions, 2);
        n_held[i] = d.n_held;
        assert_true(d.n_held > 2 && d.n_held <= 10);
        memcpy(held[i], d.held, (size_t)(d.n_held * 2 * CTX) * sizeof(int32_t));
        for (int64_t k = 0; k < d.n_order; k++) {
            const struct calib_stream *s = &d.streams[d.order[k].source];
            distill_sequence(&d, k, ids, first);
            check_first(s, d.order[k].block, ids, first);
            inside += first[CTX - 1] > 0;
            for (int64_t h = 0; h < d.n_held; h++)
                assert_true(memcmp(ids, d.held + 2 * h * CTX, sizeof ids) != 0);
        }
        assert_true(inside > 0);
        distill_data_free(&d);
    }
    assert_int_equal(n_held[0], n_held[1]);
    assert_memory_equal(held[0], held[1],
                        (size_t)(n_held[0] * 2 * CTX) * sizeof(int32_t));
}

/* Shares are of tokens, also where a text has to be used more than once. */
static void test_shares(void **state)
{
    const char *files[2] = {docs, NULL};
    const char *const regions[] = {region};
    const struct calib_params data = {.files = files, .n_files = 2};
    const struct distill_params p = {.data = &data,
                                     .held = regions,
                                     .n_held = 1,
                                     .held_tokens = 3 * CTX,
                                     .steps = 100,
                                     .batch = 4,
                                     .ctx = CTX};
    struct distill d;
    struct distill_report r;
    char word[400];

    (void)state;
    snprintf(word, sizeof word, "%s=3", lines);
    files[1] = word;
    make(&d, &r, &p);
    assert_int_equal(r.n_regions, 1);
    assert_int_equal(r.region[0].seqs, 3);
    assert_int_equal(d.train.source[0].seqs, 100);
    assert_int_equal(d.train.source[1].seqs, 300);
    /* every block of the short text, as often as every other, give or take one */
    const int64_t blocks = d.train.source[1].tokens / CTX;
    assert_true(blocks > 1 && blocks < 300);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t n = 0;
        for (int64_t k = 0; k < d.n_order; k++)
            n += d.order[k].source == 1 && d.order[k].block == b;
        assert_in_range(n, 300 / blocks, 300 / blocks + 1);
    }
    distill_data_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_shares),
    };
    const struct tiny_params tiny = {.seed = 7, .type = DT_F32, .vec_type = DT_F32};
    const struct model_params mp = {0};
    struct b2_err err = {0};

    scratch_make(&scratch);
    snprintf(teacher, sizeof teacher, "%s/teacher.gguf", scratch.dir);
    snprintf(docs, sizeof docs, "%s/docs.txt", scratch.dir);
    snprintf(lines, sizeof lines, "%s/lines.jsonl", scratch.dir);
    snprintf(region, sizeof region, "%s/region.txt", scratch.dir);
    write_docs(docs, 130, 1, false);
    write_docs(lines, 60, 2, true);
    write_docs(region, 20, 5, false);
    if (tiny_model_write(teacher, &tiny, &err) ||
        model_open(&model, teacher, &mp, &err))
        fail_msg("%s", err.msg);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    model_close(model);
    scratch_remove(&scratch);
    return rc;
}
