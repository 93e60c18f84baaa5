/*
 * outmeta.c - keys in, keys out.
 */
#include "compress/outmeta.h"

#include "base/mem.h"
#include "compress/tiers.h"
#include "format/private.h"
#include "format/tail.h"
#include "format/tiers.h"
#include "model/rotation.h"

#include <string.h>

enum { META_MAX = 1 << 30 };

/* general.file_type by the type that most weights have: llama.h's enum llama_ftype, and
 * the two numbers of the Prism fork (FORMATS.md §1.1). */
static const struct {
    enum dtype type;
    uint32_t file_type;
} file_types[] = {
    {DT_F32, 0},   {DT_F16, 1},   {DT_Q4_0, 2},    {DT_Q4_1, 3},     {DT_Q8_0, 7},
    {DT_Q5_0, 8},  {DT_Q5_1, 9},  {DT_BF16, 32},   {DT_TQ1_0, 36},   {DT_TQ2_0, 37},
    {DT_Q1_0, 40}, {DT_Q2_0, 41}, {DT_PQ2_0, 141}, {DT_PTQ1_0, 143},
};

/* Keys about the source's storage, which the output has in its own way. */
bool outmeta_is_fold(const char *key)
{
    return strncmp(key, OUTMETA_FOLD, sizeof OUTMETA_FOLD - 1) == 0;
}

static bool is_dropped(const char *key)
{
    return strncmp(key, "split.", 6) == 0 || strcmp(key, "general.alignment") == 0 ||
           (strncmp(key, "bonsai2.", 8) == 0 && !rotation_is_key(key) &&
            !tiers_is_key(key) && strcmp(key, "bonsai2.prune") != 0 &&
            !outmeta_is_fold(key));
}

/* Whether b has every key of this kind that a has, with the same values. */
static bool has_fold_of(const struct meta *b, const struct meta *a)
{
    for (int64_t i = 0; i < meta_count(a); i++) {
        const struct meta_kv *x = meta_at(a, i);
        if (!outmeta_is_fold(x->key))
            continue;
        const struct meta_kv *y = meta_find(b, x->key);
        if (!y || y->type != x->type || y->n != x->n)
            return false;
        if (x->type == MT_STR) {
            if (x->v.strs->len != y->v.strs->len ||
                memcmp(x->v.strs->data, y->v.strs->data, x->v.strs->len) != 0)
                return false;
            continue;
        }
        const size_t each = meta_type_bytes(x->type == MT_ARR ? x->elem : x->type);
        if ((x->type == MT_ARR && x->elem != y->elem) || each == 0 ||
            memcmp(x->v.raw, y->v.raw, (size_t)x->n * each) != 0)
            return false;
    }
    return true;
}

bool outmeta_same_fold(const struct meta *a, const struct meta *b)
{
    return has_fold_of(a, b) && has_fold_of(b, a);
}

static enum dtype main_type(const struct choose *c)
{
    int64_t count[N_DTYPES] = {0};
    int best = 0;

    for (int64_t i = 0; i < c->n; i++)
        count[choose_picked(&c->item[i])->type] += tensor_count(c->item[i].t);
    for (int t = 1; t < N_DTYPES; t++)
        best = count[t] > count[best] ? t : best;
    return (enum dtype)best;
}

/* A type without a number of its own (a kept K type) leaves the source's number. */
static enum b2_status set_storage_keys(struct meta *m, const struct choose *c,
                                       struct b2_err *err)
{
    enum dtype type = main_type(c);
    enum b2_status rc = B2_OK;
    bool quantised = false;

    for (size_t i = 0; i < countof(file_types) && !rc; i++)
        if (file_types[i].type == type)
            rc = meta_set_u32(m, "general.file_type", file_types[i].file_type, err);
    for (int64_t i = 0; i < c->n; i++)
        quantised |= dtype_info(choose_picked(&c->item[i])->type)->block > 1;
    if (!rc && quantised)
        rc = meta_set_u32(m, "general.quantization_version", 2, err);
    return rc;
}

static const char *base_name(const char *path)
{
    size_t len = strlen(path);
    const char *p;

    while (len > 1 && path[len - 1] == '/') /* a folder given as "model/" */
        len--;
    for (p = path + len; p > path && p[-1] != '/'; p--)
        ;
    return p;
}

static enum b2_status set_origin_keys(struct meta *m, const struct choose *c,
                                      const struct modelfile *mf,
                                      const struct outmeta_source *source,
                                      struct b2_err *err)
{
    const struct meta *src = modelfile_meta(mf);
    const char *old_recipe = NULL;
    struct str name = {0}, json = {0};
    enum b2_status rc;

    str_put(&name, base_name(source->path));
    while (name.len > 1 && name.data[name.len - 1] == '/')
        name.data[--name.len] = '\0';
    recipe_json(c->recipe, &json);
    rc = str_ok(&name) && str_ok(&json)
             ? B2_OK
             : err_set(err, B2_ENOMEM, "keys: out of memory");
    if (!rc)
        rc = meta_set_str(m, "bonsai2.version", B2_VERSION, err);
    if (!rc)
        rc = meta_set_str(m, "bonsai2.source.name", name.data, err);
    if (!rc)
        rc = meta_set_str(m, "bonsai2.source.sha256", source->sha256, err);
    if (!rc && meta_get_str(src, "bonsai2.recipe", &old_recipe, NULL) == B2_OK)
        rc = meta_set_str(m, "bonsai2.source.recipe", old_recipe, err);
    if (!rc)
        rc = meta_set_str(m, "bonsai2.recipe", json.data, err);
    if (!rc)
        rc = meta_set_u64(m, "bonsai2.seed", c->recipe->seed, err);
    if (!rc)
        rc = meta_set_str(m, "bonsai2.ternary.rule",
                          ternarise_rule_name(c->recipe->ternary_rule), err);
    if (!rc)
        rc = meta_set_str(m, "bonsai2.ternary.scale",
                          ternarise_scale_name(c->recipe->ternary_rule), err);
    str_free(&name);
    str_free(&json);
    return rc;
}

/* Names and signs of the weights that were really folded: a reader refuses signs of a
 * width that no weight has. */
static enum b2_status set_rotation_keys(struct meta *m, const struct choose *c,
                                        struct b2_err *err)
{
    struct rotate *used = NULL;
    struct meta_str *names = NULL;
    uint64_t n = 0;
    enum b2_status rc = B2_OK;

    if (!c->rotate)
        return B2_OK;
    used = rotate_new(rotate_mode(c->rotate), c->recipe->seed);
    names = mem_calloc((size_t)c->n, sizeof *names);
    if (!used || !names) {
        rotate_free(used);
        mem_free(names);
        return err_set(err, B2_ENOMEM, "rotation keys: out of memory");
    }
    for (int64_t i = 0; i < c->n && !rc; i++) {
        const struct choose_item *it = &c->item[i];
        if (!choose_picked(it)->fold)
            continue;
        names[n++] = (struct meta_str){it->t->name, strlen(it->t->name)};
        rc = rotate_add_width(used, tensor_width(it->t), err);
    }
    if (!rc && n > 0)
        rc = rotate_set_keys(used, m, names, n, err);
    if (!rc && n > 0 && c->heads.v > 0)
        rc = meta_set_bool(m, "prism.hadamard.gdn_v_grouped", true, err);
    rotate_free(used);
    mem_free(names);
    return rc;
}

static enum b2_status set_tail_keys(struct meta *m, const struct choose *c,
                                    struct b2_err *err)
{
    struct meta_str *names = mem_calloc((size_t)c->n, sizeof *names);
    uint32_t *widths = mem_calloc((size_t)c->n, sizeof *widths);
    enum b2_status rc = B2_OK;
    uint64_t n = 0;

    for (int64_t i = 0; i < c->n && names && widths; i++) {
        const struct tensor *t = c->item[i].t;
        if (choose_picked(&c->item[i])->pad == 0)
            continue;
        names[n] = (struct meta_str){t->name, strlen(t->name)};
        widths[n++] = (uint32_t)tensor_width(t);
    }
    rc = names && widths
             ? tail_set_keys(m, names, widths, n, err)
             : err_set(err, B2_ENOMEM, "keys of padded rows: out of memory");
    mem_free(names);
    mem_free(widths);
    return rc;
}

static void mark_types(bool used[N_DTYPES], const struct choose_candidate *cand)
{
    used[cand->type] = true;
    if (cand->n_hot > 0)
        used[cand->hot] = true;
}

static enum b2_status set_tiers_key(struct meta *m, const struct choose *c,
                                    struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < c->n && !rc; i++) {
        const struct choose_candidate *cand = choose_picked(&c->item[i]);
        const int64_t rows = tensor_rows(c->item[i].t);
        if (cand->n_hot == 0)
            continue;
        int32_t *list = mem_calloc((size_t)rows, sizeof *list);
        if (!list)
            return err_set(err, B2_ENOMEM, "keys: out of memory");
        tiers_list(c, cand, rows, list);
        rc = tiers_set_key(m, list, cand->n_hot, rows, err);
        mem_free(list);
    }
    return rc;
}

/* Marks are zeros until the matrices are there. */
static enum b2_status set_zeros_keys(struct meta *m, const struct choose *c,
                                     struct b2_err *err)
{
    struct meta_str *names = mem_calloc((size_t)c->n, sizeof *names);
    uint32_t *widths = mem_calloc((size_t)c->n, sizeof *widths), n = 0;
    const uint64_t n_marks = choose_all_marks(c);

    for (int64_t i = 0; names && widths && i < c->n; i++) {
        const struct tensor *t = c->item[i].t;
        if (choose_picked(&c->item[i])->left_out == 0)
            continue;
        names[n] = (struct meta_str){t->name, strlen(t->name)};
        widths[n++] = (uint32_t)tensor_width(t);
    }
    uint8_t *marks = mem_calloc((size_t)n_marks, 1);
    enum b2_status rc =
        names && widths && marks
            ? zeros_set_keys(m, names, widths, n, marks, n_marks, err)
            : err_set(err, B2_ENOMEM, "keys of groups of zeros: out of memory");
    mem_free(names);
    mem_free(widths);
    mem_free(marks);
    return rc;
}

static enum b2_status set_private_keys(struct meta *m, const struct choose *c,
                                       struct b2_err *err)
{
    bool used[N_DTYPES] = {false};

    for (int64_t i = 0; i < c->n; i++)
        mark_types(used, choose_picked(&c->item[i]));
    return private_set_keys(m, used, err);
}

enum b2_status outmeta_make(struct meta **out, const struct choose *c,
                            const struct modelfile *mf,
                            const struct outmeta_source *source, struct b2_err *err)
{
    const struct meta *src = modelfile_meta(mf);
    struct meta *m = meta_new(META_MAX);
    enum b2_status rc = B2_OK;

    if (!m)
        return err_set(err, B2_ENOMEM, "keys: out of memory");
    for (int64_t i = 0; i < meta_count(src) && !rc; i++)
        if (!is_dropped(meta_at(src, i)->key))
            rc = meta_copy(m, meta_at(src, i), err);
    if (!rc)
        rc = set_storage_keys(m, c, err);
    if (!rc)
        rc = set_origin_keys(m, c, mf, source, err);
    if (!rc)
        rc = set_rotation_keys(m, c, err);
    if (!rc)
        rc = set_tail_keys(m, c, err);
    if (!rc)
        rc = set_tiers_key(m, c, err);
    if (!rc)
        rc = set_zeros_keys(m, c, err);
    if (!rc)
        rc = set_private_keys(m, c, err);
    if (rc) {
        meta_free(m);
        return rc;
    }
    *out = m;
    return B2_OK;
}

static uint64_t key_bytes(const struct meta_kv *kv)
{
    enum meta_type type = kv->type == MT_ARR ? kv->elem : kv->type;
    uint64_t bytes = 8 + strlen(kv->key) + 4 + (kv->type == MT_ARR ? 12 : 0);

    if (type != MT_STR)
        return bytes + kv->n * meta_type_bytes(type);
    for (uint64_t i = 0; i < kv->n; i++)
        bytes += 8 + kv->v.strs[i].len;
    return bytes;
}

/* The canonical layout of FORMATS.md §2. The pipeline compares the result with what the
 * writer says before a byte is written. */
uint64_t outmeta_file_bytes(const struct meta *m, const struct choose *c)
{
    uint64_t bytes = 4 + 4 + 8 + 8, data = 0;

    for (int64_t i = 0; i < meta_count(m); i++)
        bytes += key_bytes(meta_at(m, i));
    for (int64_t i = 0; i < c->n; i++) {
        const struct tensor *t = c->item[i].t;
        struct choose_part part[2];
        int n = choose_parts(&c->item[i], choose_picked(&c->item[i]), part);
        for (int k = 0; k < n; k++) {
            bytes += 8 + strlen(part[k].name) + 4 + 8 * (uint64_t)t->rank + 4 + 8;
            data += align_up_u64(part[k].n_bytes, CHOOSE_ALIGN);
        }
    }
    return align_up_u64(bytes, CHOOSE_ALIGN) + data;
}
