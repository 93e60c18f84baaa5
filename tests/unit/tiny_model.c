/*
 * tiny_model.c - writes the tiny model; as a program: tiny_model OUT SEED LAYERS.
 */
#include "unit/tiny_model.h"

#include "base/mem.h"
#include "base/rng.h"
#include "format/gguf.h"
#include "tensor/quant.h"

#include <stdio.h>
#include <string.h>

struct one {
    char name[64];
    enum dtype type;
    int rank;
    int64_t ne[2];
};

enum { MAX_LAYERS = 64, MAX_TENSORS = 4 + 10 * MAX_LAYERS };

static void add(struct one *list, int *n, const struct tiny_params *p, const char *name,
                int64_t cols, int64_t rows)
{
    struct one *t = &list[(*n)++];

    snprintf(t->name, sizeof t->name, "%s", name);
    t->rank = rows ? 2 : 1;
    t->type = rows ? p->type : p->vec_type;
    t->ne[0] = cols;
    t->ne[1] = rows ? rows : 1;
}

static int list_tensors(struct one *list, const struct tiny_params *p)
{
    static const struct {
        const char *name;
        int64_t cols, rows;
    } block[] = {
        {"attn_norm", TINY_D, 0},        {"attn_q", TINY_D, TINY_D},
        {"attn_k", TINY_D, TINY_D / 3},  {"attn_v", TINY_D, TINY_D / 3},
        {"attn_output", TINY_D, TINY_D}, {"ffn_norm", TINY_D, 0},
        {"ffn_gate", TINY_D, TINY_F},    {"ffn_up", TINY_D, TINY_F},
        {"ffn_down", TINY_F, TINY_D},
    };
    int n = 0, layers = p->layers ? p->layers : TINY_LAYERS;
    char name[64];

    add(list, &n, p, "token_embd.weight", TINY_D, TINY_V);
    for (int l = 0; l < layers; l++) {
        for (size_t i = 0; i < countof(block); i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, block[i].name);
            add(list, &n, p, name, block[i].cols, block[i].rows);
        }
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", l);
        if (p->router)
            add(list, &n, p, name, TINY_D, 8);
    }
    add(list, &n, p, "output_norm.weight", TINY_D, 0);
    if (p->untied)
        add(list, &n, p, "output.weight", TINY_D, TINY_V);
    return n;
}

/* Heavy tails, a size per row: what trained weights look like. */
static void fill_row(float *row, const struct one *t, int64_t r, struct rng *rng,
                     const struct tiny_params *p)
{
    double size = 0.02 * (1.0 + rng_f64(rng));

    for (int64_t i = 0; i < t->ne[0]; i++) {
        double g = rng_normal(rng);
        row[i] = (float)(t->rank == 1 ? 1.0 + 0.1 * g : size * g * (1.0 + g * g / 4));
    }
    if (p->zero_group && r == 0 && strcmp(t->name, "blk.0.ffn_up.weight") == 0)
        memset(row, 0, 64 * sizeof *row);
    if (p->bad_name && strcmp(t->name, p->bad_name) == 0 && r == p->bad_row)
        row[p->bad_col] = p->bad_value;
}

static enum b2_status write_tensor(struct gguf_out *out, const struct one *t,
                                   const struct tiny_params *p, struct rng *rng,
                                   struct b2_err *err)
{
    float row[TINY_F];
    uint8_t bytes[4 * TINY_F];
    uint64_t n = 0;
    enum b2_status rc = dtype_row_bytes(&n, t->type, (uint64_t)t->ne[0], err);

    for (int64_t r = 0; r < t->ne[1] && !rc; r++) {
        fill_row(row, t, r, rng, p);
        quant_encode_row(t->type, bytes, row, t->ne[0]);
        rc = gguf_out_data(out, bytes, (size_t)n, err);
    }
    return rc;
}

static enum b2_status set_keys(struct meta *m, const struct tiny_params *p,
                               struct b2_err *err)
{
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"llama.context_length", 128},
        {"llama.embedding_length", TINY_D},
        {"llama.feed_forward_length", TINY_F},
        {"llama.attention.head_count", TINY_HEADS},
        {"llama.attention.head_count_kv", 1},
        {"llama.vocab_size", TINY_V},
        {"general.file_type", 0},
        {"general.alignment", 64},
        {"tokenizer.ggml.eos_token_id", 0},
    };
    static struct meta_str tokens[TINY_V];
    static char names[TINY_V][16];
    static int32_t types[TINY_V];
    static const float scores[TINY_V];
    uint32_t layers = (uint32_t)(p->layers ? p->layers : TINY_LAYERS);
    enum b2_status rc = meta_set_str(m, "general.architecture", "llama", err);

    for (int i = 0; i < TINY_V; i++) {
        bool byte = i >= 3 && i < 3 + 256;
        snprintf(names[i], sizeof names[i], byte ? "<0x%02X>" : "t%d",
                 byte ? i - 3 : i);
        tokens[i] = (struct meta_str){names[i], strlen(names[i])};
        types[i] = byte ? 6 : i < 3 ? 3 : 1; /* byte, control, normal */
    }
    if (!rc)
        rc = meta_set_str(m, "general.license", "apache-2.0", err);
    if (!rc)
        rc = meta_set_str(m, "tokenizer.chat_template", "{{ messages }}", err);
    if (!rc)
        rc = meta_set_strs(m, "tokenizer.ggml.tokens", tokens, TINY_V, err);
    if (!rc)
        rc = meta_set_str(m, "tokenizer.ggml.model", "llama", err);
    if (!rc)
        rc = meta_set_arr(m, "tokenizer.ggml.token_type", MT_I32, types, TINY_V, err);
    if (!rc)
        rc = meta_set_arr(m, "tokenizer.ggml.scores", MT_F32, scores, TINY_V, err);
    if (!rc)
        rc = meta_set_u32(m, "llama.block_count", layers, err);
    if (!rc)
        rc = meta_set_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f, err);
    for (size_t i = 0; i < countof(numbers) && !rc; i++)
        rc = meta_set_u32(m, numbers[i].key, numbers[i].value, err);
    return rc;
}

enum b2_status tiny_model_write(const char *path, const struct tiny_params *p,
                                struct b2_err *err)
{
    struct one *list = mem_calloc(MAX_TENSORS, sizeof *list);
    struct meta *m = meta_new(1 << 20);
    struct gguf_out *out = NULL;
    struct rng rng = rng_make(p->seed);

    if (!list || !m) {
        meta_free(m);
        mem_free(list);
        return err_set(err, B2_ENOMEM, "tiny model: out of memory");
    }
    enum b2_status rc = set_keys(m, p, err);
    int n = rc ? 0 : list_tensors(list, p);

    if (!rc)
        rc = gguf_out_open(&out, path, true, m, err);
    for (int i = 0; i < n && !rc; i++)
        rc = gguf_out_tensor(out, list[i].name, list[i].type, list[i].rank, list[i].ne,
                             err);
    if (!rc)
        rc = gguf_out_header(out, err);
    for (int i = 0; i < n && !rc; i++)
        rc = write_tensor(out, &list[i], p, &rng, err);
    if (!rc)
        rc = gguf_out_finish(out, err);
    else
        gguf_out_abort(out);
    meta_free(m);
    mem_free(list);
    return rc;
}

#ifdef TINY_MODEL_MAIN
#include "base/opt.h"

int main(int argc, char **argv)
{
    struct tiny_params p = {.type = DT_F32, .vec_type = DT_F32};
    struct b2_err err = {0};
    int64_t seed, layers;

    if (argc != 4 || !opt_parse_int(&seed, argv[2], 0, 1000000) ||
        !opt_parse_int(&layers, argv[3], 1, MAX_LAYERS)) {
        fputs("usage: tiny_model OUT SEED LAYERS\n", stderr);
        return 2;
    }
    p.seed = (uint64_t)seed;
    p.layers = (int)layers;
    if (tiny_model_write(argv[1], &p, &err)) {
        fprintf(stderr, "tiny_model: %s\n", err.msg);
        return 1;
    }
    return 0;
}
#endif
