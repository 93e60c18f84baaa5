/*
 * rotation.c - the prism.hadamard.* keys.
 */
#include "model/rotation_int.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "prism.hadamard."

/* Every key that may stand there; another one would be something to understand. */
static const char *const known_keys[] = {
    "version",
    "block_size",
    "transform",
    "axis",
    "sign_mode",
    "sign_widths",
    "sign_values",
    "weight_names",
    "tied_output",
    "gdn_v_grouped",
    "inverse_weight_names",
};

/* The value of key must be one word. */
static enum b2_status want_word(const struct meta *m, const char *key, const char *word,
                                struct b2_err *err)
{
    const char *got;
    enum b2_status rc = meta_get_str(m, key, &got, err);

    if (rc == B2_OK && strcmp(got, word) != 0)
        return err_set(err, B2_EUNSUP, "key %s = %.60s is not supported (only %s)", key,
                       got, word);
    return rc;
}

static enum b2_status read_version(struct rotation_decl *d, const struct meta *m,
                                   struct b2_err *err)
{
    enum b2_status rc = meta_get_u32(m, PREFIX "version", &d->version, err);

    if (rc)
        return rc;
    if (d->version != 1 && d->version != 2)
        return err_set(err, B2_EUNSUP,
                       "key " PREFIX "version = %u is not supported (1 and 2 are)",
                       d->version);
    rc = meta_opt_bool(m, PREFIX "tied_output", &d->tied_output, false, err);
    if (rc == B2_OK)
        rc = meta_opt_bool(m, PREFIX "gdn_v_grouped", &d->gdn_v_grouped, false, err);
    if (rc == B2_OK && d->tied_output != (d->version == 2))
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX
                       "tied_output = %s contradicts version %u (version 2 "
                       "means a tied head)",
                       d->tied_output ? "true" : "false", d->version);
    return rc;
}

/* The heads that gdn_v_grouped speaks of, from the architecture's keys. A model without
 * such heads may have the key: it says nothing then. */
static enum b2_status read_heads(struct rotation_decl *d, const struct meta *m,
                                 struct b2_err *err)
{
    const char *arch = "";
    char key[2][128];
    uint64_t n[2];

    if (!d->gdn_v_grouped || meta_get_str(m, "general.architecture", &arch, NULL))
        return B2_OK;
    (void)snprintf(key[0], sizeof key[0], "%.60s.ssm.group_count", arch);
    (void)snprintf(key[1], sizeof key[1], "%.60s.ssm.time_step_rank", arch);
    if (!meta_find(m, key[0]) || !meta_find(m, key[1]))
        return B2_OK;
    for (int i = 0; i < 2; i++) {
        enum b2_status rc = meta_get_u64(m, key[i], &n[i], err);
        if (rc)
            return rc;
    }
    if (n[0] < 1 || n[1] > INT32_MAX || n[1] % n[0] != 0)
        return err_set(err, B2_EFORMAT,
                       "keys %s and %s: %llu value heads are no multiple of %llu key "
                       "heads",
                       key[1], key[0], (unsigned long long)n[1],
                       (unsigned long long)n[0]);
    d->k_heads = (int64_t)n[0];
    d->v_heads = (int64_t)n[1];
    return B2_OK;
}

/* sign_widths and sign_values: one full vector of ±1 per width. */
static enum b2_status read_signs(struct rotation_decl *d, const struct meta *m,
                                 struct b2_err *err)
{
    uint64_t n_signs, sum = 0;
    enum b2_status rc =
        meta_get_i32s(m, PREFIX "sign_widths", &d->widths, &d->n_widths, err);

    if (rc == B2_OK)
        rc = meta_get_i32s(m, PREFIX "sign_values", &d->signs, &n_signs, err);
    if (rc)
        return rc;
    if (d->n_widths < 1 || d->n_widths > ROTATION_MAX_WIDTHS)
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX "sign_widths: %llu widths, not 1..%d",
                       (unsigned long long)d->n_widths, ROTATION_MAX_WIDTHS);
    for (uint64_t i = 0; i < d->n_widths; i++) {
        int32_t w = d->widths[i];
        if (w <= 0 || w % d->block != 0)
            return err_set(err, B2_EFORMAT,
                           "key " PREFIX "sign_widths: width %d is not a multiple of "
                           "block_size %lld",
                           w, (long long)d->block);
        for (uint64_t k = 0; k < i; k++)
            if (d->widths[k] == w)
                return err_set(err, B2_EFORMAT,
                               "key " PREFIX "sign_widths: width %d stands there twice",
                               w);
        sum += (uint64_t)w;
    }
    if (sum != n_signs)
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX
                       "sign_values: %llu signs, but the widths add up to %llu",
                       (unsigned long long)n_signs, (unsigned long long)sum);
    for (uint64_t i = 0; i < n_signs; i++)
        if (d->signs[i] != 1 && d->signs[i] != -1)
            return err_set(err, B2_EFORMAT,
                           "key " PREFIX "sign_values[%llu] = %d is neither 1 nor -1",
                           (unsigned long long)i, d->signs[i]);
    return B2_OK;
}

static enum b2_status read_sign_mode(struct rotation_decl *d, const struct meta *m,
                                     struct b2_err *err)
{
    const char *mode;
    enum b2_status rc = meta_get_str(m, PREFIX "sign_mode", &mode, err);

    if (rc)
        return rc;
    if (strcmp(mode, "explicit") == 0) {
        d->explicit_signs = true;
        return read_signs(d, m, err);
    }
    if (strcmp(mode, "identity") != 0)
        return err_set(err, B2_EUNSUP,
                       "key " PREFIX
                       "sign_mode = %.60s is not supported (explicit, identity)",
                       mode);
    if (meta_find(m, PREFIX "sign_values"))
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX
                       "sign_values is there although sign_mode is identity");
    return B2_OK;
}

static bool has_form(const struct meta_str *s, const char *begin, const char *end)
{
    size_t b = strlen(begin), e = strlen(end);

    return s->len >= b + e && memcmp(s->data, begin, b) == 0 &&
           memcmp(s->data + s->len - e, end, e) == 0;
}

/* "blk.N.KIND.weight" of a kind that a converter may fold, or "output.weight". Others
 * (norms, convolutions, gates of a few rows) read an activation that is never rotated. */
bool rotation_may_fold(const struct meta_str *name)
{
    static const char *const kinds[] = {
        "attn_q",        "attn_k",         "attn_v",        "attn_qkv",
        "attn_gate",     "attn_output",    "ffn_gate",      "ffn_up",
        "ffn_down",      "ssm_out",        "ffn_gate_exps", "ffn_up_exps",
        "ffn_down_exps", "ffn_gate_shexp", "ffn_up_shexp",  "ffn_down_shexp",
    };
    static const char end[] = ".weight";

    if (has_form(name, "output", end))
        return name->len == sizeof "output.weight" - 1;
    if (!has_form(name, "blk.", end))
        return false;
    const char *p = name->data + 4, *stop = name->data + name->len - (sizeof end - 1);
    while (p < stop && *p >= '0' && *p <= '9')
        p++;
    if (p == name->data + 4 || p >= stop || *p != '.')
        return false;
    p++;
    for (size_t i = 0; i < countof(kinds); i++)
        if (strlen(kinds[i]) == (size_t)(stop - p) &&
            memcmp(p, kinds[i], (size_t)(stop - p)) == 0)
            return true;
    return false;
}

static enum b2_status read_names(struct rotation_decl *d, const struct meta *m,
                                 struct b2_err *err)
{
    static const char embd[] = "token_embd.weight";
    enum b2_status rc =
        meta_get_strs(m, PREFIX "weight_names", &d->forward, &d->n_forward, err);

    if (rc == B2_OK && meta_find(m, PREFIX "inverse_weight_names"))
        rc = meta_get_strs(m, PREFIX "inverse_weight_names", &d->inverse, &d->n_inverse,
                           err);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < d->n_forward; i++)
        if (!rotation_may_fold(&d->forward[i]))
            return err_set(err, B2_EFORMAT,
                           "key " PREFIX
                           "weight_names: %.80s is not a kind of weight that "
                           "is folded",
                           d->forward[i].data);
    for (uint64_t i = 0; i < d->n_inverse; i++)
        if (d->inverse[i].len != sizeof embd - 1 ||
            memcmp(d->inverse[i].data, embd, sizeof embd - 1) != 0)
            return err_set(err, B2_EFORMAT,
                           "key " PREFIX
                           "inverse_weight_names: %.80s, but only %s can be "
                           "rotated back",
                           d->inverse[i].data, embd);
    if (d->tied_output && d->n_inverse == 0)
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX
                       "tied_output = true without %s in inverse_weight_names",
                       embd);
    return B2_OK;
}

enum b2_status rotation_read(struct rotation_decl *out, const struct meta *m,
                             struct b2_err *err)
{
    struct rotation_decl d = {0};
    uint32_t block = 0;
    int n_keys;
    enum b2_status rc = meta_check_group(m, PREFIX, known_keys, countof(known_keys),
                                         "a rotation", &n_keys, err);

    if (rc)
        return rc;
    if (n_keys > 0) {
        if ((rc = read_version(&d, m, err)) ||
            (rc = want_word(m, PREFIX "transform",
                            "normalized-sylvester-walsh-hadamard", err)) ||
            (rc = want_word(m, PREFIX "axis", "input-last-dimension", err)) ||
            (rc = meta_get_u32(m, PREFIX "block_size", &block, err)))
            return rc;
        if (block < 2 || block > 1u << 20 || (block & (block - 1)) != 0)
            return err_set(err, B2_EFORMAT,
                           "key " PREFIX "block_size = %u is not a power of two in "
                           "2..1048576",
                           block);
        d.block = block;
        if ((rc = read_heads(&d, m, err)) || (rc = read_sign_mode(&d, m, err)) ||
            (rc = read_names(&d, m, err)))
            return rc;
    }
    if ((rc = rotation_read_own(&d, m, err)))
        return rc;
    *out = d;
    return B2_OK;
}

/* ---- binding to the tensors of a file ---- */

enum { MAX_ROTATIONS = 2 * ROTATION_MAX_WIDTHS }; /* a width has up to two orders */

struct binder {
    struct rotation_set set;
    const struct rotation_decl *decl;
    const struct modelfile *mf;
    struct arena *arena;
};

/* The declared signs of a width as floats; *out stays NULL for identity signs. */
static enum b2_status copy_signs(struct binder *b, const struct tensor *t,
                                 const float **out, struct b2_err *err)
{
    const struct rotation_decl *d = b->decl;
    const int32_t *signs = d->signs;
    uint64_t i = 0;

    if (!d->explicit_signs)
        return B2_OK;
    for (; i < d->n_widths && d->widths[i] != tensor_width(t); i++)
        signs += d->widths[i];
    if (i == d->n_widths)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: is folded, but " PREFIX
                       "sign_widths has no signs for its rows of %lld",
                       t->name, (long long)tensor_width(t));
    float *copy = arena_calloc(b->arena, (size_t)tensor_width(t), sizeof *copy);
    if (!copy)
        return err_set(err, B2_ENOMEM, "out of memory for rotation signs");
    for (int64_t k = 0; k < tensor_width(t); k++)
        copy[k] = (float)signs[k];
    *out = copy;
    return B2_OK;
}

bool rotation_has_heads(const char *name)
{
    return strstr(name, ".ssm_out.") != NULL;
}

/* The order of heads that the weight was folded in, when it is not the activation's. */
static enum b2_status set_heads(const struct binder *b, struct rotation *rot,
                                const struct tensor *t, struct b2_err *err)
{
    const struct rotation_decl *d = b->decl;

    if (!d->gdn_v_grouped || !rotation_has_heads(t->name))
        return B2_OK;
    if (d->v_heads < 1 || rot->width % d->v_heads != 0)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: key " PREFIX
                       "gdn_v_grouped wants rows of whole value "
                       "heads, but %lld are not %lld heads (ssm.time_step_rank)",
                       t->name, (long long)rot->width, (long long)d->v_heads);
    rot->reps = d->v_heads / d->k_heads;
    rot->head = rot->reps > 1 && d->k_heads > 1 ? rot->width / d->v_heads : 0;
    return B2_OK;
}

/* The rotation of a tensor's width and heads, made on first use. */
static enum b2_status rotation_for(struct binder *b, const struct tensor *t,
                                   const struct rotation **out, struct b2_err *err)
{
    struct rotation_set *set = &b->set;
    struct rotation rot = {.width = tensor_width(t), .block = b->decl->block};

    for (uint64_t i = 0; b->decl->blocks && i < b->decl->n_widths; i++)
        if (b->decl->widths[i] == rot.width)
            rot.block = b->decl->blocks[i];

    if (rot.block == 0)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: is folded, but bonsai2.rotation.widths has no rows "
                       "of %lld",
                       t->name, (long long)rot.width);
    if (rot.width % rot.block != 0)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: rows of %lld are not a multiple of the rotation's "
                       "block %lld",
                       t->name, (long long)rot.width, (long long)rot.block);
    enum b2_status rc = set_heads(b, &rot, t, err);
    if (rc)
        return rc;
    for (int i = 0; i < set->n; i++) {
        if (set->rot[i].width == rot.width && set->rot[i].head == rot.head) {
            *out = &set->rot[i];
            return B2_OK;
        }
    }
    if (set->n == MAX_ROTATIONS)
        return err_set(err, B2_EUNSUP, "more than %d rotated widths", MAX_ROTATIONS);
    rc = copy_signs(b, t, &rot.signs, err);
    if (rc)
        return rc;
    set->rot[set->n] = rot;
    *out = &set->rot[set->n++];
    return B2_OK;
}

static enum b2_status bind_names(struct binder *b, const struct meta_str *names,
                                 uint64_t n, const struct rotation **slots,
                                 struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (uint64_t i = 0; i < n && rc == B2_OK; i++) {
        int64_t at = modelfile_find(b->mf, names[i].data);
        if (at < 0)
            return err_set(err, B2_EFORMAT,
                           "the rotation names %.80s, but the file has no such tensor",
                           names[i].data);
        if (slots[at])
            return err_set(err, B2_EFORMAT, "the rotation names %.80s twice",
                           names[i].data);
        rc = rotation_for(b, modelfile_tensor(b->mf, at), &slots[at], err);
    }
    return rc;
}

/* What only shows once all weights are known. */
static enum b2_status check_rest(const struct binder *b, struct b2_err *err)
{
    for (uint64_t i = 0; i < b->decl->n_widths; i++) {
        bool used = false;
        for (int k = 0; k < b->set.n && !used; k++)
            used = b->set.rot[k].width == b->decl->widths[i];
        if (!used)
            return err_set(err, B2_EFORMAT,
                           "key " PREFIX "sign_widths has signs for rows of %d, but no "
                           "folded weight has such rows",
                           b->decl->widths[i]);
    }
    if (b->decl->tied_output && modelfile_find(b->mf, "output.weight") >= 0)
        return err_set(err, B2_EFORMAT,
                       "key " PREFIX "tied_output = true, but the file has an "
                       "output.weight of its own");
    return B2_OK;
}

enum b2_status rotation_bind(struct rotation_set *out, const struct rotation_decl *decl,
                             const struct modelfile *mf, struct arena *a,
                             struct b2_err *err)
{
    const size_t n = (size_t)modelfile_n_tensors(mf);
    struct binder b = {.decl = decl, .mf = mf, .arena = a};
    enum b2_status rc;

    b.set.rot = arena_calloc(a, MAX_ROTATIONS, sizeof *b.set.rot);
    b.set.forward = arena_calloc(a, n, sizeof(const struct rotation *));
    b.set.inverse = arena_calloc(a, n, sizeof(const struct rotation *));
    if (!b.set.rot || !b.set.forward || !b.set.inverse)
        return err_set(err, B2_ENOMEM, "out of memory for %zu tensors", n);
    if ((rc = bind_names(&b, decl->forward, decl->n_forward, b.set.forward, err)) ||
        (rc = bind_names(&b, decl->inverse, decl->n_inverse, b.set.inverse, err)) ||
        (rc = check_rest(&b, err)))
        return rc;
    *out = b.set;
    return B2_OK;
}
