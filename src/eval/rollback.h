/*
 * rollback.h - a candidate with one part of it restored to the baseline's weights.
 *
 * A part is a layer (its matrices and norms) or a class of tensors over all layers. The
 * weights of the opened candidate are exchanged in memory, no file is written: every
 * weight carries its type and rotation with it, so the next forward pass of any session
 * on the model uses it. A session's cache from before must be forgotten by the caller.
 */
#ifndef EVAL_ROLLBACK_H
#define EVAL_ROLLBACK_H

#include "eval/fidelity.h"
#include "model/model.h"

struct rollback;

/* Both stay open, and live at least as long. B2_EARG: the models differ in shape (says in
 * what): layers or widths that were pruned cannot be restored one by one. */
enum b2_status rollback_new(struct rollback **out, struct model *candidate,
                            const struct model *baseline, struct b2_err *err) NODISCARD;
/* Puts the candidate's own weights back and frees; NULL is fine. */
void rollback_free(struct rollback *r);

/* Parts: the layers, then the classes. */
int64_t rollback_layers(const struct rollback *r);
int64_t rollback_classes(const struct rollback *r);
/* "blk.3", "attn_q", "token_embd". Borrowed. */
const char *rollback_name(const struct rollback *r, int64_t part);
/* Bytes by which the file grows when the part is the baseline's; may be negative. */
int64_t rollback_bytes(const struct rollback *r, int64_t part);
/* Exchanges the part (-1: none); the part before is the candidate's own again. */
void rollback_set(struct rollback *r, int64_t part);

/* Divergence from a baseline whose rows are kept in memory, so that it runs once. */
struct rollback_text;
enum b2_status rollback_text_new(struct rollback_text **out, const struct textset *set,
                                 struct session *base, int64_t k, struct progress *pr,
                                 struct b2_err *err) NODISCARD;
enum b2_status rollback_text_kld(double *out, const struct rollback_text *t,
                                 struct session *cand, struct b2_err *err) NODISCARD;
void rollback_text_free(struct rollback_text *t); /* NULL is fine */

#endif
