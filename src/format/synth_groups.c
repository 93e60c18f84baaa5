/*
 * synth_groups.c - a stock of random groups of 256 weights, encoded once and drawn from.
 *
 * Drawing whole groups makes the writer as fast as the disk; 27 billion weights drawn
 * one by one and packed would take minutes. Any 16,384 groups in a row differ in all
 * but a few, which no kernel and no test here can notice. 256 is a multiple of every
 * type's block, and a scale that spans it is one that every ternary type can hold.
 *
 * Q4_K, Q5_K and Q6_K have no encoder here: their blocks are random codes under scales
 * that give the wanted deviation around 0.
 */
#include "base/mem.h"
#include "base/reader.h"
#include "base/rng.h"
#include "format/synth_int.h"
#include "tensor/f16.h"
#include "tensor/quant.h"

#include <string.h>

enum {
    INDEX_BITS = 14,
    STOCK = 1 << INDEX_BITS,
    DRAWS = 64 / INDEX_BITS,
    MAX_SCALES = 8
};

struct synth_groups {
    enum dtype type;
    float *values;   /* [STOCK * SYNTH_GROUP] of deviation 1, NULL for the K types */
    float *widths;   /* [STOCK] factor per group, about 1 */
    uint8_t *codes;  /* K types: random bytes of all blocks */
    struct encoded { /* the stock at one deviation */
        float scale;
        uint8_t *blocks; /* [STOCK * group_bytes] */
    } kept[MAX_SCALES];
    int n_kept;
    const uint8_t *now; /* blocks to draw from */
    size_t group_bytes;
};

static bool is_k(enum dtype t)
{
    return t == DT_Q4_K || t == DT_Q5_K || t == DT_Q6_K;
}

bool synth_has_type(enum dtype t)
{
    return (dtype_info(t)->flags & DTF_WRITE && t != DT_Q1_0) || is_k(t);
}

/* Signs and zeros, a third each, for the types that can hold them without loss. */
static bool holds_ternary(enum dtype t)
{
    return dtype_info(t)->flags & (DTF_TERNARY | DTF_FLOAT);
}

static void fill_values(struct synth_groups *g, struct rng *r)
{
    const float spread = 1.22474487f; /* sqrt(3/2): thirds have a variance of 2/3 */

    for (int64_t i = 0; i < (int64_t)STOCK * SYNTH_GROUP; i++) {
        if (holds_ternary(g->type))
            g->values[i] = spread * (float)((int)rng_below(r, 3) - 1);
        else
            g->values[i] = (float)rng_normal(r);
    }
}

enum b2_status synth_groups_new(struct synth_groups **out, enum dtype type,
                                uint64_t seed, struct b2_err *err)
{
    const struct dtype_info *info = dtype_info(type);
    struct synth_groups *g = mem_calloc(1, sizeof *g);
    struct rng r = rng_make(seed);

    if (!g)
        goto no_memory;
    g->type = type;
    g->group_bytes = (size_t)SYNTH_GROUP / (size_t)info->block * (size_t)info->bytes;
    g->widths = mem_calloc(STOCK, sizeof *g->widths);
    if (is_k(type))
        g->codes = mem_calloc(STOCK, g->group_bytes);
    else
        g->values = mem_calloc((size_t)STOCK * SYNTH_GROUP, sizeof *g->values);
    if (!g->widths || !(g->codes || g->values))
        goto no_memory;
    for (int i = 0; i < STOCK; i++)
        g->widths[i] = 0.75f + 0.5f * (float)rng_f64(&r);
    if (g->values)
        fill_values(g, &r);
    for (size_t i = 0; g->codes && i < STOCK * g->group_bytes; i++)
        g->codes[i] = (uint8_t)(rng_u64(&r) >> 56);
    *out = g;
    return B2_OK;

no_memory:
    synth_groups_free(g);
    return err_set(err, B2_ENOMEM, "out of memory for %d groups of weights", STOCK);
}

void synth_groups_free(struct synth_groups *g)
{
    if (!g)
        return;
    mem_free(g->values);
    mem_free(g->widths);
    mem_free(g->codes);
    for (int i = 0; i < MAX_SCALES; i++)
        mem_free(g->kept[i].blocks);
    mem_free(g);
}

size_t synth_groups_bytes(const struct synth_groups *g)
{
    return g->group_bytes;
}

/* Scale and minimum of each of eight sub-blocks, the same six bits 32..63, in the 12
 * bytes of Q4_K: equal ones keep the weights centred. */
static void k4_scales(uint8_t dst[12], const uint8_t *random)
{
    for (int i = 0; i < 4; i++) {
        unsigned low = 32 | (random[i] & 31), high = 32 | (random[i + 4] & 31);
        dst[i] = dst[i + 4] = (uint8_t)(low | high >> 4 << 6);
        dst[i + 8] = (uint8_t)((high & 15) | (high & 15) << 4);
    }
}

/* One block: bytes of codes as they are, scales set. The deviation of uniform codes is
 * 4.61 (4 bits), 9.23 (5), 18.5 (6); the root mean square of the small scales is 48.4,
 * or 97.2 for the signed ones of Q6_K. */
static void encode_k(enum dtype t, uint8_t *dst, const uint8_t *codes, float scale)
{
    size_t bytes = (size_t)dtype_info(t)->bytes;

    memcpy(dst, codes, bytes);
    if (t == DT_Q6_K) {
        for (int i = 192; i < 208; i++) { /* magnitude 64..127, any sign */
            int mag = 64 | (codes[i] & 63);
            dst[i] = (uint8_t)(codes[i] & 128 ? -mag : mag);
        }
        le_put16(dst + 208, f16_from_f32(scale / (18.5f * 97.2f)));
        return;
    }
    float d = scale / ((t == DT_Q4_K ? 4.61f : 9.23f) * 48.4f);
    float middle = t == DT_Q4_K ? 7.5f : 15.5f;
    le_put16(dst, f16_from_f32(d));
    le_put16(dst + 2, f16_from_f32(middle * d));
    k4_scales(dst + 4, codes + 4);
}

static void encode_stock(const struct synth_groups *g, uint8_t *blocks, float scale)
{
    float row[SYNTH_GROUP];

    for (int64_t i = 0; i < STOCK; i++) {
        uint8_t *dst = blocks + (size_t)i * g->group_bytes;
        float s = scale * g->widths[i];
        if (g->codes) {
            encode_k(g->type, dst, g->codes + (size_t)i * g->group_bytes, s);
            continue;
        }
        for (int j = 0; j < SYNTH_GROUP; j++) {
            float v = s * g->values[i * SYNTH_GROUP + j];
            /* A brain float of this size is a half and an F32 too. */
            row[j] = holds_ternary(g->type) ? f32_from_bf16(bf16_from_f32(v)) : v;
        }
        quant_encode_row(g->type, dst, row, SYNTH_GROUP);
    }
}

enum b2_status synth_groups_scale(struct synth_groups *g, float scale,
                                  struct b2_err *err)
{
    struct encoded *e = g->kept;

    while (e < g->kept + g->n_kept && e->scale != scale)
        e++;
    if (e == g->kept + g->n_kept) {
        if (g->n_kept == MAX_SCALES) /* more than any model here has */
            e = &g->kept[--g->n_kept];
        if (!e->blocks)
            e->blocks = mem_calloc(STOCK, g->group_bytes);
        if (!e->blocks)
            return err_set(err, B2_ENOMEM, "out of memory for %d groups", STOCK);
        e->scale = scale;
        encode_stock(g, e->blocks, scale);
        g->n_kept++;
    }
    g->now = e->blocks;
    return B2_OK;
}

void synth_groups_draw(const struct synth_groups *g, struct rng *r, uint8_t *dst,
                       int64_t n)
{
    uint64_t bits = 0;

    for (int64_t i = 0; i < n; i++, dst += g->group_bytes) {
        if (i % DRAWS == 0)
            bits = rng_u64(r);
        memcpy(dst, g->now + (size_t)(bits & (STOCK - 1)) * g->group_bytes,
               g->group_bytes);
        bits >>= INDEX_BITS;
    }
}
