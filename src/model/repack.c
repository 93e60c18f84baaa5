/*
 * repack.c - which matrices are repacked in which form, and the memory for it.
 */
#include "model/repack.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/settle.h"

enum { LAYER_MATRICES = 12, PIECE_BYTES = 4 << 20 };

/* A matrix and what becomes of it. */
struct repack_item {
    struct weight *w;
    bool chosen;
    enum repack_form form;
};

struct repack_job {
    struct model *m;
    struct backend *be;
    const struct repack_params *p;
    struct repack_item *item; /* [n] in the order in which a token meets them */
    int64_t n, n_chosen, n_2bits;
    uint64_t before, after; /* bytes of the chosen ones */
};

static void add_item(struct repack_job *j, struct weight *w)
{
    if (w->rows > 0)
        j->item[j->n++] = (struct repack_item){.w = w};
}

static void list_layer(struct repack_job *j, struct layer_weights *l)
{
    /* The binder made it in m's arena; only sessions see it as constant. */
    struct delta_weights *d = (struct delta_weights *)(uintptr_t)l->delta;
    struct weight *const all[] = {&l->q,
                                  &l->k,
                                  &l->v,
                                  d ? &d->qkv : NULL,
                                  d ? &d->z : NULL,
                                  d ? &d->alpha : NULL,
                                  d ? &d->beta : NULL,
                                  d ? &d->out : NULL,
                                  &l->o,
                                  &l->gate,
                                  &l->up,
                                  &l->down};

    _Static_assert(countof(all) == LAYER_MATRICES, "room for a layer");
    for (size_t i = 0; i < countof(all); i++)
        if (all[i])
            add_item(j, all[i]);
}

/* Copies that were made of a matrix stay, so only mapped ones are worth it. */
static bool can(const struct repack_job *j, const struct weight *w,
                enum repack_form form)
{
    return modelfile_load_bytes(j->m->mf, modelfile_find(j->m->mf, w->name)) == 0 &&
           backend_can_repack(j->be, w, form);
}

static void choose_same(struct repack_job *j)
{
    for (int64_t i = 0; i < j->n; i++) {
        struct repack_item *it = &j->item[i];
        it->form = can(j, it->w, REPACK_TRITS) ? REPACK_TRITS : REPACK_2BITS;
        it->chosen = can(j, it->w, it->form);
        if (!it->chosen)
            continue;
        j->n_chosen++;
        j->n_2bits += it->form == REPACK_2BITS;
        j->before += weight_bytes(it->w);
        j->after += backend_repack_bytes(it->w, it->form);
    }
}

/* Base-3 matrices to 2 bits while the sum stays within limit. */
static void choose_fast(struct repack_job *j, uint64_t limit)
{
    for (int64_t i = 0; i < j->n; i++) {
        struct repack_item *it = &j->item[i];
        if (!it->chosen || it->form == REPACK_2BITS || !can(j, it->w, REPACK_2BITS))
            continue;
        uint64_t after = j->after - backend_repack_bytes(it->w, REPACK_TRITS) +
                         backend_repack_bytes(it->w, REPACK_2BITS);
        if (after > limit)
            return;
        it->form = REPACK_2BITS;
        j->after = after;
        j->n_2bits++;
    }
}

/* What the repacked matrices may take: what is there less what all else needs. */
static enum b2_status room_for(uint64_t *out, const struct repack_job *j,
                               struct b2_err *err)
{
    const struct session_params *sp = j->p->session;
    struct session_params quiet = *sp;
    struct cache_params cp = {0};
    struct plan plan = {0};
    enum b2_status rc;

    quiet.log = NULL; /* the session says it when it settles */
    rc = settle_choose(&cp, j->m, j->be, &quiet, err);
    if (rc == B2_OK)
        rc = plan_make(&plan, j->m, j->be, &cp, err);
    if (rc)
        return rc;
    uint64_t available = settle_available(j->m, sp->mem_limit);
    uint64_t others = plan.total_bytes - j->before;
    *out = available > others ? available - others : 0;
    if (sp->mem_limit == 0 || j->p->plan_only || j->after <= *out)
        return B2_OK;
    return err_set(err, B2_ENOMEM,
                   "repacked weights need %llu bytes, and a context of %lld %llu more, "
                   "over the limit of %llu: without --repack, or with a smaller --ctx, "
                   "it needs less",
                   (unsigned long long)j->after, (long long)cp.ctx,
                   (unsigned long long)others, (unsigned long long)sp->mem_limit);
}

/* A piece at a time: pages of the file that were read are given back at once. */
static void repack_item(struct repack_job *j, const struct repack_item *it,
                        uint8_t *sets, uint64_t *done)
{
    struct weight *w = it->w;
    int64_t step = max_i64(PIECE_BYTES / (int64_t)w->row_bytes / 16 * 16, 16);

    for (int64_t r = 0; r < w->rows; r += step) {
        int64_t n = min_i64(step, w->rows - r);
        backend_repack(j->be, sets, w, it->form, r, n);
        uint64_t bytes = (uint64_t)n * w->row_bytes;
        modelfile_drop(j->m->mf, w->data + (uint64_t)r * w->row_bytes, bytes);
        *done += bytes;
        progress_update(j->p->progress, *done, 0);
    }
    w->sets = sets;
    w->form = it->form;
}

static enum b2_status repack_all(struct repack_job *j, struct b2_err *err)
{
    uint8_t *sets = mem_huge((size_t)j->after);
    uint64_t done = 0;

    if (!sets)
        return err_set(err, B2_ENOMEM, "out of memory: %llu bytes of repacked weights",
                       (unsigned long long)j->after);
    if (j->p->progress)
        j->p->progress->total = j->before;
    j->m->repacked = sets;
    for (int64_t i = 0; i < j->n; i++)
        if (j->item[i].chosen) {
            repack_item(j, &j->item[i], sets, &done);
            sets += backend_repack_bytes(j->item[i].w, j->item[i].form);
        }
    return B2_OK;
}

static enum b2_status nothing(const struct repack_job *j, struct b2_err *err)
{
    const struct log *log = j->p->session->log;
    const char *why = backend_is_exact(j->be)
                          ? "--exact decodes the weights of the file"
                          : "the model has no matrices, or this processor no "
                            "kernels, that would gain from it";

    if (log && log->strict)
        return err_set(err, B2_EUNSUP, "nothing to repack: %s (--strict)", why);
    log_line(log, LOG_WARN, "nothing is repacked: %s", why);
    return B2_OK;
}

static enum b2_status choose_and_repack(struct repack_job *j, struct b2_err *err)
{
    const struct log *log = j->p->session->log;
    uint64_t room = 0;
    double begin = clock_s();
    enum b2_status rc;

    choose_same(j);
    if (j->n_chosen == 0)
        return nothing(j, err);
    rc = room_for(&room, j, err);
    if (rc)
        return rc;
    if (j->p->mode == REPACK_FAST)
        choose_fast(j, room);
    if (!j->p->plan_only)
        rc = repack_all(j, err);
    if (rc)
        return rc;
    j->m->repacked_bytes = j->after;
    j->m->weights_bytes += j->after - j->before;
    for (int64_t i = 0; i < j->n; i++)
        if (j->item[i].chosen)
            j->m->type_bytes[j->item[i].w->type] -= weight_bytes(j->item[i].w);
    if (j->m->repacked) {
        j->m->copy_bytes += j->after;
        log_line(
            log, LOG_INFO,
            "%lld matrices are repacked, %lld of them in 2 bits: %.0f MB of memory "
            "for %.0f MB of the file, in %.1f s",
            (long long)j->n_chosen, (long long)j->n_2bits, (double)j->after * 1e-6,
            (double)j->before * 1e-6, clock_s() - begin);
    }
    return B2_OK;
}

enum b2_status model_repack(struct model *m, struct backend *be,
                            const struct repack_params *p, struct b2_err *err)
{
    struct repack_job j = {.m = m, .be = be, .p = p};
    enum b2_status rc;

    if (p->mode == REPACK_OFF || m->repacked)
        return B2_OK;
    j.item = mem_calloc((size_t)(LAYER_MATRICES * m->hp.n_layers + 2), sizeof *j.item);
    if (!j.item)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < m->hp.n_layers; i++)
        list_layer(&j, &m->layers[i]);
    if (m->head.tiers) {
        add_item(&j, &m->head.tiers->hot);
        add_item(&j, &m->head.tiers->rare);
    } else {
        add_item(&j, &m->head);
    }
    rc = choose_and_repack(&j, err);
    mem_free(j.item);
    return rc;
}
