/*
 * fuzz_teacher.c - a teacher file's head, and a block of rows that nobody vouches for.
 *
 * First byte: k. The rest is read as a file, and as a block of as many rows as fit: rows
 * are either refused with a reason or hold tokens of the vocabulary and log-probabilities
 * that are numbers, so that the divergence is one.
 */
#include "eval/teacher.h"
#include "fuzz.h"

#include <math.h>

enum { VOCAB = 64 };

static void check_rows(const uint8_t *block, size_t size, int64_t k)
{
    float x[VOCAB];
    struct logprob c = {.max = 1.0, .sum = VOCAB, .lse = 1.0 + log((double)VOCAB)};
    struct b2_err err = {0};
    int64_t n = 0;

    for (int v = 0; v < VOCAB; v++)
        x[v] = 1.0f;
    while (teacher_block_bytes(k, n + 1) <= size)
        n++;
    if (n == 0)
        return;
    if (teacher_check(block, k, n, &err))
        fuzz_require(err.msg[0] != '\0', "a refused block has a reason");
    for (int64_t i = 0; i < n; i++) {
        struct teacher_row r;
        if (teacher_get_row(&r, block, k, i, VOCAB, &err)) {
            fuzz_require(err.msg[0] != '\0', "a refused row has a reason");
            continue;
        }
        for (int64_t t = 0; t < k; t++)
            fuzz_require(teacher_token(&r, t) < VOCAB, "a token of the vocabulary");
        double kld = teacher_kld(&r, &c, x);
        fuzz_require(isfinite(kld) && kld >= 0.0, "a divergence");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct teacher_head head;
    struct b2_err err = {0};

    if (size == 0)
        return 0;
    size_t n = size - 1;
    uint8_t *copy = fuzz_copy(data + 1, n);
    if (!copy)
        return 0;
    if (teacher_get_head(&head, copy, n, &err) == B2_OK) {
        fuzz_require(head.end <= n && head.n <= n, "the head lies in the file");
        fuzz_touch(head.text, head.n);
    } else {
        fuzz_require(err.msg[0] != '\0', "a refused head has a reason");
    }
    check_rows(copy, n, 1 + data[0] % VOCAB);
    free(copy);
    return 0;
}
