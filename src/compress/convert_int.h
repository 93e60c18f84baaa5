/*
 * convert_int.h - what convert.c and convert_meta.c share.
 */
#ifndef COMPRESS_CONVERT_INT_H
#define COMPRESS_CONVERT_INT_H

#include "compress/convert.h"
#include "compress/convert_rows.h"
#include "compress/heads.h"
#include "compress/recipe.h"
#include "format/hf_write.h"
#include "format/parts_out.h"
#include "model/rotation.h"

#include <string.h>

struct convert_target {
    bool folder;     /* a Hugging Face folder, else a GGUF */
    bool keep;       /* the types of the source */
    enum dtype type; /* else this one */
};

struct convert_item { /* one tensor */
    int64_t index;    /* in the source */
    enum dtype type;
    char name[HF_WRITE_NAME_MAX];
    bool skip;
    enum hf_change change; /* folder: what is undone */
    int64_t v_dim;         /* folder: rows of a value head that moves; 0: none does */
    int64_t pad;           /* of each row in the output */
    int64_t heads;         /* rows go from pairs to halves; 0: they stay */
    const struct rotation *unfold; /* NULL: nothing to take off */
};

/* The output's shape, and its rank: rows without the source's padding, with their own. */
static inline int convert_shape(const struct convert_item *it, const struct tensor *t,
                                int64_t ne[TENSOR_MAX_RANK])
{
    memcpy(ne, t->ne, sizeof t->ne);
    ne[0] = tensor_width(t) + it->pad;
    if (it->change != HF_V_CONV)
        return t->rank;
    ne[2] = ne[1]; /* a folder's convolution is [channels, 1, taps] */
    ne[1] = 1;
    return 3;
}

struct convert {
    struct modelfile *mf;
    const struct convert_params *p;
    struct convert_target target;
    struct arena *arena;
    struct convert_item *item; /* [n] in the source's order */
    int64_t n;
    bool any_ternary;
    struct heads v_heads; /* of a gated delta net, for a folder */
    struct rotation_set rot;
    uint64_t total, done; /* bytes of the output's tensors */
    double sum_sq, n_values;
    struct meta *meta; /* of the output, GGUF only */
    struct parts_out *out;
};

/* Makes c->meta: the source's keys without those of its storage, with the file type. */
enum b2_status convert_meta(struct convert *c, struct b2_err *err) NODISCARD;

/* What the tensors say that config.json must repeat. */
enum b2_status convert_describe(struct convert *c, struct hf_write_model *w,
                                struct b2_err *err) NODISCARD;

#endif
