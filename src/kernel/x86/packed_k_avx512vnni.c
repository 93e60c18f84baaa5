/*
 * packed_k_avx512vnni.c - packed rows of 4 to 8 bits times single tokens, in AVX-512.
 *
 * Sixteen rows advance together, as in dot_avx512vnni.c: their block sums meet in one
 * register, a lane for each row, and so do their scales. The small scales of the k-types
 * lie in 16 bytes of each row, which turn into four registers of dwords by row: then one
 * shift and mask gives a sub-block's scale for all rows.
 */
#include "kernel/variants.h"
#include "kernel/x86/rows_avx512.h"

enum { QK = 256, Q2_K_BYTES = 84, Q3_K_BYTES = 110, Q4_K_BYTES = 144 };
enum { Q5_K_BYTES = 176, Q6_K_BYTES = 210, LINE = 64 };

/* One token's part of a step of 32 columns, in both halves of a register. */
struct step_act {
    __m512i q, e;
    int32_t sum; /* of e * q */
};

static ALWAYS_INLINE struct step_act step_at(const struct kq_act *x, int64_t t,
                                             int64_t step)
{
    int64_t c = step * KQ_STEP;

    return (struct step_act){same_halves(load256(x->q + t * x->n + c)),
                             same_halves(load256(x->e + (t * x->n + c) / 2)),
                             act_sum(x, t, 2 * step, 2)};
}

/* Codes up to 127 times a step: pairs fit 16 bits. */
static ALWAYS_INLINE __m512i dot_step(__m512i u, const struct step_act *a)
{
    return _mm512_madd_epi16(_mm512_maddubs_epi16(u, a->q), a->e);
}

static ALWAYS_INLINE __m512 scaled(__m512 scale, __m512i sums, int32_t lows)
{
    sums = _mm512_sub_epi32(sums, _mm512_set1_epi32(lows));
    return _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sums));
}

static ALWAYS_INLINE __m512 less_min(__m512 term, __m512 min, int32_t sum)
{
    return _mm512_sub_ps(term, _mm512_mul_ps(min, _mm512_set1_ps((float)sum)));
}

static ALWAYS_INLINE __m512i step_sums(const __m512i *sum)
{
    __m512i first, second;

    row_sums(&first, &second, sum);
    return _mm512_add_epi32(first, second);
}

/* The layout of a type whose block has 32 weights. */
struct simple {
    int bytes, codes,
        high; /* of a block; place of nibbles or bytes, of fifth bits (0: none) */
    int low;
    bool byte, min; /* codes are bytes; there is an added number: minus the minimum */
};

static ALWAYS_INLINE __m256i split_nibbles(const uint8_t *p)
{
    __m128i v = load128(p);

    return _mm256_set_m128i(_mm_srli_epi16(v, 4), v);
}

static ALWAYS_INLINE uint64_t load_word(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

/* The products of pair j, unsigned codes. */
static ALWAYS_INLINE __m512i dot_simple(const struct pair_rows *s, int j, int64_t at,
                                        const struct simple *f,
                                        const struct step_act *a)
{
    const uint8_t *pa = s->a[j] + at, *pb = s->b[j] + at;

    if (f->byte) { /* 0..255: only VNNI has the width; e is a factor of 32 bits there */
        __m512i u = two_halves(load256(pa + f->codes), load256(pb + f->codes));
        u = _mm512_xor_si512(u, _mm512_set1_epi8(-128));
        __m512i e = _mm512_and_si512(a->e, _mm512_set1_epi32(0xffff));
        return _mm512_mullo_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), u, a->q),
                                  e);
    }
    __m512i u = two_halves(split_nibbles(pa + f->codes), split_nibbles(pb + f->codes));
    u = _mm512_and_si512(u, _mm512_set1_epi8(15));
    if (f->high) {
        __mmask64 set = load_word(pa + f->high) | load_word(pb + f->high) << 32;
        u = _mm512_mask_add_epi8(u, set, u, _mm512_set1_epi8(16));
    }
    return dot_step(u, a);
}

/* The high words of dwords, FP16, as floats with the other sign. */
static ALWAYS_INLINE __m512 minus_high_halves(__m512i v)
{
    return _mm512_xor_ps(low_halves(_mm512_srli_epi32(v, 16)), _mm512_set1_ps(-0.0f));
}

/* Nibbles alone: a register has 16 bytes of four rows, so that a lane is one row's first
 * 16 columns (low nibbles) or last 16, which share a factor. */
static ALWAYS_INLINE void one_nibbles(float *y, const uint8_t *w, uint64_t row_bytes,
                                      int64_t rows, const struct kq_act *x, int64_t t,
                                      const struct simple *f)
{
    const __m512i low = _mm512_set1_epi8(15);

    for (int64_t r = 0; r < rows; r += ROWS16) {
        struct pair_rows s;
        __m512 acc = _mm512_setzero_ps();
        pair_rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / KQ_STEP; b++) {
            int64_t at = f->bytes * b, c = t * x->n + b * KQ_STEP;
            __m512i q0 = _mm512_broadcast_i32x4(load128(x->q + c));
            __m512i q1 = _mm512_broadcast_i32x4(load128(x->q + c + 16));
            __m512i e0 = _mm512_set1_epi16(x->e[c / 2]);
            __m512i e1 = _mm512_set1_epi16(x->e[c / 2 + 8]), sum[4];
            int32_t act = act_sum(x, t, 2 * b, 2);
            for (; next < at + f->bytes; next += LINE)
                prefetch_pairs(&s, 0, PAIRS, next);
            for (int k = 0; k < 4; k++) {
                __m512i v = quad_bytes(&s, k, at + f->codes);
                __m512i u = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
                sum[k] = _mm512_madd_epi16(
                    _mm512_maddubs_epi16(_mm512_and_si512(v, low), q0), e0);
                sum[k] = _mm512_dpwssd_epi32(sum[k], _mm512_maddubs_epi16(u, q1), e1);
            }
            __m512i heads = row_dword(&s, at); /* scale, and what is added */
            __m512 term = scaled(low_halves(heads), lane_sums(sum), f->low * act);
            if (f->min)
                term = less_min(term, minus_high_halves(heads), act);
            acc = _mm512_add_ps(acc, term);
        }
        store_rows16(y + r, acc, x->d[t], rows - r);
    }
}

static ALWAYS_INLINE void one_simple(float *y, const uint8_t *w, uint64_t row_bytes,
                                     int64_t rows, const struct kq_act *x, int64_t t,
                                     const struct simple *f)
{
    for (int64_t r = 0; r < rows; r += ROWS16) {
        struct pair_rows s;
        __m512 acc = _mm512_setzero_ps();
        pair_rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / KQ_STEP; b++) {
            struct step_act a = step_at(x, t, b);
            int64_t at = f->bytes * b;
            __m512i sum[PAIRS];
            for (; next < at + f->bytes; next += LINE)
                prefetch_pairs(&s, 0, PAIRS, next);
            for (int j = 0; j < PAIRS; j++)
                sum[j] = dot_simple(&s, j, at, f, &a);
            int32_t lows = (int32_t)((uint32_t)f->low * (uint32_t)a.sum);
            __m512i heads = row_dword(&s, at); /* scale, and what is added */
            __m512 term = scaled(low_halves(heads), step_sums(sum), lows);
            if (f->min)
                term = less_min(term, minus_high_halves(heads), a.sum);
            acc = _mm512_add_ps(acc, term);
        }
        store_rows16(y + r, acc, x->d[t], rows - r);
    }
}

/* Scales and minima of Q4_K and Q5_K: bytes of four sub-blocks each, by row. */
struct k4_bytes {
    __m512 d, dmin;
    __m512i scale[2], min[2];
};

static ALWAYS_INLINE struct k4_bytes k4_at(const struct pair_rows *s, int64_t at)
{
    const __m512i six = _mm512_set1_epi8(63), four = _mm512_set1_epi8(15);
    const __m512i top = _mm512_set1_epi8(48);
    __m512i v[4];
    struct k4_bytes k;

    row_dwords(v, s, at); /* d and dmin, then 12 bytes */
    k.d = low_halves(v[0]);
    k.dmin = low_halves(_mm512_srli_epi32(v[0], 16));
    k.scale[0] = _mm512_and_si512(v[1], six);
    k.min[0] = _mm512_and_si512(v[2], six);
    k.scale[1] = _mm512_or_si512(_mm512_and_si512(v[3], four),
                                 _mm512_and_si512(_mm512_srli_epi16(v[1], 2), top));
    k.min[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(v[3], 4), four),
                               _mm512_and_si512(_mm512_srli_epi16(v[2], 2), top));
    return k;
}

/* d times byte i of each dword. */
static ALWAYS_INLINE __m512 times_byte(__m512 d, __m512i v, int i)
{
    v = _mm512_and_si512(_mm512_srl_epi32(v, _mm_cvtsi32_si128(8 * i)),
                         _mm512_set1_epi32(255));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(v));
}

/* acc plus sub-block i of a Q4_K or Q5_K block. */
static ALWAYS_INLINE __m512 add_k4(__m512 acc, const struct k4_bytes *k, int i,
                                   const __m512i *sum, int32_t act)
{
    __m512 term = scaled(times_byte(k->d, k->scale[i / 4], i % 4), step_sums(sum), 0);

    return _mm512_add_ps(
        acc, less_min(term, times_byte(k->dmin, k->min[i / 4], i % 4), act));
}

/* Sub-block i's bit of 32 bytes, as 16 in each byte that has it. */
static ALWAYS_INLINE __m512i fifth_bits(__m512i high, int i)
{
    high = i < 4 ? _mm512_sll_epi16(high, _mm_cvtsi32_si128(4 - i))
                 : _mm512_srl_epi16(high, _mm_cvtsi32_si128(i - 4));
    return _mm512_and_si512(high, _mm512_set1_epi8(16));
}

/* Q4_K, or with five bits Q5_K: 32 bytes hold sub-blocks 2 i (low nibbles) and 2 i + 1. */
static ALWAYS_INLINE void one_k4(float *y, const uint8_t *w, uint64_t row_bytes,
                                 int64_t rows, const struct kq_act *x, int64_t t,
                                 bool five)
{
    const __m512i low = _mm512_set1_epi8(15);
    const int64_t bytes = five ? Q5_K_BYTES : Q4_K_BYTES, codes = five ? 48 : 16;

    for (int64_t r = 0; r < rows; r += ROWS16) {
        struct pair_rows s;
        __m512 acc = _mm512_setzero_ps();
        pair_rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / QK; b++) {
            struct k4_bytes k = k4_at(&s, bytes * b);
            for (int i = 0; i < 4; i++) {
                int64_t at = bytes * b + codes + 32 * i;
                struct step_act a0 = step_at(x, t, 8 * b + 2 * i);
                struct step_act a1 = step_at(x, t, 8 * b + 2 * i + 1);
                __m512i s0[PAIRS], s1[PAIRS];
                for (; next < at + 32; next += LINE)
                    prefetch_pairs(&s, 0, PAIRS, next);
                for (int j = 0; j < PAIRS; j++) {
                    __m512i v = pair_bytes(&s, j, at);
                    __m512i u0 = _mm512_and_si512(v, low);
                    __m512i u1 = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
                    if (five) {
                        __m512i high = pair_bytes(&s, j, bytes * b + 16);
                        u0 = _mm512_or_si512(u0, fifth_bits(high, 2 * i));
                        u1 = _mm512_or_si512(u1, fifth_bits(high, 2 * i + 1));
                    }
                    s0[j] = dot_step(u0, &a0);
                    s1[j] = dot_step(u1, &a1);
                }
                acc = add_k4(acc, &k, 2 * i, s0, a0.sum);
                acc = add_k4(acc, &k, 2 * i + 1, s1, a1.sum);
            }
        }
        store_rows16(y + r, acc, x->d[t], rows - r);
    }
}

/* d times signed byte i of each dword. */
static ALWAYS_INLINE __m512 times_signed(__m512 d, __m512i v, int i)
{
    v = _mm512_sll_epi32(v, _mm_cvtsi32_si128(24 - 8 * i));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_srai_epi32(v, 24)));
}

/* Unsigned codes of step k (of 4) of half a Q6_K block: nibbles of byte 32 (k % 2) + i,
 * two more bits of byte i. */
static ALWAYS_INLINE __m512i codes_q6_k(const struct pair_rows *s, int j, int64_t low,
                                        int64_t high, int k)
{
    const __m512i four = _mm512_set1_epi8(15), two = _mm512_set1_epi8(48);
    __m512i lo = pair_bytes(s, j, low + 32 * (k % 2)), hi = pair_bytes(s, j, high);

    lo = k < 2 ? lo : _mm512_srli_epi16(lo, 4);
    hi = k == 3  ? _mm512_srli_epi16(hi, 2)
         : k < 2 ? _mm512_sll_epi16(hi, _mm_cvtsi32_si128(4 - 2 * k))
                 : hi;
    return _mm512_or_si512(_mm512_and_si512(lo, four), _mm512_and_si512(hi, two));
}

/* acc plus step k (a constant) of half a Q6_K block at `at`: 32 columns, two scales. */
static ALWAYS_INLINE __m512 add_q6_k(__m512 acc, const struct pair_rows *s, int64_t at,
                                     int half, __m512 d, const __m512i *scale,
                                     const struct step_act *a, int32_t sum0, int k)
{
    __m512i sum[PAIRS], first, second;

    /* Four lines of sixteen rows, a few at a time: a burst of all would wait. */
    prefetch_pairs(s, k % 2 * 4, 4, at + LINE * (2 * half + k / 2));
    for (int j = 0; j < PAIRS; j++)
        sum[j] = dot_step(codes_q6_k(s, j, at + 64 * half, at + 128 + 32 * half, k), a);
    row_sums(&first, &second, sum);
    acc = _mm512_add_ps(
        acc, scaled(times_signed(d, scale[k / 2], k % 2 * 2), first, 32 * sum0));
    return _mm512_add_ps(acc, scaled(times_signed(d, scale[k / 2], k % 2 * 2 + 1),
                                     second, 32 * (a->sum - sum0)));
}

static void one_q6_k(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                     const struct kq_act *x, int64_t t)
{
    for (int64_t r = 0; r < rows; r += ROWS16) {
        struct pair_rows s;
        __m512 acc = _mm512_setzero_ps();
        pair_rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0; b < x->n / QK; b++) {
            int64_t at = Q6_K_BYTES * b;
            __m512 d = row_halves(&s, at + 208);
            __m512i scale[4];
            row_dwords(scale, &s, at + 192);
            for (int half = 0; half < 2; half++) {
                struct step_act a[4];
                int32_t sum[4];
                for (int k = 0; k < 4; k++) {
                    int64_t step = 8 * b + 4 * half + k;
                    a[k] = step_at(x, t, step);
                    sum[k] = act_sum(x, t, 2 * step, 1);
                }
                const __m512i *sc = scale + 2 * half;
                acc = add_q6_k(acc, &s, at, half, d, sc, &a[0], sum[0], 0);
                acc = add_q6_k(acc, &s, at, half, d, sc, &a[1], sum[1], 1);
                acc = add_q6_k(acc, &s, at, half, d, sc, &a[2], sum[2], 2);
                acc = add_q6_k(acc, &s, at, half, d, sc, &a[3], sum[3], 3);
            }
        }
        store_rows16(y + r, acc, x->d[t], rows - r);
    }
}

/* d times four bits of each dword, from bit `at` on. */
static ALWAYS_INLINE __m512 times_nibble(__m512 d, __m512i v, int at)
{
    v = _mm512_and_si512(_mm512_srl_epi32(v, _mm_cvtsi32_si128(at)),
                         _mm512_set1_epi32(15));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(v));
}

/* Sub-block i of four whose scales and minima are the nibbles of each dword of v. */
static ALWAYS_INLINE __m512 add_q2_k(__m512 acc, __m512 d, __m512 dmin, __m512i v,
                                     int i, __m512i sums, int32_t act)
{
    __m512 term = scaled(times_nibble(d, v, 8 * i), sums, 0);

    return _mm512_add_ps(acc, less_min(term, times_nibble(dmin, v, 8 * i + 4), act));
}

/* acc plus step k (a constant) of half a Q2_K block at `at`; scale has its sub-blocks. */
static ALWAYS_INLINE __m512 step_q2_k(__m512 acc, const struct pair_rows *s, int64_t at,
                                      int half, __m512 d, __m512 dmin, __m512i scale,
                                      const struct kq_act *x, int64_t t, int64_t step,
                                      int k)
{
    const struct step_act a = step_at(x, t, step + k);
    int32_t sum0 = act_sum(x, t, 2 * (step + k), 1);
    __m512i sum[PAIRS], first, second;

    for (int j = 0; j < PAIRS; j++) {
        __m512i v = pair_bytes(s, j, at + 16 + 32 * half);
        v = _mm512_srl_epi16(v, _mm_cvtsi32_si128(2 * k));
        sum[j] = dot_step(_mm512_and_si512(v, _mm512_set1_epi8(3)), &a);
    }
    row_sums(&first, &second, sum);
    acc = add_q2_k(acc, d, dmin, scale, k % 2 * 2, first, sum0);
    return add_q2_k(acc, d, dmin, scale, k % 2 * 2 + 1, second, a.sum - sum0);
}

static void one_q2_k(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                     const struct kq_act *x, int64_t t)
{
    for (int64_t r = 0; r < rows; r += ROWS16) {
        struct pair_rows s;
        __m512 acc = _mm512_setzero_ps();
        pair_rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / QK; b++) {
            int64_t at = Q2_K_BYTES * b;
            __m512i v[4], both = row_dword(&s, at + 80);
            __m512 d = low_halves(both), dmin = low_halves(_mm512_srli_epi32(both, 16));
            row_dwords(v, &s, at);
            for (; next < at + Q2_K_BYTES; next += LINE)
                prefetch_pairs(&s, 0, PAIRS, next);
            for (int h = 0; h < 2; h++) {
                const __m512i *sc = v + 2 * h;
                int64_t step = 8 * b + 4 * h;
                acc = step_q2_k(acc, &s, at, h, d, dmin, sc[0], x, t, step, 0);
                acc = step_q2_k(acc, &s, at, h, d, dmin, sc[0], x, t, step, 1);
                acc = step_q2_k(acc, &s, at, h, d, dmin, sc[1], x, t, step, 2);
                acc = step_q2_k(acc, &s, at, h, d, dmin, sc[1], x, t, step, 3);
            }
        }
        store_rows16(y + r, acc, x->d[t], rows - r);
    }
}

/* Scales of a Q3_K block, signed bytes of four sub-blocks each, by row; gives d. What is
 * read ends with the block: 14 bytes, after two others. */
static ALWAYS_INLINE __m512 q3_k_scales(__m512i *scale, const struct pair_rows *s,
                                        int64_t at)
{
    const __m512i four = _mm512_set1_epi8(15), two = _mm512_set1_epi8(48);
    __m512i v[4], w[4];

    for (int k = 0; k < 4; k++)
        v[k] = _mm512_bsrli_epi128(quad_bytes(s, k, at + 94), 2);
    turn_dwords(w, v);
    const __m512i high[4] = {_mm512_slli_epi16(w[2], 4), _mm512_slli_epi16(w[2], 2),
                             w[2], _mm512_srli_epi16(w[2], 2)};
    for (int i = 0; i < 4; i++) {
        __m512i low = i < 2 ? w[i] : _mm512_srli_epi16(w[i - 2], 4);
        low = _mm512_or_si512(_mm512_and_si512(low, four),
                              _mm512_and_si512(high[i], two));
        scale[i] = _mm512_sub_epi8(low, _mm512_set1_epi8(32));
    }
    return low_halves(w[3]);
}

/* acc plus step k (a constant) of half h of a Q3_K block at `at`: two bits of byte i, and
 * bit 4 h + k of another. */
static ALWAYS_INLINE __m512 step_q3_k(__m512 acc, const struct pair_rows *s, int64_t at,
                                      int h, __m512 d, __m512i scale,
                                      const struct kq_act *x, int64_t t, int64_t step,
                                      int k)
{
    const struct step_act a = step_at(x, t, step + k);
    int32_t sum0 = act_sum(x, t, 2 * (step + k), 1);
    __m512i sum[PAIRS], first, second;

    for (int j = 0; j < PAIRS; j++) {
        __m512i lo = pair_bytes(s, j, at + 32 + 32 * h), hi = pair_bytes(s, j, at);
        lo = _mm512_srl_epi16(lo, _mm_cvtsi32_si128(2 * k));
        hi = _mm512_srl_epi16(hi, _mm_cvtsi32_si128(4 * h + k));
        hi = _mm512_slli_epi16(_mm512_and_si512(hi, _mm512_set1_epi8(1)), 2);
        lo = _mm512_or_si512(_mm512_and_si512(lo, _mm512_set1_epi8(3)), hi);
        sum[j] = dot_step(lo, &a);
    }
    row_sums(&first, &second, sum);
    acc =
        _mm512_add_ps(acc, scaled(times_signed(d, scale, k % 2 * 2), first, 4 * sum0));
    return _mm512_add_ps(
        acc, scaled(times_signed(d, scale, k % 2 * 2 + 1), second, 4 * (a.sum - sum0)));
}

static void one_q3_k(float *y, const uint8_t *w, uint64_t row_bytes, int64_t rows,
                     const struct kq_act *x, int64_t t)
{
    for (int64_t r = 0; r < rows; r += ROWS16) {
        struct pair_rows s;
        __m512 acc = _mm512_setzero_ps();
        pair_rows_at(&s, w, row_bytes, r, rows);
        for (int64_t b = 0, next = 0; b < x->n / QK; b++) {
            int64_t at = Q3_K_BYTES * b;
            __m512i v[4];
            __m512 d = q3_k_scales(v, &s, at);
            for (; next < at + Q3_K_BYTES; next += LINE)
                prefetch_pairs(&s, 0, PAIRS, next);
            for (int h = 0; h < 2; h++) {
                int64_t step = 8 * b + 4 * h;
                acc = step_q3_k(acc, &s, at, h, d, v[2 * h], x, t, step, 0);
                acc = step_q3_k(acc, &s, at, h, d, v[2 * h], x, t, step, 1);
                acc = step_q3_k(acc, &s, at, h, d, v[2 * h + 1], x, t, step, 2);
                acc = step_q3_k(acc, &s, at, h, d, v[2 * h + 1], x, t, step, 3);
            }
        }
        store_rows16(y + r, acc, x->d[t], rows - r);
    }
}

void packed_q2_k_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q2_k(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_q3_k_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q3_k(y + t * y_step, w, row_bytes, rows, x, t);
}

void packed_q4_0_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 18, .codes = 2, .low = 8};

    for (int64_t t = 0; t < x->rows; t++)
        one_nibbles(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q4_1_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 20, .codes = 4, .min = true};

    for (int64_t t = 0; t < x->rows; t++)
        one_nibbles(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q5_0_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 22, .codes = 6, .high = 2, .low = 16};

    for (int64_t t = 0; t < x->rows; t++)
        one_simple(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q5_1_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 24, .codes = 8, .high = 4, .min = true};

    for (int64_t t = 0; t < x->rows; t++)
        one_simple(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q8_0_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    const struct simple f = {.bytes = 34, .codes = 2, .low = 128, .byte = true};

    for (int64_t t = 0; t < x->rows; t++)
        one_simple(y + t * y_step, w, row_bytes, rows, x, t, &f);
}

void packed_q4_k_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_k4(y + t * y_step, w, row_bytes, rows, x, t, false);
}

void packed_q5_k_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_k4(y + t * y_step, w, row_bytes, rows, x, t, true);
}

void packed_q6_k_avx512vnni(float *y, int64_t y_step, const uint8_t *w,
                            uint64_t row_bytes, int64_t rows, const struct kq_act *x)
{
    for (int64_t t = 0; t < x->rows; t++)
        one_q6_k(y + t * y_step, w, row_bytes, rows, x, t);
}
