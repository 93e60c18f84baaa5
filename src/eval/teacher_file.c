/*
 * teacher_file.c - opening, checking and reading; writing is in teacher_save.c.
 */
#include "eval/teacher_file.h"

#include "base/file.h"
#include "base/mem.h"
#include "eval/stats.h"
#include "eval/teacher_int.h"
#include "format/hash.h"
#include "format/json.h"

#include <math.h>
#include <string.h>

enum { HEAD_VALUES = 1 << 16 };

struct teacher_file {
    struct file_map map;
    cJSON *head;
    int64_t k, vocab, n_windows;
    uint64_t *offset; /* [n_windows] of the blocks */
    int64_t *n_rows;
    int64_t checked; /* the window whose block was checked last; -1: none */
    struct stats tail;
};

void teacher_file_close(struct teacher_file *t)
{
    if (!t)
        return;
    file_unmap(&t->map);
    cJSON_Delete(t->head);
    mem_free(t->offset);
    mem_free(t->n_rows);
    mem_free(t);
}

enum b2_status teacher_ids_sha256(char hex[HASH_HEX], const struct textset *set,
                                  struct b2_err *err)
{
    struct hash *h = NULL;
    enum b2_status rc = hash_new(&h, err);

    for (int64_t i = 0; i < set->all.n && !rc; i++) {
        uint32_t id = (uint32_t)set->all.id[i];
        uint8_t bytes[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16),
                            (uint8_t)(id >> 24)};
        rc = hash_add(h, bytes, sizeof bytes, err);
    }
    if (!rc)
        rc = hash_hex(h, hex, err);
    hash_free(h);
    return rc;
}

static const char *text_of(const cJSON *o, const char *key)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

    return s ? s : "";
}

static int64_t number_of(const cJSON *o, const char *key)
{
    uint64_t v = 0;

    return json_get_u64(cJSON_GetObjectItemCaseSensitive(o, key), &v) ? (int64_t)v : -1;
}

static enum b2_status check_text(const cJSON *have, const struct fidelity_text *want,
                                 struct b2_err *err)
{
    char sha[HASH_HEX];
    enum b2_status rc = teacher_ids_sha256(sha, &want->set, err);

    if (rc)
        return rc;
    if (strcmp(text_of(have, "ids_sha256"), sha) != 0)
        return err_set(err, B2_EARG,
                       "was made for other tokens than those of %s: another text, or "
                       "another tokenizer",
                       want->path);
    if (number_of(have, "windows") != want->set.n_windows ||
        number_of(have, "scored") != want->set.n_scored)
        return err_set(err, B2_EARG, "has %lld windows of %s, %lld are asked for",
                       (long long)number_of(have, "windows"), want->path,
                       (long long)want->set.n_windows);
    return B2_OK;
}

/* Whether the file was made for exactly these windows. */
static enum b2_status check_head(struct teacher_file *t, const struct fidelity *f,
                                 const char *convention, struct b2_err *err)
{
    const cJSON *texts = cJSON_GetObjectItemCaseSensitive(t->head, "texts");
    int64_t ctx = f->n_texts > 0 ? f->text[0].set.ctx : 0;
    enum b2_status rc = B2_OK;

    t->k = number_of(t->head, "k");
    if (number_of(t->head, "format") != 1 || t->k < 1 || t->k > TEACHER_MAX_K)
        return err_set(err, B2_EUNSUP, "is of a format this version does not know");
    if (number_of(t->head, "vocab") != t->vocab)
        return err_set(
            err, B2_EARG,
            "its model has %lld tokens in the vocabulary, the candidate %lld",
            (long long)number_of(t->head, "vocab"), (long long)t->vocab);
    if (number_of(t->head, "ctx") != ctx ||
        strcmp(text_of(t->head, "convention"), convention) != 0)
        return err_set(err, B2_EARG,
                       "was made with --ctx %lld --convention %s, not %lld and %s",
                       (long long)number_of(t->head, "ctx"),
                       text_of(t->head, "convention"), (long long)ctx, convention);
    if (cJSON_GetArraySize(texts) != f->n_texts)
        return err_set(err, B2_EARG, "was made for %d texts, not %lld",
                       cJSON_GetArraySize(texts), (long long)f->n_texts);
    for (int i = 0; i < (int)f->n_texts && !rc; i++)
        rc = check_text(cJSON_GetArrayItem(texts, i), &f->text[i], err);
    return rc;
}

static enum b2_status place_blocks(struct teacher_file *t, const struct fidelity *f,
                                   uint64_t at, struct b2_err *err)
{
    int64_t w = 0;

    t->n_windows = f->n_windows;
    t->offset = mem_calloc((size_t)f->n_windows, sizeof *t->offset);
    t->n_rows = mem_calloc((size_t)f->n_windows, sizeof *t->n_rows);
    if (!t->offset || !t->n_rows)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < f->n_texts; i++) {
        for (int64_t k = 0; k < f->text[i].set.n_windows; k++, w++) {
            const struct text_window *win = &f->text[i].set.win[k];
            t->offset[w] = at;
            t->n_rows[w] = win->score_to - win->score_from;
            at += teacher_block_bytes(t->k, t->n_rows[w]);
        }
    }
    if (at != t->map.size)
        return err_set(err, at > t->map.size ? B2_ETRUNC : B2_EFORMAT,
                       "has %zu bytes where its windows need %llu", t->map.size,
                       (unsigned long long)at);
    return B2_OK;
}

static enum b2_status open_file(struct teacher_file *t, const char *path,
                                const struct fidelity *f, const char *convention,
                                struct b2_err *err)
{
    struct teacher_head head = {0};
    enum b2_status rc = file_map(&t->map, path, err);

    if (!rc)
        rc = teacher_get_head(&head, t->map.data, t->map.size, err);
    if (!rc)
        rc = json_parse_bounded(&t->head, head.text, head.n, HEAD_VALUES, err);
    if (!rc)
        rc = check_head(t, f, convention, err);
    return rc ? rc : place_blocks(t, f, head.end, err);
}

enum b2_status teacher_file_open(struct teacher_file **out, const char *path,
                                 const struct fidelity *f, const char *convention,
                                 int64_t vocab, struct b2_err *err)
{
    struct teacher_file *t = mem_calloc(1, sizeof *t);

    if (!t)
        return err_set(err, B2_ENOMEM, "out of memory");
    t->vocab = vocab;
    t->checked = -1;
    enum b2_status rc = open_file(t, path, f, convention, err);
    if (rc) {
        err_wrap(err, "teacher %s", path);
        teacher_file_close(t);
        return rc;
    }
    *out = t;
    return B2_OK;
}

enum b2_status teacher_file_row(struct teacher_file *t, struct teacher_row *out,
                                int64_t window, int64_t row, struct b2_err *err)
{
    const uint8_t *block = t->map.data + t->offset[window];
    enum b2_status rc = B2_OK;

    if (t->checked != window)
        rc = teacher_check(block, t->k, t->n_rows[window], err);
    if (!rc)
        t->checked = window;
    if (!rc)
        rc = teacher_get_row(out, block, t->k, row, t->vocab, err);
    if (!rc)
        stats_add(&t->tail, exp(out->tail));
    return rc;
}

int64_t teacher_file_k(const struct teacher_file *t)
{
    return t->k;
}

const char *teacher_file_model(const struct teacher_file *t)
{
    return text_of(t->head, "model");
}

const char *teacher_file_fingerprint(const struct teacher_file *t)
{
    return text_of(t->head, "fingerprint");
}

bool teacher_file_exact(const struct teacher_file *t)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(t->head, "exact"));
}

double teacher_file_mean_tail(const struct teacher_file *t)
{
    return t->tail.mean;
}
