/*
 * hparams_delta.c - the keys of models with gated delta net layers (qwen35).
 *
 * Which layers: the flags attention.recurrent_layers, or all but every
 * full_attention_interval-th (4 when the key is absent), as llama.cpp reads them
 * (src/models/qwen35.cpp). Blocks for predicting further tokens are counted in
 * block_count and come last; they are not among our layers.
 */
#include "model/hparams.h"

#include <stdio.h>

enum { KEY_MAX = 128, MAX_DIM = DELTA_MAX_KEYS, DEFAULT_INTERVAL = 4, SECTIONS = 4 };

bool hparams_recurrent(const struct hparams *hp, int64_t layer)
{
    return hp->recurrent[layer / 8] >> (layer % 8) & 1;
}

int64_t hparams_conv_channels(const struct hparams *hp)
{
    return 2 * hp->k_heads * hp->k_dim + hp->v_heads * hp->v_dim;
}

static const char *key_of(char buf[KEY_MAX], const struct hparams *hp, const char *name)
{
    (void)snprintf(buf, KEY_MAX, "%s.%s", hp->arch->name, name);
    return buf;
}

static enum b2_status get_size(const struct hparams *hp, const struct meta *m,
                               const char *name, int64_t limit, int64_t *out,
                               struct b2_err *err)
{
    char key[KEY_MAX];
    uint64_t v;
    enum b2_status rc = meta_get_u64(m, key_of(key, hp, name), &v, err);

    if (rc)
        return rc;
    if (v < 1 || v > (uint64_t)limit)
        return err_set(err, B2_EFORMAT, "key %s: %llu is not in 1..%lld", key,
                       (unsigned long long)v, (long long)limit);
    *out = (int64_t)v;
    return B2_OK;
}

static enum b2_status read_sizes(struct hparams *hp, const struct meta *m,
                                 struct b2_err *err)
{
    const char *arch = hp->arch->name;
    int64_t inner = 0;
    enum b2_status rc;

    if ((rc = get_size(hp, m, "ssm.conv_kernel", CONV_MAX_TAPS, &hp->conv_taps, err)) ||
        (rc = get_size(hp, m, "ssm.group_count", MAX_DIM, &hp->k_heads, err)) ||
        (rc = get_size(hp, m, "ssm.time_step_rank", MAX_DIM, &hp->v_heads, err)) ||
        (rc = get_size(hp, m, "ssm.state_size", MAX_DIM, &hp->k_dim, err)) ||
        (rc = get_size(hp, m, "ssm.inner_size", (int64_t)MAX_DIM * MAX_DIM, &inner,
                       err)))
        return rc;
    if (hp->v_heads % hp->k_heads != 0)
        return err_set(err, B2_EFORMAT,
                       "%s.ssm.time_step_rank %lld (value heads) is not a multiple of "
                       "ssm.group_count %lld (key heads)",
                       arch, (long long)hp->v_heads, (long long)hp->k_heads);
    if (inner != hp->v_heads * hp->k_dim)
        return err_set(err, B2_EFORMAT,
                       "%s.ssm.inner_size %lld is not ssm.time_step_rank %lld times "
                       "ssm.state_size %lld",
                       arch, (long long)inner, (long long)hp->v_heads,
                       (long long)hp->k_dim);
    hp->v_dim = hp->k_dim; /* GGUF has one key for both */
    return B2_OK;
}

static enum b2_status read_mtp(struct hparams *hp, const struct meta *m,
                               struct b2_err *err)
{
    char key[KEY_MAX];
    uint32_t n;
    enum b2_status rc =
        meta_opt_u32(m, key_of(key, hp, "nextn_predict_layers"), &n, 0, err);

    if (rc)
        return rc;
    if ((int64_t)n >= hp->n_layers)
        return err_set(err, B2_EFORMAT, "key %s: %u of the %lld blocks, none is left",
                       key, n, (long long)hp->n_layers);
    hp->n_mtp = n;
    hp->n_layers -= n;
    return B2_OK;
}

static void set_recurrent(struct hparams *hp, int64_t layer)
{
    hp->recurrent[layer / 8] |= (uint8_t)(1u << (layer % 8));
}

/* A flag or a number per block; those of further-token blocks may be there too. */
static enum b2_status read_flags(struct hparams *hp, const struct meta *m,
                                 const struct meta_kv *kv, struct b2_err *err)
{
    const int32_t *numbers = NULL;
    uint64_t n = kv->n;

    if (kv->type != MT_ARR || kv->elem != MT_BOOL) {
        enum b2_status rc = meta_get_i32s(m, kv->key, &numbers, &n, err);
        if (rc)
            return rc;
    }
    if (n != (uint64_t)hp->n_layers && n != (uint64_t)(hp->n_layers + hp->n_mtp))
        return err_set(err, B2_EFORMAT,
                       "key %s: %llu flags, expected one for each of %lld layers",
                       kv->key, (unsigned long long)n, (long long)hp->n_layers);
    const uint8_t *flag = numbers ? NULL : kv->v.raw;
    for (int64_t i = 0; i < hp->n_layers; i++)
        if (numbers ? numbers[i] != 0 : flag[i] != 0)
            set_recurrent(hp, i);
    return B2_OK;
}

static enum b2_status read_layers(struct hparams *hp, const struct meta *m,
                                  struct b2_err *err)
{
    char key[KEY_MAX];
    uint32_t interval;
    const struct meta_kv *kv =
        meta_find(m, key_of(key, hp, "attention.recurrent_layers"));

    if (kv)
        return read_flags(hp, m, kv, err);
    enum b2_status rc = meta_opt_u32(m, key_of(key, hp, "full_attention_interval"),
                                     &interval, DEFAULT_INTERVAL, err);
    if (rc)
        return rc;
    if (interval < 1)
        return err_set(err, B2_EFORMAT, "key %s: 0 is no distance of layers", key);
    for (int64_t i = 0; i < hp->n_layers; i++)
        if ((i + 1) % interval != 0)
            set_recurrent(hp, i);
    return B2_OK;
}

/* Rotary pair i turns by the time, height or width of a token (i mod 3) while i / 3 is
 * inside that section. For text the three are the position, so that nothing but a pair
 * outside all sections differs from ordinary rotary positions. */
static enum b2_status check_sections(const struct hparams *hp, const struct meta *m,
                                     struct b2_err *err)
{
    char key[KEY_MAX];
    const int32_t *section;
    uint64_t n;

    if (!meta_find(m, key_of(key, hp, "rope.dimension_sections")))
        return B2_OK;
    enum b2_status rc = meta_get_i32s(m, key, &section, &n, err);
    if (rc)
        return rc;
    if (n < 3 || n > SECTIONS)
        return err_set(err, B2_EFORMAT, "key %s: %llu sections, expected 3 or 4", key,
                       (unsigned long long)n);
    for (int64_t i = 0; i < hp->n_rot / 2; i++)
        if (section[i % 3] < 0 || i / 3 >= section[i % 3])
            return err_set(
                err, B2_EUNSUP,
                "key %s = [%d, %d, %d, ...] leaves out pair %lld of the %lld "
                "rotary pairs: not supported",
                key, section[0], section[1], section[2], (long long)i,
                (long long)(hp->n_rot / 2));
    return B2_OK;
}

enum b2_status hparams_read_delta(struct hparams *hp, const struct meta *m,
                                  struct b2_err *err)
{
    enum b2_status rc;

    if ((rc = read_sizes(hp, m, err)) || (rc = read_mtp(hp, m, err)) ||
        (rc = read_layers(hp, m, err)))
        return rc;
    return check_sections(hp, m, err);
}
