/*
 * repack.h - a model's ternary matrices in an order that the kernels read faster.
 *
 * On request, at load, in memory of our own: the mapping of the file serves as before, but
 * its pages of these matrices are given back. Results keep their bits.
 */
#ifndef MODEL_REPACK_H
#define MODEL_REPACK_H

#include "base/progress.h"
#include "model/session.h"

enum repack_mode {
    REPACK_OFF,
    REPACK_SAME, /* as many bytes as in the file, or fewer */
    REPACK_FAST, /* as many matrices in 2 bits as memory has room for, in the order of
                  * layers; the others as with REPACK_SAME */
};

struct repack_params {
    enum repack_mode mode;
    const struct session_params *session; /* what else needs memory, and its limit */
    struct progress *progress;            /* of bytes of the file; may be NULL */
    bool plan_only;                       /* m's counts change, and nothing else */
};

/* Repacks what can be repacked of m, once, before the first session; m's counts of bytes
 * follow. be must have the kernels
 * of the sessions' backends. Where nothing can be repacked (exact mode, no such kernels or
 * matrices) a warning says so; B2_EUNSUP when the log is strict. B2_ENOMEM: over the
 * limit, or out of memory; m is as before. */
enum b2_status model_repack(struct model *m, struct backend *be,
                            const struct repack_params *p,
                            struct b2_err *err) NODISCARD;

#endif
