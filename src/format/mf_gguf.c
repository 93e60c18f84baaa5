/*
 * mf_gguf.c - opens a GGUF, whole or split.
 *
 * A split model is PREFIX-00001-of-0000N.gguf and so on; each part is a GGUF with its
 * own tensors and split.no (from 0), split.count, split.tensors.count; the first part
 * has the keys of the model. Any part may be named.
 */
#include "base/mem.h"
#include "format/modelfile_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SUFFIX = 20 }; /* "-00001-of-00003.gguf" */

static enum b2_status parse_part(struct modelfile *mf, int i, struct b2_err *err)
{
    struct mf_part *p = &mf->parts[i];
    enum b2_status rc = gguf_parse(&p->gguf, p->map.data, p->map.size, err);

    p->head = p->gguf.data_offset;
    return rc;
}

static enum b2_status add_tensors(struct modelfile *mf, int i, struct b2_err *err)
{
    const struct gguf *g = &mf->parts[i].gguf;
    enum b2_status rc = B2_OK;
    bool legacy = false;

    for (int64_t k = 0; rc == B2_OK && k < g->n_tensors; k++) {
        struct mf_entry e = {.t = g->tensors[k],
                             .how = MF_IN_PLACE,
                             .part = i,
                             .offset = g->offsets[k],
                             .src = g->tensors[k].data};
        legacy = legacy || e.t.type == DT_Q2_0_G128;
        rc = mf_add_entry(mf, &e, err);
    }
    if (rc == B2_OK && legacy)
        log_line(
            mf->log, LOG_WARN,
            "%s: type id 42 in the group-128 legacy layout; convert it to type 142 "
            "with: bonsai2 export %s --format gguf-pq2_0 -o OUT.gguf",
            mf->parts[i].path, mf->path);
    return rc;
}

/* Reads "-%05d-of-%05d.gguf" at the end of path. False: the name has another form. */
static bool split_name(const char *path, int *no, int *count)
{
    size_t n = strlen(path);
    int v[2] = {0, 0};

    if (n <= SUFFIX)
        return false;
    const char *s = path + n - SUFFIX;
    if (s[0] != '-' || memcmp(s + 6, "-of-", 4) != 0 || strcmp(s + 15, ".gguf") != 0)
        return false;
    for (int k = 0; k < 2; k++) {
        for (const char *p = s + 1 + 9 * k; p < s + 6 + 9 * k; p++) {
            if (*p < '0' || *p > '9')
                return false;
            v[k] = v[k] * 10 + (*p - '0');
        }
    }
    *no = v[0];
    *count = v[1];
    return true;
}

/* The two numbers of a part, or count 0 when it is not split. */
static enum b2_status split_keys(const struct meta *m, uint32_t *no, uint32_t *count,
                                 struct b2_err *err)
{
    enum b2_status rc = meta_opt_u32(m, "split.count", count, 0, err);

    return rc ? rc : meta_opt_u32(m, "split.no", no, 0, err);
}

/* Checks that part i says it is part i of count. */
static enum b2_status check_part(const struct modelfile *mf, int i, uint32_t count,
                                 struct b2_err *err)
{
    uint32_t no = 0, n = 0;
    enum b2_status rc = split_keys(mf->parts[i].gguf.meta, &no, &n, err);

    if (rc == B2_OK && (n != count || no != (uint32_t)i))
        rc = err_set(err, B2_EFORMAT,
                     "says it is part %" PRIu32 " of %" PRIu32 ", expected %d of "
                     "%" PRIu32,
                     no + 1, n, i + 1, count);
    return rc;
}

/* Replaces the one open part by all parts in order. */
static enum b2_status open_all(struct modelfile *mf, int no, uint32_t count,
                               struct b2_err *err)
{
    size_t size = strlen(mf->path) + 1;
    char *path = arena_calloc(mf->arena, size, 1);
    struct mf_part *part;
    enum b2_status rc = B2_OK;

    if (!path)
        return err_set(err, B2_ENOMEM, "out of memory");
    gguf_close(&mf->parts[0].gguf);
    file_unmap(&mf->parts[0].map);
    mf->n_parts = 0;
    for (int i = 0; rc == B2_OK && i < (int)count; i++) {
        (void)snprintf(path, size, "%.*s-%05d-of-%05d.gguf", (int)(size - 1 - SUFFIX),
                       mf->path, i + 1, (int)count);
        rc = mf_add_part(mf, path, &part, err);
        if (rc == B2_ENOTFOUND)
            rc = err_set(err, B2_ENOTFOUND,
                         "part %d is here, but part %d of %" PRIu32 " is missing: %s",
                         no, i + 1, count, path);
        if (rc)
            return rc;
        rc = parse_part(mf, i, err);
        if (rc == B2_OK)
            rc = check_part(mf, i, count, err);
        if (rc == B2_OK)
            rc = add_tensors(mf, i, err);
        if (rc)
            err_wrap(err, "part %s", path);
    }
    return rc;
}

static enum b2_status check_total(const struct modelfile *mf, struct b2_err *err)
{
    uint64_t want = (uint64_t)mf->n;
    enum b2_status rc = B2_OK;

    if (meta_find(mf->meta, "split.tensors.count"))
        rc = meta_get_u64(mf->meta, "split.tensors.count", &want, err);
    if (rc == B2_OK && want != (uint64_t)mf->n)
        rc = err_set(err, B2_EFORMAT,
                     "split.tensors.count is %" PRIu64 ", but the parts have %" PRId64
                     " tensors",
                     want, mf->n);
    return rc;
}

enum b2_status mf_open_gguf(struct modelfile *mf, struct b2_err *err)
{
    uint32_t no = 0, count = 0;
    int name_no = 0, name_count = 0;
    enum b2_status rc = parse_part(mf, 0, err);

    if (rc == B2_OK)
        rc = split_keys(mf->parts[0].gguf.meta, &no, &count, err);
    if (rc)
        return rc;
    if (count > 1) {
        if (!split_name(mf->path, &name_no, &name_count) ||
            (uint32_t)name_count != count || (uint32_t)name_no != no + 1)
            return err_set(err, B2_EFORMAT,
                           "is part %" PRIu32 " of a model in %" PRIu32
                           " files, but its "
                           "name does not end in -%05" PRIu32 "-of-%05" PRIu32 ".gguf",
                           no + 1, count, no + 1, count);
        rc = open_all(mf, name_no, count, err);
    } else {
        rc = add_tensors(mf, 0, err);
    }
    if (rc)
        return rc;
    mf->meta = mf->parts[0].gguf.meta;
    rc = check_total(mf, err);
    meta_remove(mf->parts[0].gguf.meta, "split.no");
    meta_remove(mf->parts[0].gguf.meta, "split.count");
    meta_remove(mf->parts[0].gguf.meta, "split.tensors.count");
    return rc;
}
