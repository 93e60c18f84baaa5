/*
 * choose.h - what becomes of each tensor: its type, rotated or not, and why.
 *
 * Three steps. choose_prepare() reads names, shapes, rules and keys and leaves each
 * tensor with one candidate (decided) or several; the scan (scan.h) fills in what each
 * candidate costs in error; choose_allocate() picks within a number of bytes.
 */
#ifndef COMPRESS_CHOOSE_H
#define COMPRESS_CHOOSE_H

#include "compress/fit.h"
#include "compress/heads.h"
#include "compress/recipe.h"
#include "compress/role.h"
#include "compress/rotate.h"
#include "format/modelfile.h"
#include "format/zeros.h"

enum choose_why {
    CHOOSE_VECTOR, /* one row: norms and biases stay exact (F32) */
    CHOOSE_OTHER,  /* a matrix that is no linear layer (router, convolution): kept */
    CHOOSE_RULE,
    CHOOSE_BUDGET,
    CHOOSE_TAIL,  /* the wanted type does not divide the row; --tail keep */
    CHOOSE_PAD,   /* the same; --tail pad: the wanted type with wider rows */
    CHOOSE_LATER, /* behind the last layer that is asked for (recipe.layers) */
};

enum { CHOOSE_MAX_CANDIDATES = 16, CHOOSE_ALIGN = 32 /* of tensors in a GGUF */ };

struct choose_candidate {
    enum dtype type;
    bool copy;   /* the source's bytes as they are */
    bool fold;   /* rotated before rounding */
    int64_t pad; /* zeros behind each row, after the rotation */
    int64_t
        left_out; /* groups of each row that are zeros and not in the file (zeros.h) */
    uint64_t n_bytes; /* of the whole tensor, with padding and what is left out */
    int64_t n_hot;    /* a table in two types: rows of type hot; 0: all are of one */
    enum dtype hot;
    double error;  /* relative squared error, measured on sampled rows */
    double damage; /* nat, measured (cost.h); negative: not */
};

struct choose_item {
    const struct tensor *t; /* borrowed from the model file */
    int64_t index;          /* in the model file */
    enum role role;
    int layer;
    enum choose_why why;
    int n_candidates;
    struct choose_candidate candidate[CHOOSE_MAX_CANDIDATES];
    int pick;
};

struct choose {
    const struct recipe *recipe; /* borrowed */
    struct choose_item *item;    /* [n], in the source's order */
    int64_t n;
    int64_t n_params; /* values of all tensors; padding is none */
    int n_layers;
    bool tied;             /* no separate head */
    bool source_rotated;   /* the source's weights are folded already */
    struct rotate *rotate; /* NULL: nothing is rotated */
    struct heads heads;    /* zeros: ssm_out is folded in the order of its columns */
    int32_t *rank; /* [rows of the table of tokens] the most frequent is 0; NULL: no
                    * candidate is of two types (tiers.h) */
};

/* A tensor of the output. */
struct choose_part {
    const char *name;
    enum dtype type;
    int64_t rows;
    uint64_t at, n_bytes; /* among the candidate's bytes; in the file */
};

/* Reads the model's table. On success free with choose_free(). B2_EARG: tensors without
 * a rule and no budget, a rule that matches nothing, a row that a type does not divide
 * (tensor, row, group and remainder are named), a rotation that does not fit. */
enum b2_status choose_prepare(struct choose *c, const struct modelfile *mf,
                              const struct recipe *recipe,
                              struct b2_err *err) NODISCARD;
void choose_free(struct choose *c); /* zeroed is fine */

/* Values that rounding makes sense for, and that must be finite. */
static inline bool choose_is_numbers(enum dtype t)
{
    return (dtype_info(t)->flags & (DTF_WEIGHT | DTF_FLOAT | DTF_TERNARY)) != 0;
}

static inline const struct choose_candidate *choose_picked(const struct choose_item *it)
{
    return &it->candidate[it->pick];
}

/* Layers that are worked on; those behind them keep their bytes. */
static inline int choose_layers(const struct choose *c)
{
    int n = c->recipe->layers;

    return n > 0 && n < c->n_layers ? n : c->n_layers;
}

/* How an item is rounded: tables of tokens favour large weights. */
static inline struct fit_how choose_how(const struct choose *c,
                                        const struct choose_item *it)
{
    return (struct fit_how){.rule = c->recipe->ternary_rule,
                            .favour_large =
                                it->role == ROLE_EMBED || it->role == ROLE_HEAD};
}

/* Folds a row of an item in place: the one way to do it, order of heads included. */
static inline void choose_fold_row(const struct choose *c, const struct choose_item *it,
                                   float *row)
{
    if (it->role == ROLE_SSM_OUT)
        heads_group(&c->heads, row, tensor_width(it->t));
    rotate_fold_row(c->rotate, row, tensor_width(it->t));
}

/* Bytes of rows that the type's block divides. */
static inline uint64_t choose_row_bytes(enum dtype t, int64_t width, int64_t rows)
{
    const struct dtype_info *info = dtype_info(t);

    return (uint64_t)(width / info->block * info->bytes) * (uint64_t)rows;
}

/* Groups of a row, with those that are left out. */
static inline int64_t choose_groups(const struct choose_item *it,
                                    const struct choose_candidate *cand)
{
    return tensor_width(it->t) / dtype_info(cand->type)->block;
}

/* Marks of what is left out (format/zeros.h), of all rows. */
static inline uint64_t choose_marks(const struct choose_item *it,
                                    const struct choose_candidate *cand)
{
    return cand->left_out == 0 ? 0
                               : zeros_mark_bytes(choose_groups(it, cand)) *
                                     (uint64_t)tensor_rows(it->t);
}

/* Bytes of the tensor in the file. */
static inline uint64_t choose_stored(const struct choose_item *it,
                                     const struct choose_candidate *cand)
{
    return cand->n_bytes - (uint64_t)(cand->left_out * tensor_rows(it->t)) *
                               (uint64_t)dtype_info(cand->type)->bytes;
}

static inline enum dtype choose_row_type(const struct choose *c,
                                         const struct choose_candidate *cand,
                                         int64_t row)
{
    return cand->n_hot > 0 && c->rank[row] < cand->n_hot ? cand->hot : cand->type;
}

/* The tensors that a candidate becomes: one, or two in the order of the file. */
int choose_parts(const struct choose_item *it, const struct choose_candidate *cand,
                 struct choose_part part[2]);

/* "Q4_0", or "Q4_0 2457, B2_Q2": the types, and how many rows have the first. */
enum { CHOOSE_NAME_MAX = 64 };
const char *choose_name(char buf[CHOOSE_NAME_MAX], const struct choose_candidate *cand);

/* Takes the fewest bytes everywhere. */
void choose_smallest(struct choose *c);

/* Marks of all picked tensors. */
uint64_t choose_all_marks(const struct choose *c);

/* Picks candidates so that the tensors' bytes are at most max_bytes. in_file: bytes as
 * they lie in a GGUF, aligned and with the names that keys repeat; else bare bytes.
 * B2_EARG: impossible. */
enum b2_status choose_allocate(struct choose *c, uint64_t max_bytes, bool in_file,
                               struct b2_err *err) NODISCARD;

/* Bytes of all picked tensors, counted like choose_allocate counts them. */
uint64_t choose_bytes(const struct choose *c, bool in_file);

#endif
