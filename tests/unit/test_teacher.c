/*
 * test_teacher.c - rows of a teacher file against NumPy, and damaged blocks.
 */
#include "eval/teacher.h"

#include "base/mem.h"
#include "base/str.h"
#include "unit/eval_script.h"
#include "unit/unit.h"

#include <math.h>

/* One block of n rows of script rows first.., k tokens each. */
static uint8_t *make_block(int first, int n, int64_t k)
{
    uint8_t *block = mem_calloc(teacher_block_bytes(k, n), 1);
    int32_t scratch[SCRIPT_VOCAB];

    assert_non_null(block);
    for (int i = 0; i < n; i++) {
        float x[SCRIPT_VOCAB];
        struct logprob b;
        script_row(x, first + i, false);
        assert_int_equal(logprob_row(&b, NULL, x, SCRIPT_VOCAB, NULL), B2_OK);
        teacher_put_row(block + 4 + (size_t)i * teacher_row_bytes(k), x, SCRIPT_VOCAB,
                        &b, script_want[first + i].target, k, scratch);
    }
    assert_int_equal(teacher_seal(block, k, n, NULL), B2_OK);
    return block;
}

static double kld_of(const uint8_t *block, int row, int64_t k, int i,
                     struct teacher_row *t)
{
    float x[SCRIPT_VOCAB];
    struct logprob c;

    script_row(x, row, true);
    assert_int_equal(logprob_row(&c, NULL, x, SCRIPT_VOCAB, NULL), B2_OK);
    assert_int_equal(teacher_get_row(t, block, k, i, SCRIPT_VOCAB, NULL), B2_OK);
    return teacher_kld(t, &c, x);
}

/* With the whole vocabulary a row is the distribution itself. */
static void test_whole(void **state)
{
    uint8_t *block = make_block(0, SCRIPT_ROWS, SCRIPT_VOCAB);

    (void)state;
    assert_int_equal(teacher_check(block, SCRIPT_VOCAB, SCRIPT_ROWS, NULL), B2_OK);
    for (int r = 0; r < SCRIPT_ROWS; r++) {
        struct teacher_row t;
        ROW_CHECK(r, fabs(kld_of(block, r, SCRIPT_VOCAB, r, &t) - script_want[r].kld) <
                         2e-6);
        ROW_CHECK(r, teacher_token(&t, 0) == (uint32_t)script_want[r].top_base);
        ROW_CHECK(r, isinf(t.tail));
        for (int i = 1; i < SCRIPT_VOCAB; i++)
            ROW_CHECK(r, teacher_logp(&t, i) <= teacher_logp(&t, i - 1));
    }
    mem_free(block);
}

static void test_tail(void **state)
{
    static const struct {
        int row, k;
        double tail, kld;
    } cases[] = {
#include "golden/eval/teacher.inc"
    };

    (void)state;
    for (size_t c = 0; c < countof(cases); c++) {
        uint8_t *block = make_block(cases[c].row, 1, cases[c].k);
        struct teacher_row t;
        double kld = kld_of(block, cases[c].row, cases[c].k, 0, &t);
        ROW_CHECK(c, fabs(kld - cases[c].kld) < 2e-6);
        ROW_CHECK(c, fabs(t.tail - cases[c].tail) < 1e-5);
        ROW_CHECK(c, kld <= script_want[cases[c].row].kld + 2e-6); /* a lower bound */
        mem_free(block);
    }
}

/* One changed byte anywhere is found by the checksum. */
static void test_damage(void **state)
{
    uint8_t *block = make_block(0, 2, 8);
    size_t n = teacher_block_bytes(8, 2);
    struct b2_err err = {0};
    struct teacher_row t;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        block[i] ^= 1;
        ROW_CHECK(i, teacher_check(block, 8, 2, &err) == B2_EFORMAT && err.msg[0]);
        block[i] ^= 1;
    }
    assert_int_equal(teacher_check(block, 8, 2, NULL), B2_OK);
    /* What a checksum does not catch, because it was made so: still no wild token. */
    block[4 + 8] = 50; /* the first token of row 0; the vocabulary ends at 49 */
    assert_int_equal(teacher_get_row(&t, block, 8, 0, SCRIPT_VOCAB, &err), B2_EFORMAT);
    block[4 + 8] = 49;
    memset(block + 4 + 8 + 32, 0xff, 4); /* a NaN */
    assert_int_equal(teacher_get_row(&t, block, 8, 0, SCRIPT_VOCAB, &err), B2_EFORMAT);
    mem_free(block);
}

static void test_head(void **state)
{
    struct str s = {0};
    struct teacher_head h;
    struct b2_err err = {0};

    (void)state;
    teacher_put_head(&s, "{\"k\":1}");
    assert_int_equal(teacher_get_head(&h, (uint8_t *)s.data, s.len, NULL), B2_OK);
    assert_int_equal(h.n, 7);
    assert_int_equal(h.end, s.len);
    for (size_t n = 0; n < s.len; n++) {
        enum b2_status rc = teacher_get_head(&h, (uint8_t *)s.data, n, &err);
        ROW_CHECK(n, rc == (n < 12 ? B2_EFORMAT : B2_ETRUNC) && err.msg[0]);
    }
    s.data[11] = 0x7f; /* a head of 2 GB */
    assert_int_equal(teacher_get_head(&h, (uint8_t *)s.data, s.len, &err), B2_EFORMAT);
    str_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_tail),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
