/*
 * kernel.h - inner loops on plain pointers, and the table that picks their variants.
 *
 * The scalar functions of kernel/ref define the bits: every other variant returns the
 * same bits for every input that its contract allows. Floats are multiplied, then added
 * (never fused), in the order stated here. Where one running sum would be slow, the
 * reference itself keeps lanes: LANES of n means that element i is added to lane i mod n,
 * lanes start at +0, and at the end for (h = n/2; h; h /= 2) lane[i] += lane[i + h].
 *
 * The 8-bit path. An activation row becomes int8 q with an integer factor e for each
 * KQ_GROUP columns and one float d for the row: x = d * e * q. Which 16 columns are a group
 * depends on the type of the weights that it is to meet (enum kq_order). Groups of 16 give a third
 * less rounding error than groups of 32, and a factor that is an integer costs a product
 * nothing: it takes the place of the ones in a multiply-add of pairs. A weight row of any
 * quantised type is unpacked to int8 codes with a scale and (some types) a minimum per
 * KQ_GROUP: w = scale * code - min. Columns that share a scale, a block, are summed as
 * integers, exactly, in whatever order and with whatever trick a variant likes; then
 *     S = sum of e * code * q over block b      s = sum of e * q over block b
 *     acc += scale[b] * (float)S                          b = 0, 1, 2, ...
 *     acc += scale[b] * (float)S - min[b] * (float)s      types that have minima
 *     y = d * acc
 * The sum s of a block of 16 or 32 is below 2^24: its float is exact.
 * An element of a product depends on its row and its token alone, so matrix x vector and
 * matrix x matrix, and any tiling, give the same bits.
 *
 * The F32 path (exact mode; F32, F16 and BF16 weights): acc[i mod 16] += w[i] * x[i].
 *
 * No pointer needs alignment. n is any count >= 0 unless a function says otherwise. All
 * functions are pure and may run on any number of threads. The tiling above these loops
 * belongs to the backend.
 */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "kernel/attn.h"
#include "tensor/dtype.h"

enum {
    KQ_GROUP = 16,     /* columns per scale, of weights and of activations */
    KQ_STEP = 32,      /* quantised rows are a multiple of this */
    KQ_MAX_E = 4095,   /* of the factors: 32 * 128 * 127 * 4095 < 2^31 */
    KQ_MAX_SUM = 4096, /* |code| * block never passes it */
    KQ_PLANE = 128,    /* columns of a unit of kq_act.p */
    KF_LANES = 16,     /* lanes of an F32 dot product */
};

/* Rows of F32: row r starts at v + r * step. */
struct kf_mat {
    const float *v;
    int64_t rows, step;
};

/* Unpacked weight rows; min is NULL for types without one. */
struct kq_mat {
    const int8_t *code;       /* [rows][code_step], -128..127 */
    const float *scale, *min; /* [rows][group_step], one per KQ_GROUP */
    int64_t rows, code_step, group_step;
    int block; /* columns that share a scale: kernel_block() */
    int low;   /* no code is below -low. -1: any int8 */
    int top;   /* codes + low are at most top (3, 7, 15, 31, 63); low -1: 255 */
};

/* Where the columns of a block stand in an activation's row: at positions such that a
 * group of 16, which shares a factor, is what the packed weights keep in four neighbouring
 * bytes. Then a product applies the factor once for all digits of these bytes. */
enum kq_order {
    KQ_FLAT, /* position = column */
    KQ_PLANES, /* TQ2_0, I2_S: a group is 4 neighbours in each of 4 planes of 32 columns */
    KQ_TRITS64,  /* B2_T64: digits 0-3 of four bytes are a group; the fifth digits of
                  * bytes 0-11 and the digits of byte 12 are one */
    KQ_TRITS128, /* PTQ1_0: digits 0-3 of four bytes are a group; the fifth digits of
                  * bytes 0-15 are one, and columns 112-127 are one */
    KQ_TRITS256, /* TQ1_0: the same of its 32 + 16 bytes; columns 240-255 are one */
    KQ_BITS,     /* Q1_0: position = column, p for eight planes */
    KQ_N_ORDERS
};

/* Activations in 8 bits, one row per token. What products need again and again is made
 * once, by act_quant: the codes in two arrangements, factors spread over pairs.
 * p and ep are what the packed kernels load, in units of 128 columns (KQ_BITS and
 * KQ_TRITS256: 256; a shorter unit may end a row, m columns):
 *   KQ_FLAT      code 4 j + k at j + k m / 4; factor of group i / 2 at i
 *   KQ_PLANES    plane k, 32 columns, at 32 k; factors as KQ_FLAT
 *   KQ_BITS      column 8 j + k at j + k m / 8; factor of group i at i
 *   KQ_TRITS64   digit k of byte l of the unit's first block at 32 k + l (l < 13, else zero),
 *                of its second 16 further on; 16 factors for pairs of bytes in digits 0-3,
 *                then 16 in digit 4. A row that ends with one block has zeros for the other
 *   KQ_TRITS128  digit k of the block's byte l at 32 k + l (l < 26, else zero); 16 factors
 *                for pairs of bytes in digits 0-3, then 16 in digit 4
 *   KQ_TRITS256  the same for bytes 0-31, then for bytes 32-51 */
struct kq_act {
    int8_t *q;       /* [rows][n] -127..127, by position like e, sum and s */
    int8_t *p;       /* [rows][kq_p_step()] the same codes in planes */
    int16_t *e;      /* [rows][n / 2] factor of positions 2i, 2i+1: 1..KQ_MAX_E */
    int16_t *ep;     /* [rows][kq_ep_step()] the same factors for planes */
    int32_t *sum;    /* [rows][n / KQ_GROUP + 1] sum of e * q over the groups before */
    float *s;        /* [rows][n / KQ_GROUP] e * sum of the group's q */
    float *d;        /* [rows] */
    int64_t rows, n; /* n a multiple of kq_order_block() */
    enum kq_order order;
};

/* Ternary rows repacked in sets (sets.h). */
enum kset_form {
    KSET_2BITS, /* 2 bits a weight */
    KSET_TRITS, /* 1.6 */
    KSET_N_FORMS
};
enum { KSET_ROWS = 16 };

/* One token of one head of a gated delta net. */
struct kd_step {
    const float *q, *k; /* [n_keys] */
    const float *v;     /* [n_values] */
    float decay, beta, scale;
    int64_t n_keys, n_values;
};

/* Unpacks n weights (a multiple of the type's block) of one row: code [n], scale and min
 * [n / KQ_GROUP]. min is written only by types for which kernel_has_min() says so. Types
 * with DTF_APART give scales of 1; the caller multiplies the products. */
typedef void kernel_unpack(int8_t *code, float *scale, float *min, const uint8_t *src,
                           int64_t n);

/* y[t * y_step + r] = row r of packed weights times row t of x. */
typedef void kernel_packed(float *y, int64_t y_step, const uint8_t *w,
                           uint64_t row_bytes, int64_t rows, const struct kq_act *x);

/* The same of sets of one form that lie one after another: rows of them, with a scale for each `block` columns. */
typedef void kernel_sets(float *y, int64_t y_step, const uint8_t *set, int64_t rows,
                         int block, const struct kq_act *x);

struct kernels {
    const char *name; /* "avx2", "scalar": the level of most rows below */

    /* Row t of a from x [a->n], put in a's order. d = max|x| / (127 * KQ_MAX_E); a group with largest
     * magnitude m has e = min(KQ_MAX_E, 1 + (int)(m * (KQ_MAX_E / max|x|))) and q = x *
     * (1 / (d * e)) rounded to nearest, ties to even, within -127..127. A row below
     * 2^-100 becomes zeros with d = 0 and e = 1; one with NaN or infinity becomes zeros
     * with d = NaN, so that results are NaN too. */
    void (*act_quant)(const struct kq_act *a, int64_t t, const float *x);

    kernel_unpack *unpack[N_DTYPES]; /* NULL: not a quantised type (kernel_is_quant) */

    /* dst[i] = scale * code[i] - min, of i's group; min may be NULL. n a multiple of
     * KQ_GROUP. On unpacked rows this gives the bits of quant_decode_row(). */
    void (*dequant)(float *dst, const int8_t *code, const float *scale,
                    const float *min, int64_t n);

    /* y[t * y_step + r] = row r of w, its codes placed in x's order, times row t of x; x->n columns, where the last block
     * may be cut short (padded rows). */
    void (*qdot)(float *y, int64_t y_step, const struct kq_mat *w,
                 const struct kq_act *x);
    /* The same from packed rows of x->n columns, whole blocks, x in kernel_order(), with the bits of unpack and qdot. NULL: unpack and qdot
     * are the way. packed_tokens: up to so many tokens it is the faster one. */
    kernel_packed *packed[N_DTYPES];
    int32_t packed_tokens[N_DTYPES];
    /* Repacked rows, x in the order of their type. NULL: unpack and qdot are the way, and
     * repacking is of no use at this level. */
    kernel_sets *sets[KSET_N_FORMS];

    /* qdot in F32. */
    void (*fdot)(float *y, int64_t y_step, const struct kf_mat *w,
                 const struct kf_mat *x, int64_t n);

    /* Conversions with the bits of tensor/f16.h; NaN stays NaN. */
    void (*f32_from_f16)(float *dst, const void *src, int64_t n);
    void (*f32_from_bf16)(float *dst, const void *src, int64_t n);
    void (*f16_from_f32)(uint16_t *dst, const float *src, int64_t n);
    /* Subnormal numbers become zeros of their sign. */
    void (*bf16_from_f32)(uint16_t *dst, const float *src, int64_t n);

    /* y = (x * r) * gain, r = 1 / sqrt((float)(sum / n) + eps) in F32; the sum is over
     * the F32 squares in double, LANES of 8. n >= 1; y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *gain, int64_t n, float eps);
    /* y = gate / (1 + exp(-gate)) * up; y may be gate or up. */
    void (*silu_mul)(float *y, const float *gate, const float *up, int64_t n);
    /* y = gelu(gate) * up by the tanh formula, written as a sigmoid: z = ((gate * gate) *
     * gate) * 0.044715 + gate, y = gate / (1 + exp(z * -2 sqrt(2/pi))) * up. y may be
     * gate. */
    void (*gelu_mul)(float *y, const float *gate, const float *up, int64_t n);
    /* r = gate > 0 ? gate : 0, y = (r * r) * up; y may be gate. NaN becomes 0. */
    void (*relu2_mul)(float *y, const float *gate, const float *up, int64_t n);
    void (*scale)(float *y, int64_t n, float by);     /* y *= by */
    void (*add)(float *y, const float *x, int64_t n); /* y += x */
    /* y = exp(x), see exp.h: at most 1 ULP off for normal results. y may be x. */
    void (*exp)(float *y, const float *x, int64_t n);

    /* p = cap * tanh(p / cap), with tanh(z) = 1 - 2 / (exp(2 z) + 1); cap > 0. */
    void (*softcap)(float *p, int64_t n, float cap);
    /* p = exp(p * scale - m), m the largest p * scale, NaN passed over (-infinity if all
     * are NaN); returns the sum, LANES of 16, and gives m in *max. n >= 1. */
    float (*softmax)(float *p, int64_t n, float scale, float *max);
    /* out[i] += p[j] * v[j * v_step + i] for j = 0..n_pos-1 in this order, i < dim. */
    void (*weighted_sum)(float *out, const float *p, const float *v, int64_t v_step,
                         int64_t n_pos, int64_t dim);

    /* Turns pairs by an angle: (a, b) becomes (a c - b s, b c + a s). norm: pairs (2i,
     * 2i+1); neox: pairs (i, i + n_pairs). */
    void (*rope_norm)(float *x, const float *c, const float *s, int64_t n_pairs);
    void (*rope_neox)(float *x, const float *c, const float *s, int64_t n_pairs);

    /* hadamard_apply() (tensor/hadamard.h): the normalised transform of each block of x [n],
     * in place. block divides n. */
    void (*fwht)(float *x, int64_t n, int64_t block);
    /* y = a * b; y may be a. */
    void (*mul)(float *y, const float *a, const float *b, int64_t n);

    /* y = (1 / (1 + exp(-gate))) * x; y may be gate or x. */
    void (*sigmoid_mul)(float *y, const float *gate, const float *x, int64_t n);
    /* y = x * r, r = 1 / max(sqrt((float)sum), eps); the sum as in rmsnorm. y may be x. */
    void (*l2norm)(float *y, const float *x, int64_t n, float eps);
    /* acc = x[0][i] * w[i]; acc += x[j][i] * w[j * w_step + i], j = 1..taps-1;
     * y[i] = silu(acc). */
    void (*conv_silu)(float *y, const float *const *x, const float *w, int64_t w_step,
                      int64_t taps, int64_t n);
    /* state [n_keys][n_values], for every column i, sums over j from 0 on:
     * a = sum (state[j][i] * decay) * k[j];  e = beta * (v[i] - a);
     * state[j][i] = state[j][i] * decay + k[j] * e;
     * out[i] = (sum state[j][i] * q[j]) * scale. */
    void (*delta_step)(float *out, float *state, const struct kd_step *d);
    struct kernels_attn attn; /* attn.h */
};

/* Fills k with the best variants for the features in cpu (base/cpu.h). The caller passes
 * the features, so that a test can ask for any subset of what the machine has. */
void kernels_init(struct kernels *k, unsigned cpu);

bool kernel_is_quant(enum dtype t); /* unpack[t] exists */
bool kernel_has_min(enum dtype t);
int kernel_block(enum dtype t); /* columns of quantised type t that share a scale */
int kernel_low(enum dtype t);   /* kq_mat.low of its codes */
int kernel_top(enum dtype t);   /* kq_mat.top of its codes */

enum kq_order
kernel_order(enum dtype t);          /* of activations for packed weights of type t */
int kq_order_block(enum kq_order o); /* columns that an order moves among themselves */
int kq_quad(enum kq_order o,
            int u); /* columns 4 of it.. stand at positions 4u.. of a block */
int64_t kq_p_step(enum kq_order o, int64_t n);  /* bytes of kq_act.p for n columns */
int64_t kq_ep_step(enum kq_order o, int64_t n); /* numbers of kq_act.ep */
/* Puts n codes of one row, whole blocks, from the order of columns into order o. */
void kernel_place(enum kq_order o, int8_t *code, int64_t n);

/* sin and cos of an angle in radians, rounded to F32. Own code in double (fdlibm's
 * polynomials), so that no C library changes the bits. Exact to the rounding for |angle|
 * < 2^20, less and less beyond, NaN from 2^50 on. */
void kernel_sincos(float *s, float *c, double angle);

/* log(1 + e) for e = exp(x) as the kernel gives it; x itself above 20. In double inside
 * (fdlibm's polynomial), so that no C library changes the bits. */
float kernel_softplus(float x, float e);

#endif
