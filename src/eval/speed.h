/*
 * speed.h - how fast a model loads, reads a prompt and generates, and how fast memory is.
 *
 * Times are wall-clock seconds of this process; tokens are random ids, whose speed is
 * that of any text. Whoever shows a number shows its conditions too.
 */
#ifndef EVAL_SPEED_H
#define EVAL_SPEED_H

#include "model/session.h"

enum { SPEED_MAX_RUNS = 100 };

enum speed_kind {
    SPEED_PREFILL, /* n tokens in batches of the session's size, logits of the last */
    SPEED_DECODE,  /* n tokens one after the other, after depth tokens */
};

struct speed_test {
    enum speed_kind kind;
    int64_t n, depth; /* n >= 1; depth + n <= the session's context */
    int runs;         /* 1..SPEED_MAX_RUNS, after one short run that is not counted */
    uint64_t seed;    /* of the token ids */
    bool fill;        /* the cache gets random contents up to depth (session_fill) */
};

struct speed_result {
    double median_tps, min_tps, max_tps; /* tokens per second */
    double tps[SPEED_MAX_RUNS];          /* of each run, the slowest first */
    int runs;
    double gbps; /* 10^9 bytes of weights, and when generating of cache, read per second
                  * at the median */
};

/* Errors as session_sync and session_step; B2_EFORMAT: logits that are no numbers. */
enum b2_status speed_session(struct speed_result *out, struct session *s,
                             const struct speed_test *t, struct b2_err *err) NODISCARD;

/* A decode test of n sessions together (sessions_step): tokens of all of them count. */
enum b2_status speed_together(struct speed_result *out, struct session *const *s, int n,
                              const struct speed_test *t, struct b2_err *err) NODISCARD;

/* Bytes of weights that one forward pass reads: a token table that is not the output
 * head too is left out. */
uint64_t speed_pass_bytes(const struct model *m);

/* Makes the model's files leave the system's cache; *cold says whether all went. */
enum b2_status speed_forget(bool *cold, const char *path, struct b2_err *err) NODISCARD;

/* Seconds from opening the file to the logits of the first token of a short session.
 * B2_EFORMAT also: they are no numbers. */
enum b2_status speed_load(double *seconds, const char *path,
                          const struct model_params *mp,
                          const struct backend_config *cfg,
                          struct b2_err *err) NODISCARD;

/* Bytes per second / 10^9 at which the pool's threads read n_bytes of memory, which
 * should be many times the caches: median of several passes. pool may be NULL. B2_ENOMEM. */
enum b2_status speed_memory(double *gbps, struct pool *pool, size_t n_bytes,
                            struct b2_err *err) NODISCARD;

#endif
