/*
 * gguf.h - the GGUF container, reading (versions 2 and 3) and writing (3, or 2 for
 * old readers).
 *
 * gguf_parse works on bytes in memory and is the fuzzed part; modelfile.c opens paths,
 * follows splits and joins parts. Rules: FORMATS.md §2.
 */
#ifndef FORMAT_GGUF_H
#define FORMAT_GGUF_H

#include "base/file.h"
#include "format/meta.h"
#include "tensor/tensor.h"

struct gguf {
    uint32_t version;
    uint64_t alignment;
    uint64_t data_offset; /* of the data section, from the start of the file */
    struct meta *meta;
    struct tensor *tensors; /* data points into the parsed bytes */
    uint64_t *offsets;      /* absolute, per tensor */
    int64_t n_tensors;
    struct arena *arena;
};

/* Parses a whole file in memory. On success g owns its tables (gguf_close) and borrows
 * data. Messages: unsupported, truncated, corrupt and wrong layout are four statuses.
 * A legacy group-128 type 42 comes out as DT_Q2_0_G128. */
enum b2_status gguf_parse(struct gguf *g, const void *data, size_t size,
                          struct b2_err *err) NODISCARD;
void gguf_close(struct gguf *g); /* zeroed is fine */

/* ---- writing ---- */

struct gguf_out;

/* Starts path (atomically: appears at finish). Adds split/alignment keys itself; meta is
 * borrowed until gguf_out_header. path NULL: no file, only gguf_out_size can follow. */
enum b2_status gguf_out_open(struct gguf_out **out, const char *path, bool force,
                             const struct meta *meta, struct b2_err *err) NODISCARD;
/* The version field, 3 by default: B2_EARG for another number than 2 or 3. Before the
 * header; all other bytes are the same. */
enum b2_status gguf_out_version(struct gguf_out *o, uint32_t version,
                                struct b2_err *err) NODISCARD;
/* Declares the next tensor (all declared before the header is written). */
enum b2_status gguf_out_tensor(struct gguf_out *o, const char *name, enum dtype type,
                               int rank, const int64_t *ne,
                               struct b2_err *err) NODISCARD;
/* Total file size once finished; valid after all tensors are declared. */
enum b2_status gguf_out_size(struct gguf_out *o, uint64_t *out,
                             struct b2_err *err) NODISCARD;
enum b2_status gguf_out_header(struct gguf_out *o, struct b2_err *err) NODISCARD;
/* Appends bytes of the current tensor, in declared order; any number of pieces. Padding
 * between tensors is added when a tensor is full. */
enum b2_status gguf_out_data(struct gguf_out *o, const void *data, size_t n,
                             struct b2_err *err) NODISCARD;
/* Checks that every declared byte came, flushes, renames. Frees o in every case. */
enum b2_status gguf_out_finish(struct gguf_out *o, struct b2_err *err) NODISCARD;
void gguf_out_abort(struct gguf_out *o); /* NULL is fine */

#endif
