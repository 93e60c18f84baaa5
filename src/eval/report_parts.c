/*
 * report_parts.c - overview, retention, size against quality, divergence.
 */
#include "eval/report_int.h"
#include "eval/retention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BARS = 256, WORDS = 96 };

static const double percent_ticks[] = {0, 0.25, 0.5, 0.75, 1.0};

/* ---- overview ---- */

static double best_decode(const cJSON *speed)
{
    const cJSON *row;
    double best = NAN;

    cJSON_ArrayForEach(row, report_list(speed, "rows"))
    {
        double v = report_num(row, "median_tps");
        if (strncmp(report_word(row, "test"), "tg", 2) == 0 && !(v <= best))
            best = v;
    }
    return best;
}

static void overview_row(struct str *out, const struct report_cand *c, int i)
{
    const cJSON *ret = c->result[REPORT_RETENTION], *kld = c->result[REPORT_KLD];
    const char *worst = report_word(ret, "worst_task");
    struct str bytes = {0};

    str_put(out, "<tr><td>");
    report_key(out, i, report_short(c->model));
    str_put(out, "</td>");
    if (c->bytes > 0)
        str_put_bytes(&bytes, (uint64_t)c->bytes);
    report_td(out, bytes.len ? bytes.data : "–");
    str_put(out, "<td>");
    if (*worst) {
        report_percent(
            out, report_num(report_named(report_list(ret, "tasks"), worst), "retention"),
            1);
        str_put(out, " ");
        report_text(out, worst);
    } else {
        str_put(out, "–");
    }
    str_put(out, "</td>");
    report_td_percent(out, report_num(ret, "mean_retention"));
    report_td_number(out, report_num(kld, "mean_kld"), 4);
    report_td_percent(out, report_num(kld, "same_top1"));
    report_td_percent(out, report_num(c->result[REPORT_LOOPS], "loop_rate"));
    report_td_number(out, best_decode(c->result[REPORT_SPEED]), 1);
    str_put(out, "</tr>\n");
    str_free(&bytes);
}

void report_overview(struct str *out, const struct report *r)
{
    for (int i = 0; i < r->n; i++) {
        const char *w = report_word(r->cand[i].result[REPORT_RETENTION], "warning");
        if (!*w)
            continue;
        str_put(out, "<p class=\"warn\">");
        report_text(out, report_short(r->cand[i].model));
        str_put(out, ": ");
        report_text(out, w);
        str_put(out, "</p>\n");
    }
    str_put(out, "<div class=\"scroll\"><table><tr><th>model</th><th>size</th>"
                 "<th>worst task</th><th>mean kept</th><th>KL, nat</th>"
                 "<th>same top word</th><th>answers that loop</th>"
                 "<th>tokens/s</th></tr>\n");
    for (int i = 0; i < r->n; i++)
        overview_row(out, &r->cand[i], i);
    str_put(out, "</table></div>\n");
}

/* ---- retention ---- */

/* A task of some candidate, for the order of the chart. */
struct task_row {
    const char *name;
    double worst;
    bool counted;
};

static int by_worst(const void *x, const void *y)
{
    const struct task_row *a = x, *b = y;

    if (a->counted != b->counted)
        return a->counted ? -1 : 1;
    if (a->worst != b->worst)
        return a->worst < b->worst ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* All tasks of all candidates, the one that somebody does worst on first. */
static int gather_tasks(struct task_row *row, const struct report *r)
{
    const cJSON *t;
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        cJSON_ArrayForEach(t, report_list(r->cand[i].result[REPORT_RETENTION], "tasks"))
        {
            const char *name = report_word(t, "name");
            double v = report_num(t, "retention");
            bool counted = !cJSON_IsTrue(cJSON_GetObjectItem(t, "at_chance"));
            int k = 0;
            while (k < n && strcmp(row[k].name, name) != 0)
                k++;
            if (k == MAX_BARS)
                continue;
            if (k == n)
                row[n++] = (struct task_row){name, v, counted};
            row[k].worst = fmin(row[k].worst, v);
        }
    }
    if (n > 1)
        qsort(row, (size_t)n, sizeof *row, by_worst);
    return n;
}

struct bar_words {
    char label[WORDS], value[WORDS];
};

static struct report_bar task_bar(struct bar_words *w, const cJSON *t, const char *name,
                                  const char *model, int color)
{
    bool chance = cJSON_IsTrue(cJSON_GetObjectItem(t, "at_chance"));
    double v = report_num(t, "retention"), low = report_num(t, "ci_low"),
           high = report_num(t, "ci_high");

    snprintf(w->label, sizeof w->label, "%s%s%s", name, *model ? " · " : "", model);
    if (chance)
        snprintf(w->value, sizeof w->value, "baseline at chance");
    else
        snprintf(w->value, sizeof w->value, "%.1f %% (%.0f–%.0f)", 100.0 * v,
                 100.0 * low, 100.0 * high);
    return (struct report_bar){.label = w->label,
                               .value = w->value,
                               .at = chance ? 0.0 : v,
                               .low = chance ? NAN : low,
                               .high = chance ? NAN : high,
                               .color = color};
}

static void retention_table(struct str *out, const struct report_cand *c)
{
    const cJSON *t, *ret = c->result[REPORT_RETENTION];

    str_put(out, "<details><summary>");
    report_text(out, report_short(c->model));
    str_put(out, ": scores, over chance, changed items, items needed</summary><div "
                 "class=\"scroll\"><table><tr><th>task</th><th>metric</th><th>items</th>"
                 "<th>baseline</th><th>candidate</th><th>kept</th><th>over chance</th>"
                 "<th>better / worse</th><th>McNemar p</th><th>items for ±1</th></tr>\n");
    cJSON_ArrayForEach(t, report_list(ret, "tasks"))
    {
        bool chance = cJSON_IsTrue(cJSON_GetObjectItem(t, "at_chance"));
        str_put(out, "<tr>");
        report_td(out, report_word(t, "name"));
        report_td(out, report_word(t, "metric"));
        report_td_number(out, report_num(t, "n"), 0);
        report_td_percent(out, report_num(t, "baseline"));
        report_td_percent(out, report_num(t, "candidate"));
        report_td_percent(out, chance ? NAN : report_num(t, "retention"));
        report_td_percent(out, chance ? NAN : report_num(t, "corrected"));
        str_printf(out, "<td>%.0f / %.0f</td>", report_num(t, "better"),
                   report_num(t, "worse"));
        report_td_number(out, report_num(t, "mcnemar_p"), 3);
        report_td_number(out, chance ? NAN : report_num(t, "n_needed"), 0);
        str_put(out, "</tr>\n");
    }
    str_put(out, "</table></div><p class=\"dim\">mean ");
    report_percent(out, report_num(ret, "mean_retention"), 1);
    str_put(out, " (95 %: ");
    report_percent(out, report_num(ret, "mean_ci_low"), 1);
    str_put(out, " to ");
    report_percent(out, report_num(ret, "mean_ci_high"), 1);
    str_put(out, "), geometric mean ");
    report_percent(out, report_num(ret, "geometric_mean"), 1);
    str_put(out, ", over chance ");
    report_percent(out, report_num(ret, "mean_corrected"), 1);
    str_put(out, "</p></details>\n");
}

void report_retention(struct str *out, const struct report *r)
{
    struct task_row row[MAX_BARS];
    struct report_bar bar[MAX_BARS];
    struct bar_words words[MAX_BARS];
    struct report_axis axis = {1.0, RETENTION_TASK_BAD, percent_ticks,
                               countof(percent_ticks), " %", 100.0};
    int n = 0, n_tasks = gather_tasks(row, r);

    if (n_tasks == 0)
        return;
    for (int k = 0; k < n_tasks; k++) {
        for (int i = 0; i < r->n && n < MAX_BARS; i++) {
            const cJSON *ret = r->cand[i].result[REPORT_RETENTION];
            const cJSON *t = report_named(report_list(ret, "tasks"), row[k].name);
            const char *model = r->n > 1 ? report_short(r->cand[i].model) : "";
            if (!t)
                continue;
            bar[n] = task_bar(&words[n], t, row[k].name, model, i);
            axis.max = fmax(axis.max, fmax(bar[n].at, isfinite(bar[n].high)
                                                          ? bar[n].high
                                                          : 0.0));
            n++;
        }
    }
    str_put(out, "<h2>Retention, worst task first</h2>\n<p class=\"dim\">Share of the "
                 "baseline's score that is left on the same items, with 95 % intervals "
                 "(paired bootstrap). Dashed: 85 %.</p>\n");
    report_legend(out, r, REPORT_RETENTION);
    report_bars(out, "retention of each task", bar, n, &axis);
    for (int i = 0; i < r->n; i++)
        if (r->cand[i].result[REPORT_RETENTION])
            retention_table(out, &r->cand[i]);
}

/* ---- size against quality ---- */

void report_size(struct str *out, const struct report *r)
{
    struct report_point p[REPORT_MAX_CANDIDATES + 1];
    bool kld = report_any(r, REPORT_KLD);
    double most = 0.0, y_most = 0.0;
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        const struct report_cand *c = &r->cand[i];
        double v = kld ? report_num(c->result[REPORT_KLD], "mean_kld")
                       : report_num(c->result[REPORT_RETENTION], "mean_retention");
        if (!isfinite(v) || !(c->bytes > 0))
            continue;
        p[n++] = (struct report_point){c->bytes / 1e6, v, report_short(c->model), i};
    }
    if (n == 0)
        return;
    if (r->baseline_bytes > 0)
        p[n++] = (struct report_point){r->baseline_bytes / 1e6, kld ? 0.0 : 1.0,
                                       "baseline", -1};
    for (int i = 0; i < n; i++) {
        most = fmax(most, p[i].x);
        y_most = fmax(y_most, p[i].y);
    }
    struct report_plot plot = {.title = "size against quality",
                               .x_name = "size, MB",
                               .y_name = kld ? "divergence, nat (lower is better)"
                                             : "mean retention (higher is better)",
                               .x_max = report_round_up(most * 1.05),
                               .y_max = report_round_up(y_most * 1.05)};
    str_put(out, "<h2>Size against quality</h2>\n");
    report_points(out, &plot, p, n);
}

/* ---- divergence ---- */

static void region_bars(struct str *out, const struct report *r)
{
    struct report_bar bar[MAX_BARS];
    struct bar_words words[MAX_BARS];
    double most = 0.0, ticks[3];
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        const cJSON *g;
        cJSON_ArrayForEach(g, report_list(r->cand[i].result[REPORT_KLD], "regions"))
        {
            const cJSON *ci = report_list(g, "mean_kld_ci");
            if (n == MAX_BARS)
                break;
            snprintf(words[n].label, WORDS, "%s%s%s", report_word(g, "name"),
                     r->n > 1 ? " · " : "",
                     r->n > 1 ? report_short(r->cand[i].model) : "");
            snprintf(words[n].value, WORDS, "%.4f nat, %.1f %% same top",
                     report_num(g, "mean_kld"), 100.0 * report_num(g, "same_top1"));
            bar[n] = (struct report_bar){words[n].label,         words[n].value,
                                         report_num(g, "mean_kld"), report_at(ci, 0),
                                         report_at(ci, 1),       i};
            most = fmax(most, fmax(bar[n].at, isfinite(bar[n].high) ? bar[n].high : 0));
            n++;
        }
    }
    most = report_round_up(most);
    for (int i = 0; i < 3; i++)
        ticks[i] = most * i / 2;
    struct report_axis axis = {most, NAN, ticks, 3, "", 1.0};
    if (n > 0)
        report_bars(out, "divergence of each region", bar, n, &axis);
}

static void position_lines(struct str *out, const struct report *r)
{
    struct report_point p[MAX_BARS];
    struct report_plot plot = {.title = "divergence by position",
                               .x_name = "position in the window",
                               .y_name = "divergence, nat",
                               .x_min = INFINITY,
                               .joined = true};
    double most = 0.0;
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        const cJSON *b;
        cJSON_ArrayForEach(b, report_list(r->cand[i].result[REPORT_KLD], "by_position"))
        {
            double from = report_num(b, "from"), to = report_num(b, "to");
            if (n == MAX_BARS)
                break;
            p[n] = (struct report_point){(from + to) / 2, report_num(b, "mean_kld"),
                                         NULL, i};
            plot.x_min = fmin(plot.x_min, from);
            plot.x_max = fmax(plot.x_max, to);
            most = fmax(most, p[n++].y);
        }
    }
    plot.y_max = report_round_up(most);
    if (n == 0)
        return;
    str_put(out, "<h3>By position</h3>\n");
    report_points(out, &plot, p, n);
}

static void divergence_table(struct str *out, const struct report *r)
{
    str_put(out, "<div class=\"scroll\"><table><tr><th>model</th><th>mean</th><th>median"
                 "</th><th>90 %</th><th>99 %</th><th>same top</th><th>Δp, points</th>"
                 "<th>Δp RMS</th><th>perplexity</th><th>ratio</th></tr>\n");
    for (int i = 0; i < r->n; i++) {
        const cJSON *k = r->cand[i].result[REPORT_KLD];
        if (!k)
            continue;
        str_put(out, "<tr><td>");
        report_key(out, i, report_short(r->cand[i].model));
        str_put(out, "</td>");
        report_td_number(out, report_num(k, "mean_kld"), 4);
        report_td_number(out, report_num(k, "median_kld"), 4);
        report_td_number(out, report_num(k, "p90_kld"), 4);
        report_td_number(out, report_num(k, "p99_kld"), 4);
        report_td_percent(out, report_num(k, "same_top1"));
        report_td_number(out, 100.0 * report_num(k, "dp_mean"), 2);
        report_td_number(out, 100.0 * report_num(k, "dp_rms"), 2);
        report_td_number(out, report_num(k, "ppl"), 3);
        report_td_number(out, report_num(k, "ppl_ratio"), 4);
        str_put(out, "</tr>\n");
    }
    str_put(out, "</table></div>\n");
}

void report_divergence(struct str *out, const struct report *r)
{
    if (!report_any(r, REPORT_KLD))
        return;
    str_put(out, "<h2>Divergence</h2>\n<p class=\"dim\">How far the next-token "
                 "probabilities are from the baseline's (KL, nat; 0 is the same), with "
                 "95 % intervals. Δp: change of the right token's probability.</p>\n");
    divergence_table(out, r);
    report_legend(out, r, REPORT_KLD);
    region_bars(out, r);
    position_lines(out, r);
}
