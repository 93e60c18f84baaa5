/*
 * distill.c - steps, evaluations, and the guard around them.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/file_space.h"
#include "base/mem.h"
#include "compress/distill_int.h"
#include "compress/outmeta.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A loss above its running mean times this, and by this many nats, is a jump. */
static const double jump_factor = 1.5, jump_nat = 0.2;
static const double same_jump = 0.9;  /* of the first: half the rates changed nothing */
static const double mean_share = 0.1; /* of the newest loss in the running mean */
enum { MAX_FAULTS = 8 }; /* before the training counts as one that does not hold */

static void stage(const struct distill *d, const char *name, int64_t total)
{
    if (d->p->on_stage)
        d->p->on_stage(d->p->ctx_of_calls, name, (uint64_t)max_i64(total, 1));
}

/* ---- one step ---- */

static void add_norm(struct distill *d, const struct param *p, void *ctx)
{
    double *sum = ctx;

    *sum += adam_norm2(&d->env, p, d->parts);
}

static void clear_grad(struct distill *d, const struct param *p, void *ctx)
{
    (void)d;
    (void)ctx;
    memset(p->g, 0, (size_t)p->n * sizeof *p->g);
}

struct update {
    struct adam adam;
    real share, clip;
};

static void move(struct distill *d, const struct param *p, void *ctx)
{
    const struct update *u = ctx;

    adam_step(&d->env, &u->adam, p, u->share, u->clip);
}

/* Gradients of a step's sequences; returns their mean losses. */
static struct distill_parts gradients(struct distill *d)
{
    const struct distill_params *p = d->p;
    struct head_sums sums = {0};

    d->token_weight = (real)(1.0 / (double)(p->batch * p->ctx));
    d->hidden_now = distill_hidden_weight(d);
    d->sum = (struct distill_parts){0};
    distill_sharpen(d, false);
    distill_rough(d, true);
    for (int64_t k = 0; k < p->batch; k += p->micro) {
        const int64_t n = min_i64(p->micro, p->batch - k);
        for (int64_t i = 0; i < n; i++) {
            const int64_t seq = d->st.step * p->batch + k + i;
            distill_sequence(d, seq, d->ids + i * p->ctx, d->first + i * p->ctx);
            distill_teacher_trained(d, i, seq);
        }
        distill_pass(d, &sums, n, d->token_weight, d->dh);
    }
    distill_rough(d, false);
    return distill_loss_of(d, &sums, distill_scale_loss(d));
}

static void add_parts(struct distill_state *st, const struct distill_parts *x)
{
    st->sum.loss += x->loss;
    st->sum.kl += x->kl;
    st->sum.ce += x->ce;
    st->sum.hidden += x->hidden;
    st->sum.scale += x->scale;
    st->sum_n++;
}

/* Nothing moved, so there is nothing to take back but the rates. */
static enum b2_status fault(struct distill *d, double loss, struct b2_err *err)
{
    distill_each(d, clear_grad, NULL);
    d->st.rate_share /= 2;
    d->st.n_faults++;
    d->st.step++;
    log_line(d->p->log, LOG_WARN,
             "step %lld: the loss or its gradient is no number (%g): step left out, "
             "rates halved",
             (long long)d->st.step, loss);
    if (d->st.n_faults > MAX_FAULTS)
        return err_set(
            err, B2_EFORMAT,
            "%d steps gave no numbers: the training does not hold; try lower "
            "rates",
            MAX_FAULTS);
    return B2_OK;
}

/* Back to the last checkpoint, with half the rates from there on. */
static enum b2_status go_back(struct distill *d, double loss, struct b2_err *err)
{
    const struct distill_state was = d->st;
    const int64_t from = was.step + 1;

    distill_each(d, clear_grad, NULL);
    enum b2_status rc = distill_load(d, err);
    if (rc)
        return rc;
    d->st.rate_share = was.rate_share / 2;
    d->st.n_back = was.n_back + 1;
    d->st.n_hard = was.n_hard; /* what was found out since stays known */
    memcpy(d->st.hard, was.hard, sizeof was.hard);
    d->st.jump_step = from;
    d->st.jump_loss = loss;
    log_line(d->p->log, LOG_WARN,
             "step %lld: the loss jumped from %.4f to %.4f: back to step %lld, rates "
             "halved",
             (long long)from, was.loss_mean, loss, (long long)d->st.step);
    if (d->st.n_back > MAX_FAULTS)
        return err_set(
            err, B2_EFORMAT,
            "the loss jumped %d times: the training does not hold; try lower "
            "rates",
            MAX_FAULTS);
    return distill_save(d, err); /* so that a killed run keeps the halved rates */
}

static bool jumps(const struct distill_state *st, double loss)
{
    return st->loss_mean > 0 && loss > st->loss_mean * jump_factor &&
           loss > st->loss_mean + jump_nat;
}

/* A jump that came before, at this step and with other weights: its text is hard. What
 * going back for it changed is undone. */
static bool hard_text(struct distill *d, double loss)
{
    struct distill_state *st = &d->st;

    for (int i = 0; i < N_HARD; i++)
        if (st->hard[i] == st->step + 1)
            return true;
    if (st->jump_step != st->step + 1 || loss < same_jump * st->jump_loss)
        return false;
    st->rate_share *= 2;
    st->n_back--;
    st->hard[st->n_hard++ % N_HARD] = st->step + 1;
    log_line(d->p->log, LOG_INFO,
             "step %lld: the loss is %.4f again: its text is hard; rates as before",
             (long long)st->step + 1, loss);
    return true;
}

static enum b2_status one_step(struct distill *d, struct b2_err *err)
{
    struct distill_state *st = &d->st;
    const struct distill_parts parts = gradients(d);
    double loss = parts.loss, norm2 = 0;

    /* a fault that does not stay is gone when its step is made again */
    if ((d->p->fault_step == st->step + 1 || d->p->fault_again == st->step + 1) &&
        (d->p->fault_stays || (st->n_back == 0 && st->n_faults == 0)))
        loss = d->p->fault_value;
    distill_each(d, add_norm, &norm2);
    if (!isfinite(loss) || !isfinite(norm2))
        return fault(d, loss, err);
    if (jumps(st, loss) && !hard_text(d, loss))
        return go_back(d, loss, err);
    struct schedule s = d->p->schedule;
    s.total = d->p->steps;
    const double norm = sqrt(norm2), clip = d->p->clip;
    struct update u = {{0.9f, 0.95f, 1e-8f, 0.0f, st->adam_step + 1},
                       (real)(schedule_at(&s, st->step + 1) * st->rate_share),
                       (real)(clip > 0 && norm > clip ? clip / norm : 1)};
    distill_each(d, move, &u);
    netmodel_moved(&d->s);
    st->adam_step++;
    st->step++;
    st->loss_mean =
        st->loss_mean > 0 ? st->loss_mean + mean_share * (loss - st->loss_mean) : loss;
    add_parts(st, &parts);
    return B2_OK;
}

/* Whether the state is to be scored: not when it was already and was gone back to. */
static bool due(const struct distill *d)
{
    const int64_t step = d->st.step;

    return (step % d->p->eval_every == 0 || step == d->p->steps) &&
           d->r->curve[d->st.n_points - 1].step < step;
}

/* The live line; the progress adds how much is done and the time left. */
static void show(struct distill *d)
{
    const struct distill_state *st = &d->st;
    struct progress *p = d->p->progress;

    if (!p)
        return;
    snprintf(
        d->note, sizeof d->note,
        "step %lld of %lld, %.0f tokens/s, loss %.4f, held-out kld %.4f, best %.4f",
        (long long)st->step, (long long)d->p->steps, d->r->tokens_per_s, st->loss_mean,
        d->r->curve[st->n_points - 1].held, st->best);
    p->note = d->note;
    progress_update(p, (uint64_t)st->step, st->loss_mean);
    p->note = NULL;
}

static enum b2_status train(struct distill *d, struct b2_err *err)
{
    struct distill_state *st = &d->st;
    const struct distill_params *p = d->p;
    const int64_t first = st->step;
    const double start_s = clock_s();
    enum b2_status rc = B2_OK;

    stage(d, "distil", p->steps);
    while (!rc && st->step < p->steps) {
        if (distill_stopped(d))
            return distill_interrupted(d, err);
        rc = one_step(d, err);
        const int64_t made = st->step - first;
        d->r->tokens_per_s =
            (double)(made * p->batch * p->ctx) / (clock_s() - start_s + 1e-9);
        show(d);
        if (!rc && due(d))
            rc = distill_take_stock(d, err);
        if (!rc && p->patience > 0 && st->stale >= p->patience && st->step < p->steps) {
            d->r->stopped_early = true;
            log_line(p->log, LOG_INFO, "%lld evaluations without a better one: stopped",
                     (long long)st->stale);
            break;
        }
    }
    return rc;
}

/* ---- making ---- */

static enum b2_status check_params(const struct distill_params *p, struct b2_err *err)
{
    enum b2_status rc;

    if (p->steps < 1 || p->batch < 1 || p->micro < 1 || p->ctx < 2 || p->eval_every < 1)
        return err_set(err, B2_EARG, "steps, batch, ctx: below 1");
    if (p->dry_run)
        return B2_OK;
    if (file_same(p->output, p->teacher))
        return err_set(err, B2_EARG, "%s: is the teacher", p->output);
    if (p->original && file_same(p->output, p->original))
        return err_set(err, B2_EARG, "%s: is the original", p->output);
    rc = file_check_output(p->output, p->student, p->force, err);
    return rc ? rc : file_check_folder(p->output, err);
}

/* A student whose columns were changed starts from weights that are not its original's; and
 * zeros that it left out are weights like others when it is written. */
static enum b2_status check_columns(const struct distill *d, struct b2_err *err)
{
    int64_t left_out = 0;

    for (int64_t i = 0; i < modelfile_n_tensors(d->sm->mf); i++)
        left_out += modelfile_left_out(d->sm->mf, i);
    if (left_out > 0)
        log_line(d->p->log, LOG_WARN,
                 "%s leaves out groups of zeros; what is written has them all",
                 d->p->student);
    if (outmeta_same_fold(modelfile_meta(d->sm->mf), modelfile_meta(d->om->mf)))
        return B2_OK;
    return err_set(
        err, B2_EUNSUP,
        "%s: its columns are scaled or sorted (bonsai2.fold keys), those of "
        "%s are not like that; let `bonsai2 compress --fold ... --effort best` "
        "train it",
        d->p->student, d->p->original ? d->p->original : d->p->teacher);
}

static enum b2_status open_models(struct distill *d, struct b2_err *err)
{
    const struct model_params mp = {.log = d->p->log};
    const struct model_params quiet = {.log = d->p->log, .no_tokenizer = true};
    enum b2_status rc = model_open(&d->tm, d->p->teacher, &mp, err);

    if (!rc)
        rc = model_open(&d->sm, d->p->student, &quiet, err);
    if (!rc && modelfile_kind(d->sm->mf) != MF_GGUF)
        rc = err_set(err, B2_EUNSUP, "%s: the student must be a GGUF file",
                     d->p->student);
    if (!rc && modelfile_n_parts(d->sm->mf) != 1)
        rc = err_set(err, B2_EUNSUP,
                     "%s: the student is split over several files; join them with "
                     "`bonsai2 export`",
                     d->p->student);
    d->om = d->tm;
    if (!rc && d->p->original)
        rc = model_open(&d->om, d->p->original, &quiet, err);
    if (!rc)
        rc = netmodel_check_pair(d->sm, d->om, err);
    if (!rc)
        rc = check_columns(d, err);
    return rc || d->om == d->tm ? rc : netmodel_check_teacher(d->sm, d->tm, err);
}

static void describe_loss(struct distill *d)
{
    d->loss = (struct head_loss){.teacher = netmodel_head(&d->t),
                                 .shared = netmodel_same_head(d->tm, d->sm),
                                 .kl = (real)d->p->loss.kl,
                                 .ce = (real)d->p->loss.ce,
                                 .temperature = (real)d->p->temperature,
                                 .threads = d->p->pool ? pool_threads(d->p->pool) : 1};
    d->loss.student = d->loss.teacher; /* for its sizes; its net comes after the plan */
}

/* The teacher's net, and the plan, by a net of the student's shapes: the teacher's, or that
 * of what the student was made from. */
static enum b2_status make_plan(struct distill *d, struct b2_err *err)
{
    struct netmodel_how how = distill_how(d);
    struct netmodel like = {.m = NULL};

    how.teacher = NULL;
    enum b2_status rc = netmodel_new(&d->t, d->tm, &how, err);
    if (!rc && d->om != d->tm)
        rc = netmodel_new(&like, d->om, &how, err);
    if (!rc) {
        describe_loss(d);
        d->shape = d->om != d->tm ? &like : &d->t;
        rc = distill_plan(d, err);
    }
    d->shape = NULL;
    netmodel_free(&like);
    return rc;
}

static enum b2_status make_student(struct distill *d, struct b2_err *err)
{
    const struct netmodel_how how = distill_how(d);
    enum b2_status rc = netmodel_new(&d->s, d->sm, &how, err);

    d->loss.student = netmodel_head(&d->s);
    return rc;
}

static enum b2_status make_buffers(struct distill *d, struct b2_err *err)
{
    const struct distill_params *p = d->p;
    const int64_t tokens = p->micro * p->ctx;
    const int threads = p->pool ? pool_threads(p->pool) : 1;
    const struct layer_batch max = {p->micro, p->ctx, NULL, NULL};
    int64_t longest = d->s.norms.n;

    for (int64_t i = 0; i < d->s.net.n_layers * N_LINEARS; i++) {
        const struct latent *l = &d->s.latent[i];
        longest = max_i64(longest, l->rows * l->stored + l->lora.rank * l->cols);
    }
    d->tw = net_work_new(&d->t.net, &d->t.layer, &max, threads, NET_FORWARD);
    d->sw = net_work_new(&d->s.net, &d->s.layer, &max, threads, d->keep);
    d->dh = mem_aligned(64, (size_t)(tokens * d->s.net.d), sizeof *d->dh);
    d->ids = mem_calloc((size_t)(4 * tokens), sizeof *d->ids);
    d->parts = mem_calloc((size_t)adam_parts(longest) + 1, sizeof *d->parts);
    d->best = d->space ? file_space_take(d->space, d->best_bytes)
                       : mem_calloc((size_t)d->best_bytes, 1);
    d->loss.scratch = mem_aligned(64, (size_t)head_scratch(&d->loss, threads),
                                  sizeof *d->loss.scratch);
    if (!d->tw || !d->sw || !d->dh || !d->ids || !d->parts || !d->best ||
        !d->loss.scratch)
        return err_set(err, B2_ENOMEM, "out of memory for the passes");
    d->first = d->ids + tokens;
    d->pos = d->first + tokens;
    d->target = p->loss.ce > 0 ? d->pos + tokens : NULL;
    return distill_open_taps(d, err);
}

static enum b2_status prepare(struct distill *d, struct b2_err *err)
{
    enum b2_status rc = check_params(d->p, err);

    if (!rc)
        rc = distill_open_gemm(d, err);
    if (!rc)
        rc = open_models(d, err);
    if (!rc)
        rc = distill_check_modes(d, err);
    if (!rc)
        rc = distill_check_loss(d, err);
    if (!rc)
        rc = distill_teacher_check(d->p, err);
    if (!rc)
        rc = distill_data(d, err);
    if (!rc)
        rc = make_plan(d, err);
    if (rc || d->p->dry_run)
        return rc;
    rc = make_student(d, err);
    if (!rc)
        rc = make_buffers(d, err);
    if (!rc)
        rc = distill_teacher_open(d, err);
    if (!rc)
        rc = distill_make_recipe(d, err);
    return rc ? rc : distill_open_state(d, err);
}

static enum b2_status start_or_go_on(struct distill *d, struct b2_err *err)
{
    enum b2_status rc = B2_ENOTFOUND;
    char core[sizeof d->st.core];

    distill_core(d, core, sizeof core);
    if (file_exists(d->state_path) && (!d->p->force || d->p->go_on)) {
        rc = distill_load(d, err);
        if (rc && !(rc == B2_EARG && d->p->force))
            return rc;
    }
    if (!rc) {
        d->r->resumed = true;
        if (strcmp(d->st.core, core) != 0)
            log_line(d->p->log, LOG_WARN,
                     "the steps before were made by products of %s, those to come by "
                     "%s: the result is another than that of one run",
                     d->st.core, core);
        log_line(d->p->log, LOG_INFO, "going on from step %lld of %lld",
                 (long long)d->st.step, (long long)d->p->steps);
        return B2_OK;
    }
    d->st.rate_share = 1;
    memcpy(d->st.core, core, sizeof core);
    stage(d, "score", 1);
    return distill_take_stock(d, err);
}

static void fill_report(struct distill *d)
{
    struct distill_report *r = d->r;
    const struct distill_state *st = &d->st;

    for (int i = 0; i < r->n_regions; i++) {
        r->region[i].before = st->before[i];
        r->region[i].after = st->after[i];
    }
    r->n_points = st->n_points;
    r->steps = st->step;
    r->tokens = st->step * d->p->batch * d->p->ctx;
    r->best_step = st->best_step;
    r->improved = st->improved;
    r->n_faults = st->n_faults;
    r->n_back = st->n_back;
    r->before = distill_mean(st->before, r->n_regions > 0 ? r->n_regions : 1);
    r->after = st->best;
    r->rate_share = st->rate_share;
}

static void free_all(struct distill *d)
{
    net_work_free(d->tw);
    net_work_free(d->sw);
    netmodel_free(&d->t);
    netmodel_free(&d->s);
    mem_free(d->dh);
    mem_free(d->ids);
    mem_free(d->seen);
    mem_free(d->parts);
    if (!d->space)
        mem_free(d->best);
    file_space_close(d->space);
    mem_free(d->loss.scratch);
    distill_teacher_close(d);
    distill_data_free(d);
    distill_close_state(d);
    str_free(&d->recipe);
    if (d->om != d->tm)
        model_close(d->om);
    model_close(d->tm);
    model_close(d->sm);
    distill_close_gemm(d);
}

enum b2_status distill_run(struct distill_report *report,
                           const struct distill_params *p, struct b2_err *err)
{
    struct distill d = {.p = p, .r = report, .lock = -1};
    const double start_s = clock_s();

    *report = (struct distill_report){0};
    enum b2_status rc = prepare(&d, err);
    if (!rc && p->dry_run)
        rc = distill_estimate(&d, err);
    if (!rc && !p->dry_run) {
        rc = start_or_go_on(&d, err);
        if (!rc)
            rc = train(&d, err);
        if (!rc)
            rc = distill_write(&d, err);
        if (!rc)
            rc = file_remove(d.state_path, err);
    }
    fill_report(&d);
    if (str_ok(&d.recipe)) {
        report->recipe = d.recipe.data;
        d.recipe = (struct str){0};
    }
    report->seconds = clock_s() - start_s;
    free_all(&d);
    return rc;
}

void distill_report_free(struct distill_report *r)
{
    mem_free(r->curve);
    mem_free(r->recipe);
    *r = (struct distill_report){0};
}
