/*
 * recurrent.h - the state of gated delta net layers, and copies of it to go back to.
 *
 * Such a layer keeps no positions: its state after n tokens is a sum that no token can be
 * taken out of. To go back, a copy made earlier is loaded and the tokens since are run
 * again; the bits are those of a fresh run. Copy 0 is the live state; 1 to n_saved are
 * checkpoints of two kinds: marks (ends of prompts, alternating between two places) and
 * spaced ones along the sequence, whose distance doubles when their places are full.
 * Not thread-safe.
 */
#ifndef MODEL_RECURRENT_H
#define MODEL_RECURRENT_H

#include "model/hparams.h"

enum { RECURRENT_MAX_SAVED = 8 };

struct recurrent_slot {
    int64_t pos; /* tokens that the copy has seen; -1: it holds nothing */
    int copy;
    bool passing; /* a mark inside a prompt: the next one may take its place */
};

struct recurrent {
    const struct hparams *hp;
    float *floats;    /* [1 + n_saved][n_floats]; NULL: no layer has a state */
    int64_t n_floats; /* of one copy */
    int64_t pos;      /* tokens that the live state has seen; -1: it is lost */
    int n_saved, n_marks, n_spaced;
    int last_mark;
    struct recurrent_slot mark[2];
    struct recurrent_slot spaced[RECURRENT_MAX_SAVED]; /* by position; n_spaced used */
    int64_t step; /* least distance of spaced ones */
};

/* The state of one layer in one copy. */
struct recurrent_view {
    float *conv;      /* [taps - 1, conv channels] */
    float *state;     /* [V heads, k_dim, v_dim] */
    int64_t n_floats; /* of both, which lie in a row from conv on */
};

/* Bytes of the live state and n_saved copies; 0 when no layer has one. */
uint64_t recurrent_bytes(const struct hparams *hp, int n_saved);
/* How many copies are worth it beside weights of this size: a 32nd of them. At least
 * 1, at most RECURRENT_MAX_SAVED; 0 when no layer has a state. */
int recurrent_default_saved(const struct hparams *hp, uint64_t weights_bytes);

/* Position 0, no checkpoints. hp is borrowed. B2_ENOMEM. */
enum b2_status recurrent_init(struct recurrent *r, const struct hparams *hp,
                              int n_saved, struct b2_err *err) NODISCARD;
void recurrent_free(struct recurrent *r); /* zeroed is fine */

static inline bool recurrent_used(const struct recurrent *r)
{
    return r->floats != NULL;
}

/* layer: a layer of the model that has a state. */
struct recurrent_view recurrent_view(const struct recurrent *r, int copy,
                                     int64_t layer);

/* Forgets every state behind pos: the tokens from there on will be others. */
void recurrent_forget(struct recurrent *r, int64_t pos);
/* The same, and goes back to the latest state that is known at or before pos. Returns its
 * position, r->pos. */
int64_t recurrent_rewind(struct recurrent *r, int64_t pos);

/* Makes the live state a mark, unless one is there. passing: inside a prompt. */
void recurrent_save_mark(struct recurrent *r, bool passing);
/* The copy that a pass may fill with the state at a position inside its batch; 0: none.
 * It counts from recurrent_commit_mark() on. */
int recurrent_begin_mark(struct recurrent *r);
void recurrent_commit_mark(struct recurrent *r, int copy, int64_t pos);
/* Adds a spaced checkpoint of the live state when one is due. */
void recurrent_save_spaced(struct recurrent *r);

#endif
