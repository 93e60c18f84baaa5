/*
 * zeros.c - the bonsai2.zeros.* keys: written, read, checked; rows with and without.
 */
#include "format/zeros.h"

#include "format/modelfile_int.h"
#include "tensor/quant.h"

#include <string.h>

#define PREFIX "bonsai2.zeros."

enum { MAX_BLOCK = 256 }; /* weights of a block of any ternary type */

static const char *const known_keys[] = {"names", "widths", "marks"};

static bool is_marked(const uint8_t *marks, int64_t b)
{
    return marks[b / 8] >> (b % 8) & 1;
}

/* ---- rows ---- */

static bool is_zero(enum dtype t, const uint8_t *block)
{
    float v[MAX_BLOCK];
    const int n = dtype_info(t)->block;

    quant_decode_row(t, v, block, n);
    for (int i = 0; i < n; i++)
        if (v[i] != 0.0f)
            return false;
    return true;
}

bool zeros_mark_row(uint8_t *marks, enum dtype t, const uint8_t *row, int64_t blocks,
                    int64_t left_out)
{
    const size_t size = (size_t)dtype_info(t)->bytes;

    memset(marks, 0, (size_t)zeros_mark_bytes(blocks));
    for (int64_t b = 0; b < blocks; b++) {
        if (left_out > 0 && is_zero(t, row + (size_t)b * size))
            left_out--;
        else
            marks[b / 8] = (uint8_t)(marks[b / 8] | 1 << (b % 8));
    }
    return left_out == 0;
}

void zeros_pack_row(uint8_t *dst, const uint8_t *marks, enum dtype t,
                    const uint8_t *row, int64_t blocks)
{
    const size_t size = (size_t)dtype_info(t)->bytes;

    for (int64_t b = 0; b < blocks; b++) {
        if (!is_marked(marks, b))
            continue;
        memcpy(dst, row + (size_t)b * size, size);
        dst += size;
    }
}

void zeros_unpack_row(uint8_t *row, const uint8_t *marks, enum dtype t,
                      const uint8_t *stored, int64_t blocks)
{
    static const int8_t codes[MAX_BLOCK] = {0};
    static const float scale = 0.0f;
    const struct dtype_info *info = dtype_info(t);
    const size_t size = (size_t)info->bytes;

    for (int64_t b = 0; b < blocks; b++, row += size) {
        if (is_marked(marks, b)) {
            memcpy(row, stored, size);
            stored += size;
        } else {
            quant_ternary_join(t, row, codes, &scale, info->block);
        }
    }
}

void mf_zeros_load(uint8_t *dst, const struct mf_entry *e)
{
    const struct dtype_info *info = dtype_info(e->t.type);
    const int64_t blocks = e->t.ne[0] / info->block, rows = tensor_rows(&e->t);
    const uint64_t stored = e->src_bytes / (uint64_t)rows;

    for (int64_t r = 0; r < rows; r++)
        zeros_unpack_row(dst + (uint64_t)r * (uint64_t)blocks * (uint64_t)info->bytes,
                         e->marks + (uint64_t)r * zeros_mark_bytes(blocks), e->t.type,
                         e->src + (uint64_t)r * stored, blocks);
}

/* ---- keys ---- */

enum b2_status zeros_set_marks(struct meta *m, const uint8_t *marks, uint64_t n_marks,
                               struct b2_err *err)
{
    return meta_set_arr(m, PREFIX "marks", MT_U8, marks, n_marks, err);
}

enum b2_status zeros_set_keys(struct meta *m, const struct meta_str *names,
                              const uint32_t *widths, uint64_t n, const uint8_t *marks,
                              uint64_t n_marks, struct b2_err *err)
{
    if (n == 0)
        return B2_OK;
    enum b2_status rc = meta_set_strs(m, PREFIX "names", names, n, err);
    if (!rc)
        rc = meta_set_arr(m, PREFIX "widths", MT_U32, widths, n, err);
    return rc ? rc : zeros_set_marks(m, marks, n_marks, err);
}

/* Every row has as many marks as blocks are stored, and none behind the last block. */
static bool marks_fit(const uint8_t *marks, int64_t rows, int64_t blocks,
                      int64_t stored)
{
    const int64_t bits = (int64_t)zeros_mark_bytes(blocks) * 8;

    for (int64_t r = 0; r < rows; r++, marks += bits / 8) {
        int64_t n = 0;
        for (int64_t b = 0; b < bits; b++)
            n += is_marked(marks, b) ? 1 + (b >= blocks ? blocks : 0) : 0;
        if (n != stored)
            return false;
    }
    return true;
}

/* One tensor; *at moves past its marks. */
static enum b2_status apply_name(struct modelfile *mf, const struct meta_str *name,
                                 int64_t width, const uint8_t *marks, uint64_t n_marks,
                                 uint64_t *at, struct b2_err *err)
{
    char show[NAMES_SHOW_MAX];
    int64_t i = 0;
    enum b2_status rc = mf_find_named(mf, PREFIX "names", name, &i, show, err);

    if (rc)
        return rc;
    struct mf_entry *e = &mf->entry[i];
    const struct dtype_info *info = dtype_info(e->t.type);
    const int64_t rows = tensor_rows(&e->t), stored = e->t.ne[0] / info->block;
    if (e->how == MF_ZEROS)
        return err_set(err, B2_EFORMAT, "key " PREFIX "names has %s twice", show);
    if (e->how != MF_IN_PLACE || e->t.rank != 2 || e->t.pad != 0 || rows < 1 ||
        !(info->flags & DTF_TERNARY) || info->flags & DTF_APART || info->block < 2)
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX "names has %s, which is no ternary matrix", show);
    const int64_t blocks = width / info->block;
    if (width % info->block != 0 || blocks <= stored || stored < 1)
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX "widths: %lld for %s, of which %lld are stored in "
                       "groups of %d",
                       (long long)width, show, (long long)e->t.ne[0], info->block);
    const uint64_t row_marks = zeros_mark_bytes(blocks);
    if ((uint64_t)rows > (n_marks - *at) / row_marks ||
        !marks_fit(marks + *at, rows, blocks, stored))
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX
                       "marks: those of %s are not %lld of %lld groups in "
                       "each of %lld rows",
                       show, (long long)stored, (long long)blocks, (long long)rows);
    e->how = MF_ZEROS;
    e->marks = marks + *at;
    e->src_bytes = e->t.n_bytes;
    e->t.ne[0] = width;
    e->t.data = NULL;
    *at += (uint64_t)rows * row_marks;
    return dtype_row_bytes(&e->t.n_bytes, e->t.type, (uint64_t)(width * rows), err);
}

/* The marks in the arena's memory: keys go. */
static enum b2_status take_marks(struct modelfile *mf, const uint8_t **marks,
                                 uint64_t *n, struct b2_err *err)
{
    const struct meta_kv *kv = meta_find(mf->meta, PREFIX "marks");

    if (!kv || kv->type != MT_ARR || kv->elem != MT_U8)
        return err_set(err, B2_EFORMAT, "key " PREFIX "marks: expected bytes");
    uint8_t *own = arena_calloc(mf->arena, (size_t)kv->n, 1);
    if (!own)
        return err_set(err, B2_ENOMEM, "out of memory");
    if (kv->n > 0)
        memcpy(own, kv->v.raw, (size_t)kv->n);
    *marks = own;
    *n = kv->n;
    return B2_OK;
}

enum b2_status mf_apply_zeros(struct modelfile *mf, struct b2_err *err)
{
    const struct meta_str *names;
    const int32_t *widths;
    const uint8_t *marks = NULL;
    uint64_t n_names, n_widths, n_marks = 0, at = 0;
    int n_keys;
    enum b2_status rc =
        meta_check_group(mf->meta, PREFIX, known_keys, countof(known_keys),
                         "groups of zeros", &n_keys, err);

    if (rc || n_keys == 0)
        return rc;
    rc = meta_get_strs(mf->meta, PREFIX "names", &names, &n_names, err);
    if (!rc) /* unsigned, as long as they are below 2^31 */
        rc = meta_get_i32s(mf->meta, PREFIX "widths", &widths, &n_widths, err);
    if (!rc)
        rc = take_marks(mf, &marks, &n_marks, err);
    if (!rc && n_names != n_widths)
        rc = err_set(err, B2_EFORMAT,
                     "key " PREFIX "widths has %llu widths for %llu names",
                     (unsigned long long)n_widths, (unsigned long long)n_names);
    for (uint64_t i = 0; !rc && i < n_names; i++)
        rc = apply_name(mf, &names[i], widths[i], marks, n_marks, &at, err);
    if (!rc && at != n_marks)
        rc = err_set(err, B2_EFORMAT, "key " PREFIX "marks: %llu bytes too many",
                     (unsigned long long)(n_marks - at));
    meta_remove(mf->meta, PREFIX "names");
    meta_remove(mf->meta, PREFIX "widths");
    meta_remove(mf->meta, PREFIX "marks");
    return rc;
}
