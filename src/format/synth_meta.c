/*
 * synth_meta.c - the keys of a made-up model.
 *
 * bonsai2-27b has the published files' 49 keys as PTQ1_0 and 52 as PQ2_0. What they say
 * of the arithmetic, the vocabulary and the rotation is exact; which general.* keys the
 * published ones have beside file type, name, version and basename is not known here,
 * and their places are filled with usual ones.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "format/synth_int.h"

#include <stdio.h>
#include <string.h>

/* general.file_type: llama.h's LLAMA_FTYPE_*, and the Prism fork's numbers. */
static const struct {
    enum dtype type;
    uint32_t file_type;
} file_types[] = {
    {DT_F32, 0},   {DT_F16, 1},    {DT_Q4_0, 2},   {DT_Q4_1, 3},    {DT_Q8_0, 7},
    {DT_Q5_0, 8},  {DT_Q5_1, 9},   {DT_Q4_K, 15},  {DT_Q5_K, 17},   {DT_Q6_K, 18},
    {DT_BF16, 32}, {DT_TQ1_0, 36}, {DT_TQ2_0, 37}, {DT_PQ2_0, 141}, {DT_PTQ1_0, 143},
};

struct maker {
    struct meta *m;
    const struct synth_model *model;
    const struct synth_params *p;
    enum b2_status rc; /* the first failure; setters do nothing after it */
    struct b2_err *err;
};

/* "<arch>.<name>" when name starts with '.', else name. */
static const char *key_of(char buf[96], const struct maker *k, const char *name)
{
    (void)snprintf(buf, 96, "%s%s", name[0] == '.' ? k->model->arch : "", name);
    return buf;
}

static void set_u32(struct maker *k, const char *name, int64_t v)
{
    char key[96];

    if (!k->rc)
        k->rc = meta_set_u32(k->m, key_of(key, k, name), (uint32_t)v, k->err);
}

static void set_f32(struct maker *k, const char *name, float v)
{
    char key[96];

    if (!k->rc)
        k->rc = meta_set_f32(k->m, key_of(key, k, name), v, k->err);
}

static void set_str(struct maker *k, const char *name, const char *v)
{
    char key[96];

    if (!k->rc)
        k->rc = meta_set_str(k->m, key_of(key, k, name), v, k->err);
}

static void set_general(struct maker *k)
{
    const bool bonsai = k->model->family == SYNTH_QWEN35;
    char name[96];

    (void)snprintf(name, sizeof name, "synthetic %s, seed %llu", k->model->name,
                   (unsigned long long)k->p->seed);
    set_str(k, "general.architecture", k->model->arch);
    set_str(k, "general.type", "model");
    if (bonsai) {
        set_u32(k, "general.sampling.top_k", 20);
        set_f32(k, "general.sampling.top_p", 0.95f);
        set_f32(k, "general.sampling.temp", 0.6f);
    }
    set_str(k, "general.name", name);
    if (bonsai) {
        set_str(k, "general.version", "v5");
        set_str(k, "general.basename", "folded");
        set_str(k, "general.size_label", "27B");
    }
    if (bonsai && k->p->type == DT_PQ2_0) { /* three keys more than PTQ1_0 */
        set_str(k, "general.description", "random weights for measurements");
        set_str(k, "general.finetune", "synthetic");
        set_str(k, "general.license", "cc0-1.0");
    }
    set_u32(k, "general.quantization_version", 2);
    for (size_t i = 0; i < countof(file_types); i++)
        if (file_types[i].type == k->p->type)
            set_u32(k, "general.file_type", file_types[i].file_type);
}

static void set_shape(struct maker *k, int64_t layers)
{
    const struct synth_model *m = k->model;

    set_u32(k, ".block_count", layers);
    set_u32(k, ".context_length", m->ctx);
    set_u32(k, ".embedding_length", m->d);
    set_u32(k, ".feed_forward_length", m->f);
    set_u32(k, ".attention.head_count", m->heads);
    set_u32(k, ".attention.head_count_kv", m->kv_heads);
    set_u32(k, ".attention.key_length", m->head_dim);
    set_u32(k, ".attention.value_length", m->head_dim);
    set_f32(k, ".attention.layer_norm_rms_epsilon", 1e-6f);
    set_f32(k, ".rope.freq_base", m->theta);
}

static void set_recurrence(struct maker *k)
{
    static const int32_t sections[] = {11, 11, 10, 0};

    set_u32(k, ".rope.dimension_count", 64);
    if (!k->rc)
        k->rc = meta_set_arr(k->m, "qwen35.rope.dimension_sections", MT_I32, sections,
                             countof(sections), k->err);
    set_u32(k, ".ssm.conv_kernel", 4);
    set_u32(k, ".ssm.state_size", 128);
    set_u32(k, ".ssm.group_count", 16);
    set_u32(k, ".ssm.time_step_rank", 48);
    set_u32(k, ".ssm.inner_size", 6144);
    set_u32(k, ".full_attention_interval", 4);
}

/* ---- the rotation ---- */

enum { N_SIGNS = 28672, N_MINUS = 14504 };

/* As many of each sign as published and the same first eight, in an order of the
 * seed's: the published vector is data that nobody has a rule for. */
static void make_signs(int32_t sign[N_SIGNS], uint64_t seed)
{
    static const int32_t first[] = {-1, -1, -1, 1, -1, 1, 1, 1};
    enum { FIXED = countof(first), FIXED_MINUS = 4 };
    struct rng r = rng_make(seed ^ 0x5349474e); /* "SIGN" */

    memcpy(sign, first, sizeof first);
    for (int i = FIXED; i < N_SIGNS; i++)
        sign[i] = i < FIXED + N_MINUS - FIXED_MINUS ? -1 : 1;
    for (int i = N_SIGNS - 1; i > FIXED; i--) { /* Fisher and Yates */
        int j = FIXED + (int)rng_below(&r, (uint64_t)i - FIXED + 1);
        int32_t t = sign[i];
        sign[i] = sign[j];
        sign[j] = t;
    }
}

static enum b2_status set_folded(struct maker *k, const struct synth_list *list)
{
    struct meta_str *names = mem_calloc((size_t)list->n, sizeof *names);
    const struct meta_str inverse = {"token_embd.weight", 17};
    uint64_t n = 0;

    if (!names)
        return err_set(k->err, B2_ENOMEM, "rotation: out of memory");
    for (int64_t i = 0; i < list->n; i++) {
        const struct synth_tensor *t = &list->t[i];
        if (t->kind == SYNTH_MATRIX && strcmp(t->name, inverse.data) != 0)
            names[n++] = (struct meta_str){t->name, strlen(t->name)};
    }
    enum b2_status rc =
        meta_set_strs(k->m, "prism.hadamard.weight_names", names, n, k->err);
    if (!rc)
        rc = meta_set_strs(k->m, "prism.hadamard.inverse_weight_names", &inverse, 1,
                           k->err);
    mem_free(names);
    return rc;
}

static void set_rotation(struct maker *k, const struct synth_list *list)
{
    static const int32_t widths[] = {5120, 6144, 17408};
    int32_t *sign = mem_calloc(N_SIGNS, sizeof *sign);

    if (!sign && !k->rc)
        k->rc = err_set(k->err, B2_ENOMEM, "rotation: out of memory");
    set_u32(k, "prism.hadamard.version", 1);
    set_u32(k, "prism.hadamard.block_size", 1024);
    set_str(k, "prism.hadamard.transform", "normalized-sylvester-walsh-hadamard");
    set_str(k, "prism.hadamard.axis", "input-last-dimension");
    set_str(k, "prism.hadamard.sign_mode", "explicit");
    if (!k->rc)
        k->rc = meta_set_arr(k->m, "prism.hadamard.sign_widths", MT_I32, widths,
                             countof(widths), k->err);
    if (!k->rc) {
        make_signs(sign, k->p->seed);
        k->rc = meta_set_arr(k->m, "prism.hadamard.sign_values", MT_I32, sign, N_SIGNS,
                             k->err);
    }
    if (!k->rc)
        k->rc = set_folded(k, list);
    if (!k->rc)
        k->rc = meta_set_bool(k->m, "prism.hadamard.gdn_v_grouped", true, k->err);
    mem_free(sign);
}

enum b2_status synth_meta_make(struct meta **out, const struct synth_model *m,
                               const struct synth_list *list,
                               const struct synth_params *p, struct b2_err *err)
{
    struct maker k = {meta_new(256 << 20), m, p, B2_OK, err};

    if (!k.m)
        return err_set(err, B2_ENOMEM, "keys: out of memory");
    set_general(&k);
    set_shape(&k, p->layers ? p->layers : m->layers);
    if (m->family == SYNTH_QWEN35)
        set_recurrence(&k);
    if (!k.rc)
        k.rc = synth_vocab_meta(k.m, m, err);
    if (m->family == SYNTH_QWEN35)
        set_rotation(&k, list);
    if (k.rc) {
        meta_free(k.m);
        return k.rc;
    }
    *out = k.m;
    return B2_OK;
}
