/*
 * plan.h - the bytes a model will occupy, computed before anything is allocated.
 *
 * The one place for this arithmetic: `plan`, session_new and the compressor call it, and
 * a test compares it with the process's real peak.
 */
#ifndef MODEL_PLAN_H
#define MODEL_PLAN_H

#include "model/cache.h"

struct plan {
    uint64_t weights_bytes; /* mapped tensors that a step reads, and copies made */
    uint64_t table_bytes; /* a mapped token table that is no head: few rows are read, so
                             * it is not in the total */
    uint64_t kv_bytes;    /* of all layers */
    uint64_t kv_kind_bytes[CACHE_N_KINDS];
    int64_t n_kind_layers[CACHE_N_KINDS];
    uint64_t state_bytes;   /* recurrent state and its checkpoints (none in `llama`) */
    uint64_t scratch_bytes; /* activations, logits, attention scratch */
    uint64_t slot_bytes;  /* cache, state, logits and tokens: what each further session
                             * of this kind adds on the same backend, with the buffers of
                             * its passes */
    uint64_t total_bytes; /* weights, kv, state and scratch */
    uint64_t
        program_bytes; /* besides, roughly: the program, the file's header, which is
                             * read whole, and the tokenizer made of it */
};

/* The bytes of a session with these params. B2_EARG: not 1 <= batch <= ctx. */
enum b2_status plan_make(struct plan *out, const struct model *m,
                         const struct backend *be, const struct cache_params *p,
                         struct b2_err *err) NODISCARD;

#endif
