/*
 * convert_meta.c - the keys of the output, and what tensors say about a folder.
 */
#include "compress/convert_int.h"
#include "format/private.h"
#include "format/tail.h"
#include "model/rotation.h"
#include "tensor/quant.h"

#include <inttypes.h>
#include <string.h>

/* general.file_type of a type; llama.h's LLAMA_FTYPE_*, and the Prism fork's numbers. */
static const struct {
    enum dtype type;
    uint32_t file_type;
} file_types[] = {
    {DT_F32, 0},   {DT_F16, 1},   {DT_Q4_0, 2},    {DT_Q4_1, 3},     {DT_Q8_0, 7},
    {DT_Q5_0, 8},  {DT_Q5_1, 9},  {DT_BF16, 32},   {DT_TQ1_0, 36},   {DT_TQ2_0, 37},
    {DT_Q1_0, 40}, {DT_Q2_0, 41}, {DT_PQ2_0, 141}, {DT_PTQ1_0, 143},
};

/* The type that most bytes of the output have. */
static enum dtype main_type(const struct convert *c)
{
    uint64_t bytes[N_DTYPES] = {0};
    enum dtype best = DT_F32;

    for (int64_t i = 0; i < c->n; i++) {
        const struct tensor *t = modelfile_tensor(c->mf, i);
        const struct dtype_info *d = dtype_info(c->item[i].type);
        int64_t row = tensor_width(t) + c->item[i].pad;
        uint64_t blocks = (uint64_t)(row / d->block * tensor_rows(t));
        bytes[c->item[i].type] += blocks * (uint64_t)d->bytes;
    }
    for (int t = 0; t < N_DTYPES; t++) {
        if (bytes[t] > bytes[best])
            best = (enum dtype)t;
    }
    return best;
}

static bool any_type_changes(const struct convert *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        if (c->item[i].type != modelfile_tensor(c->mf, i)->type)
            return true;
    }
    return false;
}

/* A file that keeps its types keeps its word for them; mixtures of the K types have
 * numbers that the main type does not tell. */
static enum b2_status set_file_type(struct convert *c, struct b2_err *err)
{
    enum dtype type = main_type(c);

    if (!any_type_changes(c) && meta_find(c->meta, "general.file_type"))
        return B2_OK;
    for (size_t i = 0; i < countof(file_types); i++) {
        if (file_types[i].type == type) /* in its place: there and back is one file */
            return meta_set_u32(c->meta, "general.file_type", file_types[i].file_type,
                                err);
    }
    meta_remove(c->meta, "general.file_type");
    return B2_OK;
}

static enum b2_status set_tail_keys(struct convert *c, struct b2_err *err)
{
    struct meta_str *names = arena_calloc(c->arena, (size_t)c->n, sizeof *names);
    uint32_t *widths = arena_calloc(c->arena, (size_t)c->n, sizeof *widths);
    uint64_t n = 0;

    if (!names || !widths)
        return err_set(err, B2_ENOMEM, "out of memory for the keys");
    for (int64_t i = 0; i < c->n; i++) {
        const struct tensor *t = modelfile_tensor(c->mf, i);
        if (c->item[i].pad == 0)
            continue;
        names[n] = (struct meta_str){t->name, strlen(t->name)};
        widths[n++] = (uint32_t)tensor_width(t);
    }
    return tail_set_keys(c->meta, names, widths, n, err);
}

static enum b2_status set_private_keys(struct convert *c, struct b2_err *err)
{
    bool used[N_DTYPES] = {false};

    for (int64_t i = 0; i < c->n; i++)
        used[c->item[i].type] |= !c->item[i].skip;
    return private_set_keys(c->meta, used, err);
}

enum b2_status convert_meta(struct convert *c, struct b2_err *err)
{
    const struct meta *m = modelfile_meta(c->mf);
    enum b2_status rc = B2_OK;

    c->meta = meta_new(SIZE_MAX / 2);
    if (!c->meta)
        return err_set(err, B2_ENOMEM, "out of memory for the keys");
    for (int64_t i = 0; !rc && i < meta_count(m); i++) {
        const struct meta_kv *kv = meta_at(m, i);
        if (strncmp(kv->key, "split.", 6) != 0 && !tail_is_key(kv->key) &&
            !private_is_key(kv->key) && !(c->p->unrotate && rotation_is_key(kv->key)))
            rc = meta_copy(c->meta, kv, err);
    }
    if (!rc)
        rc = set_file_type(c, err);
    if (!rc)
        rc = set_tail_keys(c, err);
    if (!rc)
        rc = set_private_keys(c, err);
    if (!rc) /* 2: the block layouts since 2023, the only ones known here */
        rc = meta_set_u32(c->meta, "general.quantization_version", 2, err);
    return rc;
}

/* The values of a tensor of rotary divisors; *out stays NULL when there is none. */
static enum b2_status read_factors(struct convert *c, const char *name,
                                   const float **out, int64_t *n, struct b2_err *err)
{
    int64_t i = modelfile_find(c->mf, name);

    if (i < 0)
        return B2_OK;
    const struct tensor *t = modelfile_tensor(c->mf, i);
    float *factors = arena_calloc(c->arena, (size_t)tensor_count(t), sizeof *factors);
    if (!factors)
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = modelfile_load(c->mf, i, err);
    if (!rc)
        quant_decode_row(t->type, factors, t->data, tensor_count(t));
    modelfile_unload(c->mf, i);
    *out = factors;
    *n = tensor_count(t);
    return rc;
}

enum b2_status convert_describe(struct convert *c, struct hf_write_model *w,
                                struct b2_err *err)
{
    int64_t embed = modelfile_find(c->mf, "token_embd.weight"), n_long = 0;
    enum b2_status rc;

    if (embed < 0)
        return err_set(err, B2_ENOTFOUND, "tensor token_embd.weight is missing");
    w->vocab = tensor_rows(modelfile_tensor(c->mf, embed));
    w->tied = modelfile_find(c->mf, "output.weight") < 0;
    rc = read_factors(c, "rope_factors_long.weight", &w->rope_long, &n_long, err);
    if (!rc)
        rc = read_factors(c, n_long ? "rope_factors_short.weight" : "rope_freqs.weight",
                          &w->rope_factors, &w->n_rope_factors, err);
    if (!rc && n_long && n_long != w->n_rope_factors)
        rc = err_set(
            err, B2_EFORMAT,
            "tensor rope_factors_short.weight is not beside the long one, or of "
            "another length");
    return rc;
}
