/*
 * recurrent.c - one block of memory for the live state and its checkpoints.
 */
#include "model/recurrent.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { FIRST_STEP = 64, SHARE_OF_WEIGHTS = 32 };

static int64_t conv_floats(const struct hparams *hp)
{
    return (hp->conv_taps - 1) * hparams_conv_channels(hp);
}

static int64_t layer_floats(const struct hparams *hp)
{
    return conv_floats(hp) + hp->v_heads * hp->k_dim * hp->v_dim;
}

static int64_t copy_floats(const struct hparams *hp)
{
    int64_t n = 0;

    if (!hp->arch->delta)
        return 0;
    for (int64_t i = 0; i < hp->n_layers; i++)
        n += hparams_recurrent(hp, i) ? layer_floats(hp) : 0;
    return n;
}

uint64_t recurrent_bytes(const struct hparams *hp, int n_saved)
{
    return (uint64_t)copy_floats(hp) * (uint64_t)(1 + n_saved) * sizeof(float);
}

int recurrent_default_saved(const struct hparams *hp, uint64_t weights_bytes)
{
    uint64_t one = recurrent_bytes(hp, 0);

    if (one == 0)
        return 0;
    uint64_t n = weights_bytes / SHARE_OF_WEIGHTS / one;
    return n < 1 ? 1 : n > RECURRENT_MAX_SAVED ? RECURRENT_MAX_SAVED : (int)n;
}

static void forget_all(struct recurrent *r)
{
    r->pos = 0;
    r->last_mark = 0;
    r->n_spaced = 0;
    r->step = FIRST_STEP;
    for (int i = 0; i < 2; i++)
        r->mark[i] = (struct recurrent_slot){.pos = -1, .copy = 1 + i};
    for (int i = 0; i < RECURRENT_MAX_SAVED; i++)
        r->spaced[i] = (struct recurrent_slot){.pos = -1, .copy = 3 + i};
}

enum b2_status recurrent_init(struct recurrent *r, const struct hparams *hp,
                              int n_saved, struct b2_err *err)
{
    *r = (struct recurrent){.hp = hp, .n_floats = copy_floats(hp)};
    if (r->n_floats == 0)
        return B2_OK;
    r->n_saved = n_saved < 0                     ? 0
                 : n_saved > RECURRENT_MAX_SAVED ? RECURRENT_MAX_SAVED
                                                 : n_saved;
    r->n_marks = r->n_saved < 2 ? r->n_saved : 2;
    forget_all(r);
    /* Fresh pages are zeros, and copies cost nothing until they are written. */
    r->floats = mem_calloc((size_t)recurrent_bytes(hp, r->n_saved), 1);
    return r->floats
               ? B2_OK
               : err_set(err, B2_ENOMEM, "recurrent state: out of memory (%llu bytes)",
                         (unsigned long long)recurrent_bytes(hp, r->n_saved));
}

void recurrent_free(struct recurrent *r)
{
    mem_free(r->floats);
    *r = (struct recurrent){0};
}

static float *copy_at(const struct recurrent *r, int copy)
{
    return r->floats + copy * r->n_floats;
}

struct recurrent_view recurrent_view(const struct recurrent *r, int copy, int64_t layer)
{
    float *at = copy_at(r, copy);

    assert(hparams_recurrent(r->hp, layer));
    for (int64_t i = 0; i < layer; i++)
        at += hparams_recurrent(r->hp, i) ? layer_floats(r->hp) : 0;
    return (struct recurrent_view){at, at + conv_floats(r->hp), layer_floats(r->hp)};
}

static void copy_state(struct recurrent *r, int to, int from)
{
    memcpy(copy_at(r, to), copy_at(r, from), (size_t)r->n_floats * sizeof(float));
}

void recurrent_forget(struct recurrent *r, int64_t pos)
{
    if (r->pos > pos)
        r->pos = -1;
    for (int i = 0; i < r->n_marks; i++)
        if (r->mark[i].pos > pos)
            r->mark[i].pos = -1;
    while (r->n_spaced > 0 && r->spaced[r->n_spaced - 1].pos > pos)
        r->n_spaced--;
}

int64_t recurrent_rewind(struct recurrent *r, int64_t pos)
{
    int64_t best = 0;
    int copy = 0;

    recurrent_forget(r, pos);
    for (int i = 0; i < r->n_marks; i++)
        if (r->mark[i].pos > best) {
            best = r->mark[i].pos;
            copy = r->mark[i].copy;
        }
    if (r->n_spaced > 0 && r->spaced[r->n_spaced - 1].pos > best) {
        best = r->spaced[r->n_spaced - 1].pos;
        copy = r->spaced[r->n_spaced - 1].copy;
    }
    if (r->pos >= best)
        return r->pos;
    if (copy)
        copy_state(r, 0, copy);
    else
        memset(r->floats, 0, (size_t)r->n_floats * sizeof(float));
    r->pos = best;
    return best;
}

/* The place of the next mark: an empty one, that of a passing mark for another, or the
 * older of the two, so that the newest is there until the next one is complete. */
static int place_of_mark(const struct recurrent *r, bool passing)
{
    for (int i = 0; i < r->n_marks; i++)
        if (r->mark[i].pos < 0)
            return i;
    for (int i = 0; i < r->n_marks; i++)
        if (passing && r->mark[i].passing)
            return i;
    return r->n_marks < 2 ? 0 : 1 - r->last_mark;
}

void recurrent_save_mark(struct recurrent *r, bool passing)
{
    if (r->n_marks == 0 || r->pos <= 0)
        return;
    for (int i = 0; i < r->n_marks; i++)
        if (r->mark[i].pos == r->pos) {
            r->mark[i].passing = r->mark[i].passing && passing;
            return;
        }
    int i = place_of_mark(r, passing);
    copy_state(r, r->mark[i].copy, 0);
    r->mark[i].pos = r->pos;
    r->mark[i].passing = passing;
    r->last_mark = i;
}

int recurrent_begin_mark(struct recurrent *r)
{
    if (r->n_marks == 0)
        return 0;
    struct recurrent_slot *s = &r->mark[place_of_mark(r, false)];
    s->pos = -1;
    return s->copy;
}

void recurrent_commit_mark(struct recurrent *r, int copy, int64_t pos)
{
    r->last_mark = copy - 1;
    r->mark[r->last_mark].pos = pos;
    r->mark[r->last_mark].passing = false;
}

/* Takes out those that are nearer than step to the one before; their copies go behind. */
static void thin_out(struct recurrent *r)
{
    int64_t last = 0;
    int n = 0;

    r->step *= 2;
    for (int i = 0; i < r->n_spaced; i++) {
        struct recurrent_slot s = r->spaced[i];
        if (s.pos - last < r->step)
            continue;
        last = s.pos;
        r->spaced[i] = r->spaced[n];
        r->spaced[n++] = s;
    }
    r->n_spaced = n;
}

void recurrent_save_spaced(struct recurrent *r)
{
    int places = r->n_saved - r->n_marks;
    int64_t last = r->n_spaced ? r->spaced[r->n_spaced - 1].pos : 0;

    if (places <= 0 || r->pos - last < r->step)
        return;
    while (r->n_spaced == places)
        thin_out(r);
    last = r->n_spaced ? r->spaced[r->n_spaced - 1].pos : 0;
    if (r->pos - last < r->step)
        return;
    struct recurrent_slot *s = &r->spaced[r->n_spaced++];
    s->pos = r->pos;
    copy_state(r, s->copy, 0);
}
