/*
 * cmd_eval_report.c - bonsai2 eval report: results of other measures on one page.
 */
#include "cli/eval_cmd.h"

#include <cjson/cJSON.h>

int cmd_eval_report(int argc, char **argv)
{
    static const struct cmd cmd = {
        "eval report",
        "Put results of eval measures and of bench (what their --json printed), and "
        "sensitivity files of analyze, on one "
        "page: one HTML file, no network, light and dark, for a phone and for paper.",
        "RESULT.json...",
        1,
        64,
        "bonsai2 eval report kld.json retention.json speed.json -o page.html"};
    struct cli_common common = {0};
    struct opt_list files = {.n = 0};
    const char *out = NULL;
    bool force = false;
    struct b2_err err = {0};
    const struct opt opts[] = {
        {OPT_STR, 'o', "output", "FILE", &out, 0, 0, "The page."},
        {OPT_FLAG, 'f', "force", NULL, &force, 0, 0, "Replace an existing page."},
        {OPT_FLAG, 'q', "quiet", NULL, &common.quiet, 0, 0, "Only errors on stderr."},
        {.kind = OPT_END},
    };
    int n = 0, code = cli_parse(&cmd, opts, argc, argv, &n);

    if (code != OPT_RUN)
        return code;
    if (!out)
        return cli_usage_error(&cmd, "-o FILE is missing: the page to write");
    for (int i = 0; i < n; i++)
        files.item[files.n++] = argv[1 + i];
    cJSON *list = cJSON_CreateArray();
    enum b2_status rc = eval_write_report(out, list, &files, force, &err);
    cJSON_Delete(list);
    if (rc)
        return cli_report_error(&err);
    if (!common.quiet)
        fprintf(stderr, "page         %s\n", out);
    return CLI_DONE;
}
