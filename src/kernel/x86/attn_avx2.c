/*
 * attn_avx2.c - cache rows, scores and weighted values, in AVX2 and F16C.
 *
 * Same bits as ref/attn_ref.c. Eight positions are scored together: the products of a
 * block come out of a transposing sum as eight neighbours, which one register of scales
 * turns into floats. Values are turned into floats once for two rows of weights.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"
#include "tensor/f16.h"

#include <math.h>
#include <string.h>

enum { POS = 8, HALF = KV_BLOCK / 2, QUADS = KV_BLOCK / 8, PIECE = 64 };

static const int32_t INF_BITS = 0x7f800000;

/* ---- rows into the cache ---- */

struct block {
    __m256 x[QUADS];
};

static ALWAYS_INLINE struct block load_block(const float *x)
{
    struct block b;

    for (int i = 0; i < QUADS; i++)
        b.x[i] = _mm256_loadu_ps(x + 8 * i);
    return b;
}

/* The bits of the largest |x|, as integers: a NaN is the largest. */
static ALWAYS_INLINE int32_t max_bits(const struct block *b)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i m = _mm256_and_si256(_mm256_castps_si256(b->x[0]), mask);

    for (int i = 1; i < QUADS; i++)
        m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_castps_si256(b->x[i]), mask));
    __m128i h =
        _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtsi128_si32(h);
}

static bool finite_bits(float x)
{
    return (f32_bits(x) & 0x7fffffffu) < (uint32_t)INF_BITS;
}

static float inverse(float scale)
{
    float inv = 1.0f / scale;

    return finite_bits(scale) && finite_bits(inv) ? inv : 0.0f;
}

/* Codes of a block, cut to [low, high]; a block with NaN or infinity: zeros. As words, in
 * the order that packing gives. */
static ALWAYS_INLINE void round_words(__m256i out[2], const struct block *b, float inv,
                                      float low, float high, bool fine)
{
    const __m256 lo = _mm256_set1_ps(low), hi = _mm256_set1_ps(high);
    const __m256 by = _mm256_set1_ps(inv);
    __m256i v[QUADS];

    for (int i = 0; i < QUADS; i++) {
        __m256 x = _mm256_mul_ps(b->x[i], by);
        v[i] = _mm256_cvtps_epi32(_mm256_max_ps(_mm256_min_ps(x, hi), lo));
    }
    out[0] = fine ? _mm256_packs_epi32(v[0], v[1]) : _mm256_setzero_si256();
    out[1] = fine ? _mm256_packs_epi32(v[2], v[3]) : _mm256_setzero_si256();
}

/* As bytes, in order. */
static ALWAYS_INLINE __m256i round_block(const struct block *b, float inv, float low,
                                         float high, bool fine)
{
    __m256i w[2];

    round_words(w, b, inv, low, high, fine);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(w[0], w[1]),
                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

void kernel_kv_put_q8_avx2(uint8_t *code, uint16_t *scale, int64_t scale_step,
                           const float *x, int64_t dim)
{
    for (int64_t i = 0; i < dim / KV_BLOCK; i++) {
        struct block b = load_block(x + i * KV_BLOCK);
        int32_t bits = max_bits(&b);
        bool fine = bits < INF_BITS;
        uint16_t d = f16_from_f32(fine ? f32_from_bits((uint32_t)bits) / 127.0f : NAN);
        scale[i * scale_step] = d;
        store256(code + i * KV_BLOCK,
                 round_block(&b, inverse(f32_from_f16(d)), -127.0f, 127.0f, fine));
    }
}

/* The first value whose |x| has these bits. */
static ALWAYS_INLINE float first_with(const struct block *b, const float *x,
                                      int32_t bits)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff), want = _mm256_set1_epi32(bits);
    unsigned found = 0;

    for (int i = 0; i < QUADS; i++) {
        __m256i v = _mm256_and_si256(_mm256_castps_si256(b->x[i]), mask);
        found |= (unsigned)_mm256_movemask_ps(
                     _mm256_castsi256_ps(_mm256_cmpeq_epi32(v, want)))
                 << (8 * i);
    }
    return x[__builtin_ctz(found)];
}

void kernel_kv_put_q4_avx2(uint8_t *code, uint16_t *scale, int64_t scale_step,
                           const float *x, int64_t dim)
{
    for (int64_t i = 0; i < dim / KV_BLOCK; i++, x += KV_BLOCK, code += HALF) {
        struct block b = load_block(x);
        int32_t bits = max_bits(&b);
        bool fine = bits < INF_BITS;
        uint16_t d = f16_from_f32(fine ? first_with(&b, x, bits) / -8.0f : NAN);
        __m256i q = round_block(&b, inverse(f32_from_f16(d)), -8.0f, 7.0f, fine);
        q = _mm256_add_epi8(q, _mm256_set1_epi8(8));
        scale[i * scale_step] = d;
        __m128i hi = _mm_slli_epi16(_mm256_extracti128_si256(q, 1), 4);
        store128(code, _mm_or_si128(_mm256_castsi256_si128(q), hi));
    }
}

void kernel_kv_query_avx2(const struct kv_query *q, int64_t r, const float *x)
{
    const float most = KV_QUERY_MAX;

    for (int64_t i = 0; i < q->dim / KV_BLOCK; i++) {
        int16_t *code = q->code + r * q->dim + i * KV_BLOCK;
        struct block b = load_block(x + i * KV_BLOCK);
        int32_t bits = max_bits(&b);
        bool fine = bits < INF_BITS;
        float d = fine ? f32_from_bits((uint32_t)bits) / most : NAN;
        __m256i w[2];
        q->scale[r * (q->dim / KV_BLOCK) + i] = d;
        round_words(w, &b, inverse(d), -most, most, fine);
        store256(code, _mm256_permute4x64_epi64(w[0], 0xd8));
        store256(code + 16, _mm256_permute4x64_epi64(w[1], 0xd8));
    }
}

/* ---- rows out of the cache ---- */

void kernel_kv_widen_q4_avx2(int8_t *dst, const struct kv_rows *rows)
{
    const __m256i low = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8);

    for (int64_t p = 0; p < rows->n; p++) {
        const uint8_t *src = rows->row + p * rows->row_bytes;
        for (int64_t b = 0; b < rows->dim / KV_BLOCK; b++, src += HALF) {
            __m128i v = load128(src);
            __m256i q = _mm256_inserti128_si256(_mm256_castsi128_si256(v),
                                                _mm_srli_epi16(v, 4), 1);
            store256(dst, _mm256_sub_epi8(_mm256_and_si256(q, low), eight));
            dst += KV_BLOCK;
        }
    }
}

static ALWAYS_INLINE __m256 from_bytes(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

static ALWAYS_INLINE float one_half(uint16_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

void kernel_kv_get_q8_avx2(float *dst, const struct kv_rows *rows)
{
    for (int64_t p = 0; p < rows->n; p++) {
        const uint8_t *src = rows->row + p * rows->row_bytes;
        for (int64_t b = 0; b < rows->dim / KV_BLOCK; b++, dst += KV_BLOCK) {
            __m256 d = _mm256_set1_ps(one_half(rows->scale[b * rows->scale_step + p]));
            for (int i = 0; i < QUADS; i++, src += 8)
                _mm256_storeu_ps(dst + 8 * i, _mm256_mul_ps(d, from_bytes(src)));
        }
    }
}

/* ---- scores ---- */

/* Rows of m <= 8 positions from p on; those beyond the last are the last. */
static ALWAYS_INLINE void rows_at(const uint8_t *row[POS], const struct kv_rows *k,
                                  int64_t p)
{
    for (int64_t j = 0; j < POS; j++)
        row[j] = k->row + (p + j < k->n ? p + j : k->n - 1) * k->row_bytes;
}

/* Scales of block b of m positions from p on; the others are 0. */
static ALWAYS_INLINE __m256 scales_at(const struct kv_rows *k, int64_t b, int64_t p,
                                      int64_t m)
{
    const uint16_t *s = k->scale + b * k->scale_step + p;
    uint16_t some[POS] = {0};

    if (m >= POS)
        return _mm256_cvtph_ps(load128(s));
    memcpy(some, s, (size_t)m * sizeof *s);
    return _mm256_cvtph_ps(load128(some));
}

/* Products of one block of eight keys with a query's. */
static ALWAYS_INLINE __m256i block_sums(const uint8_t *const row[POS], int64_t at,
                                        const int16_t *code)
{
    __m256i q0 = load256(code), q1 = load256(code + 16), sum[POS];

    for (int j = 0; j < POS; j++) {
        if (at % 64 == 0)
            prefetch_after(row[j] + at);
        __m256i k0 = _mm256_cvtepi8_epi16(load128(row[j] + at));
        __m256i k1 = _mm256_cvtepi8_epi16(load128(row[j] + at + 16));
        sum[j] = _mm256_add_epi32(_mm256_madd_epi16(k0, q0), _mm256_madd_epi16(k1, q1));
    }
    return sum_each(sum);
}

void kernel_kv_score_q8_avx2(float *y, int64_t y_step, const struct kv_rows *k,
                             const struct kv_query *q)
{
    const int64_t n_blocks = q->dim / KV_BLOCK;

    for (int64_t p = 0; p < k->n; p += POS) {
        const uint8_t *row[POS];
        int64_t m = k->n - p < POS ? k->n - p : POS;
        rows_at(row, k, p);
        for (int64_t r = 0; r < q->rows; r++) {
            __m256 acc = _mm256_setzero_ps();
            for (int64_t b = 0; b < n_blocks; b++) {
                const int16_t *code = q->code + r * q->dim + b * KV_BLOCK;
                __m256i sum = block_sums(row, b * KV_BLOCK, code);
                __m256 d = _mm256_mul_ps(scales_at(k, b, p, m),
                                         _mm256_set1_ps(q->scale[r * n_blocks + b]));
                acc = _mm256_add_ps(acc, _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum)));
            }
            if (m == POS)
                _mm256_storeu_ps(y + r * y_step + p, acc);
            else
                _mm256_maskstore_ps(y + r * y_step + p, first_lanes(m), acc);
        }
    }
}

/* Sixteen values of a row of halves, or the n that are left and zeros. */
static ALWAYS_INLINE void load_halves(__m256 v[2], const uint8_t *row, int64_t n)
{
    uint8_t some[32] = {0};

    if (n < KF_LANES) {
        memcpy(some, row, (size_t)n * 2);
        row = some;
    }
    v[0] = _mm256_cvtph_ps(load128(row));
    v[1] = _mm256_cvtph_ps(load128(row + 16));
}

static ALWAYS_INLINE void load_floats(__m256 v[2], const float *x, int64_t n)
{
    if (n >= KF_LANES) {
        v[0] = _mm256_loadu_ps(x);
        v[1] = _mm256_loadu_ps(x + 8);
        return;
    }
    v[0] = _mm256_maskload_ps(x, first_lanes(n));
    v[1] = n > 8 ? _mm256_maskload_ps(x + 8, first_lanes(n - 8)) : _mm256_setzero_ps();
}

/* n_p keys times n_q queries, both at most 2. */
static ALWAYS_INLINE void score_halves(float *y, int64_t y_step,
                                       const struct kv_rows *k, int64_t p,
                                       const float *q, int64_t q_step, int n_p, int n_q)
{
    __m256 acc[2][2][2];

    for (int i = 0; i < 8; i++)
        acc[i / 4][i / 2 % 2][i % 2] = _mm256_setzero_ps();
    for (int64_t i = 0; i < k->dim; i += KF_LANES) {
        __m256 kv[2], qv[2][2];
        for (int r = 0; r < n_q; r++)
            load_floats(qv[r], q + r * q_step + i, k->dim - i);
        for (int j = 0; j < n_p; j++) {
            if (i % 32 == 0)
                prefetch_after(k->row + (p + j) * k->row_bytes + 2 * i);
            load_halves(kv, k->row + (p + j) * k->row_bytes + 2 * i, k->dim - i);
            for (int r = 0; r < n_q; r++)
                for (int h = 0; h < 2; h++)
                    acc[r][j][h] =
                        _mm256_add_ps(acc[r][j][h], _mm256_mul_ps(kv[h], qv[r][h]));
        }
    }
    for (int r = 0; r < n_q; r++)
        for (int j = 0; j < n_p; j++)
            y[r * y_step + p + j] = fold8(_mm256_add_ps(acc[r][j][0], acc[r][j][1]));
}

void kernel_kv_score_f16_avx2(float *y, int64_t y_step, const struct kv_rows *k,
                              const struct kf_mat *q)
{
    int64_t p = 0;

    for (; p + 2 <= k->n; p += 2) {
        int64_t r = 0;
        for (; r + 2 <= q->rows; r += 2)
            score_halves(y + r * y_step, y_step, k, p, q->v + r * q->step, q->step, 2,
                         2);
        if (r < q->rows)
            score_halves(y + r * y_step, y_step, k, p, q->v + r * q->step, q->step, 2,
                         1);
    }
    if (p < k->n)
        for (int64_t r = 0; r < q->rows; r++)
            score_halves(y + r * y_step, y_step, k, p, q->v + r * q->step, q->step, 1,
                         1);
}

/* ---- weighted values ---- */

/* Eight values of position p from i on; d is the scale of their block. */
static ALWAYS_INLINE __m256 load_value(const struct kv_rows *v, int64_t p, int64_t i,
                                       __m256 d, bool half)
{
    if (half)
        return _mm256_cvtph_ps(load128(v->row + p * v->row_bytes + 2 * i));
    return _mm256_mul_ps(d, from_bytes(v->row + p * v->row_bytes + i));
}

static ALWAYS_INLINE __m256 value_scale(const struct kv_rows *v, int64_t p, int64_t i,
                                        bool half)
{
    if (half)
        return _mm256_setzero_ps();
    return _mm256_set1_ps(one_half(v->scale[i / KV_BLOCK * v->scale_step + p]));
}

/* 8 * n_v values from i on, within a block, for n_r rows of weights. */
static ALWAYS_INLINE void mix_block(float *out, const float *w, int64_t w_step,
                                    const struct kv_rows *v, int64_t i, int n_v,
                                    int n_r, bool half)
{
    __m256 acc[2][QUADS];

    for (int r = 0; r < n_r; r++)
        for (int k = 0; k < n_v; k++)
            acc[r][k] = _mm256_loadu_ps(out + r * v->dim + i + 8 * k);
    for (int64_t p = 0; p < v->n; p++) {
        __m256 d = value_scale(v, p, i, half);
        if (half || i % 64 == 0) /* the next piece, while this one is used */
            _mm_prefetch(
                (const char *)((uintptr_t)(v->row + p * v->row_bytes) +
                               (uintptr_t)(PIECE * v->row_bytes + (half ? 2 * i : i))),
                _MM_HINT_T0);
        for (int k = 0; k < n_v; k++) {
            __m256 x = load_value(v, p, i + 8 * k, d, half);
            for (int r = 0; r < n_r; r++)
                acc[r][k] = _mm256_add_ps(
                    acc[r][k], _mm256_mul_ps(_mm256_set1_ps(w[r * w_step + p]), x));
        }
    }
    for (int r = 0; r < n_r; r++)
        for (int k = 0; k < n_v; k++)
            _mm256_storeu_ps(out + r * v->dim + i + 8 * k, acc[r][k]);
}

/* The values after the last eight of a row of halves. */
static void mix_rest(float *out, const float *w, const struct kv_rows *v, int64_t i)
{
    for (int64_t p = 0; p < v->n; p++)
        for (int64_t k = i; k < v->dim; k++) {
            uint16_t h;
            memcpy(&h, v->row + p * v->row_bytes + 2 * k, sizeof h);
            out[k] += w[p] * one_half(h);
        }
}

/* All values of n_r rows of weights. */
static ALWAYS_INLINE void mix_rows(float *out, const float *w, int64_t w_step,
                                   const struct kv_rows *v, int n_r, bool half)
{
    int64_t i = 0;

    for (; i + KV_BLOCK <= v->dim; i += KV_BLOCK)
        mix_block(out, w, w_step, v, i, QUADS, n_r, half);
    for (; i + 8 <= v->dim; i += 8)
        mix_block(out, w, w_step, v, i, 1, n_r, half);
    for (int r = 0; r < n_r && i < v->dim; r++)
        mix_rest(out + r * v->dim, w + r * w_step, v, i);
}

/* Pieces of positions that stay in the first cache while the blocks go over them. */
static ALWAYS_INLINE void mix(float *out, const float *w, int64_t w_step, int64_t rows,
                              const struct kv_rows *v, bool half)
{
    for (int64_t p = 0; p < v->n; p += PIECE) {
        struct kv_rows part = *v;
        int64_t r = 0;
        part.row += p * v->row_bytes;
        part.scale = half ? NULL : v->scale + p;
        part.n = v->n - p < PIECE ? v->n - p : PIECE;
        for (; r + 2 <= rows; r += 2)
            mix_rows(out + r * v->dim, w + r * w_step + p, w_step, &part, 2, half);
        if (r < rows)
            mix_rows(out + r * v->dim, w + r * w_step + p, w_step, &part, 1, half);
    }
}

void kernel_kv_mix_q8_avx2(float *out, const float *w, int64_t w_step, int64_t rows,
                           const struct kv_rows *v)
{
    mix(out, w, w_step, rows, v, false);
}

void kernel_kv_mix_f16_avx2(float *out, const float *w, int64_t w_step, int64_t rows,
                            const struct kv_rows *v)
{
    mix(out, w, w_step, rows, v, true);
}
