/*
 * synth_models.c - the named models and their tensors.
 *
 * S, M and L are the shapes of the speed tables of bench/ (Qwen 3: S is the 0.6B, M the
 * 4B, L the 4B's kind grown to 27 billion weights). bonsai2-27b is the published
 * Ternary Bonsai 2 27B: 402 ternary matrices, 353 F32 vectors, 96 BF16 matrices.
 *
 * A matrix of n inputs has the deviation 1 / sqrt(n): unit inputs give unit outputs.
 * Embeddings are small beside what all layers add, so that a tied head does not repeat
 * its input; what attention adds is smaller still, or the next token would depend on
 * the whole text, which hardly changes, and the text would stand still.
 */
#include "format/synth_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const float embd_scale = 0.15f, mixer_gain = 0.1f, logit_spread = 4.0f;

static const struct synth_model models[] = {
    {.name = "S",
     .summary = "0.6B, Qwen3-0.6B's shapes, tied",
     .family = SYNTH_QWEN3,
     .arch = "qwen3",
     .pre = "qwen2",
     .layers = 28,
     .d = 1024,
     .f = 3072,
     .heads = 16,
     .kv_heads = 8,
     .head_dim = 128,
     .ctx = 40960,
     .vocab = 151936,
     .words = 151643,
     .merges = 151387,
     .tied = true,
     .theta = 1e6f},
    {.name = "M",
     .summary = "4.0B, Qwen3-4B's shapes, tied",
     .family = SYNTH_QWEN3,
     .arch = "qwen3",
     .pre = "qwen2",
     .layers = 36,
     .d = 2560,
     .f = 9728,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 128,
     .ctx = 40960,
     .vocab = 151936,
     .words = 151643,
     .merges = 151387,
     .tied = true,
     .theta = 1e6f},
    {.name = "L",
     .summary = "27.0B, Qwen 3 with the 27B's width and 74 layers",
     .family = SYNTH_QWEN3,
     .arch = "qwen3",
     .pre = "qwen2",
     .layers = 74,
     .d = 5120,
     .f = 17408,
     .heads = 40,
     .kv_heads = 8,
     .head_dim = 128,
     .ctx = 40960,
     .vocab = 248320,
     .words = 248044,
     .merges = 247587,
     .theta = 1e6f},
    {.name = "bonsai2-27b",
     .summary = "26.9B, the published Ternary Bonsai 2 27B, rotated",
     .family = SYNTH_QWEN35,
     .arch = "qwen35",
     .pre = "qwen35",
     .layers = 64,
     .d = 5120,
     .f = 17408,
     .heads = 24,
     .kv_heads = 4,
     .head_dim = 256,
     .ctx = 262144,
     .vocab = 248320,
     .words = 248044,
     .merges = 247587,
     .theta = 1e7f},
};

const char *synth_name_at(int i)
{
    return i >= 0 && (size_t)i < countof(models) ? models[i].name : NULL;
}

const struct synth_model *synth_model_find(const char *name)
{
    for (size_t i = 0; i < countof(models); i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

/* A row of the tables below; ne1 == 0: a vector. */
struct row {
    const char *name;
    enum synth_kind kind;
    int64_t ne0, ne1;
    float scale;
};

static void add(struct synth_list *l, int64_t layer, const struct row *r)
{
    struct synth_tensor *t = &l->t[l->n++];

    if (layer >= 0)
        (void)snprintf(t->name, sizeof t->name, "blk.%" PRId64 ".%s", layer, r->name);
    else
        (void)snprintf(t->name, sizeof t->name, "%s", r->name);
    t->kind = r->kind;
    t->rank = r->ne1 ? 2 : 1;
    t->ne[0] = r->ne0;
    t->ne[1] = r->ne1 ? r->ne1 : 1;
    t->scale = r->scale;
    if (t->kind == SYNTH_MATRIX && t->scale == 0.0f)
        t->scale = 1.0f / sqrtf((float)t->ne[0]);
}

static void add_all(struct synth_list *l, int64_t layer, const struct row *rows,
                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(l, layer, &rows[i]);
}

static void add_qwen3_layer(struct synth_list *l, const struct synth_model *m,
                            int64_t layer)
{
    const int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const struct row rows[] = {
        {"attn_norm.weight", SYNTH_GAIN, m->d, 0, 1},
        {"attn_q.weight", SYNTH_MATRIX, m->d, q, 0},
        {"attn_q_norm.weight", SYNTH_GAIN, m->head_dim, 0, 1},
        {"attn_k.weight", SYNTH_MATRIX, m->d, kv, 0},
        {"attn_k_norm.weight", SYNTH_GAIN, m->head_dim, 0, 1},
        {"attn_v.weight", SYNTH_MATRIX, m->d, kv, 0},
        {"attn_output.weight", SYNTH_MATRIX, q, m->d, mixer_gain / sqrtf((float)q)},
        {"ffn_norm.weight", SYNTH_GAIN, m->d, 0, 1},
        {"ffn_gate.weight", SYNTH_MATRIX, m->d, m->f, 0},
        {"ffn_up.weight", SYNTH_MATRIX, m->d, m->f, 0},
        {"ffn_down.weight", SYNTH_MATRIX, m->f, m->d, 0},
    };

    add_all(l, layer, rows, countof(rows));
}

/* Rows of attn_q hold, per head, the query and then the gate of the output. */
static void add_attention(struct synth_list *l, const struct synth_model *m,
                          int64_t layer)
{
    const int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const struct row rows[] = {
        {"attn_q.weight", SYNTH_MATRIX, m->d, 2 * q, 0},
        {"attn_q_norm.weight", SYNTH_GAIN, m->head_dim, 0, 1},
        {"attn_k.weight", SYNTH_MATRIX, m->d, kv, 0},
        {"attn_k_norm.weight", SYNTH_GAIN, m->head_dim, 0, 1},
        {"attn_v.weight", SYNTH_MATRIX, m->d, kv, 0},
        {"attn_output.weight", SYNTH_MATRIX, q, m->d, mixer_gain / sqrtf((float)q)},
    };

    add_all(l, layer, rows, countof(rows));
}

/* The gated delta net: 16 key heads and 48 value heads of 128. */
static void add_recurrence(struct synth_list *l, const struct synth_model *m,
                           int64_t layer)
{
    enum { HEAD = 128, K = 16 * HEAD, N_V = 48, V = N_V * HEAD };
    const struct row rows[] = {
        {"attn_qkv.weight", SYNTH_MATRIX, m->d, 2 * K + V, 0},
        {"attn_gate.weight", SYNTH_MATRIX, m->d, V, 0},
        {"ssm_conv1d.weight", SYNTH_NORMAL, 4, 2 * K + V, 0.5f},
        {"ssm_dt.bias", SYNTH_STEP, N_V, 0, 0},
        {"ssm_a", SYNTH_DECAY, N_V, 0, 0},
        {"ssm_beta.weight", SYNTH_SMALL, m->d, N_V, 0.014f}, /* 1 / sqrt(5120) */
        {"ssm_alpha.weight", SYNTH_SMALL, m->d, N_V, 0.014f},
        {"ssm_norm.weight", SYNTH_GAIN, HEAD, 0, 1},
        {"ssm_out.weight", SYNTH_MATRIX, V, m->d, mixer_gain / sqrtf((float)V)},
    };

    add_all(l, layer, rows, countof(rows));
}

static void add_qwen35_layer(struct synth_list *l, const struct synth_model *m,
                             int64_t layer)
{
    const struct row first = {"attn_norm.weight", SYNTH_GAIN, m->d, 0, 1};
    const struct row rest[] = {
        {"post_attention_norm.weight", SYNTH_GAIN, m->d, 0, 1},
        {"ffn_gate.weight", SYNTH_MATRIX, m->d, m->f, 0},
        {"ffn_up.weight", SYNTH_MATRIX, m->d, m->f, 0},
        {"ffn_down.weight", SYNTH_MATRIX, m->f, m->d, 0},
    };

    add(l, layer, &first);
    if ((layer + 1) % 4 == 0)
        add_attention(l, m, layer);
    else
        add_recurrence(l, m, layer);
    add_all(l, layer, rest, countof(rest));
}

enum b2_status synth_list_make(struct synth_list *out, const struct synth_model *m,
                               int64_t layers, struct arena *a, struct b2_err *err)
{
    enum { MAX_PER_LAYER = 16 };
    const float width = sqrtf((float)m->d);
    /* As much beside fewer layers' sum as beside that of all. */
    const float embedding = embd_scale * sqrtf((float)layers / (float)m->layers);
    const float head = m->tied ? embedding : 1.0f / width;
    const struct row embd = {"token_embd.weight", SYNTH_MATRIX, m->d, m->vocab,
                             embedding};
    const struct row ends[] = {
        {"output_norm.weight", SYNTH_GAIN, m->d, 0, logit_spread / (head * width)},
        {"output.weight", SYNTH_MATRIX, m->d, m->vocab, 0},
    };

    out->n = 0;
    out->t = arena_calloc(a, (size_t)(layers * MAX_PER_LAYER + 3), sizeof *out->t);
    if (!out->t)
        return err_set(err, B2_ENOMEM, "out of memory for the tensor table");
    add(out, -1, &embd);
    for (int64_t i = 0; i < layers; i++) {
        if (m->family == SYNTH_QWEN3)
            add_qwen3_layer(out, m, i);
        else
            add_qwen35_layer(out, m, i);
    }
    add_all(out, -1, ends, m->tied ? 1 : 2);
    return B2_OK;
}
