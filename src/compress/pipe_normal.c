/*
 * pipe_normal.c - the round stage with error compensation: layers in order.
 *
 * A layer's bytes depend on all layers before it. After an interruption the streams walk
 * through the finished layers again, with the weights as the pieces hold them, and are
 * then where they were.
 */
#include "compress/pipeline_int.h"
#include "compress/tiers.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { MAX_MAPS = 64, KERNELS_MAX = 4096 };

/* The maps of finished pieces while something reads them. */
struct pieces_open {
    struct pipeline *pl;
    int64_t index[MAX_MAPS];
    struct file_map map[MAX_MAPS];
    int n;
};

static void close_pieces(struct pieces_open *o)
{
    for (int i = 0; i < o->n; i++)
        file_unmap(&o->map[i]);
    o->n = 0;
}

static enum b2_status open_pieces(struct pieces_open *o, int64_t layer,
                                  struct b2_err *err)
{
    struct pipeline *pl = o->pl;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < pl->n_pieces && !rc; i++) {
        if (pl->c.item[pl->piece[i].begin].layer != layer)
            continue;
        if (o->n == MAX_MAPS)
            return err_set(err, B2_EUNSUP, "layer %lld lies in more than %d pieces",
                           (long long)layer, MAX_MAPS);
        rc = work_piece_map(pl->work, i, pl->piece[i].payload, &o->map[o->n], err);
        o->index[o->n++] = i;
    }
    return rc;
}

/* The bytes of a tensor in the open pieces; NULL: not among them. */
static const uint8_t *piece_bytes(void *ctx, int64_t item)
{
    const struct pieces_open *o = ctx;

    for (int i = 0; i < o->n; i++) {
        const struct piece *pc = &o->pl->piece[o->index[i]];
        uint64_t at = 0;
        if (item < pc->begin || item >= pc->end)
            continue;
        for (int64_t k = pc->begin; k < item; k++)
            at += choose_picked(&o->pl->c.item[k])->n_bytes;
        return o->map[i].data + at;
    }
    return NULL;
}

static bool layer_done(const struct pipeline *pl, int64_t layer)
{
    for (int64_t i = 0; i < pl->n_pieces; i++)
        if (pl->c.item[pl->piece[i].begin].layer == layer && !pl->piece[i].done)
            return false;
    return true;
}

/* A layer that an earlier run finished. */
static enum b2_status replay_layer(struct pipeline *pl, int64_t layer,
                                   struct b2_err *err)
{
    struct pieces_open o = {.pl = pl};
    enum b2_status rc = open_pieces(&o, layer, err);

    if (!rc)
        rc = normal_replay(pl->normal, layer, piece_bytes, &o, err);
    close_pieces(&o);
    return rc;
}

static enum b2_status make_layer(struct pipeline *pl, int64_t layer, uint64_t *n_done,
                                 struct b2_err *err)
{
    const struct scan_env *env = &pl->p->env;
    enum b2_status rc = B2_OK;

    if (layer < choose_layers(&pl->c))
        rc = normal_layer(pl->normal, layer, env->cancelled, env->ctx, err);

    for (int64_t i = 0; i < pl->n_pieces && !rc; i++)
        if (pl->c.item[pl->piece[i].begin].layer == layer && !pl->piece[i].done)
            rc = pipeline_round_piece(pl, i, n_done, err);
    return rc;
}

static enum b2_status run_layers(struct pipeline *pl, uint64_t *n_done,
                                 struct b2_err *err)
{
    int64_t n = choose_layers(&pl->c), made = 0;
    double start_s = clock_s();
    enum b2_status rc = B2_OK;

    for (int64_t layer = 0; layer < n && !rc; layer++) {
        if (layer_done(pl, layer)) {
            rc = replay_layer(pl, layer, err);
            if (layer + 1 == n && !rc)
                pl->kld = normal_divergence(pl->normal);
            start_s = clock_s(); /* replayed layers say nothing of the others' time */
            continue;
        }
        rc = make_layer(pl, layer, n_done, err);
        if (rc)
            break;
        pl->kld = normal_divergence(pl->normal);
        double each = (clock_s() - start_s) / (double)++made;
        log_line(
            pl->p->log, LOG_INFO,
            "layer %lld of %lld: kld %.4f on the probe, %.1f s a layer, %.0f s left",
            (long long)layer + 1, (long long)n, pl->kld, each,
            each * (double)(n - 1 - layer));
        progress_update(pl->p->env.progress, *n_done, pl->kld);
    }
    for (int64_t layer = n; layer < pl->c.n_layers && !rc; layer++)
        rc = layer_done(pl, layer) ? B2_OK : make_layer(pl, layer, n_done, err);
    return rc;
}

/* The compressed table of tokens, when it is not the source's. */
struct table {
    struct weight w;
    struct weight_tiers tiers;
    int32_t *list;
    bool found;
};

static enum b2_status find_table(struct pieces_open *o, struct table *t,
                                 struct b2_err *err)
{
    struct pipeline *pl = o->pl;
    enum b2_status rc = B2_OK;

    for (int64_t k = 0; k < pl->c.n; k++) {
        const struct choose_item *it = &pl->c.item[k];
        const struct choose_candidate *cand = choose_picked(it);
        if (it->role != ROLE_EMBED || cand->copy)
            continue;
        rc = open_pieces(o, it->layer, err);
        if (rc)
            return rc;
        const uint8_t *bytes = piece_bytes(o, k);
        t->list = cand->n_hot ? mem_calloc((size_t)tensor_rows(it->t), sizeof *t->list)
                              : NULL;
        if (cand->n_hot && !t->list)
            return err_set(err, B2_ENOMEM, "table of tokens: out of memory");
        if (cand->n_hot)
            tiers_list(&pl->c, cand, tensor_rows(it->t), t->list);
        t->found = bytes != NULL;
        if (t->found)
            t->w = tiers_weight(it, cand, bytes, &t->tiers, t->list);
    }
    return rc;
}

/* Says so when finished layers are of other kernels than ours: the same bytes are promised
 * for one kind of processor. What made them lies beside the pieces, in the file kernels. */
static enum b2_status note_kernels(struct pipeline *pl, struct b2_err *err)
{
    const char *own = normal_core(pl->normal);
    struct str path = {0};
    char *old = NULL;
    size_t n = 0;
    enum b2_status rc = B2_OK;

    str_printf(&path, "%s/kernels", work_dir(pl->work));
    if (!str_ok(&path))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    bool there = !rc && pl->n_resumed > 0 && file_exists(path.data);
    if (there)
        rc = file_read_all(&old, &n, path.data, KERNELS_MAX, err);
    if (!rc && there && strcmp(old, own) != 0)
        log_line(
            pl->p->log, LOG_WARN,
            "finished layers were made with OpenBLAS's %s kernels, the others come "
            "from its %s kernels: the bytes may differ from those of a run on one "
            "processor",
            old, own);
    if (!rc && !there)
        rc = file_write_all(path.data, own, strlen(own), true, err);
    mem_free(old);
    str_free(&path);
    return rc;
}

enum b2_status pipeline_compensate(struct pipeline *pl, uint64_t *n_done,
                                   struct b2_err *err)
{
    struct pieces_open pieces = {.pl = pl};
    struct table table = {0};
    enum b2_status rc = find_table(&pieces, &table, err);
    const struct normal_params np = {
        .source = pl->p->source,
        .c = &pl->c,
        .recipe = &pl->recipe,
        .calib = &pl->calib,
        .embd = table.found ? &table.w : NULL,
        .pool = pl->p->env.pool,
        .mem_limit = pl->p->mem_limit,
        .log = pl->p->log,
    };

    if (!rc)
        rc = normal_new(&pl->normal, &np, err);
    close_pieces(&pieces);
    mem_free(table.list);
    if (!rc) {
        log_line(pl->p->log, LOG_DEBUG, "products by OpenBLAS, %s kernels",
                 normal_core(pl->normal));
        rc = note_kernels(pl, err);
    }
    if (!rc)
        rc = run_layers(pl, n_done, err);
    normal_free(pl->normal);
    pl->normal = NULL;
    return rc;
}
