/*
 * analyze.c - the steps in their order, and what they need.
 */
#include "compress/analyze_int.h"

#include "base/file.h"
#include "base/mem.h"
#include "compress/netmodel.h"
#include "format/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool analyze_fits(const struct analyze *a, int64_t layer, enum stream_part part)
{
    return walk_weight(a->m, layer, part)->cols % a->codes.group == 0;
}

uint64_t analyze_part_bytes(const struct analyze *a, int64_t layer,
                            enum stream_part part)
{
    const struct weight *w = walk_weight(a->m, layer, part);
    const struct dtype_info *info = dtype_info(a->codes.type);

    return (uint64_t)(w->rows * (w->cols / info->block)) * (uint64_t)info->bytes;
}

enum b2_status analyze_go_on(const struct analyze *a, struct b2_err *err)
{
    if (a->p->cancelled && a->p->cancelled(a->p->ctx_of_calls))
        return err_set(err, B2_ECANCEL,
                       "interrupted; what is done stays in %s: run the same command "
                       "again to go on",
                       work_dir(a->work));
    return B2_OK;
}

static void stage(const struct analyze *a, const char *name, uint64_t total)
{
    if (a->p->on_stage)
        a->p->on_stage(a->p->ctx_of_calls, name, total);
}

/* ---- beginning ---- */

static enum b2_status read_calibration(struct analyze *a, struct b2_err *err)
{
    struct str text = {0};

    if (a->p->calib->n_files == 0)
        return err_set(err, B2_EARG, "no text to calibrate on: give --calib FILE");
    enum b2_status rc = calib_of_model(&a->calib, modelfile_meta(a->m->mf), a->p->calib,
                                       a->p->log, err);
    if (rc)
        return rc;
    a->n_calib = a->calib.n_seqs - 1;
    calib_json(&a->calib, &text);
    a->s->calibration = str_ok(&text) ? mem_strdup(text.data) : NULL;
    str_free(&text);
    if (!a->s->calibration)
        return err_set(err, B2_ENOMEM, "out of memory");
    if (a->p->probe_tokens > a->calib.ctx || a->p->probe_tokens < 2)
        return err_set(err, B2_EARG,
                       "a probe of %lld tokens: 2 to the %lld of a sequence",
                       (long long)a->p->probe_tokens, (long long)a->calib.ctx);
    return B2_OK;
}

static enum b2_status make_rotation(struct analyze *a, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    if (!a->codes.ternary) /* finer types gain little and are not rotated */
        return B2_OK;
    a->rotate = rotate_new(ROTATE_EACH, a->p->seed);
    if (!a->rotate)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int64_t i = 0; i < a->m->hp.n_layers && !rc; i++)
        for (int part = 0; part < N_PARTS && !rc; part++)
            if (analyze_fits(a, i, (enum stream_part)part))
                rc = rotate_add_width(
                    a->rotate, walk_weight(a->m, i, (enum stream_part)part)->cols, err);
    return rc;
}

static enum b2_status make_result(struct analyze *a, struct b2_err *err)
{
    const struct model *m = a->m;
    const char *slash = strrchr(a->p->source, '/');
    struct sensitivity *s = a->s;
    char *calibration = s->calibration;
    enum b2_status rc = sens_new(s, m->hp.n_layers, err);

    s->calibration = calibration;
    for (int64_t i = 0; i < m->hp.n_layers && !rc; i++) {
        if (!sens_layer_new(&s->layer[i], hparams_f(&m->hp, i),
                            hparams_heads(&m->hp, i), hparams_kv_heads(&m->hp, i)))
            rc = err_set(err, B2_ENOMEM, "out of memory");
        for (int part = 0; part < N_PARTS; part++)
            snprintf(s->layer[i].tensor[part].name, SENS_NAME, "%s",
                     walk_weight(m, i, (enum stream_part)part)->name);
    }
    s->source = mem_strdup(slash && slash[1] ? slash + 1 : a->p->source);
    s->source_sha256 = mem_strdup(a->sha256);
    s->arch = mem_strdup(m->hp.arch->name);
    s->type = mem_strdup(dtype_info(a->codes.type)->name);
    s->tokens = a->n_calib * a->calib.ctx;
    s->probe_tokens = a->p->quick ? 0 : a->p->probe_tokens;
    s->tolerance = a->p->tolerance;
    if (!rc && (!s->source || !s->source_sha256 || !s->arch || !s->type))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    return rc;
}

static enum b2_status check_memory(const struct analyze *a, struct b2_err *err)
{
    const int threads = a->p->pool ? pool_threads(a->p->pool) : 1;
    const uint64_t fisher =
        a->p->no_fisher || a->p->quick
            ? 0
            : 2 * walk_weights_bytes(a->m) +
                  (uint64_t)(2 * a->m->hp.vocab * (128 + threads)) * 4 +
                  (uint64_t)(128 * a->m->hp.d * (a->m->hp.n_layers + 8)) * 4;
    const uint64_t measure = a->p->quick ? 0 : analyze_measure_bytes(a);
    uint64_t step = analyze_local_bytes(a);

    step = measure > step ? measure : step;
    step = fisher > step ? fisher : step;
    const uint64_t need = WALK_OTHER_BYTES + 2 * walk_weights_bytes(a->m) +
                          walk_bytes(a->m, a->calib.ctx, threads) + step;
    if (a->p->mem_limit == 0 || need <= a->p->mem_limit)
        return B2_OK;
    return err_set(
        err, B2_ENOMEM,
        "the analysis with %lld tokens needs about %llu MB, the limit is %llu "
        "MB: a smaller --calib-tokens, or --quick, needs less",
        (long long)a->n_calib * (long long)a->calib.ctx,
        (unsigned long long)(need >> 20), (unsigned long long)(a->p->mem_limit >> 20));
}

/* What the pieces depend on. */
static enum b2_status open_work(struct analyze *a, struct b2_err *err)
{
    struct str state = {0};

    str_printf(&state,
               "{\"analyze\": \"" B2_VERSION
               "\", \"source\": \"%s\", \"type\": \"%s\", "
               "\"plain\": %d, \"probe\": %lld, \"fisher\": %lld, \"seed\": %llu, "
               "\"calibration\": %s}",
               a->sha256, dtype_info(a->codes.type)->name, a->p->plain,
               (long long)a->p->probe_tokens, (long long)a->p->fisher_tokens,
               (unsigned long long)a->p->seed, a->s->calibration);
    enum b2_status rc = str_ok(&state) ? work_open(&a->work, a->p->output, state.data,
                                                   a->p->force, a->p->log, err)
                                       : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&state);
    return rc;
}

static enum b2_status start(struct analyze *a, struct b2_err *err)
{
    const struct model_params mp = {.no_tokenizer = true, .log = a->p->log};
    const enum dtype type = a->p->type == N_DTYPES ? DT_B2_T64 : a->p->type;
    enum b2_status rc = blas_open(&a->blas, err);

    if (!rc && !codes_of(&a->codes, type))
        rc = err_set(err, B2_EARG, "--type %s has no codes and scales",
                     dtype_info(type)->name);
    if (!rc)
        rc = model_open(&a->m, a->p->source, &mp, err);
    if (!rc)
        rc = walk_check(a->m, err);
    if (!rc)
        rc = read_calibration(a, err);
    if (!rc)
        rc = modelfile_sha256(a->m->mf, a->sha256, err);
    if (!rc)
        rc = make_rotation(a, err);
    if (!rc)
        rc = make_result(a, err);
    if (!rc)
        rc = check_memory(a, err);
    const struct walk_params wp = {a->m, a->blas, a->p->pool, a->calib.ctx};
    if (!rc)
        rc = walk_new(&a->walk, &wp, err);
    if (!rc &&
        (!walk_weights_new(&a->teacher, a->m) || !walk_weights_new(&a->student, a->m)))
        rc = err_set(err, B2_ENOMEM, "out of memory for a layer");
    return rc ? rc : open_work(a, err);
}

/* ---- end ---- */

static enum b2_status finish(struct analyze *a, struct b2_err *err)
{
    for (int64_t i = 0; i < a->s->n_layers; i++)
        a->s->layer[i].tolerable =
            sens_tolerable(a->s->layer[i].prune_kld, a->p->tolerance);
    cJSON *json = sens_json(a->s);
    char *text = json ? cJSON_Print(json) : NULL;
    enum b2_status rc =
        text ? file_write_all(work_output_path(a->work), text, strlen(text), true, err)
             : err_set(err, B2_ENOMEM, "out of memory");
    cJSON_free(text);
    cJSON_Delete(json);
    if (rc)
        return rc;
    struct work *w = a->work;
    a->work = NULL;
    return work_finish(w, err);
}

enum b2_status analyze_run(struct sensitivity *s, const struct analyze_params *p,
                           struct b2_err *err)
{
    struct analyze a = {.p = p, .s = s};
    enum b2_status rc = file_check_output(p->output, p->source, p->force, err);

    *s = (struct sensitivity){0};
    if (!rc)
        rc = start(&a, err);
    if (!rc) {
        const uint64_t n = (uint64_t)s->n_layers;
        stage(&a, "layers", n);
        rc = analyze_local_all(&a, err);
        if (!rc && !p->quick) {
            stage(&a, "measure", n * (n + 1) / 2);
            rc = analyze_measure_all(&a, err);
        }
        if (!rc && !p->quick && !p->no_fisher) {
            stage(&a, "fisher", 1);
            rc = analyze_fisher_all(&a, err);
        }
    }
    if (!rc)
        rc = finish(&a, err);
    work_close(a.work);
    walk_free(a.walk);
    walk_weights_free(&a.teacher);
    walk_weights_free(&a.student);
    rotate_free(a.rotate);
    calib_free(&a.calib);
    model_close(a.m);
    blas_close(a.blas);
    if (rc)
        sens_free(s);
    return rc;
}
