/*
 * dtype.c - the table of types and the look-ups over it.
 *
 * Ids and block sizes follow ggml.h, those of PQ2_0 and PTQ1_0 the Prism fork
 * (FORMATS.md 1.1). tests/unit/test_dtype.c checks the table against itself and
 * against gguf-py.
 */
#include "tensor/dtype.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    W = DTF_WEIGHT,
    T = DTF_TERNARY,
    E = DTF_WRITE,
    F = DTF_FLOAT,
    A = DTF_APART,
    P = DTF_PRIVATE,
    Q = DTF_QUADS,
    O = DTF_ODD,
    NO_ID = -1
};

/* Q1_0 is binary, not ternary: it cannot hold a zero. The legacy layout of id 42 is
 * read so that it can be converted; nothing runs it or writes it. */
static const struct dtype_info table[N_DTYPES] = {
    [DT_F32] = {"F32", 0, 1, 4, W | E | F},
    [DT_F16] = {"F16", 1, 1, 2, W | E | F},
    [DT_BF16] = {"BF16", 30, 1, 2, W | E | F},
    [DT_Q4_0] = {"Q4_0", 2, 32, 18, W | E},
    [DT_Q4_1] = {"Q4_1", 3, 32, 20, W | E},
    [DT_Q5_0] = {"Q5_0", 6, 32, 22, W | E},
    [DT_Q5_1] = {"Q5_1", 7, 32, 24, W | E},
    [DT_Q8_0] = {"Q8_0", 8, 32, 34, W | E},
    [DT_Q2_K] = {"Q2_K", 10, 256, 84, W},
    [DT_Q3_K] = {"Q3_K", 11, 256, 110, W},
    [DT_Q4_K] = {"Q4_K", 12, 256, 144, W},
    [DT_Q5_K] = {"Q5_K", 13, 256, 176, W},
    [DT_Q6_K] = {"Q6_K", 14, 256, 210, W},
    [DT_TQ1_0] = {"TQ1_0", 34, 256, 54, W | T | E},
    [DT_TQ2_0] = {"TQ2_0", 35, 256, 66, W | T | E},
    [DT_Q1_0] = {"Q1_0", 41, 128, 18, W | E},
    [DT_Q2_0] = {"Q2_0", 42, 64, 18, W | T | E},
    [DT_Q2_0_G128] = {"Q2_0_G128", 42, 128, 34, T},
    [DT_PQ2_0] = {"PQ2_0", 142, 128, 34, W | T | E},
    [DT_PTQ1_0] = {"PTQ1_0", 143, 128, 28, W | T | E},
    [DT_I2_S] = {"I2_S", 36, 128, 32, W | T | A},
    [DT_B2_T64] = {"B2_T64", 0x42320040, 64, 14, W | T | E | P},
    [DT_B2_C128] = {"B2_C128", 0x42320180, 128, 25, W | T | E | P | Q},
    [DT_B2_C64] = {"B2_C64", 0x42320140, 64, 13, W | T | E | P | Q},
    [DT_B2_Q2] = {"B2_Q2", 0x42320240, 64, 17, W | E | P | O},
    [DT_B2_Q3] = {"B2_Q3", 0x42320340, 64, 25, W | E | P | O},
    [DT_F64] = {"F64", 28, 1, 8, F},
    [DT_I8] = {"I8", 24, 1, 1, 0},
    [DT_I16] = {"I16", 25, 1, 2, 0},
    [DT_I32] = {"I32", 26, 1, 4, 0},
    [DT_I64] = {"I64", 27, 1, 8, 0},
    [DT_U8] = {"U8", NO_ID, 1, 1, 0},
    [DT_BOOL] = {"BOOL", NO_ID, 1, 1, 0},
    [DT_F8_E4M3] = {"F8_E4M3", NO_ID, 1, 1, F},
    [DT_F8_E5M2] = {"F8_E5M2", NO_ID, 1, 1, F},
};

const struct dtype_info *dtype_info(enum dtype t)
{
    assert((unsigned)t < N_DTYPES);
    return &table[t];
}

bool dtype_from_gguf(enum dtype *out, uint32_t id)
{
    /* The mainline meaning of 42 stands first in the table and wins. */
    for (int t = 0; t < N_DTYPES; t++) {
        if (table[t].gguf_id != NO_ID && (uint32_t)table[t].gguf_id == id) {
            *out = (enum dtype)t;
            return true;
        }
    }
    return false;
}

/* ASCII only, whatever the locale: type names have no other letters. */
static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool same_name(const char *a, const char *b)
{
    while (*a && upper(*a) == upper(*b)) {
        a++;
        b++;
    }
    return upper(*a) == upper(*b);
}

bool dtype_from_name(enum dtype *out, const char *name)
{
    for (int t = 0; t < N_DTYPES; t++) {
        if (same_name(table[t].name, name)) {
            *out = (enum dtype)t;
            return true;
        }
    }
    return false;
}

enum b2_status dtype_row_bytes(uint64_t *out, enum dtype t, uint64_t n,
                               struct b2_err *err)
{
    const struct dtype_info *d = dtype_info(t);
    uint64_t block = (uint64_t)d->block;

    if (n % block != 0)
        return err_set(err, B2_EARG,
                       "a row of %" PRIu64 " weights is not a multiple of %s's group "
                       "of %d: %" PRIu64 " remain",
                       n, d->name, d->block, n % block);
    if (!mul_u64(out, n / block, (uint64_t)d->bytes))
        return err_set(err, B2_EARG, "a row of %" PRIu64 " %s weights overflows", n,
                       d->name);
    return B2_OK;
}

const char *dtype_list(void)
{
    return "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, "
           "Q6_K, TQ1_0, TQ2_0, Q1_0, Q2_0, PQ2_0, PTQ1_0, I2_S, B2_T64, B2_C128, "
           "B2_C64, B2_Q2, B2_Q3, F64, I8, I16, I32, I64";
}
