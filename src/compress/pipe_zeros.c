/*
 * pipe_zeros.c - matrices that leave out their groups of zeros.
 */
#include "compress/pipeline_int.h"

#include "base/mem.h"

/* Marks of all rows of an item from its whole bytes. */
static enum b2_status mark_item(const struct choose_item *it, const uint8_t *bytes,
                                uint8_t *marks, struct b2_err *err)
{
    const struct choose_candidate *cand = choose_picked(it);
    const int64_t rows = tensor_rows(it->t), groups = choose_groups(it, cand);
    const uint64_t row_bytes = cand->n_bytes / (uint64_t)rows;

    for (int64_t r = 0; r < rows; r++)
        if (!zeros_mark_row(marks + (uint64_t)r * zeros_mark_bytes(groups), cand->type,
                            bytes + (uint64_t)r * row_bytes, groups, cand->left_out))
            return err_set(
                err, B2_EUNSUP,
                "tensor %s, row %lld: has not %lld groups of zeros; it cannot "
                "be compensated, so --zero-groups does not work for it",
                it->t->name, (long long)r, (long long)cand->left_out);
    return B2_OK;
}

/* Of one piece; *at moves past its marks. */
static enum b2_status mark_piece(struct pipeline *pl, int64_t i, uint8_t *marks,
                                 uint64_t *at, struct b2_err *err)
{
    const struct piece *pc = &pl->piece[i];
    struct file_map m = {0};
    uint64_t from = 0;
    enum b2_status rc = work_piece_map(pl->work, i, &m, err);

    if (!rc && m.size < pc->payload)
        rc = err_set(err, B2_ETRUNC, "piece %lld was cut short by another program",
                     (long long)i);
    for (int64_t k = pc->begin; k < pc->end && !rc; k++) {
        const struct choose_item *it = &pl->c.item[k];
        if (choose_picked(it)->left_out > 0)
            rc = mark_item(it, m.data + from, marks + *at, err);
        from += choose_picked(it)->n_bytes;
        *at += choose_marks(it, choose_picked(it));
    }
    file_unmap(&m);
    return rc;
}

enum b2_status pipeline_mark_zeros(struct pipeline *pl, struct b2_err *err)
{
    uint64_t n = 0, at = 0;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < pl->c.n; i++)
        n += choose_marks(&pl->c.item[i], choose_picked(&pl->c.item[i]));
    if (n == 0)
        return B2_OK;
    uint8_t *marks = mem_calloc((size_t)n, 1);
    if (!marks)
        return err_set(err, B2_ENOMEM, "marks of groups: out of memory");
    for (int64_t i = 0; i < pl->n_pieces && !rc; i++)
        rc = mark_piece(pl, i, marks, &at, err);
    if (!rc)
        rc = zeros_set_marks(pl->meta, marks, n, err);
    mem_free(marks);
    return rc;
}

enum b2_status pipeline_write_packed(struct gguf_out *out, const struct choose_item *it,
                                     const uint8_t *bytes, struct b2_err *err)
{
    const struct choose_candidate *cand = choose_picked(it);
    const int64_t rows = tensor_rows(it->t), groups = choose_groups(it, cand);
    const uint64_t whole = cand->n_bytes / (uint64_t)rows;
    const uint64_t stored = choose_stored(it, cand) / (uint64_t)rows;
    uint8_t *marks = mem_calloc((size_t)zeros_mark_bytes(groups), 1);
    uint8_t *row = mem_calloc((size_t)stored, 1);
    enum b2_status rc =
        marks && row ? B2_OK : err_set(err, B2_ENOMEM, "rows: out of memory");

    for (int64_t r = 0; r < rows && !rc; r++, bytes += whole) {
        (void)zeros_mark_row(marks, cand->type, bytes, groups, cand->left_out);
        zeros_pack_row(row, marks, cand->type, bytes, groups);
        rc = gguf_out_data(out, row, (size_t)stored, err);
    }
    mem_free(marks);
    mem_free(row);
    return rc;
}
