/*
 * dump_logits.c - writes our logits to a file, for comparison with another program.
 *
 *   dump_logits MODEL exact|fast THREADS IDS OUT
 *
 * IDS is text: one sequence of token ids per line, separated by spaces. OUT gets the
 * logits after every token of every sequence as little-endian F32 rows of V values;
 * each sequence starts from an empty cache. Prints V.
 */
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/opt.h"
#include "model/session.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TOKENS = 512, MAX_IDS_BYTES = 1 << 20 };

struct dump {
    struct model *model;
    struct pool *pool;
    struct backend *be;
    struct session *s;
    struct file_out *out;
    float *logits;
};

static enum b2_status dump_open(struct dump *d, const char *path, bool exact,
                                int n_threads, struct b2_err *err)
{
    struct model_params mp = {0};
    struct session_params sp = {.ctx = MAX_TOKENS, .batch = MAX_TOKENS};
    struct backend_config cfg = {.cpu = cpu_features(), .exact = exact};
    enum b2_status rc = model_open(&d->model, path, &mp, err);

    if (rc)
        return rc;
    d->pool = pool_new(n_threads);
    d->logits = mem_calloc(MAX_TOKENS, (size_t)d->model->hp.vocab * sizeof(float));
    if (!d->pool || !d->logits)
        return err_set(err, B2_ENOMEM, "out of memory");
    cfg.pool = d->pool;
    rc = backend_cpu_new(&d->be, &cfg, err);
    if (!rc)
        rc = session_new(&d->s, d->model, d->be, &sp, err);
    return rc;
}

static void dump_close(struct dump *d)
{
    file_out_abort(d->out);
    session_free(d->s);
    backend_free(d->be);
    mem_free(d->logits);
    pool_free(d->pool);
    model_close(d->model);
}

/* Splits one line at spaces, in place. */
static enum b2_status parse_ids(int32_t *ids, int64_t *n, char *line,
                                struct b2_err *err)
{
    *n = 0;
    while (*line) {
        size_t len = strcspn(line, " ");
        int64_t id;
        char *next = line[len] ? line + len + 1 : line + len;
        line[len] = '\0';
        if (len > 0) {
            if (*n == MAX_TOKENS || !opt_parse_int(&id, line, 0, INT32_MAX))
                return err_set(err, B2_EARG, "bad or too many ids at \"%s\"", line);
            ids[(*n)++] = (int32_t)id;
        }
        line = next;
    }
    return B2_OK;
}

static enum b2_status dump_line(struct dump *d, char *line, struct b2_err *err)
{
    int32_t ids[MAX_TOKENS];
    int64_t n;
    enum b2_status rc = parse_ids(ids, &n, line, err);

    if (rc || n == 0)
        return rc;
    session_rewind(d->s, 0);
    rc = session_eval(d->s, ids, n, d->logits, err);
    if (rc)
        return rc;
    return file_out_write(d->out, d->logits,
                          (size_t)(n * d->model->hp.vocab) * sizeof(float), err);
}

static enum b2_status dump_all(struct dump *d, const char *ids_path, const char *out,
                               struct b2_err *err)
{
    char *text = NULL;
    size_t size = 0;
    enum b2_status rc = file_read_all(&text, &size, ids_path, MAX_IDS_BYTES, err);

    if (rc)
        return rc;
    rc = file_out_open(&d->out, out, true, err);
    for (char *line = text; !rc && *line;) {
        size_t len = strcspn(line, "\n");
        char *next = line[len] ? line + len + 1 : line + len;
        line[len] = '\0';
        rc = dump_line(d, line, err);
        line = next;
    }
    mem_free(text);
    if (rc)
        return rc;
    struct file_out *f = d->out;
    d->out = NULL; /* commit frees it */
    return file_out_commit(f, err);
}

int main(int argc, char **argv)
{
    struct dump d = {0};
    struct b2_err err = {0};
    int64_t n_threads;
    enum b2_status rc;

    if (argc != 6 || !opt_parse_int(&n_threads, argv[3], 1, 256) ||
        (strcmp(argv[2], "exact") != 0 && strcmp(argv[2], "fast") != 0)) {
        fprintf(stderr, "usage: dump_logits MODEL exact|fast THREADS IDS OUT\n");
        return 2;
    }
    rc = dump_open(&d, argv[1], strcmp(argv[2], "exact") == 0, (int)n_threads, &err);
    if (!rc)
        rc = dump_all(&d, argv[4], argv[5], &err);
    if (rc)
        fprintf(stderr, "dump_logits: %s\n", err.msg);
    else
        printf("%lld\n", (long long)d.model->hp.vocab);
    dump_close(&d);
    return rc ? 1 : 0;
}
