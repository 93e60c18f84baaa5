/*
 * kernel.c - the table of variants, and the few functions that have one variant.
 *
 * Compiled for the baseline processor: code here runs before any feature was checked.
 */
#include "kernel/kernel.h"
#include "base/cpu.h"
#include "kernel/variants.h"
#include "tensor/hadamard.h"

#include <math.h>

#if defined(__AVX__)
#error "kernel.c must be compiled for the baseline CPU; only kernel/x86 has AVX flags"
#endif

/* Up to how many tokens the packed rows win over unpacking, measured (docs/KERNELS.md). */
static void set_packed_tokens(struct kernels *k, bool vnni)
{
    static const enum dtype always[] = {DT_Q2_0_G128, DT_PQ2_0,   DT_TQ2_0,
                                        DT_PTQ1_0,    DT_TQ1_0,   DT_I2_S,
                                        DT_B2_T64,    DT_B2_C128, DT_B2_C64};

    for (int t = 0; t < N_DTYPES; t++)
        k->packed_tokens[t] = k->packed[t] ? 4 : 0;
    if (k->packed[DT_Q4_K])
        k->packed_tokens[DT_Q4_K] = k->packed_tokens[DT_Q5_K] = 6;
    if (k->packed[DT_Q2_0] && !vnni)
        k->packed_tokens[DT_Q2_0] = k->packed_tokens[DT_Q1_0] = 12;
    for (size_t i = 0; i < countof(always); i++)
        k->packed_tokens[always[i]] = k->packed[always[i]] ? INT32_MAX : 0;
#if B2_X86
    /* Tiles have 16 tokens, and are for blocks of 128 and more. */
    for (size_t i = 0; i < countof(always) && k->qdot == kernel_qdot_amx; i++)
        if (kernel_block(always[i]) >= 128)
            k->packed_tokens[always[i]] = 15;
#endif
}

static const struct kernels_attn attn_ref = {
    .put_q8 = kernel_kv_put_q8_c,
    .put_q4 = kernel_kv_put_q4_c,
    .query = kernel_kv_query_c,
    .widen_q4 = kernel_kv_widen_q4_c,
    .get_q8 = kernel_kv_get_q8_c,
    .score_q8 = kernel_kv_score_q8_c,
    .score_f16 = kernel_kv_score_f16_c,
    .mix_q8 = kernel_kv_mix_q8_c,
    .mix_f16 = kernel_kv_mix_f16_c,
};

static void init_ref(struct kernels *k)
{
    *k = (struct kernels){
        .name = "scalar",
        .act_quant = kernel_act_quant_c,
        .unpack =
            {
                [DT_Q4_0] = unpack_q4_0_c,
                [DT_Q4_1] = unpack_q4_1_c,
                [DT_Q5_0] = unpack_q5_0_c,
                [DT_Q5_1] = unpack_q5_1_c,
                [DT_Q8_0] = unpack_q8_0_c,
                [DT_Q2_K] = unpack_q2_k_c,
                [DT_Q3_K] = unpack_q3_k_c,
                [DT_Q4_K] = unpack_q4_k_c,
                [DT_Q5_K] = unpack_q5_k_c,
                [DT_Q6_K] = unpack_q6_k_c,
                [DT_TQ1_0] = unpack_tq1_0_c,
                [DT_TQ2_0] = unpack_tq2_0_c,
                [DT_Q1_0] = unpack_q1_0_c,
                [DT_Q2_0] = unpack_q2_0_c,
                [DT_Q2_0_G128] = unpack_q2_0_g128_c,
                [DT_PQ2_0] = unpack_q2_0_g128_c, /* the same bytes */
                [DT_PTQ1_0] = unpack_ptq1_0_c,
                [DT_I2_S] = unpack_i2_s_c,
                [DT_B2_T64] = unpack_b2_t64_c,
                [DT_B2_C128] = unpack_b2_c128_c,
                [DT_B2_C64] = unpack_b2_c64_c,
                [DT_B2_Q2] = unpack_b2_q2_c,
                [DT_B2_Q3] = unpack_b2_q3_c,
            },
        .dequant = kernel_dequant_c,
        .qdot = kernel_qdot_c,
        .fdot = kernel_fdot_c,
        .f32_from_f16 = kernel_f32_from_f16_c,
        .f32_from_bf16 = kernel_f32_from_bf16_c,
        .f16_from_f32 = kernel_f16_from_f32_c,
        .bf16_from_f32 = kernel_bf16_from_f32_c,
        .rmsnorm = kernel_rmsnorm_c,
        .silu_mul = kernel_silu_mul_c,
        .gelu_mul = kernel_gelu_mul_c,
        .relu2_mul = kernel_relu2_mul_c,
        .scale = kernel_scale_c,
        .add = kernel_add_c,
        .exp = kernel_exp_c,
        .softcap = kernel_softcap_c,
        .softmax = kernel_softmax_c,
        .weighted_sum = kernel_weighted_sum_c,
        .rope_norm = kernel_rope_norm_c,
        .rope_neox = kernel_rope_neox_c,
        .fwht = hadamard_apply,
        .mul = kernel_mul_c,
        .sigmoid_mul = kernel_sigmoid_mul_c,
        .l2norm = kernel_l2norm_c,
        .conv_silu = kernel_conv_silu_c,
        .delta_step = kernel_delta_step_c,
        .attn = attn_ref,
    };
}

#if B2_X86
static const struct kernels_attn attn_avx2 = {
    .put_q8 = kernel_kv_put_q8_avx2,
    .put_q4 = kernel_kv_put_q4_avx2,
    .query = kernel_kv_query_avx2,
    .widen_q4 = kernel_kv_widen_q4_avx2,
    .get_q8 = kernel_kv_get_q8_avx2,
    .score_q8 = kernel_kv_score_q8_avx2,
    .score_f16 = kernel_kv_score_f16_avx2,
    .mix_q8 = kernel_kv_mix_q8_avx2,
    .mix_f16 = kernel_kv_mix_f16_avx2,
};

static void init_avx2_types(struct kernels *k)
{
    k->unpack[DT_Q4_0] = unpack_q4_0_avx2;
    k->unpack[DT_Q4_1] = unpack_q4_1_avx2;
    k->unpack[DT_Q5_0] = unpack_q5_0_avx2;
    k->unpack[DT_Q5_1] = unpack_q5_1_avx2;
    k->unpack[DT_Q8_0] = unpack_q8_0_avx2;
    k->unpack[DT_Q2_K] = unpack_q2_k_avx2;
    k->unpack[DT_Q3_K] = unpack_q3_k_avx2;
    k->unpack[DT_Q4_K] = unpack_q4_k_avx2;
    k->unpack[DT_Q5_K] = unpack_q5_k_avx2;
    k->unpack[DT_Q6_K] = unpack_q6_k_avx2;
    k->unpack[DT_TQ1_0] = unpack_tq1_0_avx2;
    k->unpack[DT_TQ2_0] = unpack_tq2_0_avx2;
    k->unpack[DT_Q1_0] = unpack_q1_0_avx2;
    k->unpack[DT_Q2_0] = unpack_q2_0_avx2;
    k->unpack[DT_Q2_0_G128] = unpack_q2_0_g128_avx2;
    k->unpack[DT_PQ2_0] = unpack_q2_0_g128_avx2;
    k->unpack[DT_PTQ1_0] = unpack_ptq1_0_avx2;
    k->unpack[DT_I2_S] = unpack_i2_s_avx2;
    k->unpack[DT_B2_T64] = unpack_b2_t64_avx2;
    k->unpack[DT_B2_Q2] = unpack_b2_q2_avx2;
    k->unpack[DT_B2_Q3] = unpack_b2_q3_avx2;
    k->packed[DT_Q2_0_G128] = packed_q2_0_g128_avx2;
    k->packed[DT_PQ2_0] = packed_q2_0_g128_avx2;
    k->packed[DT_TQ2_0] = packed_tq2_0_avx2;
    k->packed[DT_PTQ1_0] = packed_ptq1_0_avx2;
    k->packed[DT_Q2_0] = packed_q2_0_avx2;
    k->packed[DT_TQ1_0] = packed_tq1_0_avx2;
    k->packed[DT_Q1_0] = packed_q1_0_avx2;
    k->packed[DT_I2_S] = packed_i2_s_avx2;
    k->packed[DT_B2_T64] = packed_b2_t64_avx2;
    k->packed[DT_B2_Q2] = packed_b2_q2_avx2;
    k->packed[DT_B2_Q3] = packed_b2_q3_avx2;
    k->packed[DT_Q4_0] = packed_q4_0_avx2;
    k->packed[DT_Q4_1] = packed_q4_1_avx2;
    k->packed[DT_Q5_0] = packed_q5_0_avx2;
    k->packed[DT_Q5_1] = packed_q5_1_avx2;
    k->packed[DT_Q8_0] = packed_q8_0_avx2;
    k->packed[DT_Q2_K] = packed_q2_k_avx2;
    k->packed[DT_Q3_K] = packed_q3_k_avx2;
    k->packed[DT_Q4_K] = packed_q4_k_avx2;
    k->packed[DT_Q5_K] = packed_q5_k_avx2;
    k->packed[DT_Q6_K] = packed_q6_k_avx2;
}

static void init_avx2(struct kernels *k)
{
    k->name = "avx2";
    k->act_quant = kernel_act_quant_avx2;
    init_avx2_types(k);
    k->dequant = kernel_dequant_avx2;
    k->qdot = kernel_qdot_avx2;
    k->fdot = kernel_fdot_avx2;
    k->f32_from_f16 = kernel_f32_from_f16_avx2;
    k->f32_from_bf16 = kernel_f32_from_bf16_avx2;
    k->f16_from_f32 = kernel_f16_from_f32_avx2;
    k->rmsnorm = kernel_rmsnorm_avx2;
    k->silu_mul = kernel_silu_mul_avx2;
    k->gelu_mul = kernel_gelu_mul_avx2;
    k->relu2_mul = kernel_relu2_mul_avx2;
    k->scale = kernel_scale_avx2;
    k->add = kernel_add_avx2;
    k->exp = kernel_exp_avx2;
    k->softcap = kernel_softcap_avx2;
    k->softmax = kernel_softmax_avx2;
    k->weighted_sum = kernel_weighted_sum_avx2;
    k->rope_norm = kernel_rope_norm_avx2;
    k->rope_neox = kernel_rope_neox_avx2;
    k->fwht = kernel_fwht_avx2;
    k->mul = kernel_mul_avx2;
    k->sigmoid_mul = kernel_sigmoid_mul_avx2;
    k->l2norm = kernel_l2norm_avx2;
    k->conv_silu = kernel_conv_silu_avx2;
    k->delta_step = kernel_delta_step_avx2;
    k->attn = attn_avx2;
}

static void init_avxvnni(struct kernels *k)
{
    k->name = "avxvnni";
    k->packed[DT_Q2_0_G128] = packed_q2_0_g128_avxvnni;
    k->packed[DT_PQ2_0] = packed_q2_0_g128_avxvnni;
    k->packed[DT_TQ2_0] = packed_tq2_0_avxvnni;
    k->packed[DT_PTQ1_0] = packed_ptq1_0_avxvnni;
    k->packed[DT_TQ1_0] = packed_tq1_0_avxvnni;
    k->packed[DT_I2_S] = packed_i2_s_avxvnni;
    k->packed[DT_B2_T64] = packed_b2_t64_avxvnni;
}

/* Kernels of repacked rows; none at the scalar level and on ARM. */
static void init_sets(struct kernels *k, unsigned cpu)
{
    const bool vnni = (cpu & CPU_AVX512) && (cpu & CPU_AVX512VNNI);

    if (cpu & CPU_AVX2) {
        k->sets[KSET_2BITS] = sets_2bits_avx2;
        k->sets[KSET_TRITS] = sets_trits_avx2;
    }
    if ((cpu & CPU_AVX2) && (cpu & CPU_AVXVNNI)) {
        k->sets[KSET_2BITS] = sets_2bits_avxvnni;
        k->sets[KSET_TRITS] = sets_trits_avxvnni;
    }
    if (vnni) {
        k->sets[KSET_2BITS] = sets_2bits_avx512vnni;
        k->sets[KSET_TRITS] =
            (cpu & CPU_AVX512VBMI) ? sets_trits_avx512vbmi : sets_trits_avx512vnni;
    }
}

static void init_avx512vnni(struct kernels *k)
{
    k->name = "avx512vnni";
    k->attn.score_q8 = kernel_kv_score_q8_avx512vnni;
    k->attn.mix_q8 = kernel_kv_mix_q8_avx512vnni;
    k->attn.mix_f16 = kernel_kv_mix_f16_avx512vnni;
    k->qdot = kernel_qdot_avx512vnni;
    k->fdot = kernel_fdot_avx512vnni;
    k->packed[DT_Q2_0_G128] = packed_q2_0_g128_avx512vnni;
    k->packed[DT_PQ2_0] = packed_q2_0_g128_avx512vnni;
    k->packed[DT_TQ2_0] = packed_tq2_0_avx512vnni;
    k->packed[DT_PTQ1_0] = packed_ptq1_0_avx512vnni;
    k->packed[DT_TQ1_0] = packed_tq1_0_avx512vnni;
    k->packed[DT_I2_S] = packed_i2_s_avx512vnni;
    k->packed[DT_B2_T64] = packed_b2_t64_avx512vnni;
    k->packed[DT_Q4_0] = packed_q4_0_avx512vnni;
    k->packed[DT_Q4_1] = packed_q4_1_avx512vnni;
    k->packed[DT_Q5_0] = packed_q5_0_avx512vnni;
    k->packed[DT_Q5_1] = packed_q5_1_avx512vnni;
    k->packed[DT_Q8_0] = packed_q8_0_avx512vnni;
    k->packed[DT_Q2_K] = packed_q2_k_avx512vnni;
    k->packed[DT_Q3_K] = packed_q3_k_avx512vnni;
    k->packed[DT_Q4_K] = packed_q4_k_avx512vnni;
    k->packed[DT_Q5_K] = packed_q5_k_avx512vnni;
    k->packed[DT_Q6_K] = packed_q6_k_avx512vnni;
}

/* Rows of words of four codes, at every level. */
static void init_words(struct kernels *k, unsigned cpu)
{
    const unsigned avx512 = CPU_AVX512 | CPU_AVX512VNNI;

    if (!(cpu & CPU_AVX2))
        return;
    k->unpack[DT_B2_C128] = unpack_b2_c128_avx2;
    k->unpack[DT_B2_C64] = unpack_b2_c64_avx2;
    k->packed[DT_B2_C128] = packed_b2_c128_avx2;
    k->packed[DT_B2_C64] = packed_b2_c64_avx2;
    if (cpu & CPU_AVXVNNI) {
        k->packed[DT_B2_C128] = packed_b2_c128_avxvnni;
        k->packed[DT_B2_C64] = packed_b2_c64_avxvnni;
    }
    if ((cpu & avx512) != avx512)
        return;
    k->packed[DT_B2_C128] = packed_b2_c128_avx512vnni;
    k->packed[DT_B2_C64] = packed_b2_c64_avx512vnni;
    if (cpu & CPU_AVX512VBMI) {
        k->packed[DT_B2_C128] = packed_b2_c128_avx512vbmi;
        k->packed[DT_B2_C64] = packed_b2_c64_avx512vbmi;
    }
}
#endif

#if B2_ARM
static const struct kernels_attn attn_neon = {
    .put_q8 = kernel_kv_put_q8_neon,
    .put_q4 = kernel_kv_put_q4_neon,
    .query = kernel_kv_query_neon,
    .widen_q4 = kernel_kv_widen_q4_neon,
    .get_q8 = kernel_kv_get_q8_neon,
    .score_q8 = kernel_kv_score_q8_neon,
    .score_f16 = kernel_kv_score_f16_neon,
    .mix_q8 = kernel_kv_mix_q8_neon,
    .mix_f16 = kernel_kv_mix_f16_neon,
};

static void init_neon(struct kernels *k)
{
    k->name = "neon";
    k->unpack[DT_Q4_0] = unpack_q4_0_neon;
    k->unpack[DT_Q4_1] = unpack_q4_1_neon;
    k->unpack[DT_Q5_0] = unpack_q5_0_neon;
    k->unpack[DT_Q5_1] = unpack_q5_1_neon;
    k->unpack[DT_Q8_0] = unpack_q8_0_neon;
    k->unpack[DT_Q2_K] = unpack_q2_k_neon;
    k->unpack[DT_Q3_K] = unpack_q3_k_neon;
    k->unpack[DT_Q4_K] = unpack_q4_k_neon;
    k->unpack[DT_Q5_K] = unpack_q5_k_neon;
    k->unpack[DT_Q6_K] = unpack_q6_k_neon;
    k->unpack[DT_TQ1_0] = unpack_tq1_0_neon;
    k->unpack[DT_TQ2_0] = unpack_tq2_0_neon;
    k->unpack[DT_Q1_0] = unpack_q1_0_neon;
    k->unpack[DT_Q2_0] = unpack_q2_0_neon;
    k->unpack[DT_Q2_0_G128] = unpack_q2_0_g128_neon;
    k->unpack[DT_PQ2_0] = unpack_q2_0_g128_neon;
    k->unpack[DT_PTQ1_0] = unpack_ptq1_0_neon;
    k->unpack[DT_B2_C128] = unpack_b2_c128_neon;
    k->unpack[DT_B2_C64] = unpack_b2_c64_neon;
    k->unpack[DT_I2_S] = unpack_i2_s_neon;
    k->unpack[DT_B2_T64] = unpack_b2_t64_neon;
    k->act_quant = kernel_act_quant_neon;
    k->dequant = kernel_dequant_neon;
    k->qdot = kernel_qdot_neon;
    k->fdot = kernel_fdot_neon;
    k->f32_from_f16 = kernel_f32_from_f16_neon;
    k->f32_from_bf16 = kernel_f32_from_bf16_neon;
    k->f16_from_f32 = kernel_f16_from_f32_neon;
    k->rmsnorm = kernel_rmsnorm_neon;
    k->silu_mul = kernel_silu_mul_neon;
    k->gelu_mul = kernel_gelu_mul_neon;
    k->relu2_mul = kernel_relu2_mul_neon;
    k->scale = kernel_scale_neon;
    k->add = kernel_add_neon;
    k->exp = kernel_exp_neon;
    k->softcap = kernel_softcap_neon;
    k->softmax = kernel_softmax_neon;
    k->weighted_sum = kernel_weighted_sum_neon;
    k->rope_norm = kernel_rope_norm_neon;
    k->rope_neox = kernel_rope_neox_neon;
    k->fwht = kernel_fwht_neon;
    k->mul = kernel_mul_neon;
    k->sigmoid_mul = kernel_sigmoid_mul_neon;
    k->l2norm = kernel_l2norm_neon;
    k->conv_silu = kernel_conv_silu_neon;
    k->delta_step = kernel_delta_step_neon;
    k->attn = attn_neon;
}
#endif

void kernels_init(struct kernels *k, unsigned cpu)
{
    init_ref(k);
#if B2_X86
    if (cpu & CPU_AVX2)
        init_avx2(k);
    if ((cpu & CPU_AVX2) && (cpu & CPU_AVXVNNI))
        init_avxvnni(k);
    if ((cpu & CPU_AVX512) && (cpu & CPU_AVX512VNNI))
        init_avx512vnni(k);
    if ((cpu & CPU_AVX512) && (cpu & CPU_AVX512VNNI) && (cpu & CPU_AVX512VBMI)) {
        k->packed[DT_PTQ1_0] = packed_ptq1_0_avx512vbmi;
        k->packed[DT_TQ1_0] = packed_tq1_0_avx512vbmi;
        k->packed[DT_B2_T64] = packed_b2_t64_avx512vbmi;
    }
    if ((cpu & CPU_AVX512) && (cpu & CPU_AVX512BF16))
        k->bf16_from_f32 = kernel_bf16_from_f32_avx512bf16;
    init_words(k, cpu);
    init_sets(k, cpu);
    if ((cpu & CPU_AVX512) && (cpu & CPU_AVX512VNNI) && (cpu & CPU_AMX_INT8)) {
        k->name = "amx";
        k->qdot = kernel_qdot_amx;
    }
#endif
#if B2_ARM
    if (cpu & CPU_NEON)
        init_neon(k);
    if (cpu & CPU_DOTPROD) {
        k->name = "dotprod";
        k->qdot = kernel_qdot_dotprod;
    }
    if ((cpu & CPU_DOTPROD) && (cpu & CPU_I8MM)) {
        k->name = "i8mm";
        k->qdot = kernel_qdot_i8mm;
    }
#endif
    set_packed_tokens(k, (cpu & CPU_AVX512VNNI) != 0);
}

bool kernel_is_quant(enum dtype t)
{
    return t >= DT_Q4_0 && t <= DT_B2_Q3;
}

bool kernel_has_min(enum dtype t)
{
    return t == DT_Q4_1 || t == DT_Q5_1 || t == DT_Q2_K || t == DT_Q4_K || t == DT_Q5_K;
}

int kernel_block(enum dtype t)
{
    switch (t) {
    case DT_Q2_K:
    case DT_Q3_K:
    case DT_Q6_K:
        return 16;
    case DT_Q2_0:
    case DT_B2_T64:
    case DT_B2_C64:
    case DT_B2_Q2:
    case DT_B2_Q3:
        return 64;
    case DT_Q1_0:
    case DT_Q2_0_G128:
    case DT_PQ2_0:
    case DT_PTQ1_0:
    case DT_I2_S:
    case DT_B2_C128:
        return 128;
    case DT_TQ1_0:
    case DT_TQ2_0:
        return 256;
    default:
        return 32;
    }
}

int kernel_low(enum dtype t)
{
    switch (t) {
    case DT_Q8_0:
        return -1;
    case DT_Q4_0:
        return 8;
    case DT_Q5_0:
        return 16;
    case DT_Q3_K:
        return 4;
    case DT_B2_Q2:
        return 3;
    case DT_B2_Q3:
        return 7;
    case DT_Q6_K:
        return 32;
    default:
        return kernel_has_min(t) ? 0 : 1;
    }
}

int kernel_top(enum dtype t)
{
    switch (t) {
    case DT_Q8_0:
        return 255;
    case DT_Q6_K:
        return 63;
    case DT_Q5_0:
    case DT_Q5_1:
    case DT_Q5_K:
        return 31;
    case DT_Q4_0:
    case DT_Q4_1:
    case DT_Q4_K:
    case DT_B2_Q3:
        return 15;
    case DT_Q3_K:
    case DT_B2_Q2:
        return 7;
    default:
        return 3;
    }
}

/* The angle is reduced by multiples n of pi/2 in two parts; the first has 33 bits, so
 * that n * PIO2_HI is exact for |n| < 2^20. The polynomials are fdlibm's k_sin.c and
 * k_cos.c on [-pi/4, pi/4], accurate to 2^-57: far below the rounding to F32. */
void kernel_sincos(float *s, float *c, double angle)
{
    static const double TWO_OVER_PI = 6.36619772367581382433e-01;
    static const double PIO2_HI = 1.57079632673412561417e+00;
    static const double PIO2_LO = 6.07710050650619224932e-11;
    static const double ROUND = 6755399441055744.0; /* 1.5 * 2^52: to an integer */
    static const double LIMIT = 0x1p50;

    if (!(fabs(angle) < LIMIT)) { /* also NaN: n must fit an integer */
        *s = *c = NAN;
        return;
    }
    double n = (angle * TWO_OVER_PI + ROUND) - ROUND;
    double r = (angle - n * PIO2_HI) - n * PIO2_LO, z = r * r;
    double ps = 1.58969099521155010221e-10;
    double pc = -1.13596475577881948265e-11;
    ps = ps * z - 2.50507602534068634195e-08;
    ps = ps * z + 2.75573137070700676789e-06;
    ps = ps * z - 1.98412698298579493134e-04;
    ps = ps * z + 8.33333333332248946124e-03;
    ps = ps * z - 1.66666666666666324348e-01;
    pc = pc * z + 2.08757232129817482790e-09;
    pc = pc * z - 2.75573143513906633035e-07;
    pc = pc * z + 2.48015872894767294178e-05;
    pc = pc * z - 1.38888888888741095749e-03;
    pc = pc * z + 4.16666666666666019037e-02;
    double sin_r = r + r * z * ps;
    double cos_r = 1.0 - 0.5 * z + z * z * pc;
    int quadrant = (int)((int64_t)n & 3);
    double a = quadrant & 1 ? cos_r : sin_r, b = quadrant & 1 ? sin_r : cos_r;
    *s = (float)(quadrant & 2 ? -a : a);
    *c = (float)(quadrant == 1 || quadrant == 2 ? -b : b);
}

/* log(y) = n ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)): fdlibm's e_log.c. Where e
 * is so small that 1 + e would lose its digits, two terms of the series are enough. */
float kernel_softplus(float x, float e)
{
    static const double LN2 = 6.93147180559945286227e-01;
    int n;

    if (!(x <= 20.0f)) /* NaN too */
        return x;
    double d = (double)e;
    if (d < 1e-4)
        return (float)(d - d * d * 0.5);
    double f = frexp(1.0 + d, &n);
    if (f < 0.70710678118654752440) {
        f *= 2.0;
        n--;
    }
    f -= 1.0;
    double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double r = 1.479819860511658591e-01;
    r = r * z + 1.531383769920937332e-01;
    r = r * z + 1.818357216161805012e-01;
    r = r * z + 2.222219843214978396e-01;
    r = r * z + 2.857142874366239149e-01;
    r = r * z + 3.999999999940941908e-01;
    r = r * z + 6.666666666666735130e-01;
    return (float)((double)n * LN2 + (f - (half - s * (half + r * z))));
}
