/*
 * synth.h - random model files with the exact shapes of named models.
 *
 * For measurements and tests where the real weights are not at hand: every tensor,
 * shape, type, key and the size of the vocabulary are the model's, the values come from
 * a seed. Scales are those of a fresh network, so that activations stay near 1, logits
 * spread by about 4 and a greedy text does not stand still. Text cuts as the family's
 * does; the words of the vocabulary are made up.
 *
 * One seed gives the same weights in F32, F16, BF16 and every ternary type (a sign or
 * zero times one scale per 256 weights), so that such files must agree in their tokens.
 * Other types hold normally distributed weights.
 */
#ifndef FORMAT_SYNTH_H
#define FORMAT_SYNTH_H

#include "base/progress.h"
#include "format/gguf.h"

struct synth_params {
    const char *like; /* a name of synth_name_at() */
    enum dtype type;  /* of every matrix, embedding and head included */
    uint64_t seed;
    int64_t layers; /* 0: as many as the model has; fewer make a file for tests */
    bool force;     /* replace an existing file */
    struct progress *progress; /* NULL: silent; counts bytes */
    bool (*cancelled)(void);   /* asked between tensors and megabytes; NULL: never */
};

struct synth_report {
    const char *arch, *summary; /* static */
    uint64_t file_bytes, tensor_bytes;
    int64_t n_tensors, n_layers, vocab;
    uint64_t n_params; /* values of all tensors */
    int64_t n_keys;
};

/* Names in their order, NULL at the end. */
const char *synth_name_at(int i);

/* Whether the type can be asked for: those that are written, and Q4_K, Q5_K, Q6_K. */
bool synth_has_type(enum dtype t);

/* What synth_write would write, without a byte of it. B2_EARG: an unknown name (listed), a type
 * that is not made (listed), more layers than the model has. */
enum b2_status synth_size(struct synth_report *out, const struct synth_params *p,
                          struct b2_err *err) NODISCARD;

/* Writes path, streaming: below 200 MB of memory whatever the size. The file appears whole or
 * not at all. Errors as synth_size; B2_EEXIST, B2_EIO (also: no room on the disk, told
 * before the first byte), B2_ECANCEL. */
enum b2_status synth_write(const char *path, struct synth_report *out,
                           const struct synth_params *p, struct b2_err *err) NODISCARD;

#endif
