/*
 * out_list.h - tensors declared for a container that is being written.
 *
 * Both writers work in the same three steps: declare all, write the header, append the
 * bytes in order. This keeps the list and checks the order.
 */
#ifndef FORMAT_OUT_LIST_H
#define FORMAT_OUT_LIST_H

#include "base/arena.h"
#include "base/file.h"
#include "format/names.h"
#include "tensor/tensor.h"

struct out_list {
    struct arena *arena; /* names */
    struct tensor *t;    /* data is NULL */
    int64_t n, cap;
    struct names names;
    bool header_done;
    int64_t now;   /* tensor that takes the next byte */
    uint64_t done; /* bytes of it that came */
};

/* Declares a tensor; computes its bytes. B2_EARG: after the header, a bad shape, a name
 * that is too long (max_name) or there already. */
enum b2_status out_list_add(struct out_list *l, const char *name, enum dtype type,
                            int rank, const int64_t *ne, size_t max_name,
                            struct b2_err *err) NODISCARD;

/* Sum of the sizes, each rounded up to align. */
enum b2_status out_list_bytes(const struct out_list *l, uint64_t align, uint64_t *out,
                              struct b2_err *err) NODISCARD;

/* Writes n bytes of the current tensor to f, and zeros up to align when it is full. */
enum b2_status out_list_data(struct out_list *l, struct file_out *f, uint64_t align,
                             const void *data, size_t n, struct b2_err *err) NODISCARD;

/* B2_OK when the header was written and every declared byte came. */
enum b2_status out_list_complete(const struct out_list *l,
                                 struct b2_err *err) NODISCARD;

void out_list_free(struct out_list *l); /* zeroed is fine */

#endif
