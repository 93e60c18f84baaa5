/*
 * rollback.c - exchanging structs of weights.
 */
#include "eval/rollback.h"

#include "base/mem.h"
#include "eval/stats.h"
#include "eval/teacher.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The classes of a layer's matrices by their GGUF names, those of a recurrent layer's
 * part behind; one that a model has not is never a part. */
static const struct {
    const char *name;
    bool delta; /* in struct delta_weights */
    size_t offset;
} classes[] = {
    {"attn_q", false, offsetof(struct layer_weights, q)},
    {"attn_k", false, offsetof(struct layer_weights, k)},
    {"attn_v", false, offsetof(struct layer_weights, v)},
    {"attn_output", false, offsetof(struct layer_weights, o)},
    {"ffn_gate", false, offsetof(struct layer_weights, gate)},
    {"ffn_up", false, offsetof(struct layer_weights, up)},
    {"ffn_down", false, offsetof(struct layer_weights, down)},
    {"attn_qkv", true, offsetof(struct delta_weights, qkv)},
    {"attn_gate", true, offsetof(struct delta_weights, z)},
    {"ssm_alpha", true, offsetof(struct delta_weights, alpha)},
    {"ssm_beta", true, offsetof(struct delta_weights, beta)},
    {"ssm_out", true, offsetof(struct delta_weights, out)},
};

enum { NAME_BYTES = 28 };

struct rollback {
    struct model *cand;
    const struct model *base;
    struct layer_weights *own; /* [n_layers] the candidate's */
    struct delta_weights
        *delta; /* [n_layers] recurrent parts with one class exchanged */
    struct weight own_embd, own_head;
    char (*name)[NAME_BYTES];           /* [n_layers + classes] */
    int of_class[countof(classes) + 2]; /* index in classes; -1 embedding, -2 head */
    int64_t n_layers, n_classes;
};

static const struct weight no_weight;

/* The matrix of class c in a layer; an empty one where the layer has none. */
static const struct weight *matrix(const struct layer_weights *l, int c)
{
    const void *base = classes[c].delta ? (const void *)l->delta : l;

    if (!base)
        return &no_weight;
    return (const struct weight *)(const void *)((const char *)base +
                                                 classes[c].offset);
}

static bool same_shape(const struct weight *a, const struct weight *b)
{
    return a->cols == b->cols && a->rows == b->rows && !a->data == !b->data;
}

static enum b2_status compare(const struct model *a, const struct model *b,
                              struct b2_err *err)
{
    bool same = a->hp.n_layers == b->hp.n_layers && a->hp.arch == b->hp.arch &&
                a->tied == b->tied && same_shape(&a->embd, &b->embd);

    for (int64_t i = 0; same && i < a->hp.n_layers; i++)
        for (int c = 0; same && c < (int)countof(classes); c++)
            same = same_shape(matrix(&a->layers[i], c), matrix(&b->layers[i], c));
    if (!same)
        return err_set(err, B2_EARG,
                       "model and baseline differ in layers or shapes: rollback needs "
                       "the same tensors in both");
    return B2_OK;
}

static void add_class(struct rollback *r, const char *name, int which)
{
    snprintf(r->name[r->n_layers + r->n_classes], NAME_BYTES, "%s", name);
    r->of_class[r->n_classes++] = which;
}

static void list_parts(struct rollback *r)
{
    for (int64_t i = 0; i < r->n_layers; i++)
        snprintf(r->name[i], NAME_BYTES, "blk.%lld", (long long)i);
    for (int c = 0; c < (int)countof(classes); c++) {
        bool any = false;
        for (int64_t i = 0; i < r->n_layers; i++)
            any = any || matrix(&r->own[i], c)->data;
        if (any)
            add_class(r, classes[c].name, c);
    }
    add_class(r, "token_embd", -1);
    if (!r->cand->tied)
        add_class(r, "output", -2);
}

enum b2_status rollback_new(struct rollback **out, struct model *candidate,
                            const struct model *baseline, struct b2_err *err)
{
    size_t n = (size_t)candidate->hp.n_layers;
    struct rollback *r;
    enum b2_status rc = compare(candidate, baseline, err);

    if (rc)
        return rc;
    r = mem_calloc(1, sizeof *r);
    if (!r)
        return err_set(err, B2_ENOMEM, "out of memory");
    *r = (struct rollback){.cand = candidate,
                           .base = baseline,
                           .n_layers = candidate->hp.n_layers,
                           .own_embd = candidate->embd,
                           .own_head = candidate->head};
    r->own = mem_dup(candidate->layers, n * sizeof *r->own);
    r->delta = mem_calloc(n, sizeof *r->delta);
    r->name = mem_calloc(n + countof(classes) + 2, NAME_BYTES);
    if (!r->own || !r->delta || !r->name) {
        mem_free(r->own);
        mem_free(r->delta);
        mem_free(r->name);
        mem_free(r);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    list_parts(r);
    *out = r;
    return B2_OK;
}

void rollback_free(struct rollback *r)
{
    if (!r)
        return;
    rollback_set(r, -1);
    mem_free(r->own);
    mem_free(r->delta);
    mem_free(r->name);
    mem_free(r);
}

int64_t rollback_layers(const struct rollback *r)
{
    return r->n_layers;
}

int64_t rollback_classes(const struct rollback *r)
{
    return r->n_classes;
}

const char *rollback_name(const struct rollback *r, int64_t part)
{
    return r->name[part];
}

static int64_t more(const struct weight *base, const struct weight *own)
{
    return (int64_t)weight_bytes(base) - (int64_t)weight_bytes(own);
}

static int64_t more_bytes(const struct rollback *r, int64_t layer, int c)
{
    return more(matrix(&r->base->layers[layer], c), matrix(&r->own[layer], c));
}

int64_t rollback_bytes(const struct rollback *r, int64_t part)
{
    int64_t sum = 0;

    if (part < r->n_layers) {
        for (int c = 0; c < (int)countof(classes); c++)
            sum += more_bytes(r, part, c);
        return sum;
    }
    int which = r->of_class[part - r->n_layers];
    if (which == -1)
        return more(&r->base->embd, &r->own_embd);
    if (which == -2)
        return more(&r->base->head, &r->own_head);
    for (int64_t i = 0; i < r->n_layers; i++)
        sum += more_bytes(r, i, which);
    return sum;
}

/* Puts the baseline's matrix of class c into layer i. */
static void exchange(struct rollback *r, int64_t i, int c)
{
    struct layer_weights *l = &r->cand->layers[i];
    void *base = l;

    if (classes[c].delta) {
        if (!l->delta)
            return;
        r->delta[i] = *l->delta;
        l->delta = &r->delta[i];
        base = &r->delta[i];
    }
    *(struct weight *)(void *)((char *)base + classes[c].offset) =
        *matrix(&r->base->layers[i], c);
}

void rollback_set(struct rollback *r, int64_t part)
{
    struct model *m = r->cand;

    memcpy(m->layers, r->own, (size_t)r->n_layers * sizeof *r->own);
    m->embd = r->own_embd;
    m->head = r->own_head;
    if (part < 0)
        return;
    if (part < r->n_layers) {
        m->layers[part] = r->base->layers[part];
        return;
    }
    int which = r->of_class[part - r->n_layers];
    for (int64_t i = 0; i < r->n_layers && which >= 0; i++)
        exchange(r, i, which);
    if (which == -1)
        m->embd = r->base->embd;
    if (which == -2 || (which == -1 && m->tied))
        m->head = r->base->head;
}

/* ---- divergence from rows in memory ---- */

struct rollback_text {
    const struct textset *set;
    int64_t k, vocab, n;
    uint8_t *block;   /* one block with all rows */
    int32_t *scratch; /* [k] */
    int64_t *first;   /* [n_windows] row where a window begins */
};

void rollback_text_free(struct rollback_text *t)
{
    if (!t)
        return;
    mem_free(t->block);
    mem_free(t->scratch);
    mem_free(t->first);
    mem_free(t);
}

static enum b2_status keep_logits(void *ctx, const float *x, const struct logprob *b,
                                  int32_t target, struct b2_err *err)
{
    struct rollback_text *t = ctx;

    (void)err;
    teacher_put_row(t->block + 4 + (size_t)t->n++ * teacher_row_bytes(t->k), x,
                    t->vocab, b, target, t->k, t->scratch);
    return B2_OK;
}

enum b2_status rollback_text_new(struct rollback_text **out, const struct textset *set,
                                 struct session *base, int64_t k, struct progress *pr,
                                 struct b2_err *err)
{
    struct rollback_text *t = mem_calloc(1, sizeof *t);
    struct divergence_walk w = {
        .base = base, .on_logits = keep_logits, .ctx = t, .text = set, .pr = pr};
    enum b2_status rc;
    int64_t at = 0;

    if (!t)
        return err_set(err, B2_ENOMEM, "out of memory");
    t->set = set;
    t->vocab = session_model(base)->hp.vocab;
    t->k = min_i64(k, t->vocab);
    t->block = mem_calloc(teacher_block_bytes(t->k, set->n_scored), 1);
    t->scratch = mem_calloc((size_t)t->k, sizeof *t->scratch);
    t->first = mem_calloc((size_t)set->n_windows, sizeof *t->first);
    if (!t->block || !t->scratch || !t->first) {
        rollback_text_free(t);
        return err_set(err, B2_ENOMEM, "out of memory for the baseline's predictions");
    }
    for (int64_t i = 0; i < set->n_windows; i++) {
        t->first[i] = at;
        at += set->win[i].score_to - set->win[i].score_from;
    }
    rc = divergence_run(&w, err);
    if (rc) {
        rollback_text_free(t);
        return rc;
    }
    *out = t;
    return B2_OK;
}

struct kld_walk {
    const struct rollback_text *t;
    struct stats kld;
};

static enum b2_status stored(void *ctx, struct teacher_row *out, int64_t window,
                             int64_t row, struct b2_err *err)
{
    const struct kld_walk *w = ctx;

    return teacher_get_row(out, w->t->block, w->t->k, w->t->first[window] + row,
                           w->t->vocab, err);
}

static void add_row(void *ctx, const struct divergence_row *row)
{
    struct kld_walk *w = ctx;

    stats_add(&w->kld, row->kld);
}

enum b2_status rollback_text_kld(double *out, const struct rollback_text *t,
                                 struct session *cand, struct b2_err *err)
{
    struct kld_walk k = {.t = t};
    struct divergence_walk w = {
        .cand = cand, .stored = stored, .on_row = add_row, .ctx = &k, .text = t->set};
    enum b2_status rc;

    session_rewind(cand, 0); /* the weights behind the cache may be others now */
    rc = divergence_run(&w, err);
    *out = k.kld.mean;
    return rc;
}
