/*
 * distill_state.c - the checkpoint: one file that appears whole.
 *
 *   "B2DISTL3", u64 length of the recipe, the recipe, struct distill_state, the curve,
 *   the best state, then u, its moments, log scales, their moments of every trained matrix
 *   and the norms with theirs; at the end the SHA-256 of all that in hex.
 *
 * Numbers lie in the machine's order: a checkpoint belongs to the machine that made it.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "compress/distill_int.h"
#include "format/hash.h"

#include <string.h>

static const char magic[] = "B2DISTL3";
/* A checkpoint is as large as what it fills: what is read is given back at once. */
enum { MAGIC = 8, DROP_BYTES = 4 << 20 };

/* One piece of the file after the other: both directions walk the same list. */
struct walk {
    struct file_out *out; /* writing */
    struct hash *hash;
    struct rd in; /* reading */
    const struct file_map *map;
    uint64_t dropped; /* bytes of the map that are given back */
    struct b2_err *err;
    enum b2_status rc;
};

static void bytes(struct walk *w, void *p, uint64_t n)
{
    if (w->rc)
        return;
    if (!w->out) {
        const uint8_t *src = rd_bytes(&w->in, n);
        if (!src) {
            w->rc = err_set(w->err, B2_ETRUNC, "ends too early");
            return;
        }
        memcpy(p, src, (size_t)n);
        if (w->in.pos - w->dropped > DROP_BYTES) {
            file_map_drop(w->map, w->dropped, w->in.pos - w->dropped);
            w->dropped = w->in.pos;
        }
        return;
    }
    w->rc = file_out_write(w->out, p, (size_t)n, w->err);
    if (!w->rc)
        w->rc = hash_add(w->hash, p, (size_t)n, w->err);
}

static void moved(struct walk *w, const struct param *p)
{
    const uint64_t n = (uint64_t)p->n * sizeof(float);

    bytes(w, p->p, n);
    bytes(w, p->m, n);
    bytes(w, p->v, n);
}

static void moved_param(struct distill *d, const struct param *p, void *ctx)
{
    (void)d;
    moved(ctx, p);
}

/* In pieces, so that it need not lie in memory as a whole. */
static void best_state(struct walk *w, const struct distill *d)
{
    for (uint64_t at = 0; at < d->best_bytes && !w->rc; at += DROP_BYTES) {
        const uint64_t left = d->best_bytes - at;
        bytes(w, d->best + at, left < DROP_BYTES ? left : DROP_BYTES);
        distill_rest_best(d, at + (left < DROP_BYTES ? left : DROP_BYTES));
    }
}

/* All that follows the recipe. The curve's place grows before it is read. */
static void body(struct walk *w, struct distill *d)
{
    bytes(w, &d->st, sizeof d->st);
    if (!w->rc && !w->out) {
        const uint64_t n = (uint64_t)d->st.n_points;
        void *more = n <= w->in.size / sizeof *d->r->curve
                         ? mem_realloc(d->r->curve, (size_t)n + 1, sizeof *d->r->curve)
                         : NULL;
        if (!more) {
            w->rc = err_set(w->err, B2_EFORMAT, "a curve of %llu points",
                            (unsigned long long)n);
            return;
        }
        d->r->curve = more;
    }
    bytes(w, d->r->curve, (uint64_t)d->st.n_points * sizeof *d->r->curve);
    best_state(w, d);
    distill_each(d, moved_param, w);
}

enum b2_status distill_save(struct distill *d, struct b2_err *err)
{
    struct walk w = {.err = err};
    char head[MAGIC + 1], hex[HASH_HEX];
    uint64_t len = d->recipe.len;

    memcpy(head, magic, sizeof head);
    w.rc = file_out_open(&w.out, d->state_path, true, err);
    if (!w.rc)
        w.rc = hash_new(&w.hash, err);
    bytes(&w, head, MAGIC);
    bytes(&w, &len, sizeof len);
    bytes(&w, d->recipe.data, len);
    body(&w, d);
    if (!w.rc)
        w.rc = hash_hex(w.hash, hex, err);
    hash_free(w.hash);
    if (!w.rc)
        w.rc = file_out_write(w.out, hex, HASH_HEX - 1, err);
    if (w.rc) {
        file_out_abort(w.out);
        return w.rc;
    }
    return file_out_commit(w.out, err);
}

static enum b2_status check_head(const struct distill *d, struct walk *w)
{
    const uint8_t *head = rd_bytes(&w->in, MAGIC), *recipe;
    uint64_t len = 0;

    if (!head || memcmp(head, magic, MAGIC) != 0)
        return err_set(w->err, B2_EFORMAT, "is no state of a distillation");
    bytes(w, &len, sizeof len);
    recipe = w->rc ? NULL : rd_bytes(&w->in, len);
    if (!recipe)
        return err_set(w->err, B2_ETRUNC, "ends too early");
    if (len != d->recipe.len || memcmp(recipe, d->recipe.data, (size_t)len) != 0)
        return err_set(w->err, B2_EARG,
                       "belongs to a run with other settings, models or texts; --force "
                       "throws it away");
    return B2_OK;
}

/* SHA-256 of the first n bytes. */
static enum b2_status hash_map(char *hex, const struct file_map *map, size_t n,
                               struct b2_err *err)
{
    struct hash *h = NULL;
    enum b2_status rc = hash_new(&h, err);

    for (size_t at = 0; at < n && !rc; at += DROP_BYTES) {
        const size_t part = n - at < DROP_BYTES ? n - at : DROP_BYTES;
        rc = hash_add(h, map->data + at, part, err);
        file_map_drop(map, at, part);
    }
    if (!rc)
        rc = hash_hex(h, hex, err);
    hash_free(h);
    return rc;
}

/* What the steps to come rely on. The checksum says that a file is as it was written, not
 * by whom. */
static enum b2_status check_state(const struct distill *d, const struct walk *w)
{
    const struct distill_state *st = &d->st;
    const bool counts = st->step >= 0 && st->step <= d->p->steps && st->n_points > 0 &&
                        st->adam_step >= 0 && st->adam_step <= st->step;
    const bool rates = st->rate_share > 0 && st->rate_share <= 1 && st->n_hard >= 0;

    if (counts && rates && memchr(st->core, 0, sizeof st->core) &&
        w->in.pos == w->in.size)
        return B2_OK;
    return err_set(w->err, B2_EFORMAT,
                   "its numbers contradict each other; --force starts again");
}

enum b2_status distill_load(struct distill *d, struct b2_err *err)
{
    struct file_map map = {0};
    char hex[HASH_HEX];
    struct walk w = {.err = err, .map = &map};

    w.rc = file_map(&map, d->state_path, err);
    if (w.rc)
        return w.rc;
    if (map.size < MAGIC + HASH_HEX)
        w.rc = err_set(err, B2_ETRUNC, "ends too early");
    const size_t n = w.rc ? 0 : map.size - (HASH_HEX - 1);
    w.in = rd_make(map.data, n);
    if (!w.rc)
        w.rc = check_head(d, &w);
    if (!w.rc)
        w.rc = hash_map(hex, &map, n, err);
    if (!w.rc && memcmp(hex, map.data + n, HASH_HEX - 1) != 0)
        w.rc = err_set(err, B2_EFORMAT, "its checksum is wrong; --force starts again");
    body(&w, d);
    if (!w.rc)
        w.rc = check_state(d, &w);
    file_unmap(&map);
    if (w.rc)
        err_wrap(err, "%s", d->state_path);
    netmodel_moved(&d->s);
    return w.rc;
}

/* What the result depends on, as JSON. */
enum b2_status distill_make_recipe(struct distill *d, struct b2_err *err)
{
    const struct distill_params *p = d->p;
    char teacher[65] = {0}, student[65] = {0}, original[65] = {0};
    enum b2_status rc = modelfile_sha256(d->tm->mf, teacher, err);

    if (!rc)
        rc = modelfile_sha256(d->sm->mf, student, err);
    if (!rc && d->om != d->tm)
        rc = modelfile_sha256(d->om->mf, original, err);
    if (rc)
        return rc;
    str_printf(
        &d->recipe,
        "{\"teacher_sha256\":\"%s\",\"student_sha256\":\"%s\",\"temperature\":%.9g,"
        "\"steps\":%lld,\"batch\":%lld,\"micro\":%lld,"
        "\"ctx\":%lld,\"eval_every\":%lld,\"patience\":%lld,\"rate_latent\":%.9g,"
        "\"rate_scale\":%.9g,\"rate_norm\":%.9g,\"schedule\":\"%s\",\"warmup\":%lld,"
        "\"floor\":%.9g,\"clip\":%.9g,\"seed\":%llu",
        teacher, student, p->temperature, (long long)p->steps, (long long)p->batch,
        (long long)p->micro, (long long)p->ctx, (long long)p->eval_every,
        (long long)p->patience, p->rates.latent, p->rates.scale, p->rates.norm,
        p->schedule.kind == SCHEDULE_WSD ? "wsd" : "cosine",
        (long long)p->schedule.warmup, p->schedule.floor, p->clip,
        (unsigned long long)p->seed);
    str_printf(&d->recipe, ",\"teacher_k\":%lld",
               (long long)(p->teacher_cache ? p->teacher_k : 0)); /* 0: all */
    if (d->om != d->tm)
        str_printf(&d->recipe, ",\"original_sha256\":\"%s\"", original);
    if (p->gemm != DISTILL_AUTO)
        str_printf(&d->recipe, ",\"gemm\":\"%s\"",
                   p->gemm == DISTILL_BF16 ? "bf16" : "f32");
    distill_loss_json(&p->loss, &d->recipe);
    distill_modes_json(&p->mode, &d->recipe);
    str_put(&d->recipe, ",\"held\":[");
    for (int i = 0; i < d->r->n_regions; i++)
        str_printf(&d->recipe, "%s%lld", i ? "," : "", (long long)d->r->region[i].seqs);
    str_put(&d->recipe, "],\"data\":");
    calib_json(&d->train, &d->recipe);
    str_put(&d->recipe, "}");
    return str_ok(&d->recipe) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

enum b2_status distill_open_state(struct distill *d, struct b2_err *err)
{
    struct str path = {0}, lock = {0};
    enum b2_status rc = B2_OK;

    d->lock = -1;
    str_printf(&path, "%s.b2distill", d->p->output ? d->p->output : "");
    str_printf(&lock, "%s.b2distill.lock", d->p->output ? d->p->output : "");
    if (!str_ok(&path) || !str_ok(&lock))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (!rc && !d->p->dry_run)
        rc = file_lock(&d->lock, lock.data, err);
    if (rc == B2_EEXIST)
        rc = err_set(err, B2_EEXIST, "%s is being written by another `bonsai2 distill`",
                     d->p->output);
    d->state_path = path.data;
    d->lock_path = lock.data;
    return rc;
}

void distill_close_state(struct distill *d)
{
    struct b2_err err = {0};

    if (d->lock >= 0) {
        /* while it is held: nobody waits for it; one that stays does no harm */
        if (file_remove(d->lock_path, &err))
            log_line(d->p->log, LOG_DEBUG, "%s", err.msg);
        file_unlock(d->lock);
    }
    mem_free(d->state_path);
    mem_free(d->lock_path);
}
