/*
 * dtype.h - the types a tensor can have: names, ids, block sizes, bytes.
 *
 * One table, checked against itself at start of the tests. The id is the number in a
 * GGUF file; two types share id 42 and are told apart by the reader (FORMATS: row
 * bytes against the distance to the next tensor).
 */
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

#include "base/error.h"

enum dtype {
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_Q4_0,
    DT_Q4_1,
    DT_Q5_0,
    DT_Q5_1,
    DT_Q8_0,
    DT_Q2_K, /* the K types are read, not written */
    DT_Q3_K,
    DT_Q4_K,
    DT_Q5_K,
    DT_Q6_K,
    DT_TQ1_0,
    DT_TQ2_0,
    DT_Q1_0,      /* binary: -d or +d, no zero, so not DTF_TERNARY */
    DT_Q2_0,      /* id 42, groups of 64 (mainline) */
    DT_Q2_0_G128, /* id 42, groups of 128: the legacy layout; convert to PQ2_0 */
    DT_PQ2_0,     /* id 142 */
    DT_PTQ1_0,    /* id 143 */
    DT_I2_S,      /* id 36: codes alone, the one scale lies behind them (tensor.h) */
    DT_B2_T64,    /* ours: groups of 64 in 14 bytes (format/private.h) */
    DT_B2_C128,   /* ours: words of four, groups of 128 in 25 bytes */
    DT_B2_C64,    /* the same, groups of 64 in 13 bytes */
    DT_B2_Q2,     /* ours: 4 odd levels, groups of 64 in 17 bytes */
    DT_B2_Q3,     /* 8 odd levels, groups of 64 in 25 bytes */
    DT_F64,       /* from here on: containers only, never weights of a matmul */
    DT_I8,
    DT_I16,
    DT_I32,
    DT_I64,
    DT_U8, /* safetensors only: no GGUF id */
    DT_BOOL,
    DT_F8_E4M3,
    DT_F8_E5M2,
    N_DTYPES
};

enum {
    DTF_WEIGHT = 1 << 0,  /* a matmul can use it */
    DTF_TERNARY = 1 << 1, /* codes are -1, 0, +1 (a 2-bit field may hold a fourth) */
    DTF_WRITE = 1 << 2,   /* quant_row() can make it */
    DTF_FLOAT = 1 << 3,   /* plain numbers, block of one */
    DTF_APART = 1 << 4,   /* blocks hold codes; their scale is tensor.scale */
    DTF_PRIVATE = 1 << 5, /* a file must declare it: format/private.h */
    DTF_QUADS = 1 << 6,   /* not all ternary codes exist: words of tensor/quad.h */
    DTF_ODD = 1 << 7,     /* codes are odd, an even number of them: tensor/odd.c */
};

struct dtype_info {
    const char *name; /* "PTQ1_0", as printed and as --rule takes it */
    int gguf_id;      /* -1: has none */
    int block;        /* weights per block */
    int bytes;        /* bytes per block */
    unsigned flags;
};

const struct dtype_info *dtype_info(enum dtype t); /* never NULL for t < N_DTYPES */

/* By GGUF id; for 42 gives DT_Q2_0. False: unknown id. */
bool dtype_from_gguf(enum dtype *out, uint32_t id);
/* By the name in the table, any case. False: unknown name. */
bool dtype_from_name(enum dtype *out, const char *name);

/* Bytes of a row of n weights. B2_EARG: n is not a multiple of the block (message has
 * the row, the block and the remainder) or the size overflows. */
enum b2_status dtype_row_bytes(uint64_t *out, enum dtype t, uint64_t n,
                               struct b2_err *err) NODISCARD;

/* "F32, F16, …": the names of all types that a GGUF may hold, for messages. */
const char *dtype_list(void);

#endif
