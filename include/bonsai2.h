/*
 * bonsai2.h - run ternary and other compressed language models.
 *
 *   b2_model     an opened file: weights (mapped, read-only) and tokenizer. May be
 *                shared by any number of sessions and threads.
 *   b2_session   one conversation: its cache, threads and position. One thread at a
 *                time; only b2_session_cancel() may be called from anywhere.
 *
 * A function that can fail returns B2_OK (0) or a negative status, and explains it in
 * the struct b2_err given last (which may be NULL). On failure an output pointer is
 * left alone. Strings are UTF-8. Nothing here prints, exits or keeps global state.
 * Parameter structs may be NULL for the defaults and are zero where nothing is asked:
 * zero every field that is not set, so that fields of later versions keep their default.
 */
#ifndef BONSAI2_H
#define BONSAI2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define B2_NODISCARD __attribute__((warn_unused_result))
#else
#define B2_NODISCARD
#endif

/* ---- errors ---- */

enum b2_status {
    B2_OK = 0,
    B2_EARG = -1,      /* the caller's argument is wrong (shape, range, option) */
    B2_ENOMEM = -2,    /* out of memory, or over a limit that was set */
    B2_EIO = -3,       /* the operating system refused: open, read, write, disk full */
    B2_EFORMAT = -4,   /* the bytes break the rules of their format: corrupt */
    B2_ETRUNC = -5,    /* the file ends before the bytes its header promises */
    B2_EUNSUP = -6,    /* well-formed, but of a kind this program does not know */
    B2_ELAYOUT = -7,   /* a known type in a layout that must be converted first */
    B2_ENOTFOUND = -8, /* a named thing (file, tensor, key) is absent */
    B2_ECANCEL = -9,   /* interrupted by the user */
    B2_EEXIST = -10,   /* would overwrite something */
};

enum { B2_ERR_MAX = 1024 };

struct b2_err {
    enum b2_status status;
    char msg[B2_ERR_MAX]; /* always terminated; cut with "…" when too long */
};

/* A short name for a status: "corrupt", "truncated", … Never NULL. */
const char *b2_status_name(enum b2_status status);

/* The library's version, "0.1.0". */
const char *b2_version(void);

/* ---- models ---- */

struct b2_model;

enum b2_log_level { B2_LOG_ERROR, B2_LOG_WARN, B2_LOG_INFO, B2_LOG_DEBUG };

struct b2_model_params {
    /* Gets notes, one line each, without a newline; NULL: silent. Called by the thread
     * that is inside b2_model_open or b2_session_new. */
    void (*log)(void *ctx, enum b2_log_level level, const char *line);
    void *log_ctx;
    enum b2_log_level log_level; /* lines above it are not made */
    bool strict; /* a note about a slower or different path becomes an error */
};

/* Opens a GGUF file, any part of a split one, or a Hugging Face folder. Checks every
 * key and tensor that it needs; values are read when used. *out is owned by the caller:
 * b2_model_close. B2_ENOTFOUND, B2_EIO, B2_EFORMAT, B2_ETRUNC, B2_EUNSUP, B2_ELAYOUT,
 * B2_ENOMEM. */
enum b2_status b2_model_open(struct b2_model **out, const char *path,
                             const struct b2_model_params *params,
                             struct b2_err *err) B2_NODISCARD;

/* Sessions of the model must be freed before. NULL is fine. */
void b2_model_close(struct b2_model *m);

int64_t b2_model_vocab(const struct b2_model *m);   /* token ids are 0 … this - 1 */
int64_t b2_model_context(const struct b2_model *m); /* positions it was trained for */
/* SHA-256 in hex (64 digits) of header and tensor table. Valid until close. */
const char *b2_model_fingerprint(const struct b2_model *m);

/* ---- text and tokens ---- */

/* The ids of n bytes of text, with the begin token if the model wants one and control
 * tokens written in the text recognised. ids [cap] is the caller's; *n_ids gets how
 * many there are. B2_EARG when cap is too small: *n_ids then says what is needed (call
 * with cap 0 to ask). Any bytes are accepted. */
enum b2_status b2_tokenize(const struct b2_model *m, const char *text, size_t n,
                           int32_t *ids, int64_t cap, int64_t *n_ids,
                           struct b2_err *err) B2_NODISCARD;

/* The text of n_ids ids, without control tokens. buf [cap] is the caller's and is
 * terminated; *n gets the bytes without the terminator. B2_EARG when cap <= *n, or when
 * an id is out of range. */
enum b2_status b2_detokenize(const struct b2_model *m, const int32_t *ids,
                             int64_t n_ids, char *buf, size_t cap, size_t *n,
                             struct b2_err *err) B2_NODISCARD;

/* ---- sessions ---- */

struct b2_session;

/* How keys and values are kept. */
enum b2_cache {
    B2_CACHE_AUTO, /* F16, or Q8_0 when only that fits into memory: a note says so */
    B2_CACHE_F16,
    B2_CACHE_Q8_0, /* half the bytes; heads of a multiple of 32 values */
    B2_CACHE_Q4_0, /* a quarter; measurably worse (docs/MEMORY.md) */
};

struct b2_session_params {
    int64_t ctx;   /* positions; 0: what the model has and memory holds, at most 8192 */
    int64_t batch; /* most tokens per pass over the prompt; 0: 512 */
    uint64_t mem_limit; /* bytes of weights, cache and scratch; 0: no limit */
    int threads;        /* 0: as many as the processor and its quota give */
    bool exact;         /* activations and sums in F32: slow, the yardstick */
    const char *cpu;    /* limits the kernels: "scalar", "avx2", …; NULL: the best */
    enum b2_cache cache;
    int64_t
        window;    /* every layer sees at most the last `window` positions and the first
                     * `sinks`: memory stops growing, and ctx may be longer than what the
                     * model was trained for; 0: off */
    int64_t sinks; /* 0: 4, -1: none */
};

/* A session with an empty cache. m is borrowed until b2_session_free. B2_EARG: context
 * above what the model was trained for, unknown kernel level. B2_ENOMEM: over mem_limit,
 * with the planned bytes in the message, before anything was allocated. */
enum b2_status b2_session_new(struct b2_session **out, const struct b2_model *m,
                              const struct b2_session_params *params,
                              struct b2_err *err) B2_NODISCARD;

void b2_session_free(struct b2_session *s); /* NULL is fine */

/* Makes the cache hold exactly ids[0..n): keeps the longest prefix it already has and
 * computes the rest. The same logits, bit for bit, for any batch, number of threads and
 * reuse. B2_EARG: n == 0, longer than the context, an id out of range. B2_ECANCEL. */
enum b2_status b2_session_sync(struct b2_session *s, const int32_t *ids, int64_t n,
                               struct b2_err *err) B2_NODISCARD;

/* Appends one token. B2_EARG when the context is full. B2_ECANCEL. */
enum b2_status b2_session_step(struct b2_session *s, int32_t id,
                               struct b2_err *err) B2_NODISCARD;

/* Logits [b2_model_vocab] of the last position, F32; NULL before the first sync or step.
 * Valid until the next call on this session. */
const float *b2_session_logits(const struct b2_session *s);

int64_t b2_session_pos(const struct b2_session *s); /* tokens in the cache */
int64_t b2_session_ctx(const struct b2_session *s); /* tokens that fit */

/* Makes the running call, or the next one, return B2_ECANCEL soon. May be called from
 * another thread or a signal handler. */
void b2_session_cancel(struct b2_session *s);

/* ---- generation ---- */

struct b2_generate_params {
    int64_t max_tokens;      /* 0: until the context is full */
    const char *const *stop; /* [n_stop]; output ends before the first of them */
    int n_stop;
    bool ignore_eos; /* go on past the end token */

    /* Sampling. All zero is greedy: the most likely token, ties to the smaller id. */
    float temperature;
    int64_t top_k;           /* 0: off */
    float top_p;             /* 0 or 1: off */
    float min_p;             /* 0: off */
    float repeat_penalty;    /* 0 or 1: off */
    float presence_penalty;  /* 0: off */
    float frequency_penalty; /* 0: off */
    int64_t penalty_last_n;  /* tokens looked back; 0: 64, -1: all */
    uint64_t seed;

    /* Gets the text in whole characters as soon as it is sure; return false to stop.
     * May be NULL. */
    bool (*on_text)(void *ctx, const char *text, size_t n);
    void *ctx;
};

enum b2_finish {
    B2_FINISH_STOP,   /* end token or stop string */
    B2_FINISH_LENGTH, /* max_tokens or the context */
    B2_FINISH_CANCEL, /* b2_session_cancel, or on_text said so */
};

struct b2_generate_result {
    char *text; /* terminated UTF-8; NULL only when memory ran out */
    size_t text_bytes;
    int32_t *ids; /* [n_ids] generated tokens, an end token included */
    int64_t n_ids;
    int64_t prompt_tokens, prompt_reused; /* reused: taken from the warm cache */
    enum b2_finish finish;
    double prefill_s, decode_s, first_token_s;
};

/* Continues the prompt ids[0..n): sync, then sample and step until done. *out is filled
 * (also on errors, with what there was) and freed with b2_generate_result_free. Errors
 * as b2_session_sync; B2_EARG: a sampling number out of range; B2_EFORMAT: the model
 * gave NaN logits. Cancelled: B2_ECANCEL. */
enum b2_status b2_generate(struct b2_session *s, const int32_t *ids, int64_t n,
                           const struct b2_generate_params *params,
                           struct b2_generate_result *out,
                           struct b2_err *err) B2_NODISCARD;

void b2_generate_result_free(struct b2_generate_result *r); /* zeroed is fine */

#ifdef __cplusplus
}
#endif

#endif
