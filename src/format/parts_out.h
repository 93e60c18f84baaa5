/*
 * parts_out.h - a model's tensors into one file or, above a size, into several.
 *
 * A GGUF OUT.gguf becomes OUT-00001-of-0000N.gguf …: llama.cpp's split files, with all
 * keys of the model in the first. model.safetensors becomes
 * model-00001-of-0000N.safetensors … beside model.safetensors.index.json, as
 * transformers shards it. Cuts lie between tensors. No file has its name before all
 * bytes of all files are there; the one that readers start from gets it last.
 */
#ifndef FORMAT_PARTS_OUT_H
#define FORMAT_PARTS_OUT_H

#include "base/str.h"
#include "format/gguf.h"
#include "format/modelfile.h"
#include "format/safetensors.h"

enum parts_kind { PARTS_GGUF, PARTS_SAFETENSORS };

/* All files are open at once, for the reason above. */
enum { PARTS_MAX = 256 };

struct parts_params {
    enum parts_kind kind;
    const char *path; /* of the one file; its parts take their names from it */
    const struct modelfile *source; /* being read: no file of it is replaced; or NULL */
    const struct meta *meta; /* GGUF: keys of the model; borrowed until parts_start */
    uint64_t max_bytes; /* of tensor data in a file; a larger tensor has a file of its
                           own; 0: one file */
    uint32_t version;   /* GGUF: 2 or 3 */
    bool force;         /* replace existing files */
};

struct parts_out;

/* The name of file i of n, from 0, appended to s: path itself when n is 1. */
void parts_name(struct str *s, enum parts_kind kind, const char *path, int i, int n);

/* Strings of p are borrowed until the end. Touches no file. */
enum b2_status parts_new(struct parts_out **out, const struct parts_params *p,
                         struct b2_err *err) NODISCARD;
/* Declares the next tensor; all are declared before parts_start. */
enum b2_status parts_tensor(struct parts_out *o, const char *name, enum dtype type,
                            int rank, const int64_t *ne, struct b2_err *err) NODISCARD;
/* Cuts, refuses existing files (B2_EEXIST) and opens all. *n_files counts those with
 * tensors, *n_bytes is the size of everything that parts_finish leaves. */
enum b2_status parts_start(struct parts_out *o, int *n_files, uint64_t *n_bytes,
                           struct b2_err *err) NODISCARD;
/* Appends bytes in declared order; pieces may not cross the end of a tensor. The first
 * call writes the headers, so that a disk can be looked at before. */
enum b2_status parts_data(struct parts_out *o, const void *data, size_t n,
                          struct b2_err *err) NODISCARD;
/* Gives all files their names, or none. With force, what a reader would take for the
 * model before these files (the other form in a folder) is removed. Frees o always. */
enum b2_status parts_finish(struct parts_out *o, struct b2_err *err) NODISCARD;
void parts_abort(struct parts_out *o); /* NULL is fine */

#endif
