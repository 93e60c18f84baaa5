/*
 * hf_write.h - the files of a Hugging Face folder beside the weights, from GGUF keys.
 *
 * config.json, generation_config.json, tokenizer.json and tokenizer_config.json of any
 * architecture in hf_arch.c, as `transformers` and format/hf.h read them.
 */
#ifndef FORMAT_HF_WRITE_H
#define FORMAT_HF_WRITE_H

#include "format/hf.h"
#include "format/meta.h"
#include "tensor/dtype.h"

enum { HF_WRITE_NAME_MAX = 96 };

/* What the keys do not say. */
struct hf_write_model {
    const struct meta *meta;
    enum dtype type;           /* F32, F16 or BF16: of the weights */
    int64_t vocab;             /* rows of the embedding */
    int64_t head_dim;          /* 0: width over heads */
    bool tied;                 /* there is no output.weight */
    const float *rope_factors; /* rope_freqs.weight, NULL: none */
    const float
        *rope_long; /* longrope: those of long contexts, rope_factors the others */
    int64_t n_rope_factors;
};

/* B2_EUNSUP: an architecture that has no folder form here (named). */
enum b2_status hf_write_check(const struct meta *m, struct b2_err *err) NODISCARD;

/* Where a GGUF tensor goes, and what is done to it. */
struct hf_write_place {
    char name[HF_WRITE_NAME_MAX];
    enum hf_change change; /* to be undone */
    int64_t heads; /* heads whose rows go from interleaved pairs to halves; 0: none */
    int64_t v_dim; /* rows of a value head that moves to another place; 0: none does */
};

/* False: the architecture's folders have no such tensor. */
bool hf_write_name(struct hf_write_place *out, const struct meta *m,
                   const char *gguf_name);

/* "LlamaForCausalLM", for messages. */
const char *hf_write_class(const struct meta *m);

/* Row of the GGUF tensor that stands at row r of the folder's tensor, whose rows are
 * split evenly over heads: half h of a head, number i, is there pair i, member h. */
int64_t hf_write_row(int64_t r, int64_t rows, int64_t heads);

/* Makes the texts of the four files and drops them: finds what they cannot say before
 * the weights are written. Errors as hf_write_files. */
enum b2_status hf_write_dry(const struct hf_write_model *w,
                            struct b2_err *err) NODISCARD;

/* Writes the four files into dir, config.json last, and adds their bytes to *n_bytes.
 * B2_EUNSUP: a setting or a tokenizer that the files cannot say (named). B2_EEXIST: a
 * file is there and force is false. */
enum b2_status hf_write_files(const struct hf_write_model *w, const char *dir,
                              bool force, uint64_t *n_bytes,
                              struct b2_err *err) NODISCARD;

#endif
