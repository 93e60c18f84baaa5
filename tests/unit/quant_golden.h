/*
 * quant_golden.h - reads tests/golden/quant/NAME.bin and compares a codec with it.
 *
 * Values are compared by their bits, so that the sign of zero counts too.
 */
#ifndef UNIT_QUANT_GOLDEN_H
#define UNIT_QUANT_GOLDEN_H

#include "base/mem.h"
#include "base/reader.h"
#include "tensor/quant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct quant_golden {
    uint8_t bytes[32768]; /* the file */
    int64_t n_dec, n_enc; /* weights */
    const uint8_t *dec_bytes, *enc_bytes;
    float dec_want[256 * 5], enc_src[256 * 10];
};

static inline void golden_floats(float *out, struct rd *r, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = rd_f32(r);
}

/* Reads the vectors of type t; fails the test when they are not there. */
static inline void golden_read(struct quant_golden *g, enum dtype t)
{
    const struct dtype_info *info = dtype_info(t);
    char path[512];

    snprintf(path, sizeof path, "%s/quant/%s.bin", B2_GOLDEN_DIR, info->name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(g->bytes, 1, sizeof g->bytes, f);
    fclose(f);
    struct rd r = rd_make(g->bytes, size);
    uint32_t dec = rd_u32(&r), enc = rd_u32(&r);
    assert_int_equal(rd_u32(&r), info->block);
    assert_int_equal(rd_u32(&r), info->bytes);
    g->n_dec = (int64_t)dec * info->block;
    g->n_enc = (int64_t)enc * info->block;
    g->dec_bytes = rd_bytes(&r, (uint64_t)dec * (uint64_t)info->bytes);
    golden_floats(g->dec_want, &r, g->n_dec);
    golden_floats(g->enc_src, &r, g->n_enc);
    g->enc_bytes = rd_bytes(&r, (uint64_t)enc * (uint64_t)info->bytes);
    assert_true(r.ok && rd_left(&r) == 0);
}

static inline void golden_check(enum dtype t)
{
    static struct quant_golden g;
    static float got[256 * 5];
    static uint8_t out[66 * 10];
    const struct dtype_info *info = dtype_info(t);

    golden_read(&g, t);
    quant_decode_row(t, got, g.dec_bytes, g.n_dec);
    for (int64_t i = 0; i < g.n_dec; i++) {
        if (memcmp(&got[i], &g.dec_want[i], sizeof got[i]) != 0)
            fail_msg("%s decode %d: got %a want %a", info->name, (int)i, (double)got[i],
                     (double)g.dec_want[i]);
    }
    if (!(info->flags & DTF_WRITE))
        return;
    assert_true(g.n_enc >= 10 * info->block);
    quant_encode_row(t, out, g.enc_src, g.n_enc);
    for (int64_t i = 0; i < g.n_enc / info->block * info->bytes; i++) {
        if (out[i] != g.enc_bytes[i])
            fail_msg("%s encode block %d byte %d: got %02x want %02x", info->name,
                     (int)(i / info->bytes), (int)(i % info->bytes), out[i],
                     g.enc_bytes[i]);
    }
}

/* Encodes one group that is filled with v, decodes it, and gives the first weight. */
static inline float golden_fill(enum dtype t, float v)
{
    float x[256], y[256];
    uint8_t block[256];

    for (int i = 0; i < 256; i++)
        x[i] = v;
    quant_encode_row(t, block, x, dtype_info(t)->block);
    quant_decode_row(t, y, block, dtype_info(t)->block);
    return y[0];
}

#endif
