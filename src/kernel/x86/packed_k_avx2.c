/*
 * packed_k_avx2.c - packed rows of the k-types times single tokens, in AVX2.
 *
 * Eight rows advance together, as in packed_avx2.c: their block sums meet in one
 * register, a lane for each row, and so do their scales. The small scales of the k-types
 * lie in 16 bytes of each row, which turn into four registers of dwords by row: then one
 * shift and mask gives a sub-block's scale for all rows.
 */
#include "kernel/variants.h"
#include "kernel/x86/step256.h"

enum { QK = 256 };
enum { Q2_K_BYTES = 84, Q3_K_BYTES = 110, Q4_K_BYTES = 144, Q5_K_BYTES = 176 };
enum { Q6_K_BYTES = 210 };

/* out[i]: dword i of 16 bytes of all rows, in their order; v[k] has rows k and k + 4. */
static ALWAYS_INLINE void turn_dwords(__m256i *out, const __m256i *v)
{
    __m256i lo = _mm256_unpacklo_epi32(v[0], v[1]);
    __m256i hi = _mm256_unpackhi_epi32(v[0], v[1]);
    __m256i lo2 = _mm256_unpacklo_epi32(v[2], v[3]);
    __m256i hi2 = _mm256_unpackhi_epi32(v[2], v[3]);
    out[0] = _mm256_unpacklo_epi64(lo, lo2);
    out[1] = _mm256_unpackhi_epi64(lo, lo2);
    out[2] = _mm256_unpacklo_epi64(hi, hi2);
    out[3] = _mm256_unpackhi_epi64(hi, hi2);
}

static ALWAYS_INLINE void row_dwords(__m256i *out, const struct row_set *s, int64_t at)
{
    __m256i v[4];

    for (int k = 0; k < 4; k++)
        v[k] = two_rows(s, k, at);
    turn_dwords(out, v);
}

/* Scales and minima of Q4_K and Q5_K: bytes of four sub-blocks each, by row. */
struct k4_bytes {
    __m256 d, dmin;
    __m256i scale[2], min[2];
};

/* The low words of eight dwords, FP16, as floats. */
static ALWAYS_INLINE __m256 half_floats(__m256i v)
{
    v = _mm256_packus_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)), v);
    v = _mm256_permute4x64_epi64(v, 0xd8);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(v));
}

static ALWAYS_INLINE struct k4_bytes k4_at(const struct row_set *s, int64_t at)
{
    const __m256i six = _mm256_set1_epi8(63), four = _mm256_set1_epi8(15);
    const __m256i top = _mm256_set1_epi8(48);
    __m256i v[4];
    struct k4_bytes k;

    row_dwords(v, s, at); /* d and dmin, then 12 bytes */
    k.d = half_floats(v[0]);
    k.dmin = half_floats(_mm256_srli_epi32(v[0], 16));
    k.scale[0] = _mm256_and_si256(v[1], six);
    k.min[0] = _mm256_and_si256(v[2], six);
    k.scale[1] = _mm256_or_si256(_mm256_and_si256(v[3], four),
                                 _mm256_and_si256(_mm256_srli_epi16(v[1], 2), top));
    k.min[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(v[3], 4), four),
                               _mm256_and_si256(_mm256_srli_epi16(v[2], 2), top));
    return k;
}

/* d times byte i of each dword. */
static ALWAYS_INLINE __m256 times_byte(__m256 d, __m256i v, int i)
{
    v = _mm256_and_si256(_mm256_srl_epi32(v, _mm_cvtsi32_si128(8 * i)),
                         _mm256_set1_epi32(255));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(v));
}

/* acc plus sub-block i of a Q4_K or Q5_K block. */
static ALWAYS_INLINE __m256 add_k4(__m256 acc, const struct k4_bytes *k, int i,
                                   const __m256i *sum, int32_t act)
{
    __m256 term = scaled(times_byte(k->d, k->scale[i / 4], i % 4), step_sums(sum), 0);

    return _mm256_add_ps(
        acc, less_min(term, times_byte(k->dmin, k->min[i / 4], i % 4), act));
}

/* Sub-block i's bit of 32 bytes, as 16 in each byte that has it. */
static ALWAYS_INLINE __m256i fifth_bits(__m256i high, int i)
{
    high = i < 4 ? _mm256_sll_epi16(high, _mm_cvtsi32_si128(4 - i))
                 : _mm256_srl_epi16(high, _mm_cvtsi32_si128(i - 4));
    return _mm256_and_si256(high, _mm256_set1_epi8(16));
}

/* acc plus sub-blocks 2 i (low nibbles) and 2 i + 1 of a block at `at`, i a constant. */
static ALWAYS_INLINE __m256 pair_k4(__m256 acc, const struct row_set *s, int64_t at,
                                    const struct k4_bytes *k, const struct kq_act *x,
                                    int64_t t, int64_t step, int i, bool five)
{
    const __m256i low = _mm256_set1_epi8(15);
    const struct step_act a0 = step_at(x, t, step), a1 = step_at(x, t, step + 1);
    __m256i s0[ROWS], s1[ROWS];

    if (LINE * i < (five ? Q5_K_BYTES : Q4_K_BYTES))
        prefetch_rows(s, 0, ROWS, at + (int64_t)LINE * i);
    for (int j = 0; j < ROWS; j++) {
        const uint8_t *p = s->row[j] + at;
        __m256i v = load256(p + (five ? 48 : 16) + 32 * i);
        __m256i u0 = _mm256_and_si256(v, low);
        __m256i u1 = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
        if (five) {
            __m256i high = load256(p + 16);
            u0 = _mm256_or_si256(u0, fifth_bits(high, 2 * i));
            u1 = _mm256_or_si256(u1, fifth_bits(high, 2 * i + 1));
        }
        s0[j] = dot_step(u0, &a0);
        s1[j] = dot_step(u1, &a1);
    }
    acc = add_k4(acc, k, 2 * i, s0, a0.sum);
    return add_k4(acc, k, 2 * i + 1, s1, a1.sum);
}

/* Q4_K, or with five bits Q5_K. */
static ALWAYS_INLINE void one_k4(float *y, const uint8_t *w, uint64_t row_bytes,
                                 int64_t rows, const struct kq_act *x, int64_t t,
                                 bool five)
{
    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0; b < x->n / QK; b++) {
            int64_t at = (five ? Q5_K_BYTES : Q4_K_BYTES) * b;
            struct k4_bytes k = k4_at(&s, at);
            acc = pair_k4(acc, &s, at, &k, x, t, 8 * b, 0, five);
            acc = pair_k4(acc, &s, at, &k, x, t, 8 * b + 2, 1, five);
            acc = pair_k4(acc, &s, at, &k, x, t, 8 * b + 4, 2, five);
            acc = pair_k4(acc, &s, at, &k, x, t, 8 * b + 6, 3, five);
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* d times signed byte i of each dword. */
static ALWAYS_INLINE __m256 times_signed(__m256 d, __m256i v, int i)
{
    v = _mm256_sll_epi32(v, _mm_cvtsi32_si128(24 - 8 * i));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srai_epi32(v, 24)));
}

/* Unsigned codes of step k (of 4) of half a Q6_K block: nibbles of byte 32 (k % 2) + i,
 * two more bits of byte i. */
static ALWAYS_INLINE __m256i codes_q6_k(const uint8_t *low, const uint8_t *high, int k)
{
    const __m256i four = _mm256_set1_epi8(15), two = _mm256_set1_epi8(48);
    __m256i lo = load256(low + 32 * (k % 2)), hi = load256(high);

    lo = k < 2 ? lo : _mm256_srli_epi16(lo, 4);
    hi = k == 3  ? _mm256_srli_epi16(hi, 2)
         : k < 2 ? _mm256_sll_epi16(hi, _mm_cvtsi32_si128(4 - 2 * k))
                 : hi;
    return _mm256_or_si256(_mm256_and_si256(lo, four), _mm256_and_si256(hi, two));
}

/* acc plus step k (a constant) of half a Q6_K block at `at`: 32 columns, two scales. */
static ALWAYS_INLINE __m256 add_q6_k(__m256 acc, const struct row_set *s, int64_t at,
                                     int half, __m256 d, const __m256i *scale,
                                     const struct step_act *a, int k)
{
    __m256i sum[ROWS], first, second;

    /* Four lines of eight rows, a few at a time: a burst of all would wait. */
    prefetch_rows(s, k % 2 * 4, 4, at + LINE * (2 * half + k / 2));
    for (int j = 0; j < ROWS; j++) {
        const uint8_t *p = s->row[j] + at;
        sum[j] = dot_step(codes_q6_k(p + 64 * half, p + 128 + 32 * half, k), a);
    }
    row_sums(&first, &second, sum);
    acc = _mm256_add_ps(
        acc, scaled(times_signed(d, scale[k / 2], k % 2 * 2), first, 32 * a->sum0));
    return _mm256_add_ps(acc, scaled(times_signed(d, scale[k / 2], k % 2 * 2 + 1),
                                     second, 32 * (a->sum - a->sum0)));
}

static void one_q6_k(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                     const struct kq_act *x, int64_t t)
{
    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0; b < x->n / QK; b++) {
            int64_t at = Q6_K_BYTES * b;
            __m256 d = row_halves(&s, at + 208);
            __m256i scale[4];
            row_dwords(scale, &s, at + 192);
            for (int half = 0; half < 2; half++) {
                const __m256i *sc = scale + 2 * half;
                struct step_act a[4];
                for (int k = 0; k < 4; k++)
                    a[k] = step_at(x, t, 8 * b + 4 * half + k);
                acc = add_q6_k(acc, &s, at, half, d, sc, &a[0], 0);
                acc = add_q6_k(acc, &s, at, half, d, sc, &a[1], 1);
                acc = add_q6_k(acc, &s, at, half, d, sc, &a[2], 2);
                acc = add_q6_k(acc, &s, at, half, d, sc, &a[3], 3);
            }
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* d times four bits of each dword, from bit `at` on. */
static ALWAYS_INLINE __m256 times_nibble(__m256 d, __m256i v, int at)
{
    v = _mm256_and_si256(_mm256_srl_epi32(v, _mm_cvtsi32_si128(at)),
                         _mm256_set1_epi32(15));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(v));
}

/* Sub-block i of four whose scales and minima are the nibbles of each dword of v. */
static ALWAYS_INLINE __m256 add_q2_k(__m256 acc, __m256 d, __m256 dmin, __m256i v,
                                     int i, __m256i sums, int32_t act)
{
    __m256 term = scaled(times_nibble(d, v, 8 * i), sums, 0);

    return _mm256_add_ps(acc, less_min(term, times_nibble(dmin, v, 8 * i + 4), act));
}

/* acc plus step k (a constant) of half a Q2_K block at `at`; scale has its sub-blocks. */
static ALWAYS_INLINE __m256 step_q2_k(__m256 acc, const struct row_set *s, int64_t at,
                                      int half, __m256 d, __m256 dmin, __m256i scale,
                                      const struct step_act *a, int k)
{
    __m256i sum[ROWS], first, second;

    for (int j = 0; j < ROWS; j++) {
        __m256i v = load256(s->row[j] + at + 16 + 32 * half);
        v = _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(2 * k)),
                             _mm256_set1_epi8(3));
        sum[j] = dot_step(v, a);
    }
    row_sums(&first, &second, sum);
    acc = add_q2_k(acc, d, dmin, scale, k % 2 * 2, first, a->sum0);
    return add_q2_k(acc, d, dmin, scale, k % 2 * 2 + 1, second, a->sum - a->sum0);
}

static void one_q2_k(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                     const struct kq_act *x, int64_t t)
{
    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / QK; b++) {
            int64_t at = Q2_K_BYTES * b;
            __m256 d = row_halves(&s, at + 80), dmin = row_halves(&s, at + 82);
            __m256i v[4];
            row_dwords(v, &s, at);
            for (; next < at + Q2_K_BYTES; next += LINE)
                prefetch_rows(&s, 0, ROWS, next);
            for (int h = 0; h < 2; h++) {
                struct step_act a[4];
                for (int k = 0; k < 4; k++)
                    a[k] = step_at(x, t, 8 * b + 4 * h + k);
                acc = step_q2_k(acc, &s, at, h, d, dmin, v[2 * h], &a[0], 0);
                acc = step_q2_k(acc, &s, at, h, d, dmin, v[2 * h], &a[1], 1);
                acc = step_q2_k(acc, &s, at, h, d, dmin, v[2 * h + 1], &a[2], 2);
                acc = step_q2_k(acc, &s, at, h, d, dmin, v[2 * h + 1], &a[3], 3);
            }
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

/* Scales of a Q3_K block, signed bytes of four sub-blocks each, by row; gives d. What is
 * read ends with the block: 14 bytes, after two others. */
static ALWAYS_INLINE __m256 q3_k_scales(__m256i *scale, const struct row_set *s,
                                        int64_t at)
{
    const __m256i four = _mm256_set1_epi8(15), two = _mm256_set1_epi8(48);
    __m256i v[4], w[4];

    for (int k = 0; k < 4; k++)
        v[k] = _mm256_srli_si256(two_rows(s, k, at + 94), 2);
    turn_dwords(w, v);
    const __m256i high[4] = {_mm256_slli_epi16(w[2], 4), _mm256_slli_epi16(w[2], 2),
                             w[2], _mm256_srli_epi16(w[2], 2)};
    for (int i = 0; i < 4; i++) {
        __m256i low = i < 2 ? w[i] : _mm256_srli_epi16(w[i - 2], 4);
        low = _mm256_or_si256(_mm256_and_si256(low, four),
                              _mm256_and_si256(high[i], two));
        scale[i] = _mm256_sub_epi8(low, _mm256_set1_epi8(32));
    }
    return half_floats(w[3]);
}

/* Unsigned codes of step k of half h of a Q3_K block at p: two bits of byte i, and bit
 * 4 h + k of another. */
static ALWAYS_INLINE __m256i codes_q3_k(const uint8_t *p, int h, int k)
{
    __m256i lo = _mm256_srl_epi16(load256(p + 32 + 32 * h), _mm_cvtsi32_si128(2 * k));
    __m256i hi = _mm256_srl_epi16(load256(p), _mm_cvtsi32_si128(4 * h + k));

    hi = _mm256_slli_epi16(_mm256_and_si256(hi, _mm256_set1_epi8(1)), 2);
    return _mm256_or_si256(_mm256_and_si256(lo, _mm256_set1_epi8(3)), hi);
}

/* acc plus step k (a constant) of half a Q3_K block at `at`. */
static ALWAYS_INLINE __m256 step_q3_k(__m256 acc, const struct row_set *s, int64_t at,
                                      int half, __m256 d, __m256i scale,
                                      const struct step_act *a, int k)
{
    __m256i sum[ROWS], first, second;

    for (int j = 0; j < ROWS; j++)
        sum[j] = dot_step(codes_q3_k(s->row[j] + at, half, k), a);
    row_sums(&first, &second, sum);
    acc = _mm256_add_ps(acc,
                        scaled(times_signed(d, scale, k % 2 * 2), first, 4 * a->sum0));
    return _mm256_add_ps(acc, scaled(times_signed(d, scale, k % 2 * 2 + 1), second,
                                     4 * (a->sum - a->sum0)));
}

static void one_q3_k(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                     const struct kq_act *x, int64_t t)
{
    for (int64_t r = 0; r < rows; r += ROWS) {
        struct row_set s;
        __m256 acc = _mm256_setzero_ps();
        rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / QK; b++) {
            int64_t at = Q3_K_BYTES * b;
            __m256i v[4];
            __m256 d = q3_k_scales(v, &s, at);
            for (; next < at + Q3_K_BYTES; next += LINE)
                prefetch_rows(&s, 0, ROWS, next);
            for (int h = 0; h < 2; h++) {
                struct step_act a[4];
                for (int k = 0; k < 4; k++)
                    a[k] = step_at(x, t, 8 * b + 4 * h + k);
                acc = step_q3_k(acc, &s, at, h, d, v[2 * h], &a[0], 0);
                acc = step_q3_k(acc, &s, at, h, d, v[2 * h], &a[1], 1);
                acc = step_q3_k(acc, &s, at, h, d, v[2 * h + 1], &a[2], 2);
                acc = step_q3_k(acc, &s, at, h, d, v[2 * h + 1], &a[3], 3);
            }
        }
        store_rows(y + r, acc, x->d[t], rows - r);
    }
}

void packed_q2_k_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q2_k(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_q3_k_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q3_k(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_q4_k_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_k4(y + t * y_step, w, row_bytes, rows, x, t, false);
}

void packed_q5_k_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_k4(y + t * y_step, w, row_bytes, rows, x, t, true);
}

void packed_q6_k_avx2(float *y, int64_t y_step, const uint8_t *w, uint64_t row_bytes,
                      int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q6_k(y + t * y_step, w, row_bytes, rows, x, t);
}
