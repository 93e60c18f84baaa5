/*
 * tiers.c - the bonsai2.tiers.* key: read, checked, written; and both tensors as one.
 */
#include "format/tiers.h"

#include "base/mem.h"
#include "format/modelfile_int.h"
#include "tensor/quant.h"

#include <string.h>

#define PREFIX "bonsai2.tiers."

/* What a joined table is made of. */
struct mf_join {
    struct tensor hot, rare;
    const int32_t *row; /* of the hot ones in the table */
};

bool tiers_is_key(const char *key)
{
    return strncmp(key, PREFIX, sizeof PREFIX - 1) == 0;
}

bool tiers_declared(const struct meta *m)
{
    for (int64_t i = 0; i < meta_count(m); i++)
        if (tiers_is_key(meta_at(m, i)->key))
            return true;
    return false;
}

static bool is_marked(const uint8_t *marks, int64_t r)
{
    return marks[r / 8] >> (r % 8) & 1;
}

static enum b2_status check_keys(const struct meta *m, struct b2_err *err)
{
    static const char *const known[] = {"hot"};
    int n_keys;

    return meta_check_group(m, PREFIX, known, countof(known), "a table in two types",
                            &n_keys, err);
}

/* The marks, or NULL and why. */
static const uint8_t *find_marks(const struct meta *m, int64_t rows, enum b2_status *rc,
                                 struct b2_err *err)
{
    const struct meta_kv *kv = meta_find(m, TIERS_KEY);
    const uint8_t *marks = NULL;

    *rc = check_keys(m, err);
    if (*rc)
        return NULL;
    if (kv && kv->type == MT_ARR && kv->elem == MT_U8 &&
        kv->n == tiers_mark_bytes(rows))
        marks = kv->v.raw;
    if (!marks) {
        *rc = err_set(err, B2_EFORMAT,
                      "key " TIERS_KEY ": expected %llu bytes of marks for %lld rows",
                      (unsigned long long)tiers_mark_bytes(rows), (long long)rows);
        return NULL;
    }
    for (int64_t r = rows; r % 8 != 0; r++)
        if (is_marked(marks, r)) {
            *rc = err_set(err, B2_EFORMAT,
                          "key " TIERS_KEY ": row %lld is marked, of %lld rows",
                          (long long)r, (long long)rows);
            return NULL;
        }
    return marks;
}

enum b2_status tiers_read(const int32_t **row, int64_t *n_hot, const struct meta *m,
                          int64_t rows, struct arena *a, struct b2_err *err)
{
    int64_t n = 0, k = 0;
    enum b2_status rc = B2_OK;
    const uint8_t *marks = find_marks(m, rows, &rc, err);

    if (!marks)
        return rc;
    for (int64_t r = 0; r < rows; r++)
        n += is_marked(marks, r);
    if (n == 0 || n == rows)
        return err_set(err, B2_EFORMAT,
                       "key " TIERS_KEY
                       ": %lld of %lld rows are marked; a table in two "
                       "types has both",
                       (long long)n, (long long)rows);
    int32_t *list = arena_calloc(a, (size_t)n, sizeof *list);
    if (!list)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t r = 0; r < rows; r++)
        if (is_marked(marks, r))
            list[k++] = (int32_t)r;
    *row = list;
    *n_hot = n;
    return B2_OK;
}

enum b2_status tiers_set_key(struct meta *m, const int32_t *row, int64_t n,
                             int64_t rows, struct b2_err *err)
{
    const uint64_t bytes = tiers_mark_bytes(rows);
    uint8_t *marks = mem_calloc((size_t)bytes, 1);

    if (!marks)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n; i++)
        marks[row[i] / 8] = (uint8_t)(marks[row[i] / 8] | 1 << (row[i] % 8));
    enum b2_status rc = meta_set_arr(m, TIERS_KEY, MT_U8, marks, bytes, err);
    mem_free(marks);
    return rc;
}

/* ---- as one tensor ---- */

void mf_join_load(uint8_t *dst, const struct mf_entry *e)
{
    const struct mf_join *j = e->join;
    const int64_t width = e->t.ne[0], rows = e->t.ne[1], n_hot = j->hot.ne[1];
    const uint64_t hot = j->hot.n_bytes / (uint64_t)n_hot;
    const uint64_t rare = j->rare.n_bytes / (uint64_t)(rows - n_hot);
    float *y = (float *)(void *)dst; /* aligned to 64 */

    for (int64_t r = 0, h = 0; r < rows; r++, y += width) {
        if (h < n_hot && j->row[h] == r)
            quant_decode_tensor_row(&j->hot, y, j->hot.data + (uint64_t)h++ * hot);
        else
            quant_decode_tensor_row(&j->rare, y,
                                    j->rare.data + (uint64_t)(r - h) * rare);
    }
}

static bool is_part(const struct tensor *t)
{
    return t->rank == 2 && t->pad == 0 && t->ne[0] > 0 && t->ne[1] > 0 &&
           t->ne[1] <= INT32_MAX && (dtype_info(t->type)->flags & DTF_WEIGHT);
}

static enum b2_status find_both(const struct modelfile *mf, int64_t *hot, int64_t *rare,
                                struct b2_err *err)
{
    *hot = modelfile_find(mf, TIERS_HOT);
    *rare = modelfile_find(mf, TIERS_RARE);
    if (*hot < 0 || *rare < 0 || modelfile_find(mf, TIERS_TABLE) >= 0)
        return err_set(err, B2_EFORMAT,
                       "key " TIERS_KEY ": expected the tensors " TIERS_HOT
                       " and " TIERS_RARE " and no " TIERS_TABLE);
    const struct mf_entry *a = &mf->entry[*hot], *b = &mf->entry[*rare];
    if (!is_part(&a->t) || !is_part(&b->t) || a->t.ne[0] != b->t.ne[0] ||
        a->t.ne[1] + b->t.ne[1] > INT32_MAX || a->how != MF_IN_PLACE ||
        b->how != MF_IN_PLACE)
        return err_set(err, B2_EFORMAT,
                       "tensors " TIERS_HOT " and " TIERS_RARE
                       ": expected two matrices of weights with rows of one length");
    return B2_OK;
}

/* The list without the rare ones, the table in the hot ones' place. */
static enum b2_status replace(struct modelfile *mf, int64_t hot, int64_t rare,
                              const struct mf_entry *table, struct b2_err *err)
{
    const int64_t n = mf->n;

    names_free(&mf->names);
    mf->n = 0;
    mf->entry[hot] = *table;
    for (int64_t i = 0; i < n; i++) {
        const struct mf_entry e =
            mf->entry[i]; /* mf_add_entry() writes at mf->n <= i */
        enum b2_status rc = i == rare ? B2_OK : mf_add_entry(mf, &e, err);
        if (rc)
            return rc;
    }
    return B2_OK;
}

enum b2_status modelfile_join_tiers(struct modelfile *mf, struct b2_err *err)
{
    int64_t hot, rare, n_hot = 0;

    if (mf->kind != MF_GGUF || !tiers_declared(mf->meta))
        return B2_OK;
    struct mf_join *j = arena_calloc(mf->arena, 1, sizeof *j);
    if (!j)
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = check_keys(mf->meta, err);
    if (!rc)
        rc = find_both(mf, &hot, &rare, err);
    if (rc)
        return rc;
    j->hot = mf->entry[hot].t;
    j->rare = mf->entry[rare].t;
    const int64_t width = j->hot.ne[0], rows = j->hot.ne[1] + j->rare.ne[1];
    rc = tiers_read(&j->row, &n_hot, mf->meta, rows, mf->arena, err);
    if (!rc && n_hot != j->hot.ne[1])
        rc = err_set(err, B2_EFORMAT,
                     "key " TIERS_KEY ": %lld rows are marked, tensor " TIERS_HOT
                     " has %lld",
                     (long long)n_hot, (long long)j->hot.ne[1]);
    if (rc)
        return rc;
    const struct mf_entry table = {
        .t = {.name = TIERS_TABLE,
              .type = DT_F32,
              .rank = 2,
              .ne = {width, rows, 1, 1},
              .n_bytes = (uint64_t)rows * (uint64_t)width * sizeof(float)},
        .how = MF_JOINED,
        .part = -1,
        .join = j};
    rc = replace(mf, hot, rare, &table, err);
    meta_remove(mf->meta, TIERS_KEY);
    return rc;
}
