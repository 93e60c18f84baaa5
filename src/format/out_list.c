/*
 * out_list.c - the tensors of a file that is being written.
 */
#include "format/out_list.h"

#include "base/mem.h"
#include "format/gguf_int.h"

#include <inttypes.h>
#include <string.h>

static enum b2_status check_new(const struct out_list *l, const char *name, int rank,
                                const int64_t *ne, size_t max_name, struct b2_err *err)
{
    if (l->header_done)
        return err_set(err, B2_EARG, "tensor %s: declared after the header", name);
    if (name[0] == '\0' || strlen(name) > max_name)
        return err_set(err, B2_EARG, "tensor %s: the name needs 1 to %zu bytes", name,
                       max_name);
    if (rank < 0 || rank > TENSOR_MAX_RANK)
        return err_set(err, B2_EARG, "tensor %s: %d dimensions, at most %d", name, rank,
                       TENSOR_MAX_RANK);
    for (int d = 0; d < rank; d++) {
        if (ne[d] < 0)
            return err_set(err, B2_EARG, "tensor %s: dimension %d is %" PRId64, name, d,
                           ne[d]);
    }
    return B2_OK;
}

enum b2_status out_list_add(struct out_list *l, const char *name, enum dtype type,
                            int rank, const int64_t *ne, size_t max_name,
                            struct b2_err *err)
{
    struct tensor t = {.type = type, .rank = rank, .ne = {1, 1, 1, 1}};
    enum b2_status rc = check_new(l, name, rank, ne, max_name, err);

    if (rc)
        return rc;
    for (int d = 0; d < rank; d++)
        t.ne[d] = ne[d];
    if (gguf_check_shape(&t, err)) {
        err_wrap(err, "tensor %s", name);
        if (err)
            err->status = B2_EARG; /* the caller's mistake, not a file's */
        return B2_EARG;
    }
    if (l->n == l->cap) {
        int64_t cap = l->cap ? l->cap * 2 : 64;
        struct tensor *grown = mem_realloc(l->t, (size_t)cap, sizeof *grown);
        if (!grown)
            return err_set(err, B2_ENOMEM, "tensor %s: out of memory", name);
        l->t = grown;
        l->cap = cap;
    }
    if (!l->arena)
        l->arena = arena_new(SIZE_MAX / 2);
    t.name = l->arena ? arena_strdup(l->arena, name) : NULL;
    enum names_result added = t.name ? names_add(&l->names, t.name) : NAMES_ENOMEM;
    if (added == NAMES_ENOMEM)
        return err_set(err, B2_ENOMEM, "tensor %s: out of memory", name);
    if (added == NAMES_EXISTS)
        return err_set(err, B2_EARG, "tensor %s: declared twice", name);
    l->t[l->n++] = t;
    return B2_OK;
}

enum b2_status out_list_bytes(const struct out_list *l, uint64_t align, uint64_t *out,
                              struct b2_err *err)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < l->n; i++) {
        if (!add_u64(&sum, sum, align_up_u64(l->t[i].n_bytes, align)) ||
            sum > INT64_MAX)
            return err_set(err, B2_EARG, "the tensors together leave 63 bits of bytes");
    }
    *out = sum;
    return B2_OK;
}

static enum b2_status pad(struct file_out *f, uint64_t n, struct b2_err *err)
{
    static const uint8_t zeros[4096];
    enum b2_status rc = B2_OK;

    while (rc == B2_OK && n > 0) {
        size_t piece = n < sizeof zeros ? (size_t)n : sizeof zeros;
        rc = file_out_write(f, zeros, piece, err);
        n -= piece;
    }
    return rc;
}

enum b2_status out_list_data(struct out_list *l, struct file_out *f, uint64_t align,
                             const void *data, size_t n, struct b2_err *err)
{
    if (!l->header_done)
        return err_set(err, B2_EARG, "tensor data before the header");
    while (l->now < l->n && l->t[l->now].n_bytes == 0) /* has no bytes to wait for */
        l->now++;
    if (n == 0)
        return B2_OK;
    if (l->now == l->n)
        return err_set(err, B2_EARG, "%zu bytes more than the tensors declare", n);
    const struct tensor *t = &l->t[l->now];
    if (n > t->n_bytes - l->done)
        return err_set(err, B2_EARG,
                       "tensor %s: %zu bytes given, but only %" PRIu64 " are missing",
                       t->name, n, t->n_bytes - l->done);
    enum b2_status rc = file_out_write(f, data, n, err);
    if (rc)
        return rc;
    l->done += n;
    if (l->done < t->n_bytes)
        return B2_OK;
    l->now++;
    l->done = 0;
    return pad(f, align_up_u64(t->n_bytes, align) - t->n_bytes, err);
}

enum b2_status out_list_complete(const struct out_list *l, struct b2_err *err)
{
    if (!l->header_done)
        return err_set(err, B2_EARG, "finished before the header was written");
    for (int64_t i = l->now; i < l->n; i++) {
        uint64_t got = i == l->now ? l->done : 0;
        if (got < l->t[i].n_bytes)
            return err_set(err, B2_EARG,
                           "tensor %s: %" PRIu64 " of %" PRIu64 " bytes were written",
                           l->t[i].name, got, l->t[i].n_bytes);
    }
    return B2_OK;
}

void out_list_free(struct out_list *l)
{
    mem_free(l->t);
    names_free(&l->names);
    arena_free(l->arena);
    *l = (struct out_list){0};
}
