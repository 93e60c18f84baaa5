/*
 * generate.c - prompt in, text out.
 */
#include "model/generate.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/textout.h"

const char *finish_reason_name(enum finish_reason r)
{
    static const char *const names[] = {"stop", "length", "cancel"};

    return names[r];
}

/* The five largest logits, best first; ties: the smaller id first. */
static void note_first(struct generate_result *out, const float *logits, int64_t vocab)
{
    const int max = (int)countof(out->first_ids);

    for (int64_t i = 0; i < vocab; i++) {
        int at = out->n_first;
        while (at > 0 && logits[i] > out->first_logits[at - 1])
            at--;
        if (at == max)
            continue;
        if (out->n_first < max)
            out->n_first++;
        for (int k = out->n_first - 1; k > at; k--) {
            out->first_ids[k] = out->first_ids[k - 1];
            out->first_logits[k] = out->first_logits[k - 1];
        }
        out->first_ids[at] = (int32_t)i;
        out->first_logits[at] = logits[i];
    }
}

/* Room for every token that can come, so that the loop does not allocate. */
static enum b2_status reserve_tokens(struct tok_ids *tokens, const struct session *s,
                                     int64_t n_prompt, int64_t max_tokens,
                                     struct b2_err *err)
{
    int64_t room = max_i64(session_ctx(s) - n_prompt + 1, 1);

    if (max_tokens > 0)
        room = min_i64(room, max_tokens);
    tokens->id = mem_calloc((size_t)room, sizeof *tokens->id);
    if (!tokens->id)
        return err_set(err, B2_ENOMEM, "out of memory for %lld tokens",
                       (long long)room);
    tokens->cap = room;
    return B2_OK;
}

/* Picks until something ends it; every picked token is in out->tokens. */
static enum b2_status decode(struct session *s, struct sampler *smp,
                             const struct generate_params *p, struct textout *text,
                             struct generate_result *out, struct b2_err *err)
{
    const struct tokenizer *tok = session_model(s)->tok;

    for (;;) {
        int32_t id;
        size_t n = 0;
        enum b2_status rc = sampler_pick(smp, session_logits(s), &id, err);
        if (rc)
            return rc;
        if (out->tokens.n == 0)
            out->first_token_s = clock_s();
        sampler_accept(smp, id);
        out->tokens.id[out->tokens.n++] = id;
        if (tok && !p->ignore_eos && tok_is_end(tok, id)) {
            out->finish = FINISH_STOP;
            return B2_OK;
        }
        const char *bytes = tok ? tok_bytes(tok, id, false, &n) : NULL;
        if (bytes && !textout_put(text, bytes, n)) {
            out->finish = text->found ? FINISH_STOP : FINISH_CANCEL;
            return B2_OK;
        }
        if (out->tokens.n == out->tokens.cap) {
            out->finish = FINISH_LENGTH;
            return B2_OK;
        }
        rc = session_step(s, id, err);
        if (rc) {
            out->finish = rc == B2_ECANCEL ? FINISH_CANCEL : FINISH_LENGTH;
            return rc;
        }
    }
}

enum b2_status generate_run(struct session *s, struct sampler *smp,
                            const int32_t *prompt, int64_t n_prompt,
                            const struct generate_params *p,
                            struct generate_result *out, struct b2_err *err)
{
    const double start_s = clock_s();
    struct textout text;
    enum b2_status rc;

    *out = (struct generate_result){.prompt_tokens = n_prompt, .finish = FINISH_CANCEL};
    rc = textout_init(&text, &out->text, p->stop, p->n_stop, err);
    if (rc)
        return rc;
    text.on_text = p->on_text;
    text.ctx = p->ctx;
    rc = session_sync(s, prompt, n_prompt, &out->prompt_reused, err);
    out->prefill_s = clock_s() - start_s;
    out->prompt_done = min_i64(session_pos(s), n_prompt);
    if (rc == B2_OK)
        rc = reserve_tokens(&out->tokens, s, n_prompt, p->max_tokens, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n_prompt; i++)
        sampler_accept(smp, prompt[i]);
    note_first(out, session_logits(s), session_model(s)->hp.vocab);
    if (p->on_first_logits)
        p->on_first_logits(p->ctx, session_logits(s), session_model(s)->hp.vocab);
    rc = decode(s, smp, p, &text, out, err);
    textout_end(&text);
    if (out->tokens.n > 0) {
        out->decode_s = clock_s() - out->first_token_s;
        out->first_token_s -= start_s;
    }
    if (rc == B2_OK && !str_ok(&out->text))
        rc = err_set(err, B2_ENOMEM, "out of memory for the text");
    return rc;
}

void generate_result_free(struct generate_result *r)
{
    tok_ids_free(&r->tokens);
    str_free(&r->text);
    *r = (struct generate_result){0};
}
