/*
 * hf.h - a Hugging Face folder's words in GGUF's words: keys and tensor names.
 *
 * Table-driven: a new architecture is a row in hf_arch.c (its GGUF name, its keys, its
 * tensor names); what the rows cannot say is refused by name. The mapping follows
 * llama.cpp's converter, so that a folder and its GGUF are the same model.
 */
#ifndef FORMAT_HF_H
#define FORMAT_HF_H

#include "base/log.h"
#include "format/meta.h"

enum { HF_CONFIG_MAX = 4 << 20 }; /* bytes of config.json and its kin */

/* A tensor kind: "self_attn.q_proj.weight" of a layer is "attn_q.weight" there. */
struct hf_tensor {
    const char *hf, *gguf;
    bool in_layer; /* hf stands behind "model.layers.N.", gguf behind "blk.N." */
    enum hf_change {
        HF_AS_IS,
        HF_HEADS_Q,  /* rows of rotary pairs, of query heads */
        HF_HEADS_KV, /* the same of key and value heads */
        HF_PLUS_ONE, /* stored as the difference to 1 */
        /* Value heads of a gated delta net: grouped by key head there, tiled in GGUF. */
        HF_V_BEHIND_QK, /* rows; those of q and k before them stay */
        HF_V_ROWS,      /* rows of heads */
        HF_V_ONES,      /* a row or an element per head */
        HF_V_COLS,      /* columns of heads */
        HF_V_RATE,      /* elements, as -exp(x) */
        HF_V_CONV, /* [channels, 1, taps], channels as the rows of HF_V_BEHIND_QK */
    } change;
};

/* What sliding_window means. */
enum hf_window {
    HF_WINDOW_ALL,  /* all layers slide it */
    HF_WINDOW_OFF,  /* nothing: use_sliding_window is not supported */
    HF_WINDOW_SOME, /* layers by a pattern, with a rotary base of their own */
};

/* An architecture. */
struct hf_arch {
    const char *hf, *gguf;           /* "LlamaForCausalLM", "llama" */
    const char *model_type;          /* "llama" in config.json */
    const struct hf_tensor *tensors; /* ends with hf == NULL */
    const char *activation;          /* the only hidden_act */
    enum hf_window window;
    /* What a setting is when config.json does not have it. */
    uint32_t default_window, default_head_dim; /* 0: none, width per head */
    double default_theta;
    bool default_tied;
    bool rotary_part;    /* partial_rotary_factor, longrope: hf_longrope.c */
    bool attention_bias; /* config.json says whether q, k, v and o have biases */
    /* Settings that change the arithmetic and are translated for this architecture
     * though most refuse them; ends with NULL. */
    const char *const *own;
    bool nested; /* the text model's settings are the object "text_config" */
    bool delta;  /* layers of gated delta nets: hf_delta_meta */
};

/* By name in config.json's "architectures"; NULL if unknown. */
const struct hf_arch *hf_arch_find(const char *hf_name);
/* By general.architecture: the first row of that name; NULL if unknown. */
const struct hf_arch *hf_arch_of_gguf(const char *name);
const char *hf_arch_list(void); /* "LlamaForCausalLM, …" for messages */

enum { HF_ROPE_FACTORS_MAX = 512 };

/* What the reader of the tensors needs to know of the configuration. */
struct hf_model {
    const struct hf_arch *arch;
    uint32_t n_layers, n_heads, n_kv_heads, head_dim;
    uint32_t k_heads, v_heads, k_dim, v_dim; /* of gated delta nets; else 0 */
    uint32_t n_rot; /* values of a head that turn; set by hf_rope_part */
    bool tied;      /* no tensor of its own for the output */
    /* llama3 scaling: the tensor rope_freqs.weight that the converter computes. */
    float rope_factors[HF_ROPE_FACTORS_MAX];
    int n_rope_factors; /* 0: none */
    /* longrope: rope_factors are those of short contexts, these of long ones. */
    float rope_long[HF_ROPE_FACTORS_MAX];
    bool longrope;
};

/* Translates config.json into keys (general.architecture, llama.…). B2_EUNSUP: an
 * unknown architecture or a setting that changes the arithmetic in a way that is not
 * supported, named. Settings that nobody here knows are named in a note. */
enum b2_status hf_config_meta(struct meta *m, struct hf_model *model, const char *json,
                              size_t n, const struct log *log,
                              struct b2_err *err) NODISCARD;

/* Adds what tokenizer_config.json says beside the vocabulary: chat template, begin and
 * end tokens. Keys that are there already stay. */
enum b2_status hf_tokenizer_config_meta(struct meta *m, const char *json, size_t n,
                                        struct b2_err *err) NODISCARD;

/* Adds eos_token_id (a number, or a list: the first is eos, another one eot) and
 * bos_token_id of generation_config.json or config.json (file names it in messages).
 * Keys that are there already stay. */
enum b2_status hf_token_ids_meta(struct meta *m, const char *json, size_t n,
                                 const char *file, struct b2_err *err) NODISCARD;

/* Adds what generation_config.json says of sampling as general.sampling.{temp, top_k,
 * top_p, min_p, penalty_repeat}, the keys that llama.cpp's converter writes. */
enum b2_status hf_sampling_meta(struct meta *m, const char *json, size_t n,
                                struct b2_err *err) NODISCARD;

/* Windows, caps and the scale of attention; part of hf_config_meta. */
struct cJSON;
enum b2_status hf_attention_meta(struct meta *m, const struct hf_model *model,
                                 const struct cJSON *root,
                                 struct b2_err *err) NODISCARD;

/* Sizes and places of gated delta net layers, sections of rotary positions; part of
 * hf_config_meta, before hf_rope_meta. */
enum b2_status hf_delta_meta(struct meta *m, struct hf_model *model,
                             const struct cJSON *root, struct b2_err *err) NODISCARD;

/* The rope group of config.json; part of hf_config_meta. root: cJSON object. */
enum b2_status hf_rope_meta(struct meta *m, struct hf_model *model,
                            const struct cJSON *root, struct b2_err *err) NODISCARD;

/* How much of a head turns, and the original context; part of hf_rope_meta for
 * architectures with rotary_part. group: the scaling, may be NULL. */
enum b2_status hf_rope_part(struct meta *m, struct hf_model *model,
                            const struct cJSON *root, const struct cJSON *group,
                            struct b2_err *err) NODISCARD;

/* rope_type "longrope" of such an architecture, after hf_rope_part. */
enum b2_status hf_longrope_meta(struct meta *m, struct hf_model *model,
                                const struct cJSON *root, const struct cJSON *group,
                                struct b2_err *err) NODISCARD;

/* What a tensor of the folder becomes. */
struct hf_target {
    char name[64];
    const struct hf_tensor *kind;
    int64_t order;    /* canonical: embedding, layers by number, output */
    uint32_t n_heads; /* for permuting, 0: rows stay */
};

enum hf_known { HF_TENSOR, HF_SKIP, HF_SKIP_VISION, HF_SKIP_MTP, HF_UNKNOWN };

/* HF_SKIP: a tensor that carries nothing (rotary tables, the head of a tied model).
 * HF_SKIP_VISION, HF_SKIP_MTP: of the part that sees pictures, or predicts further
 * tokens. */
enum hf_known hf_tensor_target(const struct hf_model *model, const char *hf_name,
                               struct hf_target *out);

#endif
