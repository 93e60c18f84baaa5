/*
 * rotation_own.c - the bonsai2.rotation.* keys: a rotation with a block per width.
 */
#include "model/rotation_int.h"

#include "tensor/hadamard.h"

#include <string.h>

#define PREFIX "bonsai2.rotation."

static const char *const known_keys[] = {"version", "transform",   "widths",
                                         "blocks",  "sign_values", "weight_names"};

/* paley: blocks may have factors 12, 20 and 28. */
static enum b2_status read_words(bool *paley, const struct meta *m, struct b2_err *err)
{
    const char *word;
    uint32_t version = 0;
    enum b2_status rc = meta_get_u32(m, PREFIX "version", &version, err);

    if (rc)
        return rc;
    if (version != 1)
        return err_set(err, B2_EUNSUP,
                       "key " PREFIX "version = %u is not supported (1 is)", version);
    rc = meta_get_str(m, PREFIX "transform", &word, err);
    *paley = !rc && strcmp(word, "normalized-sylvester-paley-hadamard") == 0;
    if (!rc && !*paley && strcmp(word, "normalized-sylvester-walsh-hadamard") != 0)
        rc = err_set(err, B2_EUNSUP,
                     "key " PREFIX "transform = %.60s is not supported "
                     "(normalized-sylvester-walsh-hadamard and "
                     "normalized-sylvester-paley-hadamard are)",
                     word);
    return rc;
}

/* Width i and its block. */
static enum b2_status check_width(const struct rotation_decl *d, uint64_t i, bool paley,
                                  struct b2_err *err)
{
    int32_t w = d->widths[i], b = d->blocks[i];

    if (b < 2 || b > 1 << 20 || !hadamard_exists(b) ||
        (!paley && hadamard_pow2(b) != b))
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX "blocks: %d is not a power of two%s in 2..1048576",
                       b, paley ? ", nor one times 12, 20 and 28," : "");
    if (w <= 0 || w % b != 0)
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX "widths: %d is not a multiple of its block %d", w,
                       b);
    for (uint64_t k = 0; k < i; k++)
        if (d->widths[k] == w)
            return err_set(err, B2_EFORMAT,
                           "key " PREFIX "widths: %d stands there twice", w);
    return B2_OK;
}

static enum b2_status read_widths(struct rotation_decl *d, const struct meta *m,
                                  bool paley, struct b2_err *err)
{
    uint64_t n_blocks, n_signs, sum = 0;
    enum b2_status rc =
        meta_get_i32s(m, PREFIX "widths", &d->widths, &d->n_widths, err);

    if (!rc)
        rc = meta_get_i32s(m, PREFIX "blocks", &d->blocks, &n_blocks, err);
    if (!rc)
        rc = meta_get_i32s(m, PREFIX "sign_values", &d->signs, &n_signs, err);
    if (rc)
        return rc;
    if (d->n_widths < 1 || d->n_widths > ROTATION_MAX_WIDTHS || n_blocks != d->n_widths)
        return err_set(err, B2_EFORMAT,
                       "keys " PREFIX "widths and blocks: %llu and %llu, not an equal "
                       "number in 1..%d",
                       (unsigned long long)d->n_widths, (unsigned long long)n_blocks,
                       ROTATION_MAX_WIDTHS);
    for (uint64_t i = 0; i < d->n_widths && !rc; i++) {
        rc = check_width(d, i, paley, err);
        sum += rc ? 0 : (uint64_t)d->widths[i];
    }
    if (!rc && sum != n_signs)
        rc = err_set(err, B2_EFORMAT,
                     "key " PREFIX
                     "sign_values: %llu signs, but the widths add up to %llu",
                     (unsigned long long)n_signs, (unsigned long long)sum);
    for (uint64_t i = 0; i < n_signs && !rc; i++)
        if (d->signs[i] != 1 && d->signs[i] != -1)
            rc = err_set(err, B2_EFORMAT,
                         "key " PREFIX "sign_values[%llu] = %d is neither 1 nor -1",
                         (unsigned long long)i, d->signs[i]);
    return rc;
}

bool rotation_is_key(const char *key)
{
    return strncmp(key, "prism.hadamard.", 15) == 0 ||
           strncmp(key, PREFIX, strlen(PREFIX)) == 0;
}

enum b2_status rotation_read_own(struct rotation_decl *d, const struct meta *m,
                                 struct b2_err *err)
{
    struct rotation_decl own = {.version = 1, .explicit_signs = true};
    int n_keys;
    bool paley = false;
    enum b2_status rc = meta_check_group(m, PREFIX, known_keys, countof(known_keys),
                                         "a rotation", &n_keys, err);

    if (rc || n_keys == 0)
        return rc;
    if (d->version != 0)
        return err_set(err, B2_EFORMAT,
                       "keys prism.hadamard.* and " PREFIX
                       "*: a file has one rotation");
    rc = read_words(&paley, m, err);
    if (!rc)
        rc = read_widths(&own, m, paley, err);
    if (!rc)
        rc = meta_get_strs(m, PREFIX "weight_names", &own.forward, &own.n_forward, err);
    for (uint64_t i = 0; i < own.n_forward && !rc; i++)
        if (!rotation_may_fold(&own.forward[i]))
            rc = err_set(err, B2_EFORMAT,
                         "key " PREFIX
                         "weight_names: %.80s is not a kind of weight that "
                         "is folded",
                         own.forward[i].data);
    if (!rc)
        *d = own;
    return rc;
}
