/*
 * rotate.c - signs, fast transform and the contract's keys.
 */
#include "compress/rotate.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/hadamard.h"

#include <string.h>

struct rotate {
    int64_t mode; /* a block, ROTATE_EACH or ROTATE_WHOLE */
    uint64_t seed;
    int n_widths;
    int64_t block[ROTATE_MAX_WIDTHS];
    int64_t width[ROTATE_MAX_WIDTHS];
    int32_t *signs[ROTATE_MAX_WIDTHS]; /* [width], +1 or -1 */
};

struct rotate *rotate_new(int64_t block, uint64_t seed)
{
    struct rotate *r = mem_calloc(1, sizeof *r);

    if (r) {
        r->mode = block;
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

int64_t rotate_mode(const struct rotate *r)
{
    return r->mode;
}

int64_t rotate_block(const struct rotate *r)
{
    for (int i = 0; i < r->n_widths; i++)
        if (r->block[i] != r->block[0] || hadamard_pow2(r->block[i]) != r->block[i])
            return 0;
    return r->n_widths ? r->block[0] : 0;
}

/* -1: not added. */
static int find_width(const struct rotate *r, int64_t width)
{
    for (int i = 0; i < r->n_widths; i++)
        if (r->width[i] == width)
            return i;
    return -1;
}

enum b2_status rotate_add_width(struct rotate *r, int64_t width, struct b2_err *err)
{
    int64_t block = r->mode;

    if (r->mode == ROTATE_EACH || r->mode == ROTATE_WHOLE)
        block = width <= 0               ? 1
                : r->mode == ROTATE_EACH ? rotate_auto_block(width)
                                         : hadamard_largest(width);
    if (find_width(r, width) >= 0)
        return B2_OK;
    if (width > 0 && block < 2)
        return err_set(err, B2_EARG,
                       "rows of %lld cannot be rotated: no power of two divides them",
                       (long long)width);
    if (width <= 0 || width % block != 0)
        return err_set(err, B2_EARG,
                       "rows of %lld cannot be rotated in blocks of %lld (remainder "
                       "%lld); --rotate auto finds a block that fits",
                       (long long)width, (long long)block, (long long)(width % block));
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
    r->block[r->n_widths] = block;
    r->signs[r->n_widths++] = signs;
    return B2_OK;
}

int64_t rotate_block_of(const struct rotate *r, int64_t width)
{
    return r->block[find_width(r, width)];
}

struct rotate *rotate_slice(const struct rotate *r, int64_t width, int64_t from,
                            int64_t n)
{
    int w = find_width(r, width);
    struct rotate *s = rotate_new(r->block[w], r->seed);
    int32_t *signs = mem_calloc((size_t)n, sizeof *signs);

    if (!s || !signs) {
        rotate_free(s);
        mem_free(signs);
        return NULL;
    }
    memcpy(signs, r->signs[w] + from, (size_t)n * sizeof *signs);
    s->n_widths = 1;
    s->width[0] = n;
    s->block[0] = r->block[w];
    s->signs[0] = signs;
    return s;
}

void rotate_fold_row(const struct rotate *r, float *row, int64_t width)
{
    int w = find_width(r, width);

    for (int64_t i = 0; i < width; i++)
        row[i] *= (float)r->signs[w][i];
    hadamard_apply(row, width, r->block[w]);
}

void rotate_unfold_row(const struct rotate *r, float *row, int64_t width)
{
    int w = find_width(r, width);

    hadamard_apply(row, width, r->block[w]);
    for (int64_t i = 0; i < width; i++)
        row[i] *= (float)r->signs[w][i];
}

/* All sign vectors in one array, in the order of the widths. */
static enum b2_status set_signs(const struct rotate *r, struct meta *m,
                                const char *widths_key, const char *signs_key,
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

    enum b2_status rc =
        meta_set_arr(m, widths_key, MT_I32, widths, (uint64_t)r->n_widths, err);
    if (!rc)
        rc = meta_set_arr(m, signs_key, MT_I32, all, (uint64_t)total, err);
    mem_free(all);
    return rc;
}

/* Widths with blocks of their own, or blocks that are no power of two, which the vendor's contract cannot say. */
static enum b2_status set_own_keys(const struct rotate *r, struct meta *m,
                                   const struct meta_str *names, uint64_t n_names,
                                   struct b2_err *err)
{
    int32_t blocks[ROTATE_MAX_WIDTHS];
    bool plain = true;

    for (int i = 0; i < r->n_widths; i++) {
        blocks[i] = (int32_t)r->block[i];
        plain = plain && hadamard_pow2(r->block[i]) == r->block[i];
    }
    enum b2_status rc = meta_set_u32(m, "bonsai2.rotation.version", 1, err);
    if (!rc)
        rc = meta_set_str(m, "bonsai2.rotation.transform",
                          plain ? "normalized-sylvester-walsh-hadamard"
                                : "normalized-sylvester-paley-hadamard",
                          err);
    if (!rc)
        rc = set_signs(r, m, "bonsai2.rotation.widths", "bonsai2.rotation.sign_values",
                       err);
    if (!rc)
        rc = meta_set_arr(m, "bonsai2.rotation.blocks", MT_I32, blocks,
                          (uint64_t)r->n_widths, err);
    if (!rc)
        rc = meta_set_strs(m, "bonsai2.rotation.weight_names", names, n_names, err);
    return rc;
}

enum b2_status rotate_set_keys(const struct rotate *r, struct meta *m,
                               const struct meta_str *names, uint64_t n_names,
                               struct b2_err *err)
{
    if (rotate_block(r) == 0)
        return set_own_keys(r, m, names, n_names, err);
    enum b2_status rc = meta_set_u32(m, "prism.hadamard.version", 1, err);

    if (!rc)
        rc = meta_set_u32(m, "prism.hadamard.block_size", (uint32_t)rotate_block(r),
                          err);
    if (!rc)
        rc = meta_set_str(m, "prism.hadamard.transform",
                          "normalized-sylvester-walsh-hadamard", err);
    if (!rc)
        rc = meta_set_str(m, "prism.hadamard.axis", "input-last-dimension", err);
    if (!rc)
        rc = meta_set_str(m, "prism.hadamard.sign_mode", "explicit", err);
    if (!rc)
        rc = set_signs(r, m, "prism.hadamard.sign_widths", "prism.hadamard.sign_values",
                       err);
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
