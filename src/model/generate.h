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
    int64_t max_tokens; /* 0: until the context is full */
    const char *const *stop;
    int n_stop;
    bool ignore_eos;
    /* Gets pieces of text as they are sure; return false to stop. May be NULL. */
    bool (*on_text)(void *ctx, const char *text, size_t n);
    void *ctx;
};

enum finish_reason { FINISH_STOP, FINISH_LENGTH, FINISH_CANCEL };
const char *finish_reason_name(enum finish_reason r); /* "stop", "length", "cancel" */

struct generate_result {
    struct tok_ids tokens; /* owned */
    struct str text;       /* owned */
    enum finish_reason finish;
    int64_t prompt_tokens, prompt_reused;
    double prefill_s, decode_s, first_token_s;
    int32_t first_ids[5]; /* best five of the first step */
    float first_logits[5];
    int n_first;
};

/* Runs prompt ids to the end. Results are filled also on error and must be freed. */
enum b2_status generate_run(struct session *s, struct sampler *smp,
                            const int32_t *prompt, int64_t n_prompt,
                            const struct generate_params *p,
                            struct generate_result *out, struct b2_err *err) NODISCARD;
void generate_result_free(struct generate_result *r); /* zeroed is fine */

#endif
