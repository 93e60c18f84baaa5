/*
 * modelfile_int.h - the inside of a modelfile, shared by its openers.
 *
 * A model is a list of files (parts), each mapped, and a list of entries: tensors under
 * their GGUF names whose bytes lie in one part, in place or rearranged when loaded.
 */
#ifndef FORMAT_MODELFILE_INT_H
#define FORMAT_MODELFILE_INT_H

#include "base/arena.h"
#include "base/file.h"
#include "format/gguf.h"
#include "format/modelfile.h"
#include "format/names.h"

struct mf_part {
    char *path; /* arena */
    struct file_map map;
    uint64_t head; /* leading bytes that the fingerprint covers */
    struct gguf gguf;
};

enum mf_how {
    MF_IN_PLACE, /* data points into the map */
    MF_COPY,     /* the same bytes, but the map's address does not suit the type */
    MF_PERMUTE,  /* rows of each head: two halves become interleaved pairs */
    MF_PLUS_ONE, /* floats of src_type, plus 1, as F32 */
    MF_REGROUP,  /* heads in another order, mf_delta.c */
    MF_MADE,     /* computed at opening, owned by the arena */
    MF_JOINED,   /* rows of two tensors in F32, tiers.c */
    MF_ZEROS,    /* with the groups of zeros that the file leaves out, zeros.c */
};

/* Of each run of elements the first skip stay where they are; behind them unit (g, r) of
 * groups x reps goes to place (r, g). */
struct mf_regroup {
    int64_t groups, reps, unit, skip, run;
    bool minus_exp; /* x becomes -exp(x) */
};

struct mf_entry {
    struct tensor t;
    enum mf_how how;
    int part;            /* -1: MF_MADE, MF_JOINED */
    uint64_t offset;     /* of the bytes in the part */
    const uint8_t *src;  /* the same place in memory */
    int64_t n_heads;     /* MF_PERMUTE */
    enum dtype src_type; /* MF_PLUS_ONE, MF_REGROUP: as it lies in the file */
    struct mf_regroup regroup;
    const struct mf_join *join; /* MF_JOINED */
    const uint8_t *marks;       /* MF_ZEROS: what is stored of each row */
    uint64_t src_bytes;         /* MF_ZEROS: in the file */
    int64_t order;              /* folders: place in the list */
    uint8_t *owned;             /* what load made, or NULL */
};

struct modelfile {
    enum modelfile_kind kind;
    const char *path; /* as given */
    const struct log *log;
    struct arena *arena; /* paths, names, small tables */
    struct meta *meta;   /* owned unless it is parts[0].gguf.meta */
    bool owns_meta;
    struct mf_part *parts;
    int n_parts, cap_parts;
    struct mf_entry *entry;
    int64_t n, cap;
    struct names names;
};

/* Maps path as the next part; *part is valid until the next call. */
enum b2_status mf_add_part(struct modelfile *mf, const char *path,
                           struct mf_part **part, struct b2_err *err) NODISCARD;

/* Appends an entry. The name must outlive mf (arena). B2_EFORMAT: it is there already. */
enum b2_status mf_add_entry(struct modelfile *mf, const struct mf_entry *e,
                            struct b2_err *err) NODISCARD;

/* MF_IN_PLACE, or MF_COPY when t->data has not the alignment of t's type. */
enum mf_how mf_place(const struct tensor *t);

/* The entry that a key names, to *i; shown: the name for messages. B2_EFORMAT: the file
 * has no such tensor. */
enum b2_status mf_find_named(const struct modelfile *mf, const char *key,
                             const struct meta_str *name, int64_t *i,
                             char shown[NAMES_SHOW_MAX], struct b2_err *err) NODISCARD;

/* The openers: mf->path is set, everything else empty; the caller cleans up. Single
 * files come with their first part already mapped. */
enum b2_status mf_open_gguf(struct modelfile *mf, struct b2_err *err) NODISCARD;
enum b2_status mf_open_safetensors(struct modelfile *mf, struct b2_err *err) NODISCARD;
enum b2_status mf_open_folder(struct modelfile *mf, struct b2_err *err) NODISCARD;

/* mf_delta.c: how a tensor of a gated delta net is loaded. t is as in the folder. e's
 * shape, type and how are changed. B2_EFORMAT: another shape than the heads give. */
struct hf_model;
enum b2_status mf_delta_entry(struct mf_entry *e, const struct hf_model *model,
                              int change, struct b2_err *err) NODISCARD;
void mf_delta_load(uint8_t *dst, const struct mf_entry *e);

/* tail.c: reads the keys of padded tensors (format/tail.h) and marks these. B2_EUNSUP: an
 * unknown key of the group; B2_EFORMAT: names and widths that contradict each other or
 * the tensors. */
enum b2_status mf_apply_tail(struct modelfile *mf, struct b2_err *err) NODISCARD;

/* tiers.c: the rows of a table whose tensors lie in place. */
void mf_join_load(uint8_t *dst, const struct mf_entry *e);

/* zeros.c: reads the keys of matrices without their groups of zeros (format/zeros.h),
 * makes these whole and takes the keys away. Errors as of mf_apply_tail(). */
enum b2_status mf_apply_zeros(struct modelfile *mf, struct b2_err *err) NODISCARD;
void mf_zeros_load(uint8_t *dst, const struct mf_entry *e);

/* private.c: checks the tensors of our own types against the keys that declare them
 * (format/private.h). B2_EUNSUP: a type or key from elsewhere; B2_EFORMAT: undeclared. */
enum b2_status mf_check_private(struct modelfile *mf, struct b2_err *err) NODISCARD;

#endif
