/*
 * rotation.h - the block-Hadamard declaration of a file: read, checked, bound to weights.
 *
 * A file whose weights were folded says so in prism.hadamard.* keys. Every key must be
 * understood: a reader that skips one computes nonsense that looks like a model.
 *   version 1  listed weights want rotated inputs; the embedding's rows may be folded
 *              (gdn_v_grouped: the output projection of a gated delta net has its columns in
 *              groups of value heads that share a key head, not tiled as activations are)
 *   version 2  also the tied head: token_embd.weight is looked up with the inverse and
 *              multiplied with the forward transform
 *
 * The contract has one block for all widths. Where no power of two fits them all well,
 * files of ours say the same with a block per width, in bonsai2.rotation.* keys:
 *   version 1, transform, widths i32[], blocks i32[] (which divide them: powers of two, or,
 *   with transform normalized-sylvester-paley-hadamard, any of tensor/hadamard.h),
 *   sign_values i32[] (one vector per width, concatenated), weight_names str[]
 */
#ifndef MODEL_ROTATION_H
#define MODEL_ROTATION_H

#include "backend/backend.h"
#include "base/arena.h"
#include "format/modelfile.h"

enum { ROTATION_MAX_WIDTHS = 64 };

/* What the keys say; everything is borrowed from the meta. */
struct rotation_decl {
    uint32_t version; /* 0: the file declares no rotation */
    int64_t block;    /* a power of two, of all widths; 0 when blocks is not NULL */
    const int32_t *blocks; /* [n_widths] each width's, bonsai2.rotation only */
    bool explicit_signs, tied_output, gdn_v_grouped;
    int64_t k_heads, v_heads; /* of gated delta nets, when gdn_v_grouped; else 0 */
    uint64_t n_widths;
    const int32_t *widths;          /* [n_widths], explicit signs only */
    const int32_t *signs;           /* widths' sums of +1 and -1, concatenated */
    const struct meta_str *forward; /* names of weights whose input is rotated */
    const struct meta_str *inverse; /* names of tables whose rows are rotated back */
    uint64_t n_forward, n_inverse;
};

/* Reads and checks the declaration alone, without looking at any tensor. B2_EUNSUP: a
 * version, transform, axis, sign mode or key from elsewhere. B2_EFORMAT: values that
 * contradict each other, signs that are not ±1, weights that are never folded. */
enum b2_status rotation_read(struct rotation_decl *out, const struct meta *m,
                             struct b2_err *err) NODISCARD;

/* The rotations of a file's weights, one per width and order of heads, shared by address. */
struct rotation_set {
    struct rotation *rot; /* [n] */
    int n;
    const struct rotation **forward; /* [tensors of the file]: NULL, not folded */
    const struct rotation **inverse;
};

/* Whether a key is part of a declaration: prism.hadamard.* or bonsai2.rotation.*. */
bool rotation_is_key(const char *key);

/* Whether gdn_v_grouped concerns a weight of this name. */
bool rotation_has_heads(const char *name);

/* Finds every named weight in the file and builds the signs of each width in a. B2_EFORMAT:
 * a weight that is absent or named twice, a width without signs or not a multiple of the
 * block or of the heads, signs for a width that no weight has. A declaration of version 0 gives a set in
 * which nothing is folded. */
enum b2_status rotation_bind(struct rotation_set *out, const struct rotation_decl *decl,
                             const struct modelfile *mf, struct arena *a,
                             struct b2_err *err) NODISCARD;

#endif
