/*
 * pipe_best.c - effort best: what compensation gave learns from the source.
 *
 * All of it lies in the folder of the work (work.h): student.gguf, which is there whole or
 * not at all and never made twice, and the state of the training (distill.h) beside
 * trained.gguf. So a process may be killed in any stage, and the folder's lock holds for
 * the training too.
 */
#include "base/clock.h"
#include "base/file.h"
#include "compress/netmodel.h"
#include "compress/pipeline_int.h"

#include <string.h>

/* Of the recipe that the training writes: its numbers, and of each text's name, hash and
 * counts. A byte of a name may take six in JSON. */
enum { KEY_BYTES = 2048, FILE_BYTES = 320, JSON_WORST = 6 };

enum b2_status pipeline_best_check(const struct pipeline *pl, struct b2_err *err)
{
    const struct model_params mp = {.log = pl->p->log, .no_tokenizer = true};
    struct model *m = NULL, *t = NULL;

    if (!pl->p->distill)
        return err_set(err, B2_EARG, "effort best: nothing says how to train");
    const char *teacher = pl->p->distill->teacher;
    enum b2_status rc = model_open(&m, pl->p->source, &mp, err);
    if (!rc)
        rc = netmodel_check(m, err);
    if (!rc && teacher)
        rc = model_open(&t, teacher, &mp, err);
    if (!rc && teacher)
        rc = netmodel_check_teacher(m, t, err);
    model_close(t);
    model_close(m);
    return rc;
}

uint64_t pipeline_best_reserve(const struct pipeline *pl)
{
    const struct calib_params *c = pl->p->calib;
    uint64_t bytes = KEY_BYTES + 8 * (uint64_t)pl->p->distill->n_held;

    for (int i = 0; i < c->n_files; i++)
        bytes += FILE_BYTES + JSON_WORST * (uint64_t)strlen(c->files[i]);
    return bytes;
}

static const char *path_of(struct str *s, const struct pipeline *pl, const char *name)
{
    str_clear(s);
    str_printf(s, "%s/%s", work_dir(pl->work), name);
    return str_ok(s) ? s->data : NULL;
}

bool pipeline_best_has_student(const struct pipeline *pl)
{
    struct str s = {0};
    const char *path = path_of(&s, pl, "student.gguf");
    const bool has = path && file_exists(path);

    str_free(&s);
    return has;
}

enum b2_status pipeline_best_take(const struct pipeline *pl, struct b2_err *err)
{
    struct str s = {0};
    const char *path = path_of(&s, pl, "student.gguf");
    enum b2_status rc = path ? file_rename(work_output_path(pl->work), path, err)
                             : err_set(err, B2_ENOMEM, "out of memory");

    str_free(&s);
    return rc;
}

static enum b2_status train(struct pipeline *pl, const char *student, const char *out,
                            struct b2_err *err)
{
    const struct pipeline_params *p = pl->p;
    struct distill_params d = *p->distill;

    d.teacher = p->distill->teacher ? p->distill->teacher : p->source;
    d.original = p->distill->teacher ? p->source : NULL;
    d.student = student;
    d.output = out;
    d.force = p->force;
    d.go_on = true;
    d.data = p->calib;
    d.pool = p->env.pool;
    d.mem_limit = p->mem_limit;
    d.log = p->log;
    d.cancelled = p->env.cancelled;
    d.progress = p->env.progress;
    d.on_stage = p->on_stage;
    d.ctx_of_calls = p->env.ctx;
    enum b2_status rc = B2_OK;
    if (file_exists(out)) /* by a process killed before it could hand it on */
        rc = file_remove(out, err);
    if (!rc)
        rc = distill_run(p->distilled, &d, err);
    if (!rc)
        rc = file_rename(out, work_output_path(pl->work), err);
    return rc;
}

enum b2_status pipeline_best_train(struct pipeline *pl, struct report *r,
                                   struct b2_err *err)
{
    struct str student = {0}, out = {0};
    const char *from = path_of(&student, pl, "student.gguf");
    const char *to = path_of(&out, pl, "trained.gguf");
    const double start_s = clock_s();

    enum b2_status rc = from && to ? train(pl, from, to, err)
                                   : err_set(err, B2_ENOMEM, "out of memory");

    if (!rc)
        rc = file_size(&pl->file_bytes, work_output_path(pl->work), err);
    if (!rc && pl->recipe.budget == RECIPE_BYTES &&
        pl->file_bytes > pl->recipe.budget_bytes)
        rc = err_set(err, B2_EARG,
                     "the trained file has %llu bytes, more than the budget; this is a "
                     "mistake in the program",
                     (unsigned long long)pl->file_bytes);
    if (!rc) {
        report_add_stage(r, "distil", clock_s() - start_s, pl->file_bytes);
        r->stage[r->n_stages - 1].kld = pl->p->distilled->after;
    }
    str_free(&student);
    str_free(&out);
    return rc;
}
