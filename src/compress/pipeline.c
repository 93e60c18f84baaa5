/*
 * pipeline.c - the four stages in a row.
 */
#include "compress/pipeline_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "compress/cost.h"
#include "compress/cost_file.h"
#include "compress/outmeta.h"
#include "compress/round.h"
#include "compress/tiers.h"
#include "format/gguf.h"

#include <math.h>
#include <string.h>

enum { WRITE_BYTES = 4 << 20, DISK_SLACK = 1 << 20 };

static void begin_stage(const struct pipeline *pl, const char *name)
{
    if (pl->p->on_stage)
        pl->p->on_stage(pl->p->env.ctx, name, (uint64_t)max_i64(1, pl->c.n_params));
}

static const char *source_name(const struct pipeline_params *p)
{
    return p->source_name ? p->source_name : p->source;
}

/* ---- choose ---- */

/* Keys and exact file size for the picks as they are now. */
static enum b2_status lay_out(struct pipeline *pl, struct b2_err *err)
{
    meta_free(pl->meta);
    pl->meta = NULL;
    const struct outmeta_source source = {source_name(pl->p), pl->sha256};
    enum b2_status rc = outmeta_make(&pl->meta, &pl->c, pl->mf, &source, err);
    if (!rc)
        pl->file_bytes = outmeta_file_bytes(pl->meta, &pl->c);
    return rc;
}

/* The bytes that do not depend on the picks are not known before the picks are (the
 * rotation's keys): allocate, look at the real file, and take off what is too much. The
 * loop ends because each turn has less, down to the smallest file there is. */
static enum b2_status fit_bytes(struct pipeline *pl, uint64_t budget,
                                struct b2_err *err)
{
    choose_smallest(&pl->c);
    enum b2_status rc = lay_out(pl, err);
    if (rc)
        return rc;
    if (pl->file_bytes > budget && pl->p->too_small)
        *pl->p->too_small = true;
    if (pl->file_bytes > budget)
        return err_set(
            err, B2_EARG,
            "a budget of %llu bytes is too small: the smallest file that "
            "these types give has %llu bytes; name smaller ones with --types, "
            "or take layers away with --remove",
            (unsigned long long)budget, (unsigned long long)pl->file_bytes);
    uint64_t fixed = pl->file_bytes - choose_bytes(&pl->c, true);
    uint64_t allowed = budget - fixed, smallest = choose_bytes(&pl->c, true);
    do {
        rc = choose_allocate(&pl->c, allowed, true, err);
        if (!rc)
            rc = lay_out(pl, err);
        if (rc)
            return rc;
        uint64_t over = pl->file_bytes > budget ? pl->file_bytes - budget : 0;
        if (over == 0)
            return B2_OK;
        allowed = allowed - smallest > over ? allowed - over : smallest;
    } while (allowed > smallest);
    choose_smallest(&pl->c);
    return lay_out(pl, err);
}

static enum b2_status fit_bits(struct pipeline *pl, double bpw, struct b2_err *err)
{
    double allowed = bpw * (double)pl->c.n_params / 8.0;

    choose_smallest(&pl->c);
    double smallest = (double)choose_bytes(&pl->c, false);
    if (smallest > allowed)
        return err_set(
            err, B2_EARG,
            "a budget of %.4f bits per weight is too small: the smallest "
            "types give %.4f; name smaller ones with --types, or take layers "
            "away first with `bonsai2 prune`",
            bpw, 8.0 * smallest / (double)max_i64(1, pl->c.n_params));
    enum b2_status rc = choose_allocate(&pl->c, (uint64_t)allowed, false, err);
    return rc ? rc : lay_out(pl, err);
}

/* What training adds to the file counts too. */
static uint64_t budget_bytes(const struct pipeline *pl)
{
    const uint64_t bytes = pl->p->recipe->budget_bytes;
    const uint64_t more =
        pl->recipe.effort == RECIPE_BEST ? pipeline_best_reserve(pl) : 0;

    return bytes > more ? bytes - more : 0;
}

/* A share that no row has a whole group of does nothing. */
static void tell_of_zeros(const struct pipeline *pl)
{
    if (pl->recipe.zero_groups > 0.0 && choose_all_marks(&pl->c) == 0)
        log_line(pl->p->log, LOG_WARN,
                 "--zero-groups: nothing is left out; no ternary matrix of a layer has "
                 "rows of enough groups");
}

static enum b2_status stage_choose(struct pipeline *pl, struct b2_err *err)
{
    const struct recipe *recipe = pl->p->recipe;

    switch (recipe->budget) {
    case RECIPE_BYTES:
        return fit_bytes(pl, budget_bytes(pl), err);
    case RECIPE_BPW:
        return fit_bits(pl, recipe->budget_bpw, err);
    case RECIPE_NO_BUDGET:
        break;
    }
    choose_smallest(&pl->c); /* rules decided everything: one candidate each */
    return lay_out(pl, err);
}

/* ---- round ---- */

/* Everything that decides the pieces' bytes, as text. */
static enum b2_status make_state(const struct pipeline *pl, struct str *out,
                                 struct b2_err *err)
{
    str_printf(out,
               "{\"version\":\"%s\",\"source_sha256\":\"%s\",\"recipe\":", B2_VERSION,
               pl->sha256);
    recipe_json(&pl->recipe, out);
    str_put(out, ",\"tensors\":[");
    for (int64_t i = 0; i < pl->c.n; i++) {
        const struct choose_candidate *cand = choose_picked(&pl->c.item[i]);
        char name[CHOOSE_NAME_MAX];
        str_put(out, i ? ",\n[" : "\n[");
        recipe_json_string(out, pl->c.item[i].t->name);
        str_printf(out, ",\"%s\",%s]", choose_name(name, cand),
                   cand->copy   ? "\"copy\""
                   : cand->fold ? "\"rotate\""
                                : "\"round\"");
    }
    str_put(out, "\n]}\n");
    return str_ok(out) ? B2_OK : err_set(err, B2_ENOMEM, "state: out of memory");
}

static enum b2_status make_pieces(struct pipeline *pl, struct b2_err *err)
{
    struct piece *last = NULL;

    pl->piece = mem_calloc((size_t)pl->c.n, sizeof *pl->piece);
    pl->stat = mem_calloc((size_t)pl->c.n, sizeof *pl->stat);
    if (!pl->piece || !pl->stat)
        return err_set(err, B2_ENOMEM, "pieces: out of memory");
    for (int64_t i = 0; i < pl->c.n; i++) {
        const struct choose_item *it = &pl->c.item[i];
        if (!last || it->layer != pl->c.item[last->begin].layer) {
            last = &pl->piece[pl->n_pieces++];
            last->begin = i;
        }
        last->end = i + 1;
        last->payload += choose_picked(it)->n_bytes;
    }
    return B2_OK;
}

/* Pieces that are there are taken over; room for the rest and for the output itself is
 * checked before any work. */
static enum b2_status check_disk(struct pipeline *pl, struct b2_err *err)
{
    uint64_t need = pl->file_bytes + DISK_SLACK, n_free = 0;

    if (pl->recipe.effort == RECIPE_BEST) /* the student and what it becomes */
        need += pl->file_bytes;
    for (int64_t i = 0; i < pl->n_pieces; i++) {
        struct piece *pc = &pl->piece[i];
        pc->done = work_have_piece(pl->work, i, pl->stat + pc->begin,
                                   pc->end - pc->begin, pc->payload);
        pl->n_resumed += pc->done;
        need += pc->done ? 0 : pc->payload;
    }
    enum b2_status rc = file_disk_free(&n_free, work_dir(pl->work), err);
    if (rc)
        return rc;
    if (n_free < need)
        return err_set(err, B2_EIO,
                       "the disk of %s has %llu bytes free and %llu are needed (the "
                       "output and, until it is complete, its pieces): make room and "
                       "run the same command again",
                       pl->p->output, (unsigned long long)n_free,
                       (unsigned long long)need);
    return B2_OK;
}

/* The tensor's bytes are there already when it was compensated. */
static enum b2_status round_item(struct pipeline *pl, int64_t k, uint64_t n_done,
                                 struct b2_err *err)
{
    const struct choose_item *it = &pl->c.item[k];
    const uint8_t *bytes =
        pl->normal ? normal_bytes(pl->normal, k, &pl->stat[k]) : NULL;

    if (bytes)
        return work_piece_data(pl->work, bytes, choose_picked(it)->n_bytes, err);
    if (table_compensable(&pl->c, it, choose_picked(it)))
        return pipeline_round_table(pl, k, n_done, err);
    return round_tensor(&pl->c, it, pl->mf, &pl->p->env, pl->work, &pl->stat[k], err);
}

enum b2_status pipeline_round_piece(struct pipeline *pl, int64_t i, uint64_t *n_done,
                                    struct b2_err *err)
{
    struct piece *pc = &pl->piece[i];
    enum b2_status rc = work_piece_begin(pl->work, i, err);

    for (int64_t k = pc->begin; k < pc->end && !rc; k++) {
        rc = round_item(pl, k, *n_done, err);
        *n_done += (uint64_t)tensor_count(pl->c.item[k].t);
        progress_update(pl->p->env.progress, *n_done, 0.0);
    }
    if (!rc)
        rc = work_piece_end(pl->work, pl->stat + pc->begin, pc->end - pc->begin, err);
    pc->done = !rc;
    return rc;
}

/* Tells how to go on after an error that a second run may not meet. */
static void add_way_on(const struct pipeline *pl, struct b2_err *err)
{
    char old[B2_ERR_MAX];
    int64_t done = 0;

    if (!err)
        return;
    memcpy(old, err->msg, sizeof old);
    for (int64_t i = 0; i < pl->n_pieces; i++)
        done += pl->piece[i].done;
    err_set(err, err->status,
            "%s; %lld of %lld layers are finished and stay in %s: run the same command "
            "again to go on",
            old, (long long)done, (long long)pl->n_pieces, work_dir(pl->work));
}

/* Pieces that belong to no layer, or all. The student walks with its own table, so these
 * come first. */
static enum b2_status round_ends(struct pipeline *pl, uint64_t *n_done,
                                 struct b2_err *err)
{
    const bool fast = pl->recipe.effort == RECIPE_FAST;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < pl->n_pieces && !rc; i++)
        if (!pl->piece[i].done && (fast || pl->c.item[pl->piece[i].begin].layer < 0))
            rc = pipeline_round_piece(pl, i, n_done, err);
    pipeline_drop_metric(pl);
    return rc;
}

static enum b2_status stage_round(struct pipeline *pl, struct b2_err *err)
{
    uint64_t n_done = 0;
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < pl->n_pieces; i++)
        for (int64_t k = pl->piece[i].begin; k < pl->piece[i].end; k++)
            n_done += pl->piece[i].done ? (uint64_t)tensor_count(pl->c.item[k].t) : 0;
    if (pl->n_resumed)
        log_line(pl->p->log, LOG_INFO, "going on in %s: %lld of %lld layers were there",
                 work_dir(pl->work), (long long)pl->n_resumed, (long long)pl->n_pieces);
    rc = round_ends(pl, &n_done, err);
    if (!rc && pl->recipe.effort >= RECIPE_NORMAL)
        rc = pipeline_compensate(pl, &n_done, err);
    return rc;
}

/* ---- write ---- */

/* A tensor's bytes. The writer pads after each tensor, so a write must not cross from one
 * to the next. */
static enum b2_status write_part(struct gguf_out *out, const struct file_map *m,
                                 uint64_t at, uint64_t n_bytes, struct b2_err *err)
{
    const uint64_t end = at + n_bytes;
    enum b2_status rc = B2_OK;

    while (at < end && !rc) {
        const uint64_t n = end - at < WRITE_BYTES ? end - at : WRITE_BYTES;
        rc = gguf_out_data(out, m->data + at, (size_t)n, err);
        file_map_drop(m, at, n);
        at += n;
    }
    return rc;
}

static enum b2_status write_piece(struct pipeline *pl, int64_t i, struct gguf_out *out,
                                  struct b2_err *err)
{
    const struct piece *pc = &pl->piece[i];
    struct file_map m = {0};
    enum b2_status rc = work_piece_map(pl->work, i, pc->payload, &m, err);

    uint64_t at = 0;
    for (int64_t k = pc->begin; k < pc->end && !rc; k++) {
        const struct choose_item *it = &pl->c.item[k];
        struct choose_part part[2];
        int n = choose_parts(it, choose_picked(it), part);
        if (choose_picked(it)->left_out > 0) {
            rc = pipeline_write_packed(pl, out, it, m.data + at, err);
            file_map_drop(&m, at, choose_picked(it)->n_bytes);
            n = 0;
        }
        for (int p = 0; p < n && !rc; p++)
            rc = write_part(out, &m, at + part[p].at, part[p].n_bytes, err);
        at += choose_picked(it)->n_bytes;
    }
    file_unmap(&m);
    return rc;
}

static enum b2_status declare(const struct pipeline *pl, struct gguf_out *out,
                              struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    uint64_t bytes = 0;

    for (int64_t i = 0; i < pl->c.n && !rc; i++) {
        const struct tensor *t = pl->c.item[i].t;
        const struct choose_candidate *cand = choose_picked(&pl->c.item[i]);
        struct choose_part part[2];
        int64_t ne[TENSOR_MAX_RANK];
        memcpy(ne, t->ne, sizeof ne);
        ne[0] = tensor_width(t) + cand->pad -
                cand->left_out * dtype_info(cand->type)->block;
        int n = choose_parts(&pl->c.item[i], cand, part);
        for (int k = 0; k < n && !rc; k++) {
            ne[1] = n > 1 ? part[k].rows : ne[1];
            rc = gguf_out_tensor(out, part[k].name, part[k].type, t->rank, ne, err);
        }
    }
    if (!rc)
        rc = gguf_out_size(out, &bytes, err);
    if (!rc && bytes != pl->file_bytes)
        rc =
            err_set(err, B2_EARG,
                    "the file would have %llu bytes where %llu were planned; this is a "
                    "mistake in the program",
                    (unsigned long long)bytes, (unsigned long long)pl->file_bytes);
    return rc ? rc : gguf_out_header(out, err);
}

static enum b2_status stage_write(struct pipeline *pl, struct b2_err *err)
{
    struct gguf_out *out = NULL;
    enum b2_status rc = pipeline_mark_zeros(pl, err);
    uint64_t n_done = 0;

    if (!rc)
        rc = gguf_out_open(&out, work_output_path(pl->work), true, pl->meta, err);
    if (!rc)
        rc = declare(pl, out, err);
    for (int64_t i = 0; i < pl->n_pieces && !rc; i++) {
        if (pl->p->env.cancelled && pl->p->env.cancelled(pl->p->env.ctx))
            rc = err_set(err, B2_ECANCEL, "interrupted");
        else
            rc = write_piece(pl, i, out, err);
        for (int64_t k = pl->piece[i].begin; k < pl->piece[i].end; k++)
            n_done += (uint64_t)tensor_count(pl->c.item[k].t);
        progress_update(pl->p->env.progress, n_done, 0.0);
    }
    mem_free(pl->marks);
    pl->marks = NULL;
    if (rc) {
        gguf_out_abort(out);
        return rc;
    }
    return gguf_out_finish(out, err);
}

/* ---- all together ---- */

/* Rounds, and writes all to work_output_path(). */
static enum b2_status make_file(struct pipeline *pl, struct report *r,
                                struct b2_err *err)
{
    double start_s = clock_s();

    begin_stage(pl, "round");
    enum b2_status rc = stage_round(pl, err);
    report_add_stage(r, "round", clock_s() - start_s, choose_bytes(&pl->c, false));
    r->stage[r->n_stages - 1].kld = pl->kld;
    if (rc)
        return rc;
    start_s = clock_s();
    begin_stage(pl, "write");
    rc = stage_write(pl, err);
    report_add_stage(r, "write", clock_s() - start_s, pl->file_bytes);
    return rc;
}

/* The state is opened late: nothing is left behind by a recipe that is refused. */
static enum b2_status run_work(struct pipeline *pl, struct report *r,
                               struct b2_err *err)
{
    struct str state = {0};
    enum b2_status rc = make_pieces(pl, err);

    if (!rc)
        rc = make_state(pl, &state, err);
    if (!rc)
        rc = work_open(&pl->work, pl->p->output, state.data, pl->p->force, pl->p->log,
                       err);
    str_free(&state);
    if (!rc)
        rc = check_disk(pl, err);
    if (rc)
        return rc;

    const bool best = pl->recipe.effort == RECIPE_BEST;
    if (!best || !pipeline_best_has_student(pl)) {
        rc = make_file(pl, r, err);
        if (!rc && best)
            rc = pipeline_best_take(pl, err);
    }
    if (!rc && best)
        rc = pipeline_best_train(pl, r, err);
    if (rc == B2_ECANCEL || rc == B2_EIO)
        add_way_on(pl, err);
    if (rc)
        return rc;
    struct work *w = pl->work;
    pl->work = NULL;
    return work_finish(w, err);
}

static enum b2_status fill_report(struct pipeline *pl, struct report *r,
                                  struct b2_err *err)
{
    const struct pipeline_params *p = pl->p;
    struct str recipe = {0};
    enum b2_status rc =
        report_set_tensors(r, &pl->c, p->dry_run ? NULL : pl->stat, err);

    if (rc)
        return rc;
    recipe_json(&pl->recipe, &recipe);
    r->source = arena_strdup(r->arena, source_name(p));
    r->source_sha256 = arena_strdup(r->arena, pl->sha256);
    r->output = p->output ? arena_strdup(r->arena, p->output) : NULL;
    r->recipe = str_ok(&recipe) ? arena_strdup(r->arena, recipe.data) : NULL;
    str_free(&recipe);
    if (!r->source || !r->source_sha256 || !r->recipe || (p->output && !r->output))
        return err_set(err, B2_ENOMEM, "report: out of memory");
    r->source_bytes = modelfile_bytes(pl->mf);
    r->budget_bytes = p->recipe->budget == RECIPE_BYTES ? p->recipe->budget_bytes : 0;
    r->budget_bpw = p->recipe->budget == RECIPE_BPW ? p->recipe->budget_bpw : 0.0;
    r->output_bytes = pl->file_bytes;
    r->pieces = pl->n_pieces;
    r->pieces_resumed = pl->n_resumed;
    r->dry_run = p->dry_run;
    return B2_OK;
}

/* The calibration becomes a part of the recipe. */
static enum b2_status read_calibration(struct pipeline *pl, struct b2_err *err)
{
    if (pl->p->calib->n_files == 0)
        return err_set(
            err, B2_EARG,
            "--effort normal and best need texts to calibrate on: give --calib FILE");
    enum b2_status rc = calib_of_model(&pl->calib, modelfile_meta(pl->mf), pl->p->calib,
                                       pl->p->log, err);
    if (rc)
        return rc;
    calib_json(&pl->calib, &pl->calib_text);
    if (!str_ok(&pl->calib_text))
        return err_set(err, B2_ENOMEM, "out of memory");
    pl->recipe.calibration = pl->calib_text.data;
    return B2_OK;
}

/* Measured, or read from where an earlier run left them. */
static enum b2_status stage_cost(struct pipeline *pl, struct report *r,
                                 struct b2_err *err)
{
    const char *path = pl->p->costs;
    const struct cost_params cp = {.source = pl->p->source,
                                   .mf = pl->mf,
                                   .c = &pl->c,
                                   .calib = &pl->calib,
                                   .env = &pl->p->env,
                                   .mem_limit = pl->p->mem_limit,
                                   .log = pl->p->log};
    double start_s = clock_s();
    struct str key = {0};
    bool found = false;
    enum b2_status rc = B2_OK;

    cost_file_key(&pl->recipe, pl->sha256, &key);
    if (!str_ok(&key))
        rc = err_set(err, B2_ENOMEM, "costs: out of memory");
    if (!rc && path)
        rc = cost_file_read(&pl->c, path, key.data, &found, err);
    if (!rc && !found) {
        begin_stage(pl, "cost");
        rc = cost_measure(&cp, err);
    }
    if (!rc && path && !found)
        rc = cost_file_write(&pl->c, path, key.data, err);
    str_free(&key);
    report_add_stage(r, "cost", clock_s() - start_s, 0);
    return rc;
}

static enum b2_status run_stages(struct pipeline *pl, struct report *r,
                                 struct b2_err *err)
{
    const struct pipeline_params *p = pl->p;
    enum b2_status rc = modelfile_open(&pl->mf, p->source, p->log, err);

    if (!rc)
        rc = tiers_open(pl->mf, &pl->recipe, err);
    if (!rc && pl->recipe.effort == RECIPE_BEST)
        rc = pipeline_best_check(pl, err);
    if (!rc && pl->recipe.effort >= RECIPE_NORMAL)
        rc = read_calibration(pl, err);
    if (!rc)
        rc = choose_prepare(&pl->c, pl->mf, &pl->recipe, err);
    if (!rc && pl->recipe.effort >= RECIPE_NORMAL)
        rc = tiers_add(&pl->c, pl->calib.ids, (pl->calib.n_seqs - 1) * pl->calib.ctx,
                       err);
    if (!rc && pl->recipe.effort >= RECIPE_NORMAL)
        rc = normal_check(&pl->c, err);
    if (rc)
        return rc;
    struct scan_env env = p->env;
    env.measure_all = p->dry_run;
    double start_s = clock_s();
    begin_stage(pl, "scan");
    rc = scan_run(&pl->c, pl->mf, &env, err);
    report_add_stage(r, "scan", clock_s() - start_s, modelfile_bytes(pl->mf));
    if (!rc)
        rc = modelfile_sha256(pl->mf, pl->sha256, err);
    if (!rc && pl->recipe.effort >= RECIPE_NORMAL &&
        pl->recipe.budget != RECIPE_NO_BUDGET)
        rc = stage_cost(pl, r, err);
    if (!rc) {
        start_s = clock_s();
        rc = stage_choose(pl, err);
        if (!rc)
            tell_of_zeros(pl);
        report_add_stage(r, "choose", clock_s() - start_s, 0);
    }
    if (!rc && !p->dry_run)
        rc = run_work(pl, r, err);
    return rc ? rc : fill_report(pl, r, err);
}

enum b2_status pipeline_run(struct report *r, const struct pipeline_params *p,
                            struct b2_err *err)
{
    struct pipeline pl = {.p = p, .recipe = *p->recipe, .kld = (double)NAN};

    *r = (struct report){0};
    if (!p->dry_run && !p->output)
        return err_set(err, B2_EARG, "no output is named");
    enum b2_status rc = B2_OK;
    if (!p->dry_run)
        rc = file_check_output(p->output, p->source, p->force, err);
    if (!rc)
        rc = run_stages(&pl, r, err);
    work_close(pl.work);
    calib_free(&pl.calib);
    str_free(&pl.calib_text);
    mem_free(pl.piece);
    mem_free(pl.stat);
    meta_free(pl.meta);
    choose_free(&pl.c);
    modelfile_close(pl.mf);
    if (rc)
        report_free(r);
    return rc;
}
