/*
 * page_more.c - loops, blind votes, rollback, speed, memory, conditions.
 */
#include "eval/page_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BARS = 128, MAX_CELLS = 512, WORDS = 96 };

static const double percent_ticks[] = {0, 0.25, 0.5, 0.75, 1.0};

/* ---- tasks of their own ---- */

void page_tasks(struct str *out, const struct page *r)
{
    struct page_bar bar[MAX_BARS];
    char label[MAX_BARS][WORDS], value[MAX_BARS][WORDS];
    struct page_axis axis = {1.0,  PAGE_NONE, percent_ticks, countof(percent_ticks),
                             " %", 100.0};
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        const cJSON *t;
        cJSON_ArrayForEach(t, page_list(r->cand[i].result[PAGE_TASK], "tasks"))
        {
            if (n == MAX_BARS)
                break;
            if (!isfinite(page_num(t, "score") + page_num(t, "n")))
                continue;
            page_label(label[n], WORDS, page_word(t, "name"), r, i);
            snprintf(value[n], WORDS, "%.1f %% of %.0f", 100.0 * page_num(t, "score"),
                     page_num(t, "n"));
            bar[n] = (struct page_bar){label[n],
                                       value[n],
                                       page_num(t, "score"),
                                       page_num(t, "ci_low"),
                                       page_num(t, "ci_high"),
                                       i};
            n++;
        }
    }
    if (n == 0)
        return;
    str_put(out, "<h2>Tasks</h2>\n<p class=\"dim\">Scores with 95 % intervals, and the "
                 "number of items.</p>\n");
    page_legend(out, r, PAGE_TASK);
    page_bars(out, "scores of tasks", bar, n, &axis);
}

/* ---- loops ---- */

static void loops_bars(struct str *out, const struct page *r)
{
    struct page_bar bar[MAX_BARS];
    char label[MAX_BARS][WORDS], value[MAX_BARS][WORDS];
    const char *name[MAX_BARS];
    struct page_axis axis = {1.0,  PAGE_NONE, percent_ticks, countof(percent_ticks),
                             " %", 100.0};
    int n = 0, n_names = page_names(name, MAX_BARS, r, PAGE_LOOPS, "slices");

    for (int k = 0; k < n_names * r->n && n < MAX_BARS; k++) {
        int i = k % r->n;
        const cJSON *s = page_named(page_list(r->cand[i].result[PAGE_LOOPS], "slices"),
                                    name[k / r->n]);
        const cJSON *ci = page_list(s, "loop_rate_ci");
        double rate = page_num(s, "loop_rate"),
               base = page_num(s, "baseline_loop_rate");
        if (!s || !isfinite(rate))
            continue;
        page_label(label[n], WORDS, name[k / r->n], r, i);
        if (isfinite(base))
            snprintf(value[n], WORDS, "%.0f %% (baseline %.0f %%)", 100.0 * rate,
                     100.0 * base);
        else
            snprintf(value[n], WORDS, "%.0f %%", 100.0 * rate);
        bar[n] = (struct page_bar){label[n],       value[n],       rate,
                                   page_at(ci, 0), page_at(ci, 1), i};
        n++;
    }
    if (n > 0)
        page_bars(out, "answers that loop", bar, n, &axis);
}

static void loops_row(struct str *out, const cJSON *s, const char *prefix,
                      const char *name)
{
    static const char *const keys[] = {"distinct4", "compression", "longest_cycle"};
    char key[48];

    str_put(out, "<tr>");
    page_td(out, name);
    snprintf(key, sizeof key, "%sloop_rate", prefix);
    page_td_percent(out, page_num(s, key));
    snprintf(key, sizeof key, "%slimit_rate", prefix);
    page_td_percent(out, page_num(s, key));
    for (size_t i = 0; i < countof(keys); i++) {
        snprintf(key, sizeof key, "%s%s", prefix, keys[i]);
        page_td_number(out, page_num(s, key), i == 2 ? 0 : 3);
    }
    str_put(out, "</tr>\n");
}

/* Did an earlier candidate show this baseline's answers? */
static bool same_baseline(const struct page *r, int before, const char *name)
{
    for (int i = 0; i < before; i++)
        if (strcmp(page_word(r->cand[i].result[PAGE_LOOPS], "baseline"), name) == 0)
            return true;
    return false;
}

void page_loops(struct str *out, const struct page *r)
{
    if (!page_any(r, PAGE_LOOPS))
        return;
    str_put(out, "<h2>Loops</h2>\n<p class=\"dim\">Share of answers that end in a "
                 "repetition, by kind of prompt.</p>\n");
    page_legend(out, r, PAGE_LOOPS);
    loops_bars(out, r);
    str_put(out, "<div class=\"scroll\"><table><tr><th>answers of</th><th>loop</th>"
                 "<th>hit the limit</th><th>distinct 4-grams</th><th>compression</th>"
                 "<th>longest cycle, tokens</th></tr>\n");
    for (int i = 0; i < r->n; i++) {
        const cJSON *l = r->cand[i].result[PAGE_LOOPS];
        if (!l)
            continue;
        if (isfinite(page_num(l, "baseline_loop_rate")) &&
            !same_baseline(r, i, page_word(l, "baseline")))
            loops_row(out, l, "baseline_", page_short(page_word(l, "baseline")));
        loops_row(out, l, "", page_short(r->cand[i].model));
    }
    str_put(out, "</table></div>\n");
}

/* ---- blind votes ---- */

void page_blind(struct str *out, const struct page *r)
{
    if (!page_any(r, PAGE_BLIND))
        return;
    str_put(out, "<h2>Blind comparison</h2>\n<div class=\"scroll\"><table><tr><th>model"
                 "</th><th>votes</th><th>won</th><th>lost</th><th>equal</th>"
                 "<th>preferred</th><th>95 % interval</th></tr>\n");
    for (int i = 0; i < r->n; i++) {
        const cJSON *b = r->cand[i].result[PAGE_BLIND];
        if (!b)
            continue;
        str_put(out, "<tr><td>");
        page_key(out, i, page_short(r->cand[i].model));
        str_put(out, "</td>");
        page_td_number(out, page_num(b, "n"), 0);
        page_td_number(out, page_num(b, "wins"), 0);
        page_td_number(out, page_num(b, "losses"), 0);
        page_td_number(out, page_num(b, "ties"), 0);
        page_td_percent(out, page_num(b, "preference"));
        str_put(out, "<td>");
        page_percent(out, page_num(b, "ci_low"), 0);
        str_put(out, " to ");
        page_percent(out, page_num(b, "ci_high"), 0);
        str_put(out, "</td></tr>\n");
    }
    str_put(out, "</table></div>\n");
}

/* ---- rollback ---- */

static void rollback_cells(struct str *out, const cJSON *list, const char *title)
{
    struct page_cell cell[MAX_CELLS];
    char value[MAX_CELLS][24];
    const cJSON *p;
    int n = 0;

    cJSON_ArrayForEach(p, list)
    {
        if (n == MAX_CELLS)
            break;
        double v = page_num(p, "gain_per_mb"); /* null: it takes no more bytes */
        snprintf(value[n], sizeof value[n], isfinite(v) ? "%.3g" : "same bytes", v);
        cell[n] = (struct page_cell){page_word(p, "name"), value[n], v};
        n++;
    }
    if (n == 0)
        return;
    str_put(out, "<h3>");
    page_text(out, title);
    str_put(out, "</h3>\n");
    page_cells(out, title, cell, n);
}

void page_rollback(struct str *out, const struct page *r)
{
    if (!page_any(r, PAGE_ROLLBACK))
        return;
    str_put(out, "<h2>What to give back</h2>\n<p class=\"dim\">Each part restored to "
                 "the baseline's weights alone: what it buys back for each further "
                 "megabyte. The stronger the colour, the more.</p>\n");
    for (int i = 0; i < r->n; i++) {
        const cJSON *b = r->cand[i].result[PAGE_ROLLBACK];
        if (!b)
            continue;
        str_put(out, "<p>");
        page_key(out, i, page_short(r->cand[i].model));
        str_printf(out, ": best by the byte is <b>");
        page_text(out, page_word(b, "best"));
        str_put(out, "</b> (measured by ");
        str_put(out, strcmp(page_word(b, "by"), "loops") == 0 ? "looping answers"
                                                              : "divergence");
        str_put(out, ")</p>\n");
        rollback_cells(out, page_list(b, "layers"), "Layers");
        rollback_cells(out, page_list(b, "classes"), "Tensor classes");
    }
}

/* ---- speed ---- */

static void speed_rows(struct str *out, const struct page_cand *c, int i)
{
    const cJSON *s = c->result[PAGE_SPEED], *row;

    cJSON_ArrayForEach(row, page_list(s, "rows"))
    {
        str_put(out, "<tr><td>");
        page_key(out, i, page_short(c->model));
        str_put(out, "</td>");
        page_td(out, page_word(row, "test"));
        page_td_number(out, page_num(row, "threads"), 0);
        page_td_number(out, page_num(row, "median_tps"), 2);
        str_put(out, "<td>");
        page_number(out, page_num(row, "min_tps"), 2);
        str_put(out, "–");
        page_number(out, page_num(row, "max_tps"), 2);
        str_put(out, "</td></tr>\n");
    }
}

void page_speed(struct str *out, const struct page *r)
{
    if (!page_any(r, PAGE_SPEED))
        return;
    str_put(out, "<h2>Speed</h2>\n<div class=\"scroll\"><table><tr><th>model</th>"
                 "<th>cold start, ms</th><th>warm start, ms</th><th>first token, ms"
                 "</th><th>peak memory</th></tr>\n");
    for (int i = 0; i < r->n; i++) {
        const cJSON *s = r->cand[i].result[PAGE_SPEED];
        struct str peak = {0};
        if (!s)
            continue;
        str_put(out, "<tr><td>");
        page_key(out, i, page_short(r->cand[i].model));
        str_put(out, "</td>");
        page_td_number(out, page_num(s, "load_cold_ms"), 0);
        page_td_number(out, page_num(s, "load_warm_ms"), 0);
        page_td_number(out, page_num(s, "first_token_ms"), 0);
        if (page_num(s, "peak_rss_bytes") > 0)
            str_put_bytes(&peak, (uint64_t)page_num(s, "peak_rss_bytes"));
        page_td(out, peak.len ? peak.data : "–");
        str_put(out, "</tr>\n");
        str_free(&peak);
    }
    str_put(out,
            "</table></div>\n<p class=\"dim\">pp: reading a prompt of so many "
            "tokens; tg: generating so many, @: with so many in the cache. Medians; "
            "range of the runs.</p>\n<div class=\"scroll\"><table><tr><th>model</th>"
            "<th>test</th><th>threads</th><th>tokens/s</th><th>range</th></tr>\n");
    for (int i = 0; i < r->n; i++)
        speed_rows(out, &r->cand[i], i);
    str_put(out, "</table></div>\n");
}

/* ---- memory ---- */

static const struct {
    const char *key, *name;
} memory_parts[] = {
    {"weights_bytes", "weights"},
    {"kv_bytes", "cache"},
    {"state_bytes", "state"},
    {"scratch_bytes", "scratch"},
};

void page_memory(struct str *out, const struct page *r)
{
    struct page_bar bar[MAX_BARS];
    char label[MAX_BARS][WORDS], value[MAX_BARS][WORDS];
    double most = 0.0, ticks[3];
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        const cJSON *m =
            cJSON_GetObjectItemCaseSensitive(r->cand[i].result[PAGE_SPEED], "memory");
        for (size_t k = 0; m && k < countof(memory_parts) && n < MAX_BARS; k++) {
            double v = page_num(m, memory_parts[k].key);
            if (!(v > 0))
                continue;
            page_label(label[n], WORDS, memory_parts[k].name, r, i);
            snprintf(value[n], WORDS, "%.1f MB", v / 1e6);
            bar[n] =
                (struct page_bar){label[n], value[n], v / 1e6, PAGE_NONE, PAGE_NONE, i};
            most = fmax(most, v / 1e6);
            n++;
        }
    }
    if (n == 0)
        return;
    most = page_round_up(most);
    for (int i = 0; i < 3; i++)
        ticks[i] = most * i / 2;
    struct page_axis axis = {most, PAGE_NONE, ticks, 3, " MB", 1.0};
    str_put(out, "<h2>Memory by part</h2>\n");
    page_legend(out, r, PAGE_SPEED);
    page_bars(out, "memory by part", bar, n, &axis);
}

/* ---- conditions ---- */

/* Plain values of a result, lists and figures left out: under which it was measured. */
static void put_conditions(struct str *out, const cJSON *result)
{
    static const char *const keys[] = {
        "fingerprint", "baseline",       "fingerprint_baseline",
        "text",        "text_sha256",    "ctx",
        "stride",      "chunks",         "convention",
        "begin_token", "exact",          "exact_baseline",
        "kernel",      "processor",      "threads",
        "seed",        "resamples",      "runs",
        "batch",       "max_tokens",     "temperature",
        "template",    "prompts_sha256", "version"};

    for (size_t i = 0; i < countof(keys); i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(result, keys[i]);
        if (!v)
            continue;
        str_put(out, "<tr>");
        page_td(out, keys[i]);
        if (cJSON_IsString(v)) {
            page_td(out, v->valuestring);
        } else if (cJSON_IsNumber(v)) {
            str_printf(out, "<td>%.15g</td>", v->valuedouble);
        } else {
            page_td(out, cJSON_IsTrue(v) ? "yes" : cJSON_IsFalse(v) ? "no" : "–");
        }
        str_put(out, "</tr>\n");
    }
}

void page_conditions(struct str *out, const struct page *r)
{
    static const char *const names[PAGE_KINDS] = {
        "Perplexity", "Divergence", "Tasks", "Retention",
        "Loops",      "Rollback",   "Speed", "Blind comparison"};

    str_put(out, "<h2>Conditions</h2>\n<p class=\"dim\">Without them the numbers above "
                 "mean nothing. The page's source holds all results as JSON.</p>\n");
    for (int i = 0; i < r->n; i++) {
        for (int k = 0; k < PAGE_KINDS; k++) {
            if (!r->cand[i].result[k])
                continue;
            str_put(out, "<details><summary>");
            page_key(out, i, page_short(r->cand[i].model));
            str_printf(out, ": %s</summary><div class=\"scroll\"><table>", names[k]);
            put_conditions(out, r->cand[i].result[k]);
            str_put(out, "</table></div></details>\n");
        }
    }
}
