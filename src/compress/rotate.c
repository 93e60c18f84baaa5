/*
 * rotate.c - signs, fast transform and the contract's keys.
 */
#include "compress/rotate.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>

struct rotate {
    int64_t block;
    uint64_t seed;
    int n_widths;
    int64_t width[ROTATE_MAX_WIDTHS];
    int32_t *signs[ROTATE_MAX_WIDTHS]; /* [width], +1 or -1 */
};

struct rotate *rotate_new(int64_t block, uint64_t seed)
{
    struct rotate *r = mem_calloc(1, sizeof *r);

    if (r) {
        r->block = block;
        r->seed = seed;
    }
    return r;
}

void rotate_free(struct rotate *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n_widths; i++)
        mem_free(r->signs[i]);
    mem_free(r);
}

int64_t rotate_block(const struct rotate *r)
{
    return r->block;
}

static const int32_t *signs_of(const struct rotate *r, int64_t width)
{
    for (int i = 0; i < r->n_widths; i++)
        if (r->width[i] == width)
            return r->signs[i];
    return NULL;
}

enum b2_status rotate_add_width(struct rotate *r, int64_t width, struct b2_err *err)
{
    if (signs_of(r, width))
        return B2_OK;
    if (width <= 0 || width % r->block != 0)
        return err_set(err, B2_EARG,
                       "rows of %lld cannot be rotated in blocks of %lld (remainder "
                       "%lld); --rotate auto finds a block that fits",
                       (long long)width, (long long)r->block,
                       (long long)(width % r->block));
    if (r->n_widths == ROTATE_MAX_WIDTHS)
        return err_set(err, B2_EARG, "more than %d different row widths to rotate",
                       ROTATE_MAX_WIDTHS);
    int32_t *signs = mem_calloc((size_t)width, sizeof *signs);
    if (!signs)
        return err_set(err, B2_ENOMEM, "signs of width %lld: out of memory",
                       (long long)width);

    /* Mixed so that widths get unrelated streams whatever the seed is. */
    struct rng rng = rng_make(r->seed ^ (uint64_t)width * 0x9e3779b97f4a7c15u);
    for (int64_t i = 0; i < width; i++)
        signs[i] = rng_u64(&rng) >> 63 ? -1 : 1;
    r->width[r->n_widths] = width;
    r->signs[r->n_widths++] = signs;
    return B2_OK;
}

void rotate_hadamard(float *x, int64_t n)
{
    float scale = 1.0f / sqrtf((float)n); /* as kernel_fwht_c does it, to the bit */

    for (int64_t i = 0; i < n; i++)
        x[i] *= scale;
    for (int64_t len = 1; len < n; len *= 2) {
        for (int64_t at = 0; at < n; at += 2 * len) {
            for (int64_t i = at; i < at + len; i++) {
                float u = x[i], v = x[i + len];
                x[i] = u + v;
                x[i + len] = u - v;
            }
        }
    }
}

void rotate_fold_row(const struct rotate *r, float *row, int64_t width)
{
    const int32_t *signs = signs_of(r, width);

    for (int64_t i = 0; i < width; i++)
        row[i] *= (float)signs[i];
    for (int64_t at = 0; at < width; at += r->block)
        rotate_hadamard(row + at, r->block);
}

/* All sign vectors in one array, in the order of the widths. */
static enum b2_status set_signs(const struct rotate *r, struct meta *m,
                                struct b2_err *err)
{
    int32_t widths[ROTATE_MAX_WIDTHS];
    int64_t total = 0, at = 0;

    for (int i = 0; i < r->n_widths; i++) {
        widths[i] = (int32_t)r->width[i];
        total += r->width[i];
    }
    int32_t *all = mem_calloc((size_t)total, sizeof *all);
    if (!all)
        return err_set(err, B2_ENOMEM, "sign values: out of memory");
    for (int i = 0; i < r->n_widths; i++)
        for (int64_t j = 0; j < r->width[i]; j++)
            all[at++] = r->signs[i][j];

    enum b2_status rc = meta_set_arr(m, "prism.hadamard.sign_widths", MT_I32, widths,
                                     (uint64_t)r->n_widths, err);
    if (!rc)
        rc = meta_set_arr(m, "prism.hadamard.sign_values", MT_I32, all, (uint64_t)total,
                          err);
    mem_free(all);
    return rc;
}

enum b2_status rotate_set_keys(const struct rotate *r, struct meta *m,
                               const struct meta_str *names, uint64_t n_names,
                               struct b2_err *err)
{
    enum b2_status rc = meta_set_u32(m, "prism.hadamard.version", 1, err);

    if (!rc)
        rc = meta_set_u32(m, "prism.hadamard.block_size", (uint32_t)r->block, err);
    if (!rc)
        rc = meta_set_str(m, "prism.hadamard.transform",
                          "normalized-sylvester-walsh-hadamard", err);
    if (!rc)
        rc = meta_set_str(m, "prism.hadamard.axis", "input-last-dimension", err);
    if (!rc)
        rc = meta_set_str(m, "prism.hadamard.sign_mode", "explicit", err);
    if (!rc)
        rc = set_signs(r, m, err);
    if (!rc)
        rc = meta_set_strs(m, "prism.hadamard.weight_names", names, n_names, err);
    if (!rc) /* the contract's loader reads the key even when nothing is inverse */
        rc = meta_set_strs(m, "prism.hadamard.inverse_weight_names", NULL, 0, err);
    if (!rc)
        rc = meta_set_bool(m, "prism.hadamard.gdn_v_grouped", false, err);
    return rc;
}

int64_t rotate_auto_block(int64_t n)
{
    int64_t block = 1;

    while (block < ROTATE_MAX_BLOCK && n % (2 * block) == 0)
        block *= 2;
    return block;
}
