/*
 * teacher_save.c - the baseline's walk that fills a teacher file, window by window.
 */
#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "base/str.h"
#include "eval/teacher_file.h"
#include "eval/teacher_int.h"

#include <cjson/cJSON.h>
#include <string.h>

struct save {
    const struct fidelity *f;
    int64_t k, vocab;
    struct file_append *out;
    int64_t skip;         /* windows that the file has already, over all texts */
    int64_t first_window; /* of the text under way */
    const struct textset *set;
    int64_t window; /* of the text: whose block is being filled */
    int64_t n_rows; /* rows in it */
    uint8_t *block; /* room for the longest */
    int32_t *scratch;
};

static int64_t rows_of(const struct text_window *w)
{
    return w->score_to - w->score_from;
}

/* The head as it will stand in the file. *out owned (cJSON_free). */
static enum b2_status make_head(char **out, const struct teacher_params *p,
                                const struct save *s, const struct model *m,
                                struct b2_err *err)
{
    cJSON *j = cJSON_CreateObject();
    cJSON *texts = cJSON_AddArrayToObject(j, "texts");
    enum b2_status rc = B2_OK;

    cJSON_AddNumberToObject(j, "format", 1);
    cJSON_AddNumberToObject(j, "k", (double)s->k);
    cJSON_AddNumberToObject(j, "vocab", (double)s->vocab);
    cJSON_AddNumberToObject(j, "ctx", (double)s->f->text[0].set.ctx);
    cJSON_AddStringToObject(j, "convention", p->convention);
    cJSON_AddStringToObject(j, "model", p->model);
    cJSON_AddStringToObject(j, "fingerprint", m->fingerprint);
    cJSON_AddBoolToObject(j, "exact", p->exact);
    for (int64_t i = 0; i < s->f->n_texts && !rc; i++) {
        const struct fidelity_text *t = &s->f->text[i];
        char sha[HASH_HEX];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(texts, o);
        rc = teacher_ids_sha256(sha, &t->set, err);
        if (rc)
            break;
        cJSON_AddStringToObject(o, "region", t->region);
        cJSON_AddStringToObject(o, "text_sha256", t->set.sha256);
        cJSON_AddStringToObject(o, "ids_sha256", sha);
        cJSON_AddNumberToObject(o, "windows", (double)t->set.n_windows);
        cJSON_AddNumberToObject(o, "scored", (double)t->set.n_scored);
    }
    *out = rc ? NULL : cJSON_PrintUnformatted(j);
    cJSON_Delete(j);
    if (!rc && !*out)
        rc = err_set(err, B2_ENOMEM, "out of memory");
    return rc;
}

/* How much of an interrupted file is good: its head and whole blocks. */
static uint64_t good_part(struct save *s, const char *part, const struct str *head,
                          const struct log *log)
{
    struct file_map map = {0};
    uint64_t at = head->len;
    bool go = true;

    s->skip = 0;
    if (!file_exists(part) || file_map(&map, part, NULL))
        return 0;
    if (map.size < head->len || memcmp(map.data, head->data, head->len) != 0) {
        if (map.size > 0)
            log_line(log, LOG_WARN, "%s is of other texts or settings: started anew",
                     part);
        at = 0;
        go = false;
    }
    for (int64_t i = 0; i < s->f->n_texts && go; i++) {
        const struct textset *set = &s->f->text[i].set;
        for (int64_t w = 0; w < set->n_windows && go; w++) {
            int64_t n = rows_of(&set->win[w]);
            size_t size = teacher_block_bytes(s->k, n);
            go = size <= map.size - at &&
                 teacher_check(map.data + at, s->k, n, NULL) == B2_OK;
            if (go) {
                at += size;
                s->skip++;
            }
        }
    }
    file_unmap(&map);
    if (s->skip > 0)
        log_line(log, LOG_INFO, "%s: %lld windows are there, going on", part,
                 (long long)s->skip);
    return at;
}

static bool wanted(void *ctx, int64_t window)
{
    struct save *s = ctx;

    s->window = window;
    s->n_rows = 0;
    return s->first_window + window >= s->skip;
}

static enum b2_status add_logits(void *ctx, const float *x, const struct logprob *b,
                                 int32_t target, struct b2_err *err)
{
    struct save *s = ctx;
    int64_t n = rows_of(&s->set->win[s->window]);
    uint8_t *row = s->block + 4 + (size_t)s->n_rows * teacher_row_bytes(s->k);

    teacher_put_row(row, x, s->vocab, b, target, s->k, s->scratch);
    if (++s->n_rows < n)
        return B2_OK;
    enum b2_status rc = teacher_seal(s->block, s->k, n, err);
    return rc ? rc
              : file_append_write(s->out, s->block, teacher_block_bytes(s->k, n), err);
}

static enum b2_status alloc_block(struct save *s, struct b2_err *err)
{
    int64_t longest = 0;

    for (int64_t i = 0; i < s->f->n_texts; i++)
        for (int64_t w = 0; w < s->f->text[i].set.n_windows; w++)
            longest = max_i64(longest, rows_of(&s->f->text[i].set.win[w]));
    s->block = mem_calloc(teacher_block_bytes(s->k, longest), 1);
    s->scratch = mem_calloc((size_t)s->k, sizeof *s->scratch);
    if (!s->block || !s->scratch)
        return err_set(err, B2_ENOMEM, "out of memory");
    return B2_OK;
}

static enum b2_status walk_texts(struct save *s, struct session *base,
                                 struct progress *pr, struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    uint64_t done = 0;

    for (int64_t i = 0; i < s->f->n_texts && !rc; i++) {
        s->set = &s->f->text[i].set;
        int64_t n = s->set->n_windows, have = s->skip - s->first_window;
        struct divergence_walk w = {.base = base,
                                    .on_logits = add_logits,
                                    .wanted = wanted,
                                    .ctx = s,
                                    .text = s->set,
                                    .pr = pr,
                                    .done0 = done};
        for (int64_t k = 0; k < min_i64(have, n); k++)
            w.done0 += (uint64_t)rows_of(&s->set->win[k]);
        rc = divergence_run(&w, err);
        if (rc)
            err_wrap(err, "%s", s->f->text[i].path);
        done += (uint64_t)s->set->n_scored;
        s->first_window += n;
    }
    return rc;
}

enum b2_status teacher_file_save(const struct teacher_params *p,
                                 const struct fidelity *f, struct session *base,
                                 struct progress *pr, struct b2_err *err)
{
    const struct model *m = session_model(base);
    struct save s = {.f = f, .vocab = m->hp.vocab, .k = min_i64(p->k, m->hp.vocab)};
    struct str head = {0}, part = {0};
    char *text = NULL;
    enum b2_status rc = file_check_output(p->path, NULL, p->force, err);

    if (!rc)
        rc = make_head(&text, p, &s, m, err);
    if (!rc)
        rc = alloc_block(&s, err);
    if (!rc) {
        teacher_put_head(&head, text);
        str_printf(&part, "%s.part", p->path);
        if (!str_ok(&head) || !str_ok(&part))
            rc = err_set(err, B2_ENOMEM, "out of memory");
    }
    if (!rc) {
        uint64_t keep = good_part(&s, part.data, &head, p->log);
        rc = file_append_open(&s.out, part.data, keep, err);
        if (!rc && keep == 0)
            rc = file_append_write(s.out, head.data, head.len, err);
    }
    if (!rc)
        rc = walk_texts(&s, base, pr, err);
    if (rc)
        file_append_abort(s.out);
    else
        rc = file_append_close(s.out, err);
    if (!rc)
        rc = file_rename(part.data, p->path, err);
    str_free(&head);
    str_free(&part);
    cJSON_free(text);
    mem_free(s.block);
    mem_free(s.scratch);
    return rc;
}
