/*
 * attn_avx512vnni.c - scores and weighted values, in AVX-512 and VNNI.
 *
 * As attn_avx2.c. Scores stay in 256 bits, where a register is half a block of words;
 * keys become words once for four queries. Values come sixteen at a time, for up to four
 * rows of weights.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

enum { POS = 8, TILE = 4, LANES = 16, PIECE = 64 };

/* Scores of n_r queries for eight positions from p on; m of them are stored. */
static ALWAYS_INLINE void score_tile(float *y, int64_t y_step, const struct kv_rows *k,
                                     int64_t p, const struct kv_query *q, int64_t r0,
                                     int n_r)
{
    const int64_t n_blocks = q->dim / KV_BLOCK, m = k->n - p < POS ? k->n - p : POS;
    const __mmask8 valid = (__mmask8)((1u << m) - 1);
    const uint8_t *row[POS];
    __m256 acc[TILE];

    for (int64_t j = 0; j < POS; j++)
        row[j] = k->row + (p + j < k->n ? p + j : k->n - 1) * k->row_bytes;
    for (int r = 0; r < n_r; r++)
        acc[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n_blocks; b++) {
        __m256i k0[POS], k1[POS];
        __m256 d = _mm256_cvtph_ps(
            _mm_maskz_loadu_epi16(valid, k->scale + b * k->scale_step + p));
        for (int j = 0; j < POS; j++) {
            const uint8_t *key = row[j] + b * KV_BLOCK;
            if (b % 2 == 0)
                prefetch_after(key);
            k0[j] = _mm256_cvtepi8_epi16(load128(key));
            k1[j] = _mm256_cvtepi8_epi16(load128(key + 16));
        }
        for (int r = 0; r < n_r; r++) {
            const int16_t *code = q->code + (r0 + r) * q->dim + b * KV_BLOCK;
            __m256i q0 = load256(code), q1 = load256(code + 16), part[POS];
            for (int j = 0; j < POS; j++)
                part[j] = _mm256_dpwssd_epi32(
                    _mm256_dpwssd_epi32(_mm256_setzero_si256(), k0[j], q0), k1[j], q1);
            __m256 by =
                _mm256_mul_ps(d, _mm256_set1_ps(q->scale[(r0 + r) * n_blocks + b]));
            acc[r] = _mm256_add_ps(
                acc[r], _mm256_mul_ps(by, _mm256_cvtepi32_ps(sum_each(part))));
        }
    }
    for (int r = 0; r < n_r; r++)
        _mm256_mask_storeu_ps(y + (r0 + r) * y_step + p, valid, acc[r]);
}

void kernel_kv_score_q8_avx512vnni(float *y, int64_t y_step, const struct kv_rows *k,
                                   const struct kv_query *q)
{
    int64_t r = 0;

    for (; r + TILE <= q->rows; r += TILE)
        for (int64_t p = 0; p < k->n; p += POS)
            score_tile(y, y_step, k, p, q, r, TILE);
    for (; r + 2 <= q->rows; r += 2)
        for (int64_t p = 0; p < k->n; p += POS)
            score_tile(y, y_step, k, p, q, r, 2);
    for (int64_t p = 0; p < k->n && r < q->rows; p += POS)
        score_tile(y, y_step, k, p, q, r, 1);
}

/* Asks for the next piece while this one is used; reaching past the end never faults. */
static ALWAYS_INLINE void prefetch_rows(const struct kv_rows *v, int64_t p, int64_t i,
                                        bool half)
{
    uintptr_t at = (uintptr_t)(v->row + p * v->row_bytes) +
                   (uintptr_t)(PIECE * v->row_bytes + (half ? 2 * i : i));

    _mm_prefetch((const char *)at, _MM_HINT_T0);
    if (half)
        _mm_prefetch((const char *)(at + 64), _MM_HINT_T0);
}

static ALWAYS_INLINE __m512 load_value(const struct kv_rows *v, int64_t p, int64_t i,
                                       __m512 d, bool half)
{
    const uint8_t *row = v->row + p * v->row_bytes;

    if (half)
        return _mm512_cvtph_ps(load256(row + 2 * i));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load128(row + i))));
}

static ALWAYS_INLINE __m512 value_scale(const struct kv_rows *v, int64_t p, int64_t i,
                                        bool half)
{
    if (half)
        return _mm512_setzero_ps();
    return _mm512_broadcastss_ps(
        _mm_cvtph_ps(_mm_cvtsi32_si128(v->scale[i / KV_BLOCK * v->scale_step + p])));
}

/* LANES * n_v values from i on for n_r rows of weights. */
static ALWAYS_INLINE void mix_block(float *out, const float *w, int64_t w_step,
                                    const struct kv_rows *v, int64_t i, int n_v,
                                    int n_r, bool half)
{
    __m512 acc[4][4];

    for (int r = 0; r < n_r; r++)
        for (int k = 0; k < n_v; k++)
            acc[r][k] = _mm512_loadu_ps(out + r * v->dim + i + LANES * k);
    for (int64_t p = 0; p < v->n; p++) {
        __m512 d = _mm512_setzero_ps();
        prefetch_rows(v, p, i, half);
        for (int k = 0; k < n_v; k++) {
            if (k % 2 == 0)
                d = value_scale(v, p, i + LANES * k, half);
            __m512 x = load_value(v, p, i + LANES * k, d, half);
            for (int r = 0; r < n_r; r++)
                acc[r][k] = _mm512_add_ps(
                    acc[r][k], _mm512_mul_ps(_mm512_set1_ps(w[r * w_step + p]), x));
        }
    }
    for (int r = 0; r < n_r; r++)
        for (int k = 0; k < n_v; k++)
            _mm512_storeu_ps(out + r * v->dim + i + LANES * k, acc[r][k]);
}

static ALWAYS_INLINE void mix_rows(float *out, const float *w, int64_t w_step,
                                   const struct kv_rows *v, int n_r, bool half)
{
    int64_t i = 0;

    for (; i + 2 * KV_BLOCK <= v->dim; i += 2 * KV_BLOCK)
        mix_block(out, w, w_step, v, i, 4, n_r, half);
    if (i < v->dim)
        mix_block(out, w, w_step, v, i, 2, n_r, half);
}

/* dim is a multiple of KV_BLOCK. Pieces of positions stay in the first cache. */
static ALWAYS_INLINE void mix(float *out, const float *w, int64_t w_step, int64_t rows,
                              const struct kv_rows *v, bool half)
{
    for (int64_t p = 0; p < v->n; p += PIECE) {
        struct kv_rows part = *v;
        int64_t r = 0;
        part.row += p * v->row_bytes;
        part.scale = half ? NULL : v->scale + p;
        part.n = v->n - p < PIECE ? v->n - p : PIECE;
        for (; r + 4 <= rows; r += 4)
            mix_rows(out + r * v->dim, w + r * w_step + p, w_step, &part, 4, half);
        for (; r + 2 <= rows; r += 2)
            mix_rows(out + r * v->dim, w + r * w_step + p, w_step, &part, 2, half);
        if (r < rows)
            mix_rows(out + r * v->dim, w + r * w_step + p, w_step, &part, 1, half);
    }
}

void kernel_kv_mix_q8_avx512vnni(float *out, const float *w, int64_t w_step,
                                 int64_t rows, const struct kv_rows *v)
{
    mix(out, w, w_step, rows, v, false);
}

void kernel_kv_mix_f16_avx512vnni(float *out, const float *w, int64_t w_step,
                                  int64_t rows, const struct kv_rows *v)
{
    if (v->dim % KV_BLOCK != 0)
        kernel_kv_mix_f16_avx2(out, w, w_step, rows, v);
    else
        mix(out, w, w_step, rows, v, true);
}
