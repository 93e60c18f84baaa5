/*
 * page_parts.c - overview, retention, size against quality, divergence.
 */
#include "eval/page_int.h"
#include "eval/retention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BARS = 256, WORDS = 96 };

static const double percent_ticks[] = {0, 0.25, 0.5, 0.75, 1.0};

/* ---- overview ---- */

static double best_decode(const cJSON *speed)
{
    const cJSON *row;
    double best = PAGE_NONE;

    cJSON_ArrayForEach(row, page_list(speed, "rows"))
    {
        double v = page_num(row, "median_tps");
        if (strncmp(page_word(row, "test"), "tg", 2) == 0 && !(v <= best))
            best = v;
    }
    return best;
}

/* What a column of the overview says of a candidate; nothing: not measured. */
enum column {
    COL_SIZE,
    COL_WORST,
    COL_MEAN,
    COL_KLD,
    COL_TOP,
    COL_PPL,
    COL_LOOPS,
    COL_SPEED
};

static const char *const column_names[] = {
    "size",          "worst task", "mean kept",         "KL, nat",
    "same top word", "perplexity", "answers that loop", "tokens/s"};

static void put_share(struct str *out, double v)
{
    if (isfinite(v))
        page_percent(out, v, 1);
}

static void put_worst(struct str *out, const cJSON *retention)
{
    const char *name = page_word(retention, "worst_task");

    if (!*name)
        return;
    put_share(out,
              page_num(page_named(page_list(retention, "tasks"), name), "retention"));
    str_printf(out, " %s", name);
}

static void put_column(struct str *out, const struct page_cand *c, enum column k)
{
    const cJSON *ret = c->result[PAGE_RETENTION], *kld = c->result[PAGE_KLD];
    double v =
        k == COL_KLD ? page_num(kld, "mean_kld") : best_decode(c->result[PAGE_SPEED]);

    if (k == COL_PPL) /* of the text of kld, whose divergence stands beside it */
        v = page_num(kld ? kld : c->result[PAGE_PPL], "ppl");

    if (k == COL_SIZE && c->bytes > 0)
        str_put_bytes(out, (uint64_t)c->bytes);
    else if (k == COL_WORST)
        put_worst(out, ret);
    else if (k == COL_MEAN)
        put_share(out, page_num(ret, "mean_retention"));
    else if (k == COL_TOP)
        put_share(out, page_num(kld, "same_top1"));
    else if (k == COL_LOOPS)
        put_share(out, page_num(c->result[PAGE_LOOPS], "loop_rate"));
    else if (k != COL_SIZE && isfinite(v))
        page_number(out, v, k == COL_KLD ? 4 : k == COL_PPL ? 3 : 1);
}

/* Columns that say nothing of any candidate are left out. */
static void overview_table(struct str *out, const struct page *r)
{
    struct str cell[PAGE_MAX_CANDIDATES * countof(column_names)] = {{0}};
    bool any[countof(column_names)] = {false};

    for (int i = 0; i < r->n; i++) {
        for (int k = 0; k < (int)countof(column_names); k++) {
            struct str *s = &cell[i * (int)countof(column_names) + k];
            put_column(s, &r->cand[i], (enum column)k);
            any[k] = any[k] || s->len > 0;
        }
    }
    str_put(out, "<div class=\"scroll\"><table><tr><th>model</th>");
    for (size_t k = 0; k < countof(column_names); k++)
        if (any[k])
            str_printf(out, "<th>%s</th>", column_names[k]);
    str_put(out, "</tr>\n");
    for (int i = 0; i < r->n; i++) {
        str_put(out, "<tr><td>");
        page_key(out, i, page_short(r->cand[i].model));
        str_put(out, "</td>");
        for (int k = 0; k < (int)countof(column_names); k++) {
            struct str *s = &cell[i * (int)countof(column_names) + k];
            if (any[k])
                page_td(out, s->len ? s->data : "–");
            str_free(s);
        }
        str_put(out, "</tr>\n");
    }
    str_put(out, "</table></div>\n");
}

void page_overview(struct str *out, const struct page *r)
{
    for (int i = 0; i < r->n; i++) {
        const char *w = page_word(r->cand[i].result[PAGE_RETENTION], "warning");
        if (!*w)
            continue;
        str_put(out, "<p class=\"warn\">");
        page_text(out, page_short(r->cand[i].model));
        str_put(out, ": ");
        page_text(out, w);
        str_put(out, "</p>\n");
    }
    overview_table(out, r);
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
static int gather_tasks(struct task_row *row, const struct page *r)
{
    const cJSON *t;
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        cJSON_ArrayForEach(t, page_list(r->cand[i].result[PAGE_RETENTION], "tasks"))
        {
            const char *name = page_word(t, "name");
            double v = page_num(t, "retention");
            bool counted = !cJSON_IsTrue(cJSON_GetObjectItem(t, "at_chance"));
            int k = 0;
            while (k < n && strcmp(row[k].name, name) != 0)
                k++;
            if (k == MAX_BARS)
                continue;
            if (k == n)
                row[n++] = (struct task_row){name, v, counted};
            row[k].worst = fmin(row[k].worst, v);
            row[k].counted = row[k].counted || counted;
        }
    }
    if (n > 1)
        qsort(row, (size_t)n, sizeof *row, by_worst);
    return n;
}

struct bar_words {
    char label[WORDS], value[WORDS];
};

static struct page_bar task_bar(struct bar_words *w, const cJSON *t, const char *name,
                                const struct page *r, int color)
{
    bool chance = cJSON_IsTrue(cJSON_GetObjectItem(t, "at_chance"));
    double v = page_num(t, "retention"), low = page_num(t, "ci_low"),
           high = page_num(t, "ci_high");

    page_label(w->label, sizeof w->label, name, r, color);
    if (chance || !isfinite(v))
        snprintf(w->value, sizeof w->value,
                 chance ? "baseline at chance" : "not known");
    else
        snprintf(w->value, sizeof w->value, "%.1f %% (%.0f–%.0f)", 100.0 * v,
                 100.0 * low, 100.0 * high);
    return (struct page_bar){.label = w->label,
                             .value = w->value,
                             .at = chance ? 0.0 : v,
                             .low = chance ? PAGE_NONE : low,
                             .high = chance ? PAGE_NONE : high,
                             .color = color};
}

static void retention_table(struct str *out, const struct page_cand *c)
{
    const cJSON *t, *ret = c->result[PAGE_RETENTION];

    str_put(out, "<details><summary>");
    page_text(out, page_short(c->model));
    str_put(out,
            ": scores, over chance, changed items, items needed</summary><div "
            "class=\"scroll\"><table><tr><th>task</th><th>metric</th><th>items</th>"
            "<th>baseline</th><th>candidate</th><th>kept</th><th>over chance</th>"
            "<th>better / worse</th><th>McNemar p</th><th>items for ±1</th></tr>\n");
    cJSON_ArrayForEach(t, page_list(ret, "tasks"))
    {
        bool chance = cJSON_IsTrue(cJSON_GetObjectItem(t, "at_chance"));
        str_put(out, "<tr>");
        page_td(out, page_word(t, "name"));
        page_td(out, page_word(t, "metric"));
        page_td_number(out, page_num(t, "n"), 0);
        page_td_percent(out, page_num(t, "baseline"));
        page_td_percent(out, page_num(t, "candidate"));
        page_td_percent(out, chance ? PAGE_NONE : page_num(t, "retention"));
        page_td_percent(out, chance ? PAGE_NONE : page_num(t, "corrected"));
        str_put(out, "<td>");
        page_number(out, page_num(t, "better"), 0);
        str_put(out, " / ");
        page_number(out, page_num(t, "worse"), 0);
        str_put(out, "</td>");
        page_td_number(out, page_num(t, "mcnemar_p"), 3);
        page_td_number(out, chance ? PAGE_NONE : page_num(t, "n_needed"), 0);
        str_put(out, "</tr>\n");
    }
    str_put(out, "</table></div><p class=\"dim\">mean ");
    page_percent(out, page_num(ret, "mean_retention"), 1);
    str_put(out, " (95 %: ");
    page_percent(out, page_num(ret, "mean_ci_low"), 1);
    str_put(out, " to ");
    page_percent(out, page_num(ret, "mean_ci_high"), 1);
    str_put(out, "), geometric mean ");
    page_percent(out, page_num(ret, "geometric_mean"), 1);
    str_put(out, ", over chance ");
    page_percent(out, page_num(ret, "mean_corrected"), 1);
    str_put(out, "</p></details>\n");
}

/* Names the tasks that say nothing, which take no room in the chart. */
static void left_out(struct str *out, const struct task_row *row, int n)
{
    int k = 0;

    while (k < n && row[k].counted)
        k++;
    if (k == n)
        return;
    str_put(out, "<p class=\"dim\">Left out, because the baseline itself is no better "
                 "than a guess: ");
    for (int i = k; i < n; i++) {
        str_put(out, i > k ? ", " : "");
        page_text(out, row[i].name);
    }
    str_put(out, ".</p>\n");
}

void page_retention(struct str *out, const struct page *r)
{
    struct task_row row[MAX_BARS];
    struct page_bar bar[MAX_BARS];
    struct bar_words words[MAX_BARS];
    struct page_axis axis = {
        1.0, RETENTION_TASK_BAD, percent_ticks, countof(percent_ticks), " %", 100.0};
    int n = 0, n_tasks = gather_tasks(row, r);

    if (n_tasks == 0)
        return;
    for (int k = 0; k < n_tasks && row[k].counted; k++) { /* the others come last */
        for (int i = 0; i < r->n && n < MAX_BARS; i++) {
            const cJSON *ret = r->cand[i].result[PAGE_RETENTION];
            const cJSON *t = page_named(page_list(ret, "tasks"), row[k].name);
            if (!t)
                continue;
            bar[n] = task_bar(&words[n], t, row[k].name, r, i);
            axis.max = fmax(axis.max,
                            fmax(bar[n].at, isfinite(bar[n].high) ? bar[n].high : 0.0));
            n++;
        }
    }
    str_put(out, "<h2>Retention, worst task first</h2>\n<p class=\"dim\">Share of the "
                 "baseline's score that is left on the same items, with 95 % intervals "
                 "(paired bootstrap). Dashed: 85 %.</p>\n");
    page_legend(out, r, PAGE_RETENTION);
    if (n > 0)
        page_bars(out, "retention of each task", bar, n, &axis);
    left_out(out, row, n_tasks);
    for (int i = 0; i < r->n; i++)
        if (r->cand[i].result[PAGE_RETENTION])
            retention_table(out, &r->cand[i]);
}

/* ---- size against quality ---- */

void page_size(struct str *out, const struct page *r)
{
    struct page_point p[PAGE_MAX_CANDIDATES + 1];
    bool kld = page_any(r, PAGE_KLD);
    double most = 0.0, y_most = 0.0;
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        const struct page_cand *c = &r->cand[i];
        double v = kld ? page_num(c->result[PAGE_KLD], "mean_kld")
                       : page_num(c->result[PAGE_RETENTION], "mean_retention");
        if (!isfinite(v) || !(c->bytes > 0))
            continue;
        static const char *const letters[] = {"A", "B", "C", "D", "E", "F"};
        p[n++] = (struct page_point){c->bytes / 1e6, v,
                                     r->n > 1 ? letters[i] : "candidate", i};
    }
    if (n == 0)
        return;
    if (r->baseline_bytes > 0)
        p[n++] = (struct page_point){r->baseline_bytes / 1e6, kld ? 0.0 : 1.0,
                                     "baseline", -1};
    for (int i = 0; i < n; i++) {
        most = fmax(most, p[i].x);
        y_most = fmax(y_most, p[i].y);
    }
    struct page_plot plot = {.title = "size against quality",
                             .x_name = "size, MB",
                             .y_name = kld ? "divergence, nat (lower is better)"
                                           : "mean retention (higher is better)",
                             .x_max = page_round_up(most * 1.05),
                             .y_max = page_round_up(y_most * 1.05)};
    str_put(out, "<h2>Size against quality</h2>\n");
    page_legend(out, r, kld ? PAGE_KLD : PAGE_RETENTION);
    page_points(out, &plot, p, n);
}

/* ---- divergence ---- */

/* Adds a bar for the region of every candidate that has it. Returns the number of bars. */
static int add_region(struct page_bar *bar, struct bar_words *words, int n,
                      const struct page *r, const char *name)
{
    for (int i = 0; i < r->n && n < MAX_BARS; i++) {
        const cJSON *g =
            page_named(page_list(r->cand[i].result[PAGE_KLD], "regions"), name);
        const cJSON *ci = page_list(g, "mean_kld_ci");
        if (!g || !isfinite(page_num(g, "mean_kld") + page_num(g, "same_top1")))
            continue;
        page_label(words[n].label, WORDS, name, r, i);
        snprintf(words[n].value, WORDS, "%.4f · %.1f %%", page_num(g, "mean_kld"),
                 100.0 * page_num(g, "same_top1"));
        bar[n] =
            (struct page_bar){words[n].label, words[n].value, page_num(g, "mean_kld"),
                              page_at(ci, 0), page_at(ci, 1), i};
        n++;
    }
    return n;
}

static void region_bars(struct str *out, const struct page *r)
{
    struct page_bar bar[MAX_BARS];
    struct bar_words words[MAX_BARS];
    const char *name[MAX_BARS];
    double most = 0.0, ticks[3];
    int n = 0, n_names = page_names(name, MAX_BARS, r, PAGE_KLD, "regions");

    for (int i = 0; i < n_names; i++)
        n = add_region(bar, words, n, r, name[i]);
    for (int i = 0; i < n; i++)
        most = fmax(most, fmax(bar[i].at, isfinite(bar[i].high) ? bar[i].high : 0));
    most = page_round_up(most);
    for (int i = 0; i < 3; i++)
        ticks[i] = most * i / 2;
    struct page_axis axis = {most, PAGE_NONE, ticks, 3, "", 1.0};
    if (n == 0)
        return;
    str_put(out, "<h3>By region</h3>\n<p class=\"dim\">At the right: mean divergence "
                 "and the share of positions with the same most likely token.</p>\n");
    page_bars(out, "divergence of each region", bar, n, &axis);
}

static void position_lines(struct str *out, const struct page *r)
{
    struct page_point p[MAX_BARS];
    struct page_plot plot = {.title = "divergence by position",
                             .x_name = "position in the window",
                             .y_name = "divergence, nat",
                             .x_min = (double)INFINITY,
                             .joined = true};
    double most = 0.0;
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        const cJSON *b;
        cJSON_ArrayForEach(b, page_list(r->cand[i].result[PAGE_KLD], "by_position"))
        {
            double from = page_num(b, "from"), to = page_num(b, "to");
            if (n == MAX_BARS)
                break;
            if (!isfinite(from + to + page_num(b, "mean_kld")))
                continue;
            p[n] =
                (struct page_point){(from + to) / 2, page_num(b, "mean_kld"), NULL, i};
            plot.x_min = fmin(plot.x_min, from);
            plot.x_max = fmax(plot.x_max, to);
            most = fmax(most, p[n++].y);
        }
    }
    plot.y_max = page_round_up(most);
    if (n == 0)
        return;
    str_put(out, "<h3>By position</h3>\n");
    page_points(out, &plot, p, n);
}

static void divergence_table(struct str *out, const struct page *r)
{
    str_put(out,
            "<div class=\"scroll\"><table><tr><th>model</th><th>mean</th><th>median"
            "</th><th>90 %</th><th>99 %</th><th>same top</th><th>Δp, points</th>"
            "<th>Δp RMS</th><th>perplexity</th><th>ratio</th></tr>\n");
    for (int i = 0; i < r->n; i++) {
        const cJSON *k = r->cand[i].result[PAGE_KLD];
        if (!k)
            continue;
        str_put(out, "<tr><td>");
        page_key(out, i, page_short(r->cand[i].model));
        str_put(out, "</td>");
        page_td_number(out, page_num(k, "mean_kld"), 4);
        page_td_number(out, page_num(k, "median_kld"), 4);
        page_td_number(out, page_num(k, "p90_kld"), 4);
        page_td_number(out, page_num(k, "p99_kld"), 4);
        page_td_percent(out, page_num(k, "same_top1"));
        page_td_number(out, 100.0 * page_num(k, "dp_mean"), 2);
        page_td_number(out, 100.0 * page_num(k, "dp_rms"), 2);
        page_td_number(out, page_num(k, "ppl"), 3);
        page_td_number(out, page_num(k, "ppl_ratio"), 4);
        str_put(out, "</tr>\n");
    }
    str_put(out, "</table></div>\n");
}

void page_divergence(struct str *out, const struct page *r)
{
    if (!page_any(r, PAGE_KLD))
        return;
    str_put(out, "<h2>Divergence</h2>\n<p class=\"dim\">How far the next-token "
                 "probabilities are from the baseline's (KL, nat; 0 is the same), with "
                 "95 % intervals. Δp: change of the right token's probability.</p>\n");
    divergence_table(out, r);
    page_legend(out, r, PAGE_KLD);
    region_bars(out, r);
    position_lines(out, r);
}
