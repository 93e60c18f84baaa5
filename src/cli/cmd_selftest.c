/*
 * cmd_selftest.c - bonsai2 selftest: every kernel at every level of this machine, or one
 * model file.
 */
#include "base/clock.h"
#include "base/cpu.h"
#include "cli/cli.h"
#include "cli/modeltest.h"
#include "kernel/check.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { MAX_LEVELS = 16, MAX_SHOWN = 10 };

struct level_row {
    const char *name;
    unsigned features;
    const char *same_as; /* this lower level has the same kernels; NULL: was checked */
    struct kcheck_result result;
    double seconds;
};

struct selftest {
    struct cli_common common;
    struct level_row row[MAX_LEVELS];
    int n_rows, n_failed, n_shown;
    const char *level; /* being checked */
};

static const struct cmd command = {
    .name = "selftest",
    .summary =
        "Check every kernel at every level of this processor against the scalar "
        "reference, bit for bit, with random and extreme inputs; with -m check a model "
        "file instead.",
    .example = "bonsai2 selftest -m model.gguf",
};

static void on_failure(void *ctx, const char *what, const char *text)
{
    struct selftest *s = ctx;

    if (++s->n_shown <= MAX_SHOWN)
        fprintf(stderr, "bonsai2: kernel %s at level %s is wrong: %s\n", what, s->level,
                text);
}

/* The same kernels in every row of the table, whatever the levels are called. */
static bool same_kernels(unsigned a, unsigned b)
{
    struct kernels ka, kb;

    kernels_init(&ka, a);
    kernels_init(&kb, b);
    ka.name = kb.name = "";
    /* Padding that differs would only have a level checked twice. */
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
    return memcmp(&ka, &kb, sizeof ka) == 0;
}

/* The levels of the features, lowest first; those above B2_CPU's are left out. */
static void list_levels(struct selftest *s, unsigned features)
{
    const char *name;

    for (int i = 0; (name = cpu_level_at(i)) && s->n_rows < MAX_LEVELS; i++) {
        unsigned at_level;
        if (cpu_limit(&at_level, features, name, NULL))
            continue;
        struct level_row *row = &s->row[s->n_rows];
        row->name = name;
        row->features = at_level;
        for (int j = 0; j < s->n_rows && !row->same_as; j++)
            if (same_kernels(at_level, s->row[j].features))
                row->same_as = s->row[j].name;
        s->n_rows++;
    }
}

static enum b2_status check_levels(struct selftest *s, struct b2_err *err)
{
    for (int i = 0; i < s->n_rows; i++) {
        struct level_row *row = &s->row[i];
        double begin = clock_s();
        if (row->same_as)
            continue;
        s->level = row->name;
        enum b2_status rc =
            kcheck_level(&row->result, row->features, on_failure, s, err);
        if (rc)
            return rc;
        row->seconds = clock_s() - begin;
        s->n_failed += row->result.n_failed;
    }
    return B2_OK;
}

static cJSON *result_json(const struct selftest *s, const char *processor)
{
    cJSON *o = cJSON_CreateObject(), *levels;

    cJSON_AddBoolToObject(o, "ok", s->n_failed == 0);
    cJSON_AddStringToObject(o, "processor", processor);
    levels = cJSON_AddArrayToObject(o, "levels");
    for (int i = 0; i < s->n_rows; i++) {
        const struct level_row *row = &s->row[i];
        cJSON *l = cJSON_CreateObject();
        cJSON_AddItemToArray(levels, l);
        cJSON_AddStringToObject(l, "level", row->name);
        if (row->same_as) {
            cJSON_AddStringToObject(l, "same_kernels_as", row->same_as);
            continue;
        }
        cJSON_AddNumberToObject(l, "checks", row->result.n_checks);
        cJSON_AddNumberToObject(l, "failed", row->result.n_failed);
        cJSON_AddNumberToObject(l, "seconds", row->seconds);
        if (row->result.n_failed) {
            cJSON_AddStringToObject(l, "kernel", row->result.what);
            cJSON_AddStringToObject(l, "message", row->result.text);
        }
    }
    return o;
}

static void print_table(const struct selftest *s, const char *processor)
{
    printf("%s\n", processor);
    for (int i = 0; i < s->n_rows; i++) {
        const struct level_row *row = &s->row[i];
        if (row->same_as)
            printf("  %-11s same kernels as %s\n", row->name, row->same_as);
        else if (row->result.n_failed)
            printf("  %-11s FAILED: %s (%d comparison%s)\n", row->name,
                   row->result.what, row->result.n_failed,
                   row->result.n_failed == 1 ? "" : "s");
        else
            printf("  %-11s %d checks passed in %.1f s\n", row->name,
                   row->result.n_checks, row->seconds);
    }
}

/* ---- one model ---- */

static const char *const state_names[] = {
    [MODELTEST_OK] = "ok",
    [MODELTEST_FAILED] = "FAILED",
    [MODELTEST_SKIPPED] = "skipped",
};

static cJSON *model_json(const struct modeltest *t, const char *path)
{
    cJSON *o = cJSON_CreateObject(), *checks;

    cJSON_AddBoolToObject(o, "ok", t->n_failed == 0);
    cJSON_AddStringToObject(o, "model", path);
    cJSON_AddStringToObject(o, "fingerprint", t->fingerprint);
    checks = cJSON_AddArrayToObject(o, "checks");
    for (int i = 0; i < t->n; i++) {
        cJSON *c = cJSON_CreateObject();
        cJSON_AddItemToArray(checks, c);
        cJSON_AddStringToObject(c, "name", t->check[i].name);
        cJSON_AddStringToObject(c, "state", state_names[t->check[i].state]);
        cJSON_AddStringToObject(c, "detail", t->check[i].detail);
    }
    return o;
}

static int check_model(const char *path, const struct cli_common *common)
{
    struct modeltest t;
    struct b2_err err = {0};
    int code = CLI_DONE;

    if (modeltest_run(&t, path, common, &err))
        return cli_report_error(&err);
    if (common->json)
        code = cli_print_json(model_json(&t, path));
    for (int i = 0; !common->json && i < t.n; i++)
        printf("%-8s %-16s %s\n", state_names[t.check[i].state], t.check[i].name,
               t.check[i].detail);
    return t.n_failed ? CLI_FAILED : code;
}

int cmd_selftest(int argc, char **argv)
{
    const char *model = NULL;
    struct selftest s = {0};
    struct b2_err err = {0};
    char processor[128];
    unsigned features = 0;
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &model, 0, 0,
         "Check this model instead: its blocks, its rows requantised, its logits in "
         "one "
         "batch and step by step, and the published values of Ternary Bonsai 2 27B."},
        CLI_COMMON_OPTS(&s.common),
        {.kind = OPT_END},
    };
    int n_operands = 0, code = cli_parse(&command, opts, argc, argv, &n_operands);

    if (code != OPT_RUN)
        return code;
    if (model)
        return check_model(model, &s.common);
    if (cli_cpu(&features, &s.common, &err))
        return cli_report_error(&err);
    cpu_model_name(processor, sizeof processor);
    list_levels(&s, features);
    if (check_levels(&s, &err))
        return cli_report_error(&err);
    if (s.common.json)
        code = cli_print_json(result_json(&s, processor));
    else {
        print_table(&s, processor);
        code = CLI_DONE;
    }
    return s.n_failed ? CLI_FAILED : code;
}
