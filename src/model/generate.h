/*
 * generate.h - the loop from a prompt to an answer: step, sample, stop strings, text.
 *
 * Text goes out in whole UTF-8 characters and never contains a part of a stop string.
 */
#ifndef MODEL_GENERATE_H
#define MODEL_GENERATE_H

#include "base/str.h"
#include "model/sampler.h"
#include "model/session.h"

struct generate_params {
    int64_t max_tokens;      /* 0: until the context is full */
    const char *const *stop; /* [n_stop], none empty; borrowed */
    int n_stop;
    bool ignore_eos; /* go on past the end token */
    /* Gets pieces of text as they are sure; return false to stop. May be NULL. */
    bool (*on_text)(void *ctx, const char *text, size_t n);
    /* Gets the raw logits [V] of the first step. May be NULL. */
    void (*on_first_logits)(void *ctx, const float *logits, int64_t vocab);
    void *ctx;
};

enum finish_reason { FINISH_STOP, FINISH_LENGTH, FINISH_CANCEL };
const char *finish_reason_name(enum finish_reason r); /* "stop", "length", "cancel" */

struct generate_result {
    struct tok_ids tokens; /* owned; with the end token, if one came */
    struct str text;       /* owned; valid UTF-8, without control tokens */
    enum finish_reason finish;
    int64_t prompt_tokens, prompt_reused;
    int64_t prompt_done;  /* in the cache when the prompt ended or was interrupted */
    double prefill_s;     /* of the prompt */
    double first_token_s; /* from the call to the first token */
    double decode_s;      /* of the tokens after the first */
    int32_t first_ids[5]; /* best five of the first step */
    float first_logits[5];
    int n_first;
};

/* Runs prompt ids to the end: syncs, then picks, tells the text, steps. smp gets the
 * prompt's tokens too. Results are filled also on error and must be freed. Errors as
 * session_sync and sampler_pick; B2_EARG: an empty stop string. B2_ECANCEL: by
 * session_cancel; when on_text said so it is B2_OK with FINISH_CANCEL. */
enum b2_status generate_run(struct session *s, struct sampler *smp,
                            const int32_t *prompt, int64_t n_prompt,
                            const struct generate_params *p,
                            struct generate_result *out, struct b2_err *err) NODISCARD;
void generate_result_free(struct generate_result *r); /* zeroed is fine */

#endif
