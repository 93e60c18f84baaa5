/*
 * plan.h - the bytes a model will occupy, computed before anything is allocated.
 *
 * The one place for this arithmetic: `plan`, session_new and the compressor call it, and
 * a test compares it with the process's real peak.
 */
#ifndef MODEL_PLAN_H
#define MODEL_PLAN_H

#include "model/model.h"

struct plan {
    uint64_t
        weights_bytes; /* mapped tensors that a decode step reads, and copies made */
    uint64_t kv_bytes;
    uint64_t state_bytes;   /* recurrent state and its checkpoints (none in `llama`) */
    uint64_t scratch_bytes; /* activations, logits, attention scratch */
    uint64_t total_bytes;
};

/* The bytes of a session with ctx positions and batches of at most batch tokens.
 * B2_EARG: not 1 <= batch <= ctx. */
enum b2_status plan_make(struct plan *out, const struct model *m,
                         const struct backend *be, int64_t ctx, int64_t batch,
                         struct b2_err *err) NODISCARD;

#endif
