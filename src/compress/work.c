/*
 * work.c - lock, state, pieces.
 *
 * A piece: payload, then per tensor six 64-bit little-endian numbers (struct fit_stat),
 * then the SHA-256 of the state in hex, then the SHA-256 of everything before in hex.
 */
#include "compress/work.h"

#include "base/mem.h"
#include "base/reader.h"
#include "base/str.h"
#include "format/hash.h"

#include <string.h>

enum { HEX = HASH_HEX - 1, STAT_BYTES = 48, MAX_STATE = 64 << 20 };

struct work {
    char *final_path; /* the output's name */
    struct str dir, tmp, output, scratch;
    char state_hex[HASH_HEX];
    int lock; /* -1: not held */
    int64_t piece;
    struct file_out *file; /* of the piece being written */
    struct hash *hash;
};

/* scratch = dir/NNNNN.piece, or the same under tmp/. */
static const char *piece_path(struct str *out, const struct str *dir, int64_t i)
{
    str_clear(out);
    str_printf(out, "%s/%05lld.piece", dir->data, (long long)i);
    return out->data;
}

static enum b2_status make_paths(struct work *w, const char *path, struct b2_err *err)
{
    w->final_path = mem_strdup(path);
    str_printf(&w->dir, "%s.b2work", path);
    str_printf(&w->tmp, "%s/tmp", w->dir.data ? w->dir.data : "");
    str_printf(&w->output, "%s/output.gguf", w->tmp.data ? w->tmp.data : "");
    str_printf(&w->scratch, "%s/lock", w->dir.data ? w->dir.data : "");
    if (!w->final_path || !str_ok(&w->dir) || !str_ok(&w->tmp) || !str_ok(&w->output) ||
        !str_ok(&w->scratch))
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    return B2_OK;
}

/* Compares the state on disk with ours. *same: it is there and equal; *other: it is
 * there and differs. */
static enum b2_status compare_state(struct work *w, const char *state, bool *same,
                                    bool *other, struct b2_err *err)
{
    char *old = NULL;
    size_t size = 0;

    *same = *other = false;
    str_clear(&w->scratch);
    str_printf(&w->scratch, "%s/state.json", w->dir.data);
    if (!str_ok(&w->scratch))
        return err_set(err, B2_ENOMEM, "out of memory");
    if (!file_exists(w->scratch.data))
        return B2_OK;
    enum b2_status rc = file_read_all(&old, &size, w->scratch.data, MAX_STATE, err);
    if (rc)
        return rc;
    *same = size == strlen(state) && memcmp(old, state, size) == 0;
    *other = !*same;
    mem_free(old);
    return B2_OK;
}

/* Throws the whole folder away, the lock file too, and takes the lock again. */
static enum b2_status start_over(struct work *w, struct b2_err *err)
{
    file_unlock(w->lock);
    w->lock = -1;
    enum b2_status rc = file_remove_tree(w->dir.data, err);
    if (!rc)
        rc = file_make_dir(w->dir.data, err);
    str_clear(&w->scratch);
    str_printf(&w->scratch, "%s/lock", w->dir.data);
    if (!rc)
        rc = file_lock(&w->lock, w->scratch.data, err);
    return rc;
}

static enum b2_status adopt_state(struct work *w, const char *state, bool force,
                                  const struct log *log, struct b2_err *err)
{
    bool same, other;
    enum b2_status rc = compare_state(w, state, &same, &other, err);

    if (rc)
        return rc;
    bool empty = other && !file_exists(piece_path(&w->scratch, &w->dir, 0));
    if (other && !empty && !force)
        return err_set(
            err, B2_EEXIST,
            "%s holds an unfinished run of another recipe, source or program "
            "version; run that recipe again to finish it, or give --force to "
            "throw it away",
            w->dir.data);
    if (other) {
        if (!empty)
            log_line(log, LOG_WARN, "%s: unfinished run of another recipe thrown away",
                     w->dir.data);
        rc = start_over(w, err);
    }
    if (rc)
        return rc;
    rc = file_remove_tree(w->tmp.data, err);
    if (!rc)
        rc = file_make_dir(w->tmp.data, err);
    if (rc || same)
        return rc;
    str_clear(&w->scratch);
    str_printf(&w->scratch, "%s/state.json", w->dir.data);
    if (!str_ok(&w->scratch))
        return err_set(err, B2_ENOMEM, "out of memory");
    return file_write_all(w->scratch.data, state, strlen(state), true, err);
}

enum b2_status work_open(struct work **out, const char *path, const char *state,
                         bool force, const struct log *log, struct b2_err *err)
{
    struct work *w = mem_calloc(1, sizeof *w);
    enum b2_status rc;

    if (!w)
        return err_set(err, B2_ENOMEM, "%s: out of memory", path);
    w->lock = -1;
    rc = make_paths(w, path, err);
    if (!rc)
        rc = hash_sha256(w->state_hex, state, strlen(state), err);
    if (!rc)
        rc = file_make_dir(w->dir.data, err);
    if (rc)
        goto fail;
    rc = file_lock(&w->lock, w->scratch.data, err);
    if (rc == B2_EEXIST) {
        err_set(err, rc, "another process is writing %s (%s is locked)", path,
                w->dir.data);
        goto fail;
    }
    if (!rc)
        rc = adopt_state(w, state, force, log, err);
    if (rc)
        goto fail;
    *out = w;
    return B2_OK;

fail:
    work_close(w);
    return rc;
}

static void stat_put(uint8_t *dst, const struct fit_stat *s)
{
    uint64_t bits[2];

    memcpy(&bits[0], &s->err, sizeof s->err);
    memcpy(&bits[1], &s->energy, sizeof s->energy);
    le_put64(dst, bits[0]);
    le_put64(dst + 8, bits[1]);
    le_put64(dst + 16, (uint64_t)s->n);
    le_put64(dst + 24, (uint64_t)s->zeros);
    le_put64(dst + 32, (uint64_t)s->zero_groups);
    le_put64(dst + 40, (uint64_t)s->underflows);
}

static void stat_get(struct fit_stat *s, struct rd *r)
{
    s->err = rd_f64(r);
    s->energy = rd_f64(r);
    s->n = (int64_t)rd_u64(r);
    s->zeros = (int64_t)rd_u64(r);
    s->zero_groups = (int64_t)rd_u64(r);
    s->underflows = (int64_t)rd_u64(r);
}

/* Whether the mapped bytes are piece of this state, whole and undamaged. */
static bool piece_is_good(const struct work *w, const struct file_map *m,
                          struct fit_stat *stat, int64_t n_stat, uint64_t payload)
{
    uint64_t want = payload + (uint64_t)n_stat * STAT_BYTES + 2 * (uint64_t)HEX;
    char hex[HASH_HEX];

    if (m->size != want ||
        memcmp(m->data + m->size - 2 * (size_t)HEX, w->state_hex, HEX) != 0 ||
        hash_sha256(hex, m->data, m->size - HEX, NULL) ||
        memcmp(m->data + m->size - HEX, hex, HEX) != 0)
        return false;
    struct rd r = rd_make(m->data + payload, (size_t)n_stat * STAT_BYTES);
    for (int64_t k = 0; k < n_stat; k++)
        stat_get(&stat[k], &r);
    return r.ok;
}

bool work_have_piece(struct work *w, int64_t i, struct fit_stat *stat, int64_t n_stat,
                     uint64_t payload)
{
    const char *path = piece_path(&w->scratch, &w->dir, i);
    struct file_map m = {0};

    if (!str_ok(&w->scratch) || !file_exists(path))
        return false;
    if (file_map(&m, path, NULL))
        return false;
    bool good = piece_is_good(w, &m, stat, n_stat, payload);
    file_unmap(&m);
    if (!good && file_remove(path, NULL)) {
        /* It stays; the new piece is renamed over it. */
    }
    return good;
}

static void abandon_piece(struct work *w)
{
    file_out_abort(w->file);
    hash_free(w->hash);
    w->file = NULL;
    w->hash = NULL;
}

enum b2_status work_piece_begin(struct work *w, int64_t i, struct b2_err *err)
{
    const char *path = piece_path(&w->scratch, &w->tmp, i);

    w->piece = i;
    if (!str_ok(&w->scratch))
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = hash_new(&w->hash, err);
    if (!rc)
        rc = file_out_open(&w->file, path, true, err);
    if (rc)
        abandon_piece(w);
    return rc;
}

enum b2_status work_piece_data(struct work *w, const void *data, size_t n,
                               struct b2_err *err)
{
    enum b2_status rc = hash_add(w->hash, data, n, err);

    if (!rc)
        rc = file_out_write(w->file, data, n, err);
    if (rc)
        abandon_piece(w);
    return rc;
}

enum b2_status work_piece_end(struct work *w, const struct fit_stat *stat,
                              int64_t n_stat, struct b2_err *err)
{
    uint8_t bytes[STAT_BYTES];
    char hex[HASH_HEX];
    enum b2_status rc = B2_OK;
    struct str tmp = {0};

    for (int64_t k = 0; k < n_stat && !rc; k++) {
        stat_put(bytes, &stat[k]);
        rc = work_piece_data(w, bytes, sizeof bytes, err);
    }
    if (!rc)
        rc = work_piece_data(w, w->state_hex, HEX, err);
    if (rc)
        return rc;
    rc = hash_hex(w->hash, hex, err);
    if (!rc)
        rc = file_out_write(w->file, hex, HEX, err);
    if (!rc) {
        rc = file_out_commit(w->file, err);
        w->file = NULL;
    }
    abandon_piece(w); /* frees the hash, and the file if it failed before */
    if (rc)
        return rc;
    piece_path(&tmp, &w->tmp, w->piece);
    piece_path(&w->scratch, &w->dir, w->piece);
    if (str_ok(&tmp) && str_ok(&w->scratch))
        rc = file_rename(tmp.data, w->scratch.data, err);
    else
        rc = err_set(err, B2_ENOMEM, "out of memory");
    str_free(&tmp);
    return rc;
}

enum b2_status work_piece_map(const struct work *w, int64_t i, uint64_t payload,
                              struct file_map *m, struct b2_err *err)
{
    struct str path = {0};

    piece_path(&path, &w->dir, i);
    enum b2_status rc = str_ok(&path) ? file_map(m, path.data, err)
                                      : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&path);
    if (rc || m->size >= payload)
        return rc;
    file_unmap(m);
    return err_set(err, B2_ETRUNC, "piece %lld was cut short by another program",
                   (long long)i);
}

const char *work_output_path(const struct work *w)
{
    return w->output.data;
}

const char *work_dir(const struct work *w)
{
    return w->dir.data;
}

/* Removes the state in one step, as a reader of the folder sees it: a kill in the middle
 * leaves OUT.b2work.old, which holds nothing of worth. */
static enum b2_status drop_state(struct work *w, struct b2_err *err)
{
    str_clear(&w->scratch);
    str_printf(&w->scratch, "%s.old", w->dir.data);
    if (!str_ok(&w->scratch))
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = file_remove_tree(w->scratch.data, err);
    if (!rc)
        rc = file_rename(w->dir.data, w->scratch.data, err);
    return rc ? rc : file_remove_tree(w->scratch.data, err);
}

enum b2_status work_finish(struct work *w, struct b2_err *err)
{
    enum b2_status rc = file_rename(w->output.data, w->final_path, err);

    if (!rc)
        rc = drop_state(w, err);
    work_close(w);
    return rc;
}

void work_close(struct work *w)
{
    if (!w)
        return;
    abandon_piece(w);
    if (w->lock >= 0)
        file_unlock(w->lock);
    mem_free(w->final_path);
    str_free(&w->dir);
    str_free(&w->tmp);
    str_free(&w->output);
    str_free(&w->scratch);
    mem_free(w);
}
