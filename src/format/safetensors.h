/*
 * safetensors.h - the safetensors container: reading and writing one file.
 *
 * Shapes are turned around on the way: a file's [rows, row length] is ne[0] = row
 * length, ne[1] = rows, as everywhere in this program. Rules: FORMATS.md §3.
 */
#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include "base/arena.h"
#include "base/file.h"
#include "format/meta.h"
#include "tensor/tensor.h"

enum { SAFETENSORS_HEADER_MAX = 100000000 }; /* bytes, from the reference reader */

struct safetensors {
    uint64_t data_offset;   /* 8 + length of the header */
    struct tensor *tensors; /* in the order of their bytes; data points into the file */
    uint64_t *offsets;      /* absolute, per tensor */
    int64_t n_tensors;
    struct meta *meta; /* "__metadata__": strings under their own names */
    struct arena *arena;
};

/* Parses a whole file in memory. On success s owns its tables (safetensors_close) and
 * borrows data, which has the alignment that the file gives it, perhaps none. */
enum b2_status safetensors_parse(struct safetensors *s, const void *data, size_t size,
                                 struct b2_err *err) NODISCARD;
void safetensors_close(struct safetensors *s); /* zeroed is fine */

/* "BF16", or NULL when the format has no name for the type. */
const char *safetensors_type_name(enum dtype t);

/* ---- writing ---- */

struct safetensors_out;

/* Starts path (atomically: appears at finish). meta: its strings become
 * "__metadata__", other types are an error; NULL: {"format": "pt"}, which
 * transformers asks for. Borrowed until safetensors_out_header. */
enum b2_status safetensors_out_open(struct safetensors_out **out, const char *path,
                                    bool force, const struct meta *meta,
                                    struct b2_err *err) NODISCARD;
/* Declares the next tensor, ne in our order. Plain types only (B2_EUNSUP else). */
enum b2_status safetensors_out_tensor(struct safetensors_out *o, const char *name,
                                      enum dtype type, int rank, const int64_t *ne,
                                      struct b2_err *err) NODISCARD;
/* Total file size once finished; valid after all tensors are declared. */
enum b2_status safetensors_out_size(struct safetensors_out *o, uint64_t *out,
                                    struct b2_err *err) NODISCARD;
enum b2_status safetensors_out_header(struct safetensors_out *o,
                                      struct b2_err *err) NODISCARD;
/* Appends bytes of the tensors in declared order; any number of pieces, which may not
 * cross the end of a tensor. */
enum b2_status safetensors_out_data(struct safetensors_out *o, const void *data,
                                    size_t n, struct b2_err *err) NODISCARD;
/* Checks that every declared byte came, flushes, renames. Frees o in every case. */
enum b2_status safetensors_out_finish(struct safetensors_out *o,
                                      struct b2_err *err) NODISCARD;
void safetensors_out_abort(struct safetensors_out *o); /* NULL is fine */

#endif
