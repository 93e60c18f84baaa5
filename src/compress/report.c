/*
 * report.c - sums, table, JSON.
 */
#include "compress/report.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum { ARENA_MAX = 256 << 20 };

void report_free(struct report *r)
{
    arena_free(r->arena);
    *r = (struct report){0};
}

void report_add_stage(struct report *r, const char *name, double seconds,
                      uint64_t bytes)
{
    if (r->n_stages < REPORT_MAX_STAGES)
        r->stage[r->n_stages++] =
            (struct report_stage){name, seconds, bytes, (double)NAN};
}

static bool is_ternary(enum dtype t)
{
    return (dtype_info(t)->flags & DTF_TERNARY) != 0;
}

enum b2_status report_set_tensors(struct report *r, const struct choose *c,
                                  const struct fit_stat *stat, struct b2_err *err)
{
    if (!r->arena)
        r->arena = arena_new(ARENA_MAX);
    r->tensor =
        r->arena ? arena_calloc(r->arena, (size_t)c->n, sizeof *r->tensor) : NULL;
    if (!r->tensor)
        return err_set(err, B2_ENOMEM, "report: out of memory");
    r->n = c->n;
    r->n_params = c->n_params;
    r->tensor_bytes = r->ternary_bytes = 0;
    r->ternary_params = r->source_ternary = r->rotate_block = r->padded = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const struct choose_item *it = &c->item[i];
        const struct choose_candidate *cand = choose_picked(it);
        struct report_tensor *t = &r->tensor[i];
        *t = (struct report_tensor){
            .name = arena_strdup(r->arena, it->t->name),
            .role = it->role,
            .why = it->why,
            .type = cand->type,
            .source_type = it->t->type,
            .hot = cand->hot,
            .n_hot = cand->n_hot,
            .fold = cand->fold,
            .copy = cand->copy,
            .width = tensor_width(it->t),
            .pad = cand->pad,
            .count = tensor_count(it->t),
            .n_bytes = choose_stored(it, cand) + choose_marks(it, cand),
            .left_out = cand->left_out,
            .damage = cand->damage,
            .stat = stat ? stat[i] : (struct fit_stat){0},
            .error = stat ? fit_stat_error(&stat[i]) : cand->error,
        };
        if (!t->name)
            return err_set(err, B2_ENOMEM, "report: out of memory");
        r->tensor_bytes += t->n_bytes;
        r->source_ternary += is_ternary(t->source_type) && !t->copy;
        r->padded += t->pad > 0;
        if (is_ternary(t->type)) {
            r->ternary_bytes += t->n_bytes;
            r->ternary_params += t->count;
        }
        if (t->fold)
            r->rotate_block = rotate_block(c->rotate) ? rotate_block(c->rotate) : -1;
    }
    return B2_OK;
}

double report_bits_per_weight(const struct report *r)
{
    return r->n_params ? 8.0 * (double)r->tensor_bytes / (double)r->n_params : 0.0;
}

double report_bits_per_weight_ternary(const struct report *r)
{
    if (r->ternary_params == 0)
        return -1.0;
    return 8.0 * (double)r->ternary_bytes / (double)r->ternary_params;
}

/* ---- text ---- */

static const char *why_text(enum choose_why why)
{
    switch (why) {
    case CHOOSE_VECTOR:
        return "one row, kept exact";
    case CHOOSE_OTHER:
        return "no linear layer, kept";
    case CHOOSE_RULE:
        return "rule";
    case CHOOSE_BUDGET:
        return "budget";
    case CHOOSE_LATER:
        return "behind --layers, kept";
    case CHOOSE_PAD:
        return "tail: rows padded to the group";
    case CHOOSE_TAIL:
        break;
    }
    return "tail: the group does not divide the row";
}

/* One line of the summary: all tensors of a role that share a type. */
static void text_group(const struct report *r, enum role role, enum dtype type,
                       struct str *out)
{
    struct fit_stat sum = {0};
    double error = 0.0, weight = 0.0;
    uint64_t bytes = 0;
    int64_t n = 0, count = 0;

    for (int64_t i = 0; i < r->n; i++) {
        const struct report_tensor *t = &r->tensor[i];
        if (t->role != role || t->type != type)
            continue;
        n++;
        count += t->count;
        bytes += t->n_bytes;
        fit_stat_add(&sum, &t->stat);
        error += t->error * (double)t->count;
        weight += (double)t->count;
    }
    if (n == 0)
        return;
    error = r->dry_run ? error / (weight > 0.0 ? weight : 1.0) : fit_stat_error(&sum);
    str_printf(out, "%-12s %-7s %5lld %12lld %12llu  %6.3f  %9.6f", role_name(role),
               dtype_info(type)->name, (long long)n, (long long)count,
               (unsigned long long)bytes,
               count ? 8.0 * (double)bytes / (double)count : 0.0, error);
    if (r->dry_run)
        str_put(out, "\n");
    else
        str_printf(out, "  %5.3f\n", fit_stat_zero_share(&sum));
}

static void text_tensors(const struct report *r, struct str *out)
{
    str_put(out, "\ntensor                            type    source     bytes      "
                 "error  zeros  why\n");
    for (int64_t i = 0; i < r->n; i++) {
        const struct report_tensor *t = &r->tensor[i];
        str_printf(out, "%-32s  %-7s %-7s %9llu  %9.6f  %5.3f  %s%s%s", t->name,
                   dtype_info(t->type)->name, dtype_info(t->source_type)->name,
                   (unsigned long long)t->n_bytes, t->error,
                   fit_stat_zero_share(&t->stat), why_text(t->why),
                   t->copy ? ", bytes as in the source" : "",
                   t->fold ? ", rotated" : "");
        long long stored = t->width + t->pad;
        if (t->pad)
            str_printf(out, ", %lld stored as %lld", (long long)t->width, stored);
        str_put(out, "\n");
    }
}

/* The name without its layer: "ssm_alpha.weight". */
static const char *kind_of(const char *name)
{
    const char *p = name + 4;

    if (strncmp(name, "blk.", 4) != 0)
        return name;
    while (*p >= '0' && *p <= '9')
        p++;
    return *p == '.' ? p + 1 : name;
}

static bool kept_alike(const struct report_tensor *a, const struct report_tensor *b)
{
    return a->why == CHOOSE_OTHER && b->why == CHOOSE_OTHER && a->type == b->type &&
           strcmp(kind_of(a->name), kind_of(b->name)) == 0;
}

/* A tensor that is kept since it is no linear layer; one line for all layers alike. */
static void text_kept(const struct report *r, int64_t i, struct str *out)
{
    const struct report_tensor *t = &r->tensor[i];
    const char *type = dtype_info(t->type)->name;
    int64_t n = 0;

    for (int64_t k = 0; k < i; k++)
        if (kept_alike(&r->tensor[k], t))
            return;
    for (int64_t k = i; k < r->n; k++)
        n += kept_alike(&r->tensor[k], t);
    if (n > 1)
        str_printf(out, "exception    %lld %s are kept as %s: no linear layers\n",
                   (long long)n, kind_of(t->name), type);
    else
        str_printf(out, "exception    %s is kept as %s: no linear layer\n", t->name,
                   type);
}

static int64_t groups_left_out(const struct report_tensor *t)
{
    return t->left_out * (t->count / t->width);
}

/* What a reader must not miss: tensors that did not become what was asked for, and
 * groups without any weight left. */
static void text_exceptions(const struct report *r, struct str *out)
{
    int64_t zero_groups = 0, underflows = 0;

    for (int64_t i = 0; i < r->n; i++) {
        const struct report_tensor *t = &r->tensor[i];
        /* Those that were meant to be are told of by text_left_out(). */
        zero_groups += max_i64(0, t->stat.zero_groups - groups_left_out(t));
        underflows += t->stat.underflows;
        if (t->why == CHOOSE_TAIL)
            str_printf(out,
                       "exception    %s is %s: no group divides its rows of %lld\n",
                       t->name, dtype_info(t->type)->name, (long long)t->width);
        if (t->why == CHOOSE_OTHER)
            text_kept(r, i, out);
    }
    if (zero_groups)
        str_printf(
            out,
            "exception    %lld groups are all zero (%lld of them had weights too "
            "small for an FP16 scale)\n",
            (long long)zero_groups, (long long)underflows);
    if (r->source_ternary)
        str_printf(out,
                   "exception    %lld tensors were ternary before and were rounded "
                   "again\n",
                   (long long)r->source_ternary);
}

static void text_padding(const struct report *r, struct str *out)
{
    double bytes = 0.0;

    for (int64_t i = 0; i < r->n; i++) {
        const struct report_tensor *t = &r->tensor[i];
        bytes += (double)t->n_bytes * (double)t->pad / (double)(t->width + t->pad);
    }
    str_printf(out,
               "padding      %lld tensors have rows that are stored wider, %.0f bytes; "
               "only programs\n             that know bonsai2.tail keys can run this "
               "file\n",
               (long long)r->padded, bytes);
}

static void text_left_out(const struct report *r, struct str *out)
{
    int64_t groups = 0, all = 0;

    for (int64_t i = 0; i < r->n; i++) {
        const struct report_tensor *t = &r->tensor[i];
        groups += groups_left_out(t);
        all += t->left_out > 0 ? t->count / dtype_info(t->type)->block : 0;
    }
    if (groups > 0)
        str_printf(
            out,
            "left out     %lld of %lld groups are zeros and not in the file; only "
            "programs that know\n             bonsai2.zeros keys can run it\n",
            (long long)groups, (long long)all);
}

static void text_tiers(const struct report *r, struct str *out)
{
    for (int64_t i = 0; i < r->n; i++) {
        const struct report_tensor *t = &r->tensor[i];
        if (t->n_hot > 0)
            str_printf(out,
                       "tiers        %s: the %lld most frequent rows are %s, the other "
                       "%lld %s; only programs\n             that know bonsai2.tiers "
                       "keys can run this file\n",
                       t->name, (long long)t->n_hot, dtype_info(t->hot)->name,
                       (long long)(t->count / t->width - t->n_hot),
                       dtype_info(t->type)->name);
    }
}

static void text_totals(const struct report *r, struct str *out)
{
    str_printf(out, "\nfile         %llu bytes (", (unsigned long long)r->output_bytes);
    str_put_bytes(out, r->output_bytes);
    if (r->source_bytes)
        str_printf(out, "), %.1f %% of the source",
                   100.0 * (double)r->output_bytes / (double)r->source_bytes);
    str_put(out, "\n");
    if (r->budget_bytes)
        str_printf(out, "budget       %llu bytes, %llu left over\n",
                   (unsigned long long)r->budget_bytes,
                   (unsigned long long)(r->budget_bytes - r->output_bytes));
    else if (r->budget_bpw > 0.0)
        str_printf(out, "budget       %.4f bits per weight\n", r->budget_bpw);
    str_printf(out, "bits         %.4f per weight over all %lld weights",
               report_bits_per_weight(r), (long long)r->n_params);
    if (r->ternary_params)
        str_printf(out, "; %.4f over the %lld ternary ones",
                   report_bits_per_weight_ternary(r), (long long)r->ternary_params);
    str_put(out, "\n");
    if (r->rotate_block < 0)
        str_put(out, "rotation     a block for each width; only programs that know "
                     "bonsai2.rotation keys can run this file\n");
    else if (r->rotate_block)
        str_printf(out,
                   "rotation     blocks of %lld; only programs that know "
                   "prism.hadamard keys can run this file\n",
                   (long long)r->rotate_block);
    if (r->padded)
        text_padding(r, out);
    text_left_out(r, out);
    text_tiers(r, out);
    for (int i = 0; i < r->n_stages; i++)
        str_printf(out, "%s%s %.1f s", i ? ", " : "time         ", r->stage[i].name,
                   r->stage[i].seconds);
    if (r->pieces_resumed)
        str_printf(out, " (%lld of %lld pieces were there already)",
                   (long long)r->pieces_resumed, (long long)r->pieces);
    str_put(out, r->n_stages ? "\n" : "");
}

void report_text(const struct report *r, bool all_tensors, struct str *out)
{
    str_printf(out, "%s -> %s%s\n\n", r->source, r->output ? r->output : "(nothing)",
               r->dry_run ? "  (dry run: nothing is written)" : "");
    str_printf(out,
               "role         type      n      weights        bytes    bits  "
               "rel.error%s\n",
               r->dry_run ? "" : "  zeros");
    for (int role = N_ROLES - 1; role >= 0; role--)
        for (int type = 0; type < N_DTYPES; type++)
            text_group(r, (enum role)role, (enum dtype)type, out);
    if (all_tensors)
        text_tensors(r, out);
    text_totals(r, out);
    text_exceptions(r, out);
}

/* ---- JSON ---- */

static void json_stages(const struct report *r, cJSON *j)
{
    cJSON *stages = cJSON_AddArrayToObject(j, "stages");

    for (int i = 0; i < r->n_stages; i++) {
        cJSON *s = cJSON_CreateObject();
        cJSON_AddStringToObject(s, "name", r->stage[i].name);
        cJSON_AddNumberToObject(s, "seconds", r->stage[i].seconds);
        if (isfinite(r->stage[i].kld))
            cJSON_AddNumberToObject(s, "kld", r->stage[i].kld);
        else
            cJSON_AddNullToObject(s, "kld"); /* rounding alone measures none */
        cJSON_AddNumberToObject(s, "bytes", (double)r->stage[i].bytes);
        cJSON_AddItemToArray(stages, s);
    }
}

static void add_number_or_null(cJSON *j, const char *key, double value, bool known)
{
    if (known)
        cJSON_AddNumberToObject(j, key, value);
    else
        cJSON_AddNullToObject(j, key);
}

static void json_tensors(const struct report *r, cJSON *j)
{
    cJSON *tensors = cJSON_AddArrayToObject(j, "tensors");

    for (int64_t i = 0; i < r->n; i++) {
        const struct report_tensor *t = &r->tensor[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", t->name);
        cJSON_AddStringToObject(o, "type", dtype_info(t->type)->name);
        if (t->n_hot > 0) {
            cJSON_AddStringToObject(o, "hot_type", dtype_info(t->hot)->name);
            cJSON_AddNumberToObject(o, "hot_rows", (double)t->n_hot);
        }
        cJSON_AddNumberToObject(o, "bytes", (double)t->n_bytes);
        cJSON_AddNumberToObject(o, "values", (double)t->count);
        cJSON_AddNumberToObject(o, "width", (double)t->width);
        add_number_or_null(o, "damage", t->damage, t->damage >= 0.0);
        cJSON_AddNumberToObject(o, "error", t->error);
        if (r->dry_run)
            cJSON_AddNullToObject(o, "zero_share");
        else
            cJSON_AddNumberToObject(o, "zero_share", fit_stat_zero_share(&t->stat));
        cJSON_AddStringToObject(o, "source_type", dtype_info(t->source_type)->name);
        cJSON_AddStringToObject(o, "why", why_text(t->why));
        cJSON_AddBoolToObject(o, "rotated", t->fold);
        cJSON_AddNumberToObject(o, "padding", (double)t->pad);
        cJSON_AddNumberToObject(o, "groups_left_out", (double)groups_left_out(t));
        cJSON_AddNumberToObject(o, "zero_groups", (double)t->stat.zero_groups);
        cJSON_AddNumberToObject(o, "underflow_groups", (double)t->stat.underflows);
        cJSON_AddItemToArray(tensors, o);
    }
}

struct cJSON *report_json(const struct report *r)
{
    cJSON *j = cJSON_CreateObject();
    double ternary = report_bits_per_weight_ternary(r);

    if (!j)
        return NULL;
    cJSON_AddStringToObject(j, "source", r->source);
    cJSON_AddStringToObject(j, "source_sha256", r->source_sha256);
    add_number_or_null(j, "source_bytes", (double)r->source_bytes, true);
    if (r->output)
        cJSON_AddStringToObject(j, "output", r->output);
    else
        cJSON_AddNullToObject(j, "output");
    cJSON_AddBoolToObject(j, "dry_run", r->dry_run);
    cJSON_AddItemToObject(j, "recipe", cJSON_Parse(r->recipe));
    json_stages(r, j);
    json_tensors(r, j);
    add_number_or_null(j, "budget_bytes", (double)r->budget_bytes,
                       r->budget_bytes != 0);
    add_number_or_null(j, "budget_bpw", r->budget_bpw, r->budget_bpw > 0.0);
    cJSON_AddNumberToObject(j, "output_bytes", (double)r->output_bytes);
    cJSON_AddNumberToObject(j, "tensor_bytes", (double)r->tensor_bytes);
    cJSON_AddNumberToObject(j, "other_bytes", /* keys, names, the table, alignment */
                            (double)r->output_bytes - (double)r->tensor_bytes);
    cJSON_AddNumberToObject(j, "bits_per_weight", report_bits_per_weight(r));
    add_number_or_null(j, "bits_per_weight_ternary", ternary, ternary >= 0.0);
    cJSON_AddNumberToObject(j, "n_params", (double)r->n_params);
    cJSON_AddNumberToObject(j, "rotate_block", (double)r->rotate_block);
    cJSON_AddNumberToObject(j, "padded_tensors", (double)r->padded);
    cJSON_AddNumberToObject(j, "pieces", (double)r->pieces);
    cJSON_AddNumberToObject(j, "pieces_resumed", (double)r->pieces_resumed);
    cJSON_AddStringToObject(j, "version", B2_VERSION);
    return j;
}
