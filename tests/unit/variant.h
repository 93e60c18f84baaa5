/*
 * variant.h - changed copies of the small trained model stories260K, for tests of model/.
 *
 * The base is F32: D 64, F 172, 8 heads, 4 kv heads, head size 8, 5 layers, 512 tokens,
 * context 512, SentencePiece vocabulary with a begin token, untied or tied as trained.
 */
#ifndef UNIT_VARIANT_H
#define UNIT_VARIANT_H

#include "model/generate.h"

/* What differs from the base; zeroed: nothing. */
struct variant {
    const char *skip;   /* tensor left out */
    const char *resize; /* tensor with half its rows */
    const char *retype; /* tensor stored as .type, values rounded */
    enum dtype type;    /* of retype, and of add */
    const char *add;    /* further tensor, zeros, [add_cols, add_rows] */
    int64_t add_cols, add_rows;
    const float *add_data; /* instead of zeros; F32 */
    enum b2_status (*keys)(struct meta *m, struct b2_err *err); /* edits */
    void (*values)(const char *name, float *w, int64_t rows, int64_t cols);
};

/* Writes the variant to path (replaced). */
enum b2_status variant_write(const char *path, const struct variant *v,
                             struct b2_err *err) NODISCARD;

/* Writes it to a file of this process, opens it, removes the file. */
enum b2_status variant_open(struct model **out, const struct variant *v,
                            const struct model_params *p, struct b2_err *err) NODISCARD;

/* A session with everything it needs; exact, scalar or not, n_threads. */
struct rig {
    struct pool *pool;
    struct backend *be;
    struct session *s;
};
enum b2_status rig_open(struct rig *r, const struct model *m, int n_threads, bool exact,
                        const struct session_params *sp, struct b2_err *err) NODISCARD;
void rig_close(struct rig *r); /* zeroed is fine */

#endif
