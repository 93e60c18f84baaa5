/*
 * tiers.c - ranks of rows, candidates of two types, and their bytes as a weight.
 */
#include "compress/tiers.h"

#include "base/mem.h"
#include "compress/rank.h"
#include "format/tiers.h"

#include <string.h>

static const struct {
    enum dtype hot, rare;
    int percent; /* of the rows that are hot */
} kinds[] = {
    {DT_Q4_0, DT_B2_Q2, 5},  {DT_Q4_0, DT_B2_Q2, 10}, {DT_Q4_0, DT_B2_Q2, 20},
    {DT_Q4_0, DT_B2_Q2, 40}, {DT_Q4_0, DT_B2_Q3, 20},
};

static enum b2_status rank_rows(struct choose *c, int64_t rows, const int32_t *ids,
                                int64_t n, struct b2_err *err)
{
    struct ranked *all = mem_calloc((size_t)rows, sizeof *all);

    c->rank = mem_calloc((size_t)rows, sizeof *c->rank);
    if (!all || !c->rank) {
        mem_free(all);
        return err_set(err, B2_ENOMEM, "ranks of tokens: out of memory");
    }
    for (int64_t r = 0; r < rows; r++)
        all[r].at = (int32_t)r;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < rows)
            all[ids[i]].key += 1.0;
    rank_falling(all, rows);
    for (int64_t k = 0; k < rows; k++)
        c->rank[all[k].at] = (int32_t)k;
    mem_free(all);
    return B2_OK;
}

static bool is_kept(const struct recipe *r, const char *name)
{
    const int rule = recipe_match(r, name);

    return rule >= 0 && r->rule[rule].want == RECIPE_KEEP;
}

enum b2_status tiers_open(struct modelfile *mf, const struct recipe *r,
                          struct b2_err *err)
{
    const bool both = is_kept(r, TIERS_HOT) && is_kept(r, TIERS_RARE);

    if (!tiers_declared(modelfile_meta(mf)) || (both && is_kept(r, TIERS_TABLE)))
        return B2_OK;
    if (is_kept(r, TIERS_TABLE))
        return err_set(err, B2_EARG,
                       "%s: " TIERS_TABLE " is stored as two tensors; keep both with "
                       "--rule 'token_embd.*=keep'",
                       modelfile_path(mf));
    return modelfile_join_tiers(mf, err);
}

/* Whether the budget chooses the item's type and may choose t. */
static bool has_candidate(const struct choose_item *it, enum dtype t)
{
    for (int i = 0; i < it->n_candidates && it->why == CHOOSE_BUDGET; i++)
        if (it->candidate[i].type == t && !it->candidate[i].n_hot &&
            !it->candidate[i].fold && !it->candidate[i].pad)
            return true;
    return false;
}

static void add_candidates(struct choose_item *it)
{
    const int64_t rows = tensor_rows(it->t), width = tensor_width(it->t);

    for (size_t i = 0; i < countof(kinds); i++) {
        const int64_t n_hot = rows * kinds[i].percent / 100;
        if (n_hot < 1 || n_hot >= rows || n_hot > TIERS_MAX_HOT ||
            it->n_candidates == CHOOSE_MAX_CANDIDATES ||
            !has_candidate(it, kinds[i].hot) || !has_candidate(it, kinds[i].rare))
            continue;
        it->candidate[it->n_candidates++] = (struct choose_candidate){
            .type = kinds[i].rare,
            .hot = kinds[i].hot,
            .n_hot = n_hot,
            .n_bytes = align_up_u64(choose_row_bytes(kinds[i].hot, width, n_hot),
                                    CHOOSE_ALIGN) +
                       choose_row_bytes(kinds[i].rare, width, rows - n_hot),
            .damage = -1.0,
        };
    }
}

enum b2_status tiers_add(struct choose *c, const int32_t *ids, int64_t n,
                         struct b2_err *err)
{
    for (int64_t i = 0; i < c->n; i++) {
        struct choose_item *it = &c->item[i];
        if (it->role != ROLE_EMBED || it->why != CHOOSE_BUDGET || c->rank ||
            strcmp(it->t->name, TIERS_TABLE) != 0)
            continue;
        enum b2_status rc = rank_rows(c, tensor_rows(it->t), ids, n, err);
        if (rc)
            return rc;
        add_candidates(it);
    }
    return B2_OK;
}

void tiers_list(const struct choose *c, const struct choose_candidate *cand,
                int64_t rows, int32_t *list)
{
    int64_t hot = 0, rare = cand->n_hot;

    for (int64_t r = 0; r < rows; r++)
        list[choose_row_type(c, cand, r) == cand->hot ? hot++ : rare++] = (int32_t)r;
}

struct weight tiers_weight(const struct choose_item *it,
                           const struct choose_candidate *cand, const uint8_t *bytes,
                           struct weight_tiers *t, const int32_t *list)
{
    const int64_t rows = tensor_rows(it->t);
    struct weight w = {
        .name = it->t->name,
        .type = cand->type,
        .cols = tensor_width(it->t),
        .rows = rows,
        .pad = cand->pad,
        .data = bytes,
        .row_bytes = cand->n_bytes / (uint64_t)rows,
    };

    if (cand->n_hot == 0)
        return w;
    struct choose_part part[2];
    choose_parts(it, cand, part);
    for (int k = 0; k < 2; k++)
        *(k ? &t->rare : &t->hot) = (struct weight){
            .name = part[k].name,
            .type = part[k].type,
            .cols = w.cols,
            .rows = part[k].rows,
            .data = bytes + part[k].at,
            .row_bytes = part[k].n_bytes / (uint64_t)part[k].rows,
        };
    t->row = list;
    w.data = t->rare.data;
    w.row_bytes = t->rare.row_bytes;
    w.tiers = t;
    return w;
}
