/*
 * convert.c - what each tensor becomes, and the file it goes into.
 */
#include "compress/convert.h"

#include "base/mem.h"
#include "base/str.h"
#include "compress/convert_int.h"
#include "format/tail.h"
#include "format/tiers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the format word ---- */

/* ASCII lower case, whatever the locale. */
static bool starts_with(const char *word, const char *prefix)
{
    for (; *prefix; word++, prefix++) {
        char c = *word >= 'A' && *word <= 'Z' ? (char)(*word - 'A' + 'a') : *word;
        if (c != *prefix)
            return false;
    }
    return true;
}

static enum b2_status parse_format(struct convert_target *t, const char *word,
                                   struct b2_err *err)
{
    *t = (struct convert_target){.type = DT_F32};
    if (starts_with(word, "gguf") && word[4] == '\0') {
        t->keep = true;
        return B2_OK;
    }
    if (starts_with(word, "gguf-") && dtype_from_name(&t->type, word + 5) &&
        dtype_info(t->type)->flags & DTF_WRITE)
        return B2_OK;
    if (starts_with(word, "hf-") && dtype_from_name(&t->type, word + 3) &&
        (t->type == DT_F32 || t->type == DT_F16 || t->type == DT_BF16)) {
        t->folder = true;
        return B2_OK;
    }
    return err_set(
        err, B2_EARG,
        "unknown format \"%.40s\"; known: gguf, gguf-TYPE (f32, f16, bf16, "
        "q4_0, q4_1, q5_0, q5_1, q8_0, tq1_0, tq2_0, q1_0, q2_0, pq2_0, "
        "ptq1_0, b2_t64, b2_c128, b2_c64, b2_q2, b2_q3), hf-f32, hf-f16, hf-bf16",
        word);
}

enum b2_status convert_check_format(const char *word, struct b2_err *err)
{
    struct convert_target t;

    return parse_format(&t, word, err);
}

/* ---- the plan ---- */

static bool is_plain_float(enum dtype t)
{
    return t == DT_F32 || t == DT_F16 || t == DT_BF16;
}

/* What a GGUF can hold of a type when nothing else is asked: two types have no id there
 * (a half holds every 8-bit float), two have ids that stand for several layouts. */
static enum dtype storable(enum dtype t, int64_t width)
{
    if (t == DT_I2_S)
        return width % dtype_info(DT_TQ2_0)->block ? DT_Q2_0 : DT_TQ2_0;
    if (t == DT_Q2_0_G128)
        return DT_PQ2_0;
    if (t == DT_F8_E4M3 || t == DT_F8_E5M2)
        return DT_F16;
    return t;
}

static bool has_ternary(const struct modelfile *mf)
{
    for (int64_t i = 0; i < modelfile_n_tensors(mf); i++) {
        if (dtype_info(modelfile_tensor(mf, i)->type)->flags & DTF_TERNARY)
            return true;
    }
    return false;
}

/* The type of tensor t in a GGUF. */
static enum dtype gguf_type(const struct convert *c, const struct tensor *t)
{
    enum dtype type = storable(t->type, tensor_width(t)), to = c->target.type;
    bool matrix = t->rank >= 2, weight = dtype_info(type)->flags & DTF_WEIGHT;
    bool ternary = dtype_info(t->type)->flags & DTF_TERNARY;
    bool from_gguf = modelfile_kind(c->mf) == MF_GGUF;

    if (strstr(t->name, ".ssm_conv1d."))
        return DT_F32; /* rows of a few taps; other programs read no other type */
    if (!matrix && is_plain_float(type) && (!c->target.keep || !from_gguf))
        return DT_F32;
    if (c->target.keep || !matrix || !weight)
        return type;
    if (c->p->only && !recipe_glob(c->p->only, t->name))
        return type;
    if (dtype_info(to)->flags & DTF_TERNARY && c->any_ternary && !ternary)
        return type;
    return to;
}

/* Padding is dropped where the type can do without. Where it cannot, the stored row may
 * do as it is: the same type, or one of the same group. */
static int64_t padding_of(enum dtype type, const struct tensor *t)
{
    int64_t pad = tail_pad(type, tensor_width(t));

    return pad == t->pad ? pad : 0; /* else the row's length will be refused */
}

/* What is to be taken off a tensor, as plan_rotation found it. */
static void plan_unfold(const struct convert *c, struct convert_item *it)
{
    it->unfold = c->rot.forward ? c->rot.forward[it->index] : NULL;
    if (!it->unfold && c->rot.inverse)
        it->unfold = c->rot.inverse[it->index];
}

static enum b2_status plan_gguf(struct convert *c, struct convert_item *it,
                                const struct tensor *t, struct b2_err *err)
{
    it->type = gguf_type(c, t);
    it->pad = padding_of(it->type, t);
    if (dtype_info(it->type)->gguf_id < 0)
        return err_set(err, B2_EUNSUP, "tensor %s: type %s has no place in a GGUF",
                       t->name, dtype_info(it->type)->name);
    (void)snprintf(it->name, sizeof it->name, "%s", t->name);
    plan_unfold(c, it);
    return B2_OK;
}

static enum b2_status plan_folder(struct convert *c, struct convert_item *it,
                                  const struct tensor *t, struct b2_err *err)
{
    unsigned flags = dtype_info(t->type)->flags;
    struct hf_write_place place;

    it->type = c->target.type;
    /* What config.json says. */
    it->skip = strcmp(t->name, "rope_freqs.weight") == 0 ||
               strncmp(t->name, "rope_factors_", 13) == 0;
    if (it->skip)
        return B2_OK;
    if (!(flags & (DTF_WEIGHT | DTF_TERNARY)) &&
        storable(t->type, tensor_width(t)) != DT_F16)
        return err_set(err, B2_EUNSUP, "tensor %s: type %s is not a weight's", t->name,
                       dtype_info(t->type)->name);
    if (!hf_write_name(&place, modelfile_meta(c->mf), t->name))
        return err_set(err, B2_EUNSUP,
                       "tensor %s has no place in a %s folder; export to a GGUF "
                       "format instead",
                       t->name, hf_write_class(modelfile_meta(c->mf)));
    (void)snprintf(it->name, sizeof it->name, "%s", place.name);
    it->heads = place.heads;
    it->change = place.change;
    it->v_dim = c->v_heads.v > 0 && t->rank > 1 ? place.v_dim : 0;
    if (it->v_dim * c->v_heads.v > tensor_rows(t))
        return err_set(err, B2_EFORMAT,
                       "tensor %s: %" PRId64 " rows do not hold %" PRId64
                       " value heads",
                       t->name, tensor_rows(t), c->v_heads.v);
    if (it->heads > 0 && tensor_rows(t) % (2 * it->heads) != 0)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: %" PRId64 " rows are not pairs in %" PRId64 " heads",
                       t->name, tensor_rows(t), it->heads);
    plan_unfold(c, it);
    return B2_OK;
}

/* The rotations to take off. */
static enum b2_status plan_rotation(struct convert *c, struct b2_err *err)
{
    struct rotation_decl decl;
    enum b2_status rc = rotation_read(&decl, modelfile_meta(c->mf), err);

    if (rc || decl.version == 0)
        return rc;
    log_line(c->p->log, LOG_INFO, "rotated weights are rotated back%s",
             c->target.folder ? ": a folder has no place for a rotation" : "");
    return rotation_bind(&c->rot, &decl, c->mf, c->arena, err);
}

static enum b2_status plan(struct convert *c, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    c->n = modelfile_n_tensors(c->mf);
    c->item = arena_calloc(c->arena, (size_t)c->n, sizeof *c->item);
    if (!c->item)
        return err_set(err, B2_ENOMEM, "out of memory for %" PRId64 " tensors", c->n);
    c->any_ternary = has_ternary(c->mf);
    if (c->target.folder) {
        rc = hf_write_check(modelfile_meta(c->mf), err);
        c->v_heads = heads_read(modelfile_meta(c->mf));
    }
    if (!rc && (c->target.folder || c->p->unrotate))
        rc = plan_rotation(c, err);
    for (int64_t i = 0; !rc && i < c->n; i++) {
        const struct tensor *t = modelfile_tensor(c->mf, i);
        int64_t ne[TENSOR_MAX_RANK];
        uint64_t bytes;
        c->item[i].index = i;
        rc = c->target.folder ? plan_folder(c, &c->item[i], t, err)
                              : plan_gguf(c, &c->item[i], t, err);
        if (rc || c->item[i].skip)
            continue;
        (void)convert_shape(&c->item[i], t, ne);
        rc = dtype_row_bytes(&bytes, c->item[i].type, (uint64_t)ne[0], err);
        if (rc)
            err_wrap(err, "tensor %s (--only can leave it out)", t->name);
        else
            c->total += bytes * (uint64_t)tensor_rows(t);
    }
    return rc;
}

/* A table in two types is one tensor where the output gives it another type. */
static bool joins_tiers(const struct convert *c)
{
    if (c->target.folder)
        return true;
    return !c->target.keep && !(dtype_info(c->target.type)->flags & DTF_TERNARY) &&
           (!c->p->only || recipe_glob(c->p->only, TIERS_TABLE));
}

static enum b2_status start(struct convert *c, struct modelfile *mf,
                            const struct convert_params *p, struct b2_err *err)
{
    enum b2_status rc = parse_format(&c->target, p->format, err);

    if (!rc && modelfile_kind(mf) == MF_SAFETENSORS)
        rc = err_set(err, B2_EUNSUP,
                     "%s: weights without a configuration; name the folder that holds "
                     "this file and config.json",
                     modelfile_path(mf));
    if (rc)
        return rc;
    c->mf = mf;
    c->p = p;
    if (joins_tiers(c))
        rc = modelfile_join_tiers(mf, err);
    if (rc)
        return rc;
    c->arena = arena_new(SIZE_MAX / 2);
    if (!c->arena)
        return err_set(err, B2_ENOMEM, "out of memory");
    return plan(c, err);
}

static void stop(struct convert *c)
{
    parts_abort(c->out);
    arena_free(c->arena);
    meta_free(c->meta);
}

uint64_t convert_total(struct modelfile *mf, const struct convert_params *p)
{
    struct convert_params quiet = *p;
    struct convert c = {0};

    quiet.log = NULL; /* convert_model says the same things again */
    uint64_t total = start(&c, mf, &quiet, NULL) ? 0 : c.total;

    stop(&c);
    return total;
}

/* ---- tensors ---- */

static enum b2_status put(struct convert *c, const void *data, size_t n,
                          struct b2_err *err)
{
    c->done += n;
    return parts_data(c->out, data, n, err);
}

/* Whether value heads lie along the rows of the tensor. */
static bool groups_columns(const struct convert_item *it, const struct tensor *t)
{
    return it->change == HF_V_COLS || it->change == HF_V_RATE ||
           (it->change == HF_V_ONES && t->rank == 1);
}

/* The source's row that stands at row r of the output. Value heads that share a key head
 * stand side by side in a folder (head g * reps + i) and apart in a GGUF (i * groups + g);
 * rows before them stay. */
static int64_t source_row(const struct convert *c, const struct convert_item *it,
                          int64_t r, int64_t rows)
{
    const struct heads *h = &c->v_heads;
    const int64_t skip = rows - h->v * it->v_dim;

    if (it->heads > 0)
        return hf_write_row(r, rows, it->heads);
    if (it->v_dim == 0 || r < skip)
        return r;
    int64_t reps = h->v / h->k, at = (r - skip) % it->v_dim,
            head = (r - skip) / it->v_dim;
    return skip + (head % reps * h->k + head / reps) * it->v_dim + at;
}

/* All rows of one tensor, in the order of the output. */
static enum b2_status put_rows(struct convert *c, const struct convert_item *it,
                               const struct tensor *t, struct convert_error *e,
                               struct b2_err *err)
{
    struct arena *scratch = arena_new(SIZE_MAX / 2);
    struct convert_rows *conv = NULL;
    int64_t rows = tensor_rows(t);
    enum b2_status rc;

    if (!scratch)
        return err_set(err, B2_ENOMEM, "out of memory");
    const struct convert_rows_shape shape = {
        .from = t->type,
        .to = it->type,
        .n_src = t->ne[0],
        .n_dst = tensor_width(t) + it->pad,
        .scale = tensor_scale(t),
        .add = it->change == HF_PLUS_ONE ? -1.0f : 0.0f,
        .log_of_minus = it->change == HF_V_RATE,
        .group = groups_columns(it, t) ? &c->v_heads : NULL,
        .unfold = it->unfold,
    };
    rc = convert_rows_new(&conv, &shape, scratch, err);
    size_t size = rc ? 0 : (size_t)convert_rows_dst_bytes(conv);
    uint8_t *dst = arena_calloc(scratch, size, 1);
    if (!rc && !dst)
        rc = err_set(err, B2_ENOMEM, "out of memory for a row");
    for (int64_t r = 0; !rc && r < rows; r++) {
        int64_t from = source_row(c, it, r, rows);
        const uint8_t *src = t->data + (uint64_t)from * convert_rows_src_bytes(conv);
        rc = convert_rows_row(conv, dst, src, e, err);
        if (rc)
            err_wrap(err, "row %" PRId64, from);
        else
            rc = put(c, dst, size, err);
        if (r % 64 == 0 || r + 1 == rows)
            progress_update(c->p->progress, c->done, 0);
    }
    arena_free(scratch);
    return rc;
}

/* Whether a changed value is more than the rounding that the format's word asks for. */
static bool refused(const struct convert *c, const struct convert_item *it,
                    const struct convert_error *e)
{
    bool asked = is_plain_float(it->type) && isfinite(e->max);

    return e->max > 0 && !asked && !c->p->lossy;
}

static enum b2_status put_tensor(struct convert *c, const struct convert_item *it,
                                 struct convert_report *r, struct b2_err *err)
{
    const struct tensor *t = modelfile_tensor(c->mf, it->index);
    struct convert_error e = {0};
    enum b2_status rc = modelfile_load(c->mf, it->index, err);

    if (!rc)
        rc = put_rows(c, it, t, &e, err);
    modelfile_unload(c->mf, it->index);
    if (!rc && refused(c, it, &e))
        rc = err_set(err, B2_EUNSUP,
                     "%s to %s changes values, by up to %.4g; --lossy allows it",
                     dtype_info(t->type)->name, dtype_info(it->type)->name, e.max);
    if (rc) {
        err_wrap(err, "tensor %s", t->name);
        return rc;
    }
    r->n_tensors++;
    r->n_changed += it->type != t->type;
    r->n_unrotated += it->unfold != NULL;
    r->n_lossy += e.max > 0;
    if (e.max > r->max_error) {
        r->max_error = e.max;
        (void)snprintf(r->worst, sizeof r->worst, "%s", t->name);
    }
    c->sum_sq += e.sum_sq;
    c->n_values += e.n_values;
    return B2_OK;
}

static enum b2_status put_all(struct convert *c, struct convert_report *r,
                              struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; !rc && i < c->n; i++) {
        if (c->p->cancelled && c->p->cancelled())
            return err_set(err, B2_ECANCEL, "interrupted; nothing was written");
        if (!c->item[i].skip)
            rc = put_tensor(c, &c->item[i], r, err);
    }
    r->rms_error = c->n_values > 0 ? sqrt(c->sum_sq / c->n_values) : 0;
    return rc;
}

/* Refuses early what the disk cannot take. path may not exist yet. */
static enum b2_status check_disk(const char *path, uint64_t need, struct b2_err *err)
{
    uint64_t left;
    enum b2_status rc = file_disk_free(&left, path, err);

    if (!rc && need > left)
        rc = err_set(err, B2_EIO,
                     "%s needs %" PRIu64 " bytes, the disk has %" PRIu64 " left", path,
                     need, left);
    return rc;
}

/* ---- containers ---- */

/* Streams all tensors into path, or into the files that take its place. */
static enum b2_status write_tensors(struct convert *c, const char *path,
                                    struct convert_report *r, struct b2_err *err)
{
    const struct parts_params p = {
        .kind = c->target.folder ? PARTS_SAFETENSORS : PARTS_GGUF,
        .path = path,
        .source = c->mf,
        .meta = c->meta,
        .max_bytes = c->p->split,
        .version = c->p->gguf_version ? c->p->gguf_version : 3,
        .force = c->p->force,
    };
    enum b2_status rc = parts_new(&c->out, &p, err);

    for (int64_t i = 0; !rc && i < c->n; i++) {
        const struct tensor *t = modelfile_tensor(c->mf, i);
        int64_t ne[TENSOR_MAX_RANK];
        int rank = convert_shape(&c->item[i], t, ne);
        if (!c->item[i].skip)
            rc = parts_tensor(c->out, c->item[i].name, c->item[i].type, rank, ne, err);
    }
    if (!rc)
        rc = parts_start(c->out, &r->n_files, &r->output_bytes, err);
    if (!rc)
        rc = check_disk(path, r->output_bytes, err);
    if (!rc)
        rc = put_all(c, r, err);
    if (rc)
        return rc;
    struct parts_out *done = c->out;
    c->out = NULL; /* finish frees it in every case */
    return parts_finish(done, err);
}

static enum b2_status write_gguf(struct convert *c, const char *out,
                                 struct convert_report *r, struct b2_err *err)
{
    enum b2_status rc = convert_meta(c, err);

    return rc ? rc : write_tensors(c, out, r, err);
}

static enum b2_status write_folder(struct convert *c, const char *out,
                                   struct convert_report *r, struct b2_err *err)
{
    struct hf_write_model w = {.meta = modelfile_meta(c->mf), .type = c->target.type};
    struct str path = {0};
    enum b2_status rc = convert_describe(c, &w, err);

    str_printf(&path, "%s/config.json", out);
    if (!rc && str_ok(&path) && file_exists(path.data) && !c->p->force)
        rc = err_set(err, B2_EEXIST,
                     "%s: a model is there already; --force replaces it", out);
    if (!rc)
        rc = hf_write_dry(&w, err);
    if (!rc)
        rc = file_make_dir(out, err);
    str_clear(&path);
    str_printf(&path, "%s/model.safetensors", out);
    if (!rc && !str_ok(&path))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = write_tensors(c, path.data, r, err);
    if (!rc)
        rc = hf_write_files(&w, out, c->p->force, &r->output_bytes, err);
    str_free(&path);
    return rc;
}

void convert_output(struct str *s, const char *out, const struct convert_params *p,
                    const struct convert_report *r)
{
    struct convert_target t;

    if (parse_format(&t, p->format, NULL) || t.folder)
        str_put(s, out);
    else
        parts_name(s, PARTS_GGUF, out, 0, r->n_files);
}

enum b2_status convert_model(struct modelfile *mf, const char *out,
                             const struct convert_params *p,
                             struct convert_report *report, struct b2_err *err)
{
    struct convert c = {0};
    enum b2_status rc = start(&c, mf, p, err);

    *report = (struct convert_report){0};
    if (!rc && c.target.folder && file_same(out, modelfile_path(mf)))
        rc =
            err_set(err, B2_EARG, "%s: is the source itself; name another output", out);
    if (!rc)
        rc = c.target.folder ? write_folder(&c, out, report, err)
                             : write_gguf(&c, out, report, err);
    stop(&c);
    return rc;
}
