/*
 * choose.c - rules, ladder and tail rule to candidates; candidates to picks.
 */
#include "compress/choose.h"

#include "base/mem.h"
#include "compress/budget.h"
#include "format/tail.h"
#include "format/tiers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The rungs a budget may choose from, besides the best ternary type and the source's
 * own bytes: those with FP16 scales that every GGUF reader has, and ours of few levels. */
static const enum dtype ladder[] = {DT_Q2_0, DT_B2_Q2, DT_B2_Q3, DT_Q4_0,
                                    DT_Q4_1, DT_Q5_0,  DT_Q5_1,  DT_Q8_0};

static bool divides(enum dtype t, int64_t width)
{
    return width % dtype_info(t)->block == 0;
}

/* The ternary type that stores rows of this width in the fewest bytes, padded; of equals
 * the one with the finest groups. */
static enum dtype smallest_padded(int64_t width)
{
    static const enum dtype types[] = {DT_Q2_0, DT_PTQ1_0, DT_TQ1_0};
    enum dtype best = types[0];
    int64_t best_bytes = INT64_MAX;

    for (size_t i = 0; i < countof(types); i++) {
        const struct dtype_info *info = dtype_info(types[i]);
        int64_t bytes = (width + tail_pad(types[i], width)) / info->block * info->bytes;
        if (bytes < best_bytes) {
            best_bytes = bytes;
            best = types[i];
        }
    }
    return best;
}

/* Types of few levels. Ternary ones and ours are rotated wherever a rotation is asked for. */
static bool is_coarse(enum dtype t)
{
    return (dtype_info(t)->flags & (DTF_TERNARY | DTF_ODD)) != 0;
}

/* Four and five bits gain as much by it, but every program reads them as they are. */
static bool is_plain_small(enum dtype t)
{
    return t == DT_Q4_0 || t == DT_Q4_1 || t == DT_Q5_0 || t == DT_Q5_1;
}

/* Whether a budget of a compensated file mixes types that are rotated anyway. */
static bool mixes_rotated(const struct recipe *r)
{
    bool any = !r->only_types || r->type_ternary;

    for (int t = 0; t < N_DTYPES && !any; t++)
        any = r->type[t] && is_coarse((enum dtype)t);
    return any && r->effort >= RECIPE_NORMAL;
}

/* A GGUF can hold the bytes as they are, without a doubt about their meaning. */
static bool is_storable(enum dtype t)
{
    return dtype_info(t)->gguf_id >= 0 && t != DT_Q2_0_G128 &&
           !(dtype_info(t)->flags & DTF_APART);
}

static bool will_fold(const struct choose *c, const struct choose_item *it,
                      enum dtype t)
{
    if (!c->rotate || !role_foldable(it->role))
        return false;
    return is_coarse(t) || (is_plain_small(t) && t != it->t->type &&
                            it->why == CHOOSE_BUDGET && mixes_rotated(c->recipe));
}

/* What a candidate adds to the file, or its bare bytes. Names of rotated and of padded
 * weights, and of those that leave out groups, stand once more in keys: the length in 8
 * bytes, then the name; a width takes 4 more, marks what they take. */
static uint64_t cost(const struct choose_item *it, const struct choose_candidate *cand,
                     bool in_file)
{
    const uint64_t stored = choose_stored(it, cand), zeros = choose_marks(it, cand);
    if (!in_file)
        return stored + zeros;
    uint64_t name = 8 + strlen(it->t->name);
    uint64_t marks = cand->n_hot ? tiers_mark_bytes(tensor_rows(it->t)) : 0;
    return align_up_u64(stored, CHOOSE_ALIGN) + (cand->fold ? name : 0) +
           (cand->pad || cand->left_out ? name + 4 : 0) + marks + zeros;
}

/* Groups of zeros are made by compensation, in matrices of layers. */
static int64_t left_out(const struct choose *c, const struct choose_item *it,
                        const struct choose_candidate *cand)
{
    const unsigned flags = dtype_info(cand->type)->flags;

    if (c->recipe->effort < RECIPE_NORMAL || cand->copy || cand->pad > 0 ||
        !(flags & DTF_TERNARY) || flags & DTF_APART || it->layer < 0 ||
        it->t->rank != 2 || !role_foldable(it->role))
        return 0;
    const double share = c->recipe->zero_groups * (double)choose_groups(it, cand);
    return (int64_t)(share + 1e-9); /* .29 of 100 is 29 */
}

/* Rows that t's group does not divide get a padded candidate. */
static void add_candidate(const struct choose *c, struct choose_item *it, enum dtype t,
                          bool copy)
{
    const struct dtype_info *info = dtype_info(t);
    bool fold = !copy && will_fold(c, it, t), same = t == it->t->type && !fold;
    int64_t width = tensor_width(it->t), pad = tail_pad(t, width);
    uint64_t blocks = (uint64_t)((width + pad) / info->block);

    for (int i = 0; i < it->n_candidates; i++)
        if (it->candidate[i].type == t && it->candidate[i].copy == copy)
            return;
    it->candidate[it->n_candidates++] = (struct choose_candidate){
        .type = t,
        .copy = copy || same,
        .fold = fold,
        .pad = pad,
        .n_bytes = blocks * (uint64_t)info->bytes * (uint64_t)tensor_rows(it->t),
        .damage = -1.0,
    };
    struct choose_candidate *cand = &it->candidate[it->n_candidates - 1];
    cand->left_out = left_out(c, it, cand);
}

/* The source's bytes. */
static enum b2_status keep_bytes(const struct choose *c, struct choose_item *it,
                                 struct b2_err *err)
{
    enum dtype t = it->t->type;

    if (!is_storable(t))
        return err_set(
            err, t == DT_Q2_0_G128 ? B2_ELAYOUT : B2_EUNSUP,
            "tensor %s: %s cannot be kept in a GGUF; give it a type, such as "
            "--rule '%s=%s'",
            it->t->name, dtype_info(t)->name, it->t->name,
            t == DT_Q2_0_G128 ? "PQ2_0"
            : t == DT_I2_S    ? "Q2_0"
                              : "F16");
    add_candidate(c, it, t, true);
    return B2_OK;
}

/* Norms, biases and tables of one row: exact, in the type that every reader takes. */
static enum b2_status decide_vector(const struct choose *c, struct choose_item *it,
                                    struct b2_err *err)
{
    enum dtype t = it->t->type;

    it->why = CHOOSE_VECTOR;
    if ((dtype_info(t)->flags & DTF_FLOAT) && t != DT_F32 && t != DT_F64)
        add_candidate(c, it, DT_F32, false); /* every half float is an F32 */
    else
        return keep_bytes(c, it, err);
    return B2_OK;
}

/* The tail rule (recipe.h) for a type that does not divide the row; what names it. */
static enum b2_status decide_tail(const struct choose *c, struct choose_item *it,
                                  const char *what, enum dtype t, struct b2_err *err)
{
    int64_t width = tensor_width(it->t), group = dtype_info(t)->block;

    switch (c->recipe->tail) {
    case RECIPE_TAIL_REFUSE:
        return err_set(
            err, B2_EARG,
            "tensor %s: rows of %lld are not a multiple of the group of %lld "
            "of %s (remainder %lld); give it another type, or --tail keep "
            "to leave such tensors at 8 bits, or --tail pad for wider rows",
            it->t->name, (long long)width, (long long)group, what,
            (long long)(width % group));
    case RECIPE_TAIL_KEEP:
        it->why = CHOOSE_TAIL;
        add_candidate(c, it, divides(DT_Q8_0, width) ? DT_Q8_0 : DT_F16, false);
        return B2_OK;
    case RECIPE_TAIL_PAD:
        break;
    }
    if (t == DT_Q1_0)
        return err_set(err, B2_EUNSUP,
                       "tensor %s: rows of %lld cannot be padded to the group of %lld "
                       "of Q1_0, which has no zero",
                       it->t->name, (long long)width, (long long)group);
    it->why = CHOOSE_PAD;
    add_candidate(c, it, t, false);
    return B2_OK;
}

/* Compensated files are for programs that know our keys anyway: rows that only 64 divides
 * take 1.75 bits, not the 2.25 of Q2_0. */
static bool ternary_type(const struct choose *c, enum dtype *out, int64_t width,
                         bool rotated)
{
    if (!recipe_ternary_type(out, width, rotated))
        return false;
    if (c->recipe->effort >= RECIPE_NORMAL && *out == DT_Q2_0)
        *out = DT_B2_T64;
    return true;
}

static enum b2_status decide_by_rule(const struct choose *c, struct choose_item *it,
                                     const struct recipe_rule *rule, struct b2_err *err)
{
    bool rotated = c->source_rotated || (c->rotate && role_foldable(it->role));
    bool pad = c->recipe->tail == RECIPE_TAIL_PAD;
    int64_t width = tensor_width(it->t);
    enum dtype t = rule->type;

    it->why = CHOOSE_RULE;
    if (rule->want == RECIPE_KEEP)
        return keep_bytes(c, it, err);
    if (rule->want == RECIPE_TERNARY && !ternary_type(c, &t, width, rotated))
        return decide_tail(c, it, "the smallest ternary type, Q2_0",
                           pad ? smallest_padded(width) : DT_Q2_0, err);
    bool as_it_is = t == it->t->type && !will_fold(c, it, t); /* padded already, then */
    if (!divides(t, width) && !as_it_is)
        return decide_tail(c, it, dtype_info(t)->name, t, err);
    add_candidate(c, it, t, false);
    return B2_OK;
}

/* The types that --types names. */
static enum b2_status add_named(const struct choose *c, struct choose_item *it,
                                struct b2_err *err)
{
    const struct recipe *r = c->recipe;
    bool rotated = c->source_rotated || (c->rotate && role_foldable(it->role));
    int64_t width = tensor_width(it->t);
    enum dtype t;

    it->why = CHOOSE_BUDGET;
    if (r->type_ternary && ternary_type(c, &t, width, rotated))
        add_candidate(c, it, t, false);
    for (int k = 0; k < N_DTYPES; k++)
        if (r->type[k] &&
            (r->tail == RECIPE_TAIL_PAD || divides((enum dtype)k, width)) &&
            it->n_candidates < CHOOSE_MAX_CANDIDATES - 1)
            add_candidate(c, it, (enum dtype)k, false);
    if (r->type_keep)
        return keep_bytes(c, it, err);
    if (it->n_candidates == 0)
        return err_set(
            err, B2_EARG,
            "tensor %s: none of --types divides its rows of %lld; add a type "
            "with a smaller group, or keep",
            it->t->name, (long long)width);
    return B2_OK;
}

/* Compensated files have types of ours anyway, which leave nothing to Q2_0; effort fast
 * makes files for every program. */
static bool in_ladder(const struct recipe *r, enum dtype t)
{
    return r->effort >= RECIPE_NORMAL ? t != DT_Q2_0
                                      : !(dtype_info(t)->flags & DTF_ODD);
}

/* Everything a budget may choose for this tensor: smaller than the source, or the
 * source itself. */
static void add_ladder(const struct choose *c, struct choose_item *it)
{
    bool rotated = c->source_rotated || (c->rotate && role_foldable(it->role));
    bool keep = is_storable(it->t->type), pad = c->recipe->tail == RECIPE_TAIL_PAD;
    int64_t width = tensor_width(it->t);
    uint64_t limit = keep ? it->t->n_bytes : UINT64_MAX;
    enum dtype t;

    it->why = CHOOSE_BUDGET;
    if (ternary_type(c, &t, width, rotated))
        add_candidate(c, it, t, false);
    for (size_t i = 0; i < countof(ladder); i++)
        if (in_ladder(c->recipe, ladder[i]) && (pad || divides(ladder[i], width)))
            add_candidate(c, it, ladder[i], false);
    if (pad)
        add_candidate(c, it, smallest_padded(width), false);
    int n = 0;
    for (int i = 0; i < it->n_candidates; i++)
        if (cost(it, &it->candidate[i], false) < limit &&
            it->candidate[i].type != it->t->type)
            it->candidate[n++] = it->candidate[i];
    it->n_candidates = n;
    add_candidate(c, it, keep ? it->t->type : DT_F16, keep);
}

static enum b2_status decide(const struct choose *c, struct choose_item *it,
                             struct b2_err *err)
{
    int rule = recipe_match(c->recipe, it->t->name);

    it->n_candidates = 0;
    if (it->t->rank < 2 || tensor_rows(it->t) < 2)
        return decide_vector(c, it, err);
    if (!choose_is_numbers(it->t->type)) {
        it->why = CHOOSE_OTHER;
        return keep_bytes(c, it, err);
    }
    if (c->recipe->layers > 0 && it->layer >= c->recipe->layers) {
        it->why = CHOOSE_LATER;
        return keep_bytes(c, it, err);
    }
    if (rule >= 0)
        return decide_by_rule(c, it, &c->recipe->rule[rule], err);
    if (it->role == ROLE_OTHER) {
        it->why = CHOOSE_OTHER;
        return keep_bytes(c, it, err);
    }
    if (c->recipe->budget == RECIPE_NO_BUDGET)
        return err_set(err, B2_EARG,
                       "tensor %s: no rule matches and there is no budget; give "
                       "--budget 90MB, or a rule such as --rule '*=ternary'",
                       it->t->name);
    if (c->recipe->only_types)
        return add_named(c, it, err);
    add_ladder(c, it);
    return B2_OK;
}

/* A tensor that may end up ternary and whose rotation the contract can say. */
static bool may_rotate(const struct choose *c, const struct choose_item *it)
{
    int rule = recipe_match(c->recipe, it->t->name);

    if (!role_foldable(it->role) || it->t->rank < 2 || !choose_is_numbers(it->t->type))
        return false;
    if (c->recipe->layers > 0 && it->layer >= c->recipe->layers)
        return false;
    if (rule < 0)
        return c->recipe->budget != RECIPE_NO_BUDGET;
    const struct recipe_rule *r = &c->recipe->rule[rule];
    return r->want == RECIPE_TERNARY || (r->want == RECIPE_TYPE && is_coarse(r->type));
}

/* Finds the block and the widths of all weights that may be rotated. */
static enum b2_status prepare_rotation(struct choose *c, const struct meta *m,
                                       struct b2_err *err)
{
    int64_t block = c->recipe->rotate, auto_block = ROTATE_MAX_BLOCK;
    enum b2_status rc = B2_OK;

    if (block == RECIPE_ROTATE_NONE)
        return B2_OK;
    if (c->source_rotated)
        return err_set(err, B2_EARG,
                       "the source's weights are rotated already "
                       "(its keys say so); leave --rotate out to keep that");
    for (int64_t i = 0; i < c->n; i++)
        if (may_rotate(c, &c->item[i]))
            auto_block =
                min_i64(auto_block, rotate_auto_block(tensor_width(c->item[i].t)));
    if (block == RECIPE_ROTATE_AUTO && auto_block < 2)
        return err_set(err, B2_EARG,
                       "no power of two divides the rows of all weights to rotate; use "
                       "--rotate none");
    if (block == RECIPE_ROTATE_AUTO)
        block = auto_block;
    if (block == RECIPE_ROTATE_EACH)
        block = ROTATE_EACH;
    else if (block == RECIPE_ROTATE_WHOLE)
        block = ROTATE_WHOLE;
    c->rotate = rotate_new(block, c->recipe->seed);
    if (!c->rotate)
        return err_set(err, B2_ENOMEM, "rotation: out of memory");
    for (int64_t i = 0; i < c->n && !rc; i++) {
        if (!may_rotate(c, &c->item[i]))
            continue;
        rc = rotate_add_width(c->rotate, tensor_width(c->item[i].t), err);
        if (rc)
            err_wrap(err, "tensor %s", c->item[i].t->name);
    }
    /* The contract with one block has a word for it; statistics of inputs are in the
     * order of the columns. */
    if (rotate_block(c->rotate) > 0 && c->recipe->effort == RECIPE_FAST)
        c->heads = heads_read(m);
    return rc;
}

/* A rule that matches nothing is a spelling mistake. */
static enum b2_status check_rules_used(const struct choose *c, struct b2_err *err)
{
    for (int r = 0; r < c->recipe->n_rules; r++) {
        const char *glob = c->recipe->rule[r].glob;
        bool used = false;
        for (int64_t i = 0; i < c->n && !used; i++)
            used = recipe_glob(glob, c->item[i].t->name);
        if (!used)
            return err_set(err, B2_EARG,
                           "rule '%s' matches no tensor; names look like %s", glob,
                           c->n ? c->item[c->n - 1].t->name : "token_embd.weight");
    }
    return B2_OK;
}

enum b2_status choose_prepare(struct choose *c, const struct modelfile *mf,
                              const struct recipe *recipe, struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    bool head = false;

    *c = (struct choose){.recipe = recipe, .n = modelfile_n_tensors(mf)};
    c->item = mem_calloc((size_t)c->n, sizeof *c->item);
    if (!c->item)
        return err_set(err, B2_ENOMEM, "tensor table: out of memory");
    for (int64_t i = 0; i < c->n; i++) {
        struct choose_item *it = &c->item[i];
        it->index = i;
        it->t = modelfile_tensor(mf, i);
        it->role = role_of(it->t->name, &it->layer);
        head |= it->role == ROLE_HEAD;
        c->n_layers = it->layer >= c->n_layers ? it->layer + 1 : c->n_layers;
        c->n_params += tensor_count(it->t);
    }
    c->tied = !head;
    c->source_rotated = meta_find(modelfile_meta(mf), "prism.hadamard.version") ||
                        meta_find(modelfile_meta(mf), "bonsai2.rotation.version");
    rc = check_rules_used(c, err);
    if (!rc)
        rc = prepare_rotation(c, modelfile_meta(mf), err);
    for (int64_t i = 0; i < c->n && !rc; i++)
        rc = decide(c, &c->item[i], err);
    if (rc)
        choose_free(c);
    return rc;
}

void choose_free(struct choose *c)
{
    rotate_free(c->rotate);
    mem_free(c->item);
    mem_free(c->rank);
    *c = (struct choose){0};
}

int choose_parts(const struct choose_item *it, const struct choose_candidate *cand,
                 struct choose_part part[2])
{
    const int64_t rows = tensor_rows(it->t);

    if (cand->n_hot == 0) {
        part[0] = (struct choose_part){it->t->name, cand->type, rows, 0,
                                       choose_stored(it, cand)};
        return 1;
    }
    const uint64_t hot = choose_row_bytes(cand->hot, tensor_width(it->t), cand->n_hot);
    const uint64_t at = align_up_u64(hot, CHOOSE_ALIGN);
    part[0] = (struct choose_part){TIERS_HOT, cand->hot, cand->n_hot, 0, hot};
    part[1] = (struct choose_part){TIERS_RARE, cand->type, rows - cand->n_hot, at,
                                   cand->n_bytes - at};
    return 2;
}

const char *choose_name(char buf[CHOOSE_NAME_MAX], const struct choose_candidate *cand)
{
    if (cand->n_hot == 0)
        snprintf(buf, CHOOSE_NAME_MAX, "%s", dtype_info(cand->type)->name);
    else
        snprintf(buf, CHOOSE_NAME_MAX, "%s %lld, %s", dtype_info(cand->hot)->name,
                 (long long)cand->n_hot, dtype_info(cand->type)->name);
    return buf;
}

void choose_smallest(struct choose *c)
{
    for (int64_t i = 0; i < c->n; i++) {
        struct choose_item *it = &c->item[i];
        it->pick = 0;
        for (int k = 1; k < it->n_candidates; k++)
            if (cost(it, &it->candidate[k], false) <
                cost(it, &it->candidate[it->pick], false))
                it->pick = k;
    }
}

uint64_t choose_all_marks(const struct choose *c)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < c->n; i++)
        sum += choose_marks(&c->item[i], choose_picked(&c->item[i]));
    return sum;
}

uint64_t choose_bytes(const struct choose *c, bool in_file)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < c->n; i++)
        sum += cost(&c->item[i], choose_picked(&c->item[i]), in_file);
    return sum;
}

enum b2_status choose_allocate(struct choose *c, uint64_t max_bytes, bool in_file,
                               struct b2_err *err)
{
    struct budget_unit *units = mem_calloc((size_t)c->n, sizeof *units);

    if (!units)
        return err_set(err, B2_ENOMEM, "budget: out of memory");
    for (int64_t i = 0; i < c->n; i++) {
        const struct choose_item *it = &c->item[i];
        double prior = role_prior(it->role, it->layer, c->n_layers, c->tied) *
                       (double)tensor_count(it->t);
        units[i].n_choices = it->n_candidates;
        for (int k = 0; k < it->n_candidates; k++) {
            const struct choose_candidate *cand = &it->candidate[k];
            units[i].choice[k] = (struct budget_choice){
                .bytes = cost(it, cand, in_file),
                .damage = cand->damage < 0.0 ? role_damage(cand->error) * prior
                                             : cand->damage,
            };
        }
    }
    enum b2_status rc = budget_allocate(units, c->n, max_bytes, err);
    for (int64_t i = 0; i < c->n && !rc; i++)
        c->item[i].pick = units[i].pick;
    mem_free(units);
    return rc;
}
