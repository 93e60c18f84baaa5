/*
 * recipe.h - what the user asks of a compression, checked, and as one line of JSON.
 *
 * A recipe and a source file decide every byte of the output: the number of threads and
 * the machine do not. The JSON goes into the output and names the state of an
 * interrupted run.
 */
#ifndef COMPRESS_RECIPE_H
#define COMPRESS_RECIPE_H

#include "base/error.h"
#include "base/str.h"
#include "compress/ternarise.h"
#include "tensor/dtype.h"

enum { RECIPE_MAX_RULES = 64, RECIPE_MAX_GLOB = 256 };

enum recipe_want {
    RECIPE_TYPE,    /* the type named */
    RECIPE_TERNARY, /* the best ternary type for the row's width */
    RECIPE_KEEP,    /* the source's bytes */
};

struct recipe_rule {
    char glob[RECIPE_MAX_GLOB]; /* * ? [a-z] [!a-z], matched against the whole name */
    enum recipe_want want;
    enum dtype type; /* of RECIPE_TYPE */
};

enum recipe_budget { RECIPE_NO_BUDGET, RECIPE_BYTES, RECIPE_BPW };

/* A row that the type's group does not divide: */
enum recipe_tail {
    RECIPE_TAIL_REFUSE, /* is an error */
    RECIPE_TAIL_KEEP,   /* makes its tensor Q8_0, or F16 where 32 does not divide */
    RECIPE_TAIL_PAD,    /* is stored with zeros up to the next group (format/tail.h) */
};

enum {
    RECIPE_ROTATE_NONE = 0,
    RECIPE_ROTATE_AUTO = -1,
    RECIPE_ROTATE_EACH = -2,
    RECIPE_ROTATE_WHOLE = -3,
};

/* In order: each does what those before it do. Best trains what normal gives. */
enum recipe_effort { RECIPE_FAST, RECIPE_NORMAL, RECIPE_BEST };

struct recipe {
    enum recipe_effort effort;
    double mismatch; /* from normal on: share of the correction for earlier errors */
    int64_t
        metric_width; /* from normal on: wider inputs are cut (slab.h); 0: none is */
    int refine;       /* from normal on: passes over the codes */
    const char *calibration; /* from normal on: what it was, as JSON; borrowed */
    enum recipe_budget budget;
    uint64_t budget_bytes; /* of the whole file */
    double budget_bpw;     /* bits of all tensors over all parameters */
    struct recipe_rule rule[RECIPE_MAX_RULES];
    int n_rules;
    enum ternarise_rule ternary_rule;
    double
        zero_groups; /* normal: share of a row's groups that are zeros and left out */
    int layers;      /* only the first of them, the others are kept; 0: all */
    bool only_types; /* a budget chooses from these alone: */
    bool type[N_DTYPES], type_ternary, type_keep;
    enum recipe_tail tail;
    int64_t rotate; /* RECIPE_ROTATE_… or a block size */
    uint64_t seed;
};

/* Each reads one option's word into the recipe. B2_EARG: says what is wrong and what
 * would be right. */
enum b2_status recipe_set_budget(struct recipe *r, const char *word,
                                 struct b2_err *err) NODISCARD;
enum b2_status recipe_add_rule(struct recipe *r, const char *word,
                               struct b2_err *err) NODISCARD;
/* "ternary,Q4_0,Q8_0": what a budget may choose from; keep is the source's bytes. */
enum b2_status recipe_set_types(struct recipe *r, const char *words,
                                struct b2_err *err) NODISCARD;
enum b2_status recipe_set_rotate(struct recipe *r, const char *word,
                                 struct b2_err *err) NODISCARD;
enum b2_status recipe_set_tail(struct recipe *r, const char *word,
                               struct b2_err *err) NODISCARD;
enum b2_status recipe_set_ternary_rule(struct recipe *r, const char *word,
                                       struct b2_err *err) NODISCARD;
enum b2_status recipe_set_effort(struct recipe *r, const char *word,
                                 struct b2_err *err) NODISCARD;

/* The last rule that matches name, or -1. */
int recipe_match(const struct recipe *r, const char *name);

/* The best ternary type for rows of this width: of those that stock llama.cpp loads,
 * TQ1_0 (256) or Q2_0 (64); PTQ1_0 (128) between them and for rotated weights, whose
 * files stock programs refuse anyway. False: no ternary group divides the width. */
bool recipe_ternary_type(enum dtype *out, int64_t width, bool rotated);

/* Appends the recipe as one JSON object without line breaks: same recipe, same text. */
void recipe_json(const struct recipe *r, struct str *out);

/* Appends s as a JSON string with its quotes. */
void recipe_json_string(struct str *out, const char *s);

/* Whether the whole of name matches glob. Linear in the name for each star. */
bool recipe_glob(const char *glob, const char *name);

#endif
