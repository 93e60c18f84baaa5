/*
 * variants.h - every variant of every kernel, for the table and for the tests.
 *
 * Contracts are in kernel.h. _c is the scalar reference, _avx2 needs AVX2 and F16C,
 * _avxvnni also AVX-VNNI, _avx512vnni AVX-512 with F, BW, DQ, VL and VNNI, _avx512vbmi
 * also VBMI, _avx512bf16 AVX-512 with BF16, _neon any ARMv8-A, _dotprod and _i8mm the extensions of those names.
 */
#ifndef KERNEL_VARIANTS_H
#define KERNEL_VARIANTS_H

#include "kernel/kernel.h"

/* ref/act_ref.c */
void kernel_act_quant_c(const struct kq_act *a, int64_t t, const float *x);

/* ref/dot_ref.c */
void kernel_dequant_c(float *dst, const int8_t *code, const float *scale,
                      const float *min, int64_t n);
void kernel_qdot_c(float *y, int64_t y_step, const struct kq_mat *w,
                   const struct kq_act *x);
void kernel_fdot_c(float *y, int64_t y_step, const struct kf_mat *w,
                   const struct kf_mat *x, int64_t n);

/* ref/unpack_ref.c, ref/unpack_k_ref.c */
kernel_unpack unpack_q4_0_c, unpack_q4_1_c, unpack_q5_0_c, unpack_q5_1_c, unpack_q8_0_c;
kernel_unpack unpack_q1_0_c, unpack_q2_0_c, unpack_q2_0_g128_c;
kernel_unpack unpack_tq1_0_c, unpack_tq2_0_c, unpack_ptq1_0_c, unpack_i2_s_c;
kernel_unpack unpack_b2_t64_c, unpack_b2_q2_c, unpack_b2_q3_c;
kernel_unpack unpack_b2_c128_c, unpack_b2_c64_c; /* ref/unpack_quad_ref.c */
kernel_unpack unpack_q2_k_c, unpack_q3_k_c, unpack_q4_k_c, unpack_q5_k_c, unpack_q6_k_c;

/* ref/float_ref.c */
void kernel_f32_from_f16_c(float *dst, const void *src, int64_t n);
void kernel_f32_from_bf16_c(float *dst, const void *src, int64_t n);
void kernel_f16_from_f32_c(uint16_t *dst, const float *src, int64_t n);
void kernel_bf16_from_f32_c(uint16_t *dst, const float *src, int64_t n);
void kernel_rmsnorm_c(float *y, const float *x, const float *gain, int64_t n,
                      float eps);
void kernel_silu_mul_c(float *y, const float *gate, const float *up, int64_t n);
void kernel_gelu_mul_c(float *y, const float *gate, const float *up, int64_t n);
void kernel_relu2_mul_c(float *y, const float *gate, const float *up, int64_t n);
void kernel_scale_c(float *y, int64_t n, float by);
void kernel_add_c(float *y, const float *x, int64_t n);
void kernel_mul_c(float *y, const float *a, const float *b, int64_t n);
void kernel_exp_c(float *y, const float *x, int64_t n);
void kernel_softcap_c(float *p, int64_t n, float cap);
float kernel_softmax_c(float *p, int64_t n, float scale, float *max);
void kernel_weighted_sum_c(float *out, const float *p, const float *v, int64_t v_step,
                           int64_t n_pos, int64_t dim);
void kernel_rope_norm_c(float *x, const float *c, const float *s, int64_t n_pairs);
void kernel_rope_neox_c(float *x, const float *c, const float *s, int64_t n_pairs);

/* ref/delta_ref.c */
void kernel_sigmoid_mul_c(float *y, const float *gate, const float *x, int64_t n);
void kernel_l2norm_c(float *y, const float *x, int64_t n, float eps);
void kernel_conv_silu_c(float *y, const float *const *x, const float *w, int64_t w_step,
                        int64_t taps, int64_t n);
void kernel_delta_step_c(float *out, float *state, const struct kd_step *d);

/* ref/attn_ref.c */
void kernel_kv_put_q8_c(uint8_t *code, uint16_t *scale, int64_t scale_step,
                        const float *x, int64_t dim);
void kernel_kv_put_q4_c(uint8_t *code, uint16_t *scale, int64_t scale_step,
                        const float *x, int64_t dim);
void kernel_kv_query_c(const struct kv_query *q, int64_t r, const float *x);
void kernel_kv_widen_q4_c(int8_t *dst, const struct kv_rows *rows);
void kernel_kv_get_q8_c(float *dst, const struct kv_rows *rows);
void kernel_kv_score_q8_c(float *y, int64_t y_step, const struct kv_rows *k,
                          const struct kv_query *q);
void kernel_kv_score_f16_c(float *y, int64_t y_step, const struct kv_rows *k,
                           const struct kf_mat *q);
void kernel_kv_mix_q8_c(float *out, const float *w, int64_t w_step, int64_t rows,
                        const struct kv_rows *v);
void kernel_kv_mix_f16_c(float *out, const float *w, int64_t w_step, int64_t rows,
                         const struct kv_rows *v);

#if B2_X86
/* x86/quad_avx2.c, x86/quad_avxvnni.c, x86/quad_avx512vnni.c, x86/quad_avx512vbmi.c */
kernel_unpack unpack_b2_c128_avx2, unpack_b2_c64_avx2;
kernel_packed packed_b2_c128_avx2, packed_b2_c64_avx2;
kernel_packed packed_b2_c128_avxvnni, packed_b2_c64_avxvnni;
kernel_packed packed_b2_c128_avx512vnni, packed_b2_c64_avx512vnni;
kernel_packed packed_b2_c128_avx512vbmi, packed_b2_c64_avx512vbmi;

/* x86/act_avx2.c */
void kernel_act_quant_avx2(const struct kq_act *a, int64_t t, const float *x);

/* x86/dot_avx2.c */
void kernel_dequant_avx2(float *dst, const int8_t *code, const float *scale,
                         const float *min, int64_t n);
void kernel_fdot_avx2(float *y, int64_t y_step, const struct kf_mat *w,
                      const struct kf_mat *x, int64_t n);

/* x86/dot_avx512vnni.c */
void kernel_fdot_avx512vnni(float *y, int64_t y_step, const struct kf_mat *w,
                            const struct kf_mat *x, int64_t n);

/* x86/packed_avx2.c */
kernel_packed packed_q2_0_g128_avx2, packed_tq2_0_avx2, packed_ptq1_0_avx2;
kernel_packed packed_q2_0_avx2, packed_tq1_0_avx2, packed_q1_0_avx2;
kernel_packed packed_i2_s_avx2, packed_b2_t64_avx2;
kernel_packed packed_b2_q2_avx2, packed_b2_q3_avx2;

/* x86/packed_avxvnni.c */
kernel_packed packed_q2_0_g128_avxvnni, packed_tq2_0_avxvnni, packed_ptq1_0_avxvnni;
kernel_packed packed_tq1_0_avxvnni, packed_i2_s_avxvnni, packed_b2_t64_avxvnni;

/* x86/sets_avx2.c, x86/sets_avxvnni.c, x86/sets_avx512vnni.c, x86/sets_avx512vbmi.c */
kernel_sets sets_2bits_avx2, sets_trits_avx2, sets_2bits_avxvnni, sets_trits_avxvnni;
kernel_sets sets_2bits_avx512vnni, sets_trits_avx512vnni, sets_trits_avx512vbmi;

/* x86/packed_k_avx2.c */
kernel_packed packed_q4_0_avx2, packed_q4_1_avx2, packed_q5_0_avx2, packed_q5_1_avx2;
kernel_packed packed_q2_k_avx2, packed_q3_k_avx2;
kernel_packed packed_q8_0_avx2, packed_q4_k_avx2, packed_q5_k_avx2, packed_q6_k_avx2;

/* x86/packed_k_avx512vnni.c */
kernel_packed packed_q4_0_avx512vnni, packed_q4_1_avx512vnni, packed_q5_0_avx512vnni;
kernel_packed packed_q5_1_avx512vnni, packed_q8_0_avx512vnni, packed_q4_k_avx512vnni;
kernel_packed packed_q2_k_avx512vnni, packed_q3_k_avx512vnni;
kernel_packed packed_q5_k_avx512vnni, packed_q6_k_avx512vnni;

/* x86/packed_avx512vnni.c, x86/packed_avx512vbmi.c */
kernel_packed packed_q2_0_g128_avx512vnni, packed_tq2_0_avx512vnni;
kernel_packed packed_ptq1_0_avx512vnni, packed_tq1_0_avx512vnni;
kernel_packed packed_i2_s_avx512vnni, packed_b2_t64_avx512vnni;
kernel_packed packed_ptq1_0_avx512vbmi, packed_tq1_0_avx512vbmi;
kernel_packed packed_b2_t64_avx512vbmi;

/* x86/gemm_avx2.c, x86/gemm_avx512vnni.c */
void kernel_qdot_avx2(float *y, int64_t y_step, const struct kq_mat *w,
                      const struct kq_act *x);
void kernel_qdot_avx512vnni(float *y, int64_t y_step, const struct kq_mat *w,
                            const struct kq_act *x);

/* x86/gemm_amx.c: AVX-512 VNNI and AMX int8 */
void kernel_qdot_amx(float *y, int64_t y_step, const struct kq_mat *w,
                     const struct kq_act *x);

/* x86/unpack_avx2.c */
kernel_unpack unpack_q4_0_avx2, unpack_q4_1_avx2, unpack_q5_0_avx2, unpack_q5_1_avx2;
kernel_unpack unpack_q8_0_avx2, unpack_q1_0_avx2, unpack_q2_0_avx2;
kernel_unpack unpack_q2_0_g128_avx2;
kernel_unpack unpack_tq1_0_avx2, unpack_tq2_0_avx2, unpack_ptq1_0_avx2;
kernel_unpack unpack_b2_t64_avx2, unpack_i2_s_avx2, unpack_b2_q2_avx2,
    unpack_b2_q3_avx2;

/* x86/unpack_k_avx2.c */
kernel_unpack unpack_q2_k_avx2, unpack_q3_k_avx2, unpack_q4_k_avx2, unpack_q5_k_avx2;
kernel_unpack unpack_q6_k_avx2;

/* x86/float_avx2.c */
void kernel_f32_from_f16_avx2(float *dst, const void *src, int64_t n);
void kernel_f32_from_bf16_avx2(float *dst, const void *src, int64_t n);
void kernel_f16_from_f32_avx2(uint16_t *dst, const float *src, int64_t n);
void kernel_rmsnorm_avx2(float *y, const float *x, const float *gain, int64_t n,
                         float eps);
void kernel_silu_mul_avx2(float *y, const float *gate, const float *up, int64_t n);
void kernel_gelu_mul_avx2(float *y, const float *gate, const float *up, int64_t n);
void kernel_relu2_mul_avx2(float *y, const float *gate, const float *up, int64_t n);
void kernel_scale_avx2(float *y, int64_t n, float by);
void kernel_add_avx2(float *y, const float *x, int64_t n);
void kernel_mul_avx2(float *y, const float *a, const float *b, int64_t n);
void kernel_exp_avx2(float *y, const float *x, int64_t n);
void kernel_softcap_avx2(float *p, int64_t n, float cap);
float kernel_softmax_avx2(float *p, int64_t n, float scale, float *max);
void kernel_weighted_sum_avx2(float *out, const float *p, const float *v,
                              int64_t v_step, int64_t n_pos, int64_t dim);
void kernel_rope_norm_avx2(float *x, const float *c, const float *s, int64_t n_pairs);
void kernel_rope_neox_avx2(float *x, const float *c, const float *s, int64_t n_pairs);
void kernel_fwht_avx2(float *x, int64_t n, int64_t block);

/* x86/delta_avx2.c */
void kernel_sigmoid_mul_avx2(float *y, const float *gate, const float *x, int64_t n);
void kernel_l2norm_avx2(float *y, const float *x, int64_t n, float eps);
void kernel_conv_silu_avx2(float *y, const float *const *x, const float *w,
                           int64_t w_step, int64_t taps, int64_t n);
void kernel_delta_step_avx2(float *out, float *state, const struct kd_step *d);

/* x86/attn_avx2.c */
void kernel_kv_put_q8_avx2(uint8_t *code, uint16_t *scale, int64_t scale_step,
                           const float *x, int64_t dim);
void kernel_kv_put_q4_avx2(uint8_t *code, uint16_t *scale, int64_t scale_step,
                           const float *x, int64_t dim);
void kernel_kv_query_avx2(const struct kv_query *q, int64_t r, const float *x);
void kernel_kv_widen_q4_avx2(int8_t *dst, const struct kv_rows *rows);
void kernel_kv_get_q8_avx2(float *dst, const struct kv_rows *rows);
void kernel_kv_score_q8_avx2(float *y, int64_t y_step, const struct kv_rows *k,
                             const struct kv_query *q);
void kernel_kv_score_f16_avx2(float *y, int64_t y_step, const struct kv_rows *k,
                              const struct kf_mat *q);
void kernel_kv_mix_q8_avx2(float *out, const float *w, int64_t w_step, int64_t rows,
                           const struct kv_rows *v);
void kernel_kv_mix_f16_avx2(float *out, const float *w, int64_t w_step, int64_t rows,
                            const struct kv_rows *v);

/* x86/round_avx512bf16.c */
void kernel_bf16_from_f32_avx512bf16(uint16_t *dst, const float *src, int64_t n);

/* x86/attn_avx512vnni.c */
void kernel_kv_score_q8_avx512vnni(float *y, int64_t y_step, const struct kv_rows *k,
                                   const struct kv_query *q);
void kernel_kv_mix_q8_avx512vnni(float *out, const float *w, int64_t w_step,
                                 int64_t rows, const struct kv_rows *v);
void kernel_kv_mix_f16_avx512vnni(float *out, const float *w, int64_t w_step,
                                  int64_t rows, const struct kv_rows *v);
#endif

#if B2_ARM
/* arm/unpack_quad_neon.c */
kernel_unpack unpack_b2_c128_neon, unpack_b2_c64_neon;

/* arm/act_neon.c, arm/dot_neon.c, arm/dot_dotprod.c, arm/dot_i8mm.c */
void kernel_act_quant_neon(const struct kq_act *a, int64_t t, const float *x);
void kernel_dequant_neon(float *dst, const int8_t *code, const float *scale,
                         const float *min, int64_t n);
void kernel_fdot_neon(float *y, int64_t y_step, const struct kf_mat *w,
                      const struct kf_mat *x, int64_t n);
void kernel_qdot_neon(float *y, int64_t y_step, const struct kq_mat *w,
                      const struct kq_act *x);
void kernel_qdot_dotprod(float *y, int64_t y_step, const struct kq_mat *w,
                         const struct kq_act *x);
void kernel_qdot_i8mm(float *y, int64_t y_step, const struct kq_mat *w,
                      const struct kq_act *x);

/* arm/unpack_neon.c, arm/unpack_k_neon.c */
kernel_unpack unpack_q4_0_neon, unpack_q4_1_neon, unpack_q5_0_neon, unpack_q5_1_neon;
kernel_unpack unpack_q8_0_neon, unpack_q1_0_neon, unpack_q2_0_neon;
kernel_unpack unpack_q2_0_g128_neon;
kernel_unpack unpack_tq1_0_neon, unpack_tq2_0_neon, unpack_ptq1_0_neon;
kernel_unpack unpack_i2_s_neon, unpack_b2_t64_neon, unpack_q2_k_neon, unpack_q3_k_neon;
kernel_unpack unpack_q4_k_neon, unpack_q5_k_neon, unpack_q6_k_neon;

/* arm/float_neon.c */
void kernel_f32_from_f16_neon(float *dst, const void *src, int64_t n);
void kernel_f32_from_bf16_neon(float *dst, const void *src, int64_t n);
void kernel_f16_from_f32_neon(uint16_t *dst, const float *src, int64_t n);
void kernel_rmsnorm_neon(float *y, const float *x, const float *gain, int64_t n,
                         float eps);
void kernel_silu_mul_neon(float *y, const float *gate, const float *up, int64_t n);
void kernel_gelu_mul_neon(float *y, const float *gate, const float *up, int64_t n);
void kernel_relu2_mul_neon(float *y, const float *gate, const float *up, int64_t n);
void kernel_scale_neon(float *y, int64_t n, float by);
void kernel_add_neon(float *y, const float *x, int64_t n);
void kernel_mul_neon(float *y, const float *a, const float *b, int64_t n);
void kernel_exp_neon(float *y, const float *x, int64_t n);
void kernel_softcap_neon(float *p, int64_t n, float cap);
float kernel_softmax_neon(float *p, int64_t n, float scale, float *max_out);
void kernel_weighted_sum_neon(float *out, const float *p, const float *v,
                              int64_t v_step, int64_t n_pos, int64_t dim);
void kernel_rope_norm_neon(float *x, const float *c, const float *s, int64_t n_pairs);
void kernel_rope_neox_neon(float *x, const float *c, const float *s, int64_t n_pairs);
void kernel_fwht_neon(float *x, int64_t n, int64_t block);

/* arm/delta_neon.c */
void kernel_sigmoid_mul_neon(float *y, const float *gate, const float *x, int64_t n);
void kernel_l2norm_neon(float *y, const float *x, int64_t n, float eps);
void kernel_conv_silu_neon(float *y, const float *const *x, const float *w,
                           int64_t w_step, int64_t taps, int64_t n);
void kernel_delta_step_neon(float *out, float *state, const struct kd_step *d);

/* arm/attn_neon.c */
void kernel_kv_put_q8_neon(uint8_t *code, uint16_t *scale, int64_t scale_step,
                           const float *x, int64_t dim);
void kernel_kv_put_q4_neon(uint8_t *code, uint16_t *scale, int64_t scale_step,
                           const float *x, int64_t dim);
void kernel_kv_query_neon(const struct kv_query *q, int64_t r, const float *x);
void kernel_kv_widen_q4_neon(int8_t *dst, const struct kv_rows *rows);
void kernel_kv_get_q8_neon(float *dst, const struct kv_rows *rows);
void kernel_kv_score_q8_neon(float *y, int64_t y_step, const struct kv_rows *k,
                             const struct kv_query *q);
void kernel_kv_score_f16_neon(float *y, int64_t y_step, const struct kv_rows *k,
                              const struct kf_mat *q);
void kernel_kv_mix_q8_neon(float *out, const float *w, int64_t w_step, int64_t rows,
                           const struct kv_rows *v);
void kernel_kv_mix_f16_neon(float *out, const float *w, int64_t w_step, int64_t rows,
                            const struct kv_rows *v);
#endif

#endif
