/*
 * unpack_k_avx2.c - rows of Q2_K to Q6_K to codes, scales and minima, in AVX2.
 *
 * Same results as ref/unpack_k_ref.c; layouts there. Sub-block scales are a handful per
 * 256 weights and stay scalar.
 */
#include "kernel/variants.h"
#include "kernel/x86/avx2.h"

#include <string.h>

enum { QK = 256, SUB16 = QK / 16, SUB32 = QK / 32 };

static ALWAYS_INLINE float f16_at(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

/* Bits of v from shift on (the caller's mask drops what crosses from other bytes). */
static ALWAYS_INLINE __m256i shifted(__m256i v, int shift)
{
    return _mm256_srl_epi16(v, _mm_cvtsi32_si128(shift));
}

void unpack_q2_k_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const __m256i three = _mm256_set1_epi8(3);

    for (int64_t b = 0; b < n / QK; b++, src += 84, code += QK) {
        prefetch_after(src);
        prefetch_after(src + 64);
        float d = f16_at(src + 80), dmin = f16_at(src + 82);
        for (int s = 0; s < SUB16; s++) {
            scale[b * SUB16 + s] = d * (float)(src[s] & 15);
            min[b * SUB16 + s] = dmin * (float)(src[s] >> 4);
        }
        for (int i = 0; i < SUB32; i++) {
            __m256i v = shifted(load256(src + 16 + 32 * (i / 4)), 2 * (i % 4));
            store256(code + 32 * i, _mm256_and_si256(v, three));
        }
    }
}

void unpack_q3_k_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const __m256i three = _mm256_set1_epi8(3), four = _mm256_set1_epi8(4);

    (void)min;
    for (int64_t b = 0; b < n / QK; b++, src += 110, code += QK) {
        prefetch_after(src);
        prefetch_after(src + 64);
        const uint8_t *sc = src + 96;
        float d = f16_at(src + 108);
        __m256i third = load256(src);
        for (int s = 0; s < SUB16; s++) {
            int low = s < 8 ? sc[s] & 15 : sc[s - 8] >> 4;
            int high = sc[8 + s % 4] >> 2 * (s / 4) & 3;
            scale[b * SUB16 + s] = d * (float)((low | high << 4) - 32);
        }
        for (int i = 0; i < SUB32; i++) {
            __m256i v = shifted(load256(src + 32 + 32 * (i / 4)), 2 * (i % 4));
            __m256i bit = _mm256_set1_epi8((char)(1 << i));
            __m256i clear =
                _mm256_cmpeq_epi8(_mm256_and_si256(third, bit), _mm256_setzero_si256());
            store256(code + 32 * i, _mm256_sub_epi8(_mm256_and_si256(v, three),
                                                    _mm256_and_si256(clear, four)));
        }
    }
}

/* The eight 6-bit scales and minima of Q4_K and Q5_K, for groups of 16. */
static void k4_scales(float *scale, float *min, const uint8_t *sc, float d, float dmin)
{
    for (int s = 0; s < SUB32; s++) {
        int a = s < 4 ? sc[s] & 63 : (sc[s + 4] & 15) | sc[s - 4] >> 6 << 4;
        int m = s < 4 ? sc[s + 4] & 63 : sc[s + 4] >> 4 | sc[s] >> 6 << 4;
        scale[2 * s] = scale[2 * s + 1] = d * (float)a;
        min[2 * s] = min[2 * s + 1] = dmin * (float)m;
    }
}

void unpack_q4_k_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const __m256i low = _mm256_set1_epi8(15);

    for (int64_t b = 0; b < n / QK; b++, src += 144, code += QK) {
        prefetch_after(src);
        prefetch_after(src + 64);
        k4_scales(scale + b * SUB16, min + b * SUB16, src + 4, f16_at(src),
                  f16_at(src + 2));
        for (int i = 0; i < SUB32; i++) {
            __m256i v = shifted(load256(src + 16 + 32 * (i / 2)), 4 * (i % 2));
            store256(code + 32 * i, _mm256_and_si256(v, low));
        }
    }
}

void unpack_q5_k_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const __m256i low = _mm256_set1_epi8(15), sixteen = _mm256_set1_epi8(16);

    for (int64_t b = 0; b < n / QK; b++, src += 176, code += QK) {
        prefetch_after(src);
        prefetch_after(src + 64);
        __m256i high = load256(src + 16);
        k4_scales(scale + b * SUB16, min + b * SUB16, src + 4, f16_at(src),
                  f16_at(src + 2));
        for (int i = 0; i < SUB32; i++) {
            __m256i v = shifted(load256(src + 48 + 32 * (i / 2)), 4 * (i % 2));
            __m256i bit = _mm256_set1_epi8((char)(1 << i));
            __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(high, bit), bit);
            store256(code + 32 * i, _mm256_or_si256(_mm256_and_si256(v, low),
                                                    _mm256_and_si256(set, sixteen)));
        }
    }
}

void unpack_q6_k_avx2(int8_t *code, float *scale, float *min, const uint8_t *src,
                      int64_t n)
{
    const __m256i low = _mm256_set1_epi8(15), three = _mm256_set1_epi8(3);
    const __m256i off = _mm256_set1_epi8(32);

    (void)min;
    for (int64_t b = 0; b < n / QK; b++, src += 210, code += QK) {
        prefetch_after(src);
        prefetch_after(src + 64);
        float d = f16_at(src + 208);
        for (int s = 0; s < SUB16; s++)
            scale[b * SUB16 + s] = d * (float)(int8_t)src[192 + s];
        for (int i = 0; i < SUB32; i++) {
            int half = i / 4, s = i % 4;
            __m256i lo = load256(src + 64 * half + 32 * (s % 2));
            __m256i hi = load256(src + 128 + 32 * half);
            lo = _mm256_and_si256(shifted(lo, 4 * (s / 2)), low);
            hi = _mm256_and_si256(shifted(hi, 2 * s), three);
            hi = _mm256_slli_epi16(hi, 4);
            store256(code + 32 * i, _mm256_sub_epi8(_mm256_or_si256(lo, hi), off));
        }
    }
}
