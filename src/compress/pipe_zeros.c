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
    enum b2_status rc = work_piece_map(pl->work, i, pc->payload, &m, err);

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
    const uint64_t n = choose_all_marks(&pl->c);
    uint64_t at = 0;
    enum b2_status rc = B2_OK;

    if (n == 0)
        return B2_OK;
    pl->marks = mem_calloc((size_t)n, 1);
    pl->marks_at = 0;
    if (!pl->marks)
        return err_set(err, B2_ENOMEM, "marks of groups: out of memory");
    for (int64_t i = 0; i < pl->n_pieces && !rc; i++)
        rc = mark_piece(pl, i, pl->marks, &at, err);
    return rc ? rc : zeros_set_marks(pl->meta, pl->marks, n, err);
}

enum b2_status pipeline_write_packed(struct pipeline *pl, struct gguf_out *out,
                                     const struct choose_item *it, const uint8_t *bytes,
                                     struct b2_err *err)
{
    const struct choose_candidate *cand = choose_picked(it);
    const int64_t rows = tensor_rows(it->t), groups = choose_groups(it, cand);
    const uint64_t whole = cand->n_bytes / (uint64_t)rows;
    const uint64_t stored = choose_stored(it, cand) / (uint64_t)rows;
    uint8_t *row = mem_calloc((size_t)stored, 1);
    enum b2_status rc = row ? B2_OK : err_set(err, B2_ENOMEM, "rows: out of memory");

    for (int64_t r = 0; r < rows && !rc; r++, bytes += whole) {
        zeros_pack_row(row, pl->marks + pl->marks_at, cand->type, bytes, groups);
        pl->marks_at += zeros_mark_bytes(groups);
        rc = gguf_out_data(out, row, (size_t)stored, err);
    }
    mem_free(row);
    return rc;
}
