/*
 * hf_write_rope.c - rope_theta and rope_scaling of config.json, from GGUF keys.
 *
 * The inverse of hf_rope.c, in the form that transformers of versions 4 and 5 read.
 */
#include "format/hf_write_int.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The divisor that llama3 scaling gives pair i; see hf_rope.c. */
static float llama3_divisor(float theta, int64_t i, int64_t head_dim, float factor,
                            float low, float high, float orig)
{
    float freq = 1.0f / powf(theta, (float)(2 * i) / (float)head_dim);
    float wave = (float)(2 * 3.14159265358979323846) / freq;

    if (wave < orig / high)
        return 1.0f;
    if (wave > orig / low)
        return factor;
    float s = (orig / wave - low) / (high - low);
    return 1.0f / ((1.0f - s) / factor + s);
}

/* The original context that a divisor between 1 and the factor betrays; 0: none is. */
static float llama3_original(const float *f, int64_t n, float theta, float factor)
{
    for (int64_t i = 0; i < n; i++) {
        float freq = 1.0f / powf(theta, (float)(2 * i) / (float)(2 * n));
        float s = (1.0f / f[i] - 1.0f / factor) / (1.0f - 1.0f / factor);
        if (f[i] > 1.0f && f[i] < factor) /* low and high factors are 1 and 4 */
            return roundf((float)(2 * 3.14159265358979323846) / freq *
                          (3.0f * s + 1.0f));
    }
    return 0;
}

/* A GGUF holds the divisors, config.json the four numbers behind them. All published
 * models have 1 and 4 for two of them; the tensor says the others, or that it is
 * something else. Where no divisor lies between, usual contexts are tried. */
static enum b2_status put_llama3(const struct hf_doc *d, float theta,
                                 struct b2_err *err)
{
    const float *f = d->w->rope_factors;
    float origs[] = {0, 8192, 4096, 2048, 16384, 32768}, factor = 1.0f;
    int64_t n = d->w->n_rope_factors;
    struct str *s = d->s;

    for (int64_t i = 0; i < n; i++)
        factor = fmaxf(factor, f[i]);
    origs[0] = llama3_original(f, n, theta, factor);
    for (size_t c = 0; c < countof(origs); c++) {
        int64_t i = 0;
        while (i < n && fabsf(llama3_divisor(theta, i, 2 * n, factor, 1, 4, origs[c]) -
                              f[i]) <= 1e-4f * f[i])
            i++;
        if (i < n || !(origs[c] >= 1.0f))
            continue;
        hf_put_key(s, "rope_scaling");
        str_put(s, "{\"rope_type\": \"llama3\", \"factor\": ");
        hf_put_f32(s, factor);
        str_put(s, ", \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                   "\"original_max_position_embeddings\": ");
        str_printf(s, "%.0f}", (double)origs[c]);
        return B2_OK;
    }
    return err_set(
        err, B2_EUNSUP,
        "rope_freqs.weight is not one of the llama3 scalings that config.json "
        "can say; export to a GGUF format instead");
}

/* A number of the YaRN group that only some files have. */
static enum b2_status put_yarn_part(const struct hf_doc *d, const char *key,
                                    const char *name, struct b2_err *err)
{
    float v;
    enum b2_status rc;

    if (!hf_doc_has(d, key))
        return B2_OK;
    rc = hf_doc_opt_f32(d, key, &v, 0, err);
    if (!rc) {
        str_printf(d->s, ", \"%s\": ", name);
        hf_put_f32(d->s, v);
    }
    return rc;
}

static enum b2_status put_yarn(const struct hf_doc *d, float factor, struct b2_err *err)
{
    struct str *s = d->s;
    uint32_t orig;
    float attn;
    enum b2_status rc;

    rc = hf_doc_u32(d, "rope.scaling.original_context_length", &orig, err);
    if (!rc)
        rc = hf_doc_opt_f32(d, "rope.scaling.yarn_attn_factor", &attn, 1, err);
    if (rc)
        return rc;
    str_put(s, "{\"rope_type\": \"yarn\", \"factor\": ");
    hf_put_f32(s, factor);
    str_printf(s, ", \"original_max_position_embeddings\": %" PRIu32, orig);
    if (attn != 1.0f) { /* config.json has the whole factor, the key what is beside */
        str_put(s, ", \"attention_factor\": ");
        hf_put_f32(s, attn * (factor > 1 ? 0.1f * logf(factor) + 1 : 1));
    }
    rc = put_yarn_part(d, "rope.scaling.yarn_beta_fast", "beta_fast", err);
    if (!rc)
        rc = put_yarn_part(d, "rope.scaling.yarn_beta_slow", "beta_slow", err);
    str_put(s, "}");
    return rc;
}

static void put_list(struct str *s, const char *name, const float *v, int64_t n)
{
    str_printf(s, ", \"%s\": ", name);
    for (int64_t i = 0; i < n; i++) {
        str_put(s, i ? ", " : "[");
        hf_put_f32(s, v[i]);
    }
    str_put(s, "]");
}

/* Three members when the multiplier is the usual one: older readers insist on three. */
static enum b2_status put_longrope(const struct hf_doc *d, struct b2_err *err)
{
    const struct hf_write_model *w = d->w;
    uint32_t ctx, orig;
    float attn;
    enum b2_status rc = hf_doc_u32(d, "context_length", &ctx, err);

    if (!rc)
        rc = hf_doc_u32(d, "rope.scaling.original_context_length", &orig, err);
    if (!rc)
        rc = hf_doc_opt_f32(d, "rope.scaling.attn_factor", &attn, 1, err);
    if (rc)
        return rc;
    double usual = ctx > orig ? sqrt(1 + log((double)ctx / orig) / log(orig)) : 1;
    hf_put_key(d->s, "rope_scaling");
    str_put(d->s, "{\"type\": \"longrope\"");
    put_list(d->s, "short_factor", w->rope_factors, w->n_rope_factors);
    put_list(d->s, "long_factor", w->rope_long, w->n_rope_factors);
    if (fabs(usual - (double)attn) > 1e-6) {
        str_put(d->s, ", \"attention_factor\": ");
        hf_put_f32(d->s, attn);
    }
    str_put(d->s, "}");
    return B2_OK;
}

static enum b2_status check_part(const struct hf_doc *d, uint32_t rot, uint32_t head,
                                 struct b2_err *err)
{
    if (rot >= 1 && rot <= head)
        return B2_OK;
    return err_set(err, B2_EFORMAT,
                   "key %s.rope.dimension_count: %" PRIu32 " of heads of %" PRIu32,
                   d->arch->gguf, rot, head);
}

/* The fraction of a head that turns; readers cut its product with the head's size. */
static float part_of(uint32_t rot, uint32_t head)
{
    float part = (float)rot / (float)head;

    while ((uint32_t)((double)head * (double)part) < rot)
        part = nextafterf(part, 2.0f);
    return part;
}

/* What architectures have of which a part of each head turns. */
static enum b2_status put_part(const struct hf_doc *d, struct b2_err *err)
{
    uint32_t rot, head, width, heads, orig;
    enum b2_status rc = hf_doc_u32(d, "embedding_length", &width, err);

    if (!rc)
        rc = hf_doc_u32(d, "attention.head_count", &heads, err);
    if (!rc)
        rc = hf_doc_opt_u32(d, "attention.key_length", &head, heads ? width / heads : 0,
                            err);
    if (!rc)
        rc = hf_doc_opt_u32(d, "rope.dimension_count", &rot, head, err);
    if (!rc)
        rc = hf_doc_opt_u32(d, "rope.scaling.original_context_length", &orig, 0, err);
    if (!rc)
        rc = check_part(d, rot, head, err);
    if (rc)
        return rc;
    hf_put_key(d->s, "partial_rotary_factor");
    hf_put_f32(d->s, part_of(rot, head));
    if (orig)
        hf_put_int(d->s, "original_max_position_embeddings", orig);
    return B2_OK;
}

/* Sliding layers of some models have a base of their own, never stretched. */
static enum b2_status put_local(const struct hf_doc *d, struct b2_err *err)
{
    float theta;
    enum b2_status rc = B2_OK;

    if (d->arch->window != HF_WINDOW_SOME)
        return B2_OK;
    rc = hf_doc_opt_f32(d, "rope.freq_base_swa", &theta, 10000, err);
    if (!rc) {
        hf_put_key(d->s, "rope_local_base_freq");
        hf_put_f32(d->s, theta);
    }
    return rc;
}

/* Heads that turn in part, in sections: one object, as transformers 5 has it, which is
 * the first version that has such models. */
static enum b2_status put_sections(const struct hf_doc *d, struct b2_err *err)
{
    char key[HF_KEY_MAX];
    uint32_t rot, head;
    float theta;
    const struct meta_kv *kv =
        meta_find(d->w->meta, hf_doc_key(key, d, "rope.dimension_sections"));
    enum b2_status rc = hf_doc_opt_f32(d, "rope.freq_base", &theta, 10000, err);

    if (!rc)
        rc = hf_doc_u32(d, "attention.key_length", &head, err);
    if (!rc)
        rc = hf_doc_opt_u32(d, "rope.dimension_count", &rot, head, err);
    if (!rc)
        rc = check_part(d, rot, head, err);
    if (rc)
        return rc;
    hf_put_key(d->s, "rope_parameters");
    str_put(d->s, "{\"rope_type\": \"default\", \"rope_theta\": ");
    hf_put_f32(d->s, theta);
    str_put(d->s, ", \"partial_rotary_factor\": ");
    hf_put_f32(d->s, part_of(rot, head));
    if (kv && kv->type == MT_ARR) {
        const int32_t *v;
        uint64_t n;
        rc = meta_get_i32s(d->w->meta, key, &v, &n, err);
        str_put(d->s, ", \"mrope_interleaved\": true, \"mrope_section\": [");
        for (uint64_t i = 0; !rc && i < n && i < 3; i++)
            str_printf(d->s, "%s%" PRId32, i ? ", " : "", v[i]);
        str_put(d->s, "]");
    }
    str_put(d->s, "}");
    return rc;
}

enum b2_status hf_write_rope(const struct hf_doc *d, struct b2_err *err)
{
    struct str *s = d->s;
    char key[HF_KEY_MAX];
    const char *type;
    float theta, factor;
    enum b2_status rc = hf_doc_opt_f32(d, "rope.freq_base", &theta, 10000, err);

    if (!rc)
        rc = hf_doc_opt_f32(d, "rope.scaling.factor", &factor, 0, err);
    if (!rc) /* a factor alone means linear, as llama.cpp reads old files */
        rc = meta_opt_str(d->w->meta, hf_doc_key(key, d, "rope.scaling.type"), &type,
                          factor > 0 ? "linear" : "none", err);
    if (rc)
        return rc;
    if (d->arch->delta && strcmp(type, "none") == 0)
        return put_sections(d, err);
    hf_put_key(s, "rope_theta");
    hf_put_f32(s, theta);
    rc = d->arch->rotary_part ? put_part(d, err) : put_local(d, err);
    if (rc)
        return rc;
    if (d->w->rope_long)
        return put_longrope(d, err);
    if (d->w->n_rope_factors > 0)
        return put_llama3(d, theta, err);
    hf_put_key(s, "rope_scaling");
    if (strcmp(type, "none") == 0 || !(factor > 0)) {
        str_put(s, "null");
    } else if (strcmp(type, "linear") == 0) {
        str_put(s, "{\"rope_type\": \"linear\", \"factor\": ");
        hf_put_f32(s, factor);
        str_put(s, "}");
    } else if (strcmp(type, "yarn") == 0) {
        return put_yarn(d, factor, err);
    } else {
        return err_set(err, B2_EUNSUP, "%s = %.40s has no form in config.json here",
                       key, type);
    }
    return B2_OK;
}
