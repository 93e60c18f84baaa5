/*
 * prune.c - what pruning needs, its rounds, and the report.
 */
#include "compress/prune_int.h"

#include "base/file.h"
#include "base/mem.h"
#include "compress/convert.h"

#include <math.h>
#include <string.h>

enum { PROBE_TOKENS = 256 };

/* ---- beginning ---- */

static enum b2_status read_calibration(struct prune *k, struct b2_err *err)
{
    struct str text = {0};

    if (k->p->calib->n_files == 0)
        return B2_OK;
    enum b2_status rc = calib_of_model(&k->calib, modelfile_meta(k->m->mf), k->p->calib,
                                       k->p->log, err);
    if (rc)
        return rc;
    k->n_calib = k->calib.n_seqs - 1;
    calib_json(&k->calib, &text);
    k->calib_text = str_ok(&text) ? mem_strdup(text.data) : NULL;
    str_free(&text);
    return k->calib_text ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

/* A file of analyze that is of this model's shape and has what is asked of it. */
static enum b2_status read_sensitivity(struct prune *k, struct b2_err *err)
{
    const char *path = k->p->sensitivity;

    if (!path && k->calib.n_seqs == 0)
        return err_set(
            err, B2_EARG,
            "nothing tells what matters: give --calib FILE, or --sensitivity "
            "FILE of `bonsai2 analyze`");
    if (!path && k->p->uneven)
        return err_set(err, B2_EARG, "--uneven needs --sensitivity FILE");
    if (!path)
        return B2_OK;
    enum b2_status rc = sens_open(&k->sens, path, err);
    if (rc)
        return rc;
    if (strcmp(k->sens.source_sha256, k->sha256) != 0)
        return err_set(err, B2_EARG, "%s: is of another model (%s)", path,
                       k->sens.source);
    for (int64_t i = 0; i < k->sens.n_layers; i++) {
        const struct sens_layer *l = &k->sens.layer[i];
        if (k->sens.n_layers != k->m->hp.n_layers || l->f != hparams_f(&k->m->hp, i) ||
            l->heads != hparams_heads(&k->m->hp, i))
            return err_set(err, B2_EFORMAT, "%s: layer %lld has another shape", path,
                           (long long)i);
        if (k->calib.n_seqs > 0)
            continue;
        if (!isfinite(l->neuron[0]))
            return err_set(err, B2_EFORMAT, "%s: has no costs of hidden values", path);
        if ((k->p->kv > 0.0 || k->p->heads > 0.0) && !isfinite(l->head[0]))
            return err_set(err, B2_EARG,
                           "%s: has no heads; analyze without --quick, or give --calib "
                           "FILE",
                           path);
    }
    return B2_OK;
}

static enum b2_status check_memory(const struct prune *k, struct b2_err *err)
{
    const int threads = k->p->pool ? pool_threads(k->p->pool) : 1;
    const int64_t ctx = max_i64(k->calib.ctx, 1);
    uint64_t need = WALK_OTHER_BYTES + 2 * walk_weights_bytes(k->m) +
                    walk_bytes(k->m, ctx, threads);

    if (k->calib.n_seqs > 0)
        need += prune_bytes(k) + probe_bytes(k->m, PROBE_TOKENS, 1, threads);
    if (k->p->mem_limit == 0 || need <= k->p->mem_limit)
        return B2_OK;
    return err_set(
        err, B2_ENOMEM,
        "pruning with %lld tokens needs about %llu MB, the limit is %llu MB: "
        "a smaller --calib-tokens needs less",
        (long long)k->calib.n_seqs * (long long)k->calib.ctx,
        (unsigned long long)(need >> 20), (unsigned long long)(k->p->mem_limit >> 20));
}

static enum b2_status make_streams(struct prune *k, struct b2_err *err)
{
    const size_t n = (size_t)(k->calib.n_seqs * k->calib.ctx * k->m->hp.d);
    const struct walk_params wp = {k->m, k->blas, k->p->pool, max_i64(1, k->calib.ctx)};
    enum b2_status rc = walk_new(&k->walk, &wp, err);

    if (!rc &&
        (!walk_weights_new(&k->teacher, k->m) || !walk_weights_new(&k->student, k->m)))
        rc = err_set(err, B2_ENOMEM, "out of memory for a layer");
    if (rc || k->calib.n_seqs == 0)
        return rc;
    k->x[0] = mem_calloc(n, sizeof(float));
    k->x[1] = mem_calloc(n, sizeof(float));
    if (!k->x[0] || !k->x[1])
        return err_set(err, B2_ENOMEM, "out of memory for %lld calibration tokens",
                       (long long)k->calib.n_seqs * (long long)k->calib.ctx);
    return probe_new(&k->probe, k->m, k->blas, k->p->pool, k->calib.ctx,
                     min_i64(PROBE_TOKENS, max_i64(1, k->calib.ctx / 2)), 1, err);
}

static enum b2_status make_report(struct prune *k, struct b2_err *err)
{
    struct prune_report *r = k->r;

    r->layer = mem_calloc((size_t)k->m->hp.n_layers, sizeof *r->layer);
    if (!r->layer)
        return err_set(err, B2_ENOMEM, "out of memory");
    r->n_layers = k->m->hp.n_layers;
    for (int64_t i = 0; i < r->n_layers; i++)
        r->layer[i].skip = (double)NAN;
    for (int i = 0; i < PRUNE_MAX_ROUNDS; i++)
        r->kld[i] = (double)NAN;
    r->bytes_before = modelfile_bytes(k->m->mf);
    return B2_OK;
}

/* What the pieces depend on. */
static enum b2_status open_work(struct prune *k, struct b2_err *err)
{
    const struct prune_params *p = k->p;
    struct str s = {0};

    str_printf(
        &s,
        "{\"prune\": \"" B2_VERSION "\", \"source\": \"%s\", \"type\": %d, "
        "\"restore\": \"%s\", \"mismatch\": %g, \"rounds\": %d, \"multiple\": %lld, "
        "\"calibration\": %s, \"plan\": [",
        k->sha256, (int)p->type, p->no_restore ? "no" : "held", p->mismatch, p->rounds,
        (long long)p->multiple, k->calib_text ? k->calib_text : "null");
    for (int64_t i = 0; i < k->m->hp.n_layers; i++)
        str_printf(&s, "%s[%d, %lld, %lld, %lld]", i ? ", " : "", k->plan[i].gone,
                   (long long)k->plan[i].ffn, (long long)k->plan[i].kv,
                   (long long)k->plan[i].per_group);
    str_put(&s, "]}");
    enum b2_status rc =
        str_ok(&s) ? work_open(&k->work, p->output, s.data, p->force, p->log, err)
                   : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&s);
    return rc;
}

static enum b2_status start(struct prune *k, struct b2_err *err)
{
    const struct model_params mp = {.no_tokenizer = true, .log = k->p->log};
    enum b2_status rc = blas_open(&k->blas, err);

    if (!rc && k->p->format)
        rc = convert_check_format(k->p->format, err);
    if (!rc)
        rc = model_open(&k->m, k->p->source, &mp, err);
    if (!rc)
        rc = walk_check(k->m, err);
    if (!rc)
        rc = modelfile_sha256(k->m->mf, k->sha256, err);
    if (!rc)
        rc = read_calibration(k, err);
    if (!rc)
        rc = read_sensitivity(k, err);
    if (!rc)
        rc = check_memory(k, err);
    if (!rc)
        rc = make_report(k, err);
    if (!rc)
        rc = make_streams(k, err);
    return rc ? rc : prune_make_plan(k, err);
}

/* ---- report ---- */

static bool list_units(struct prune_part *to, const uint8_t *gone, const uint8_t *cost,
                       int64_t n)
{
    to->n = n;
    to->gone = 0;
    for (int64_t i = 0; i < n; i++)
        to->gone += gone[i];
    to->unit = mem_calloc((size_t)to->gone, sizeof *to->unit);
    to->cost = mem_calloc((size_t)to->gone, sizeof *to->cost);
    for (int64_t i = 0, at = 0; to->unit && to->cost && i < n; i++)
        if (gone[i]) {
            to->unit[at] = (int32_t)i;
            memcpy(&to->cost[at++], cost + (uint64_t)i * sizeof(float), sizeof(float));
        }
    return to->unit && to->cost;
}

static void take_kept(struct prune_part *to, const struct prune_kept *from)
{
    to->plain = from->plain;
    to->restored = from->restored;
    to->damp = from->damp;
    to->held_gain = from->held_gain;
}

static enum b2_status fill_report(struct prune *k, struct b2_err *err)
{
    const struct hparams *hp = &k->m->hp;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < hp->n_layers && !rc; i++) {
        struct prune_layer *l = &k->r->layer[i];
        struct file_map map = {0};
        struct prune_piece piece;
        l->gone = k->plan[i].gone;
        if (l->gone)
            continue;
        rc = prune_piece_open(&piece, &map, k, k->r->taken, i, err);
        if (!rc &&
            (!list_units(&l->ffn, piece.ffn, piece.ffn_cost, hparams_f(hp, i)) ||
             !list_units(&l->heads, piece.head, piece.head_cost, hparams_heads(hp, i))))
            rc = err_set(err, B2_ENOMEM, "out of memory");
        if (!rc) {
            take_kept(&l->ffn, &piece.found.down);
            take_kept(&l->heads, &piece.found.o);
            l->kv = hparams_kv_heads(hp, i);
            l->kv_gone = prune_plan_of(k, k->r->taken, i).kv;
        }
        file_unmap(&map);
    }
    return rc;
}

/* ---- end ---- */

/* The GGUF becomes a folder. */
static enum b2_status write_folder(struct prune *k, struct b2_err *err)
{
    const char *path = work_output_path(k->work);
    const struct convert_params cp = {
        .format = k->p->format, .force = k->p->force, .log = k->p->log, .lossy = true};
    struct convert_report cr = {0};
    struct modelfile *mf = NULL;
    struct str dir = {0};
    enum b2_status rc = modelfile_open(&mf, path, k->p->log, err);

    if (!rc)
        rc = convert_model(mf, k->p->output, &cp, &cr, err);
    modelfile_close(mf);
    if (rc)
        return rc;
    k->r->bytes_after = cr.output_bytes;
    str_put(&dir, work_dir(k->work));
    work_close(k->work);
    k->work = NULL;
    rc = str_ok(&dir) ? file_remove_tree(dir.data, err)
                      : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&dir);
    return rc;
}

static enum b2_status finish(struct prune *k, struct b2_err *err)
{
    enum b2_status rc = fill_report(k, err);

    if (!rc)
        rc = prune_write(k, k->r->taken, work_output_path(k->work), err);
    if (!rc && k->r->uneven)
        log_line(k->p->log, LOG_WARN,
                 "layers differ in size: written as `%s`, which %s", k->r->arch,
                 strcmp(k->r->arch, "deci") == 0
                     ? "bonsai2 and llama.cpp run; Hugging Face folders cannot say it"
                     : "only bonsai2 runs");
    if (rc)
        return rc;
    if (k->p->format && strncmp(k->p->format, "hf", 2) == 0)
        return write_folder(k, err);
    struct work *w = k->work;
    k->work = NULL;
    return work_finish(w, err);
}

static enum b2_status run_rounds(struct prune *k, struct b2_err *err)
{
    const struct prune_params *p = k->p;
    enum b2_status rc = B2_OK;

    k->r->taken = -1;
    if (p->on_stage)
        p->on_stage(p->ctx_of_calls, "prune",
                    (uint64_t)(k->m->hp.n_layers * p->rounds));
    for (int round = 0; round < p->rounds && !rc; round++) {
        rc = prune_round(k, round, err);
        if (rc)
            break;
        k->r->rounds = round + 1;
        if (isfinite(p->max_kld) && !(k->r->kld[round] <= p->max_kld))
            break;
        k->r->taken = round;
    }
    if (!rc && k->r->taken < 0)
        rc =
            err_set(err, B2_EARG,
                    "the first round costs a divergence of %.4f, the limit is %g: take "
                    "away less",
                    k->r->kld[0], p->max_kld);
    return rc;
}

enum b2_status prune_run(struct prune_report *r, const struct prune_params *p,
                         struct b2_err *err)
{
    struct prune k = {.p = p, .r = r};
    const bool folder = p->format && strncmp(p->format, "hf", 2) == 0;
    enum b2_status rc = B2_OK;

    *r = (struct prune_report){0};
    if (!folder)
        rc = file_check_output(p->output, p->source, p->force, err);
    if (!rc)
        rc = start(&k, err);
    if (!rc)
        rc = open_work(&k, err);
    if (!rc)
        rc = run_rounds(&k, err);
    if (!rc)
        rc = finish(&k, err);
    work_close(k.work);
    walk_free(k.walk);
    walk_weights_free(&k.teacher);
    walk_weights_free(&k.student);
    probe_free(&k.probe);
    mem_free(k.x[0]);
    mem_free(k.x[1]);
    mem_free(k.plan);
    mem_free(k.calib_text);
    sens_free(&k.sens);
    calib_free(&k.calib);
    model_close(k.m);
    blas_close(k.blas);
    if (rc)
        prune_report_free(r);
    return rc;
}
