/*
 * page.c - results sorted by candidate, and the frame of the page.
 */
#include "eval/page_int.h"

#include "base/heatmap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char style[] =
    ":root{--bg:#fcfcfa;--fg:#1c1e21;--dim:#5f656d;--line:#d9dbdf;--card:#fff;"
    "--warn:#fff1e6;--warnline:#c2410c;--c0:#1f6feb;--c1:#c2410c;--c2:#15803d;"
    "--c3:#7c3aed;--c4:#b45309;--c5:#0e7490;--grey:#8b919a}"
    "@media(prefers-color-scheme:dark){:root{--bg:#15171a;--fg:#e6e8eb;--dim:#a1a8b1;"
    "--line:#343940;--card:#1c1f24;--warn:#3a2415;--warnline:#fb923c;--c0:#6ea8ff;"
    "--c1:#fb923c;--c2:#4ade80;--c3:#c4a5ff;--c4:#fbbf24;--c5:#67e8f9;"
    "--grey:#8b919a}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:60rem;padding:1.2rem;background:var(--bg);"
    "color:var(--fg);font:16px/1.5 system-ui,sans-serif}"
    "h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.2rem;margin:2.2rem 0 .4rem}"
    "h3{font-size:1rem;margin:1.2rem 0 .3rem}p{margin:.4rem 0}"
    ".dim{color:var(--dim)}.key{display:inline-block;min-width:1.25em;"
    "text-align:center;border-radius:.2em;margin-right:.4em;color:var(--bg);"
    "font-size:.85em;font-weight:700}"
    ".name{display:inline-flex;align-items:baseline;max-width:100%;"
    "overflow-wrap:break-word}"
    ".warn{background:var(--warn);border-left:4px solid var(--warnline);"
    "padding:.6rem .8rem;margin:.6rem 0;font-weight:600}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;"
    "font-variant-numeric:tabular-nums}"
    "th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid var(--line);"
    "white-space:nowrap}th{white-space:normal}th:first-child,td:first-child{text-align:"
    "left;white-space:"
    "normal;overflow-wrap:break-word;min-width:8rem}th{font-weight:600;color:var(--dim)"
    "}"
    "svg{display:block;width:100%;overflow:visible;margin:.4rem 0 1rem}"
    "svg text{fill:var(--fg);font-size:14px;"
    "paint-order:stroke;stroke:var(--bg);stroke-width:3px}svg "
    ".dim{fill:var(--dim);font-size:12px}"
    "svg .grid{stroke:var(--line)}svg .mark{stroke:var(--warnline);stroke-dasharray:4 "
    "3}svg .ci{stroke:var(--fg);stroke-width:1.5}"
    ".f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}"
    ".f4{fill:var(--c4)}.f5{fill:var(--c5)}.fg{fill:var(--grey)}"
    ".s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}"
    ".s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}"
    ".sg{stroke:var(--grey)}"
    ".b0{background:var(--c0)}.b1{background:var(--c1)}.b2{background:var(--c2)}"
    ".b3{background:var(--c3)}.b4{background:var(--c4)}.b5{background:var(--c5)}"
    ".cells{display:grid;grid-template-columns:repeat(auto-fill,minmax(5rem,1fr));"
    "gap:2px}.cells div{position:relative;padding:.25rem .35rem;font-size:.75rem;"
    "border:1px solid var(--line)}.cells i{position:absolute;inset:0;"
    "background:var(--c1)}.cells span{position:relative;display:block;"
    "overflow-wrap:anywhere}"
    ".heat td,.heat th{position:relative;padding:.15rem .35rem;text-align:center;"
    "font-size:.75rem}.heat th:first-child,.heat td:first-child{min-width:0;"
    "text-align:right}.heat i{position:absolute;inset:1px;background:var(--c1)}"
    ".heat span{position:relative}"
    "details{margin:.4rem 0}summary{cursor:pointer}"
    "@media(max-width:30rem){body{padding:.7rem}th,td{padding:.25rem .3rem;"
    "font-size:.85rem}th:first-child,td:first-child{min-width:6.2rem}"
    "td .key{min-width:1.1em;margin-right:.25em}}"
    "@media print{:root{--bg:#fff;--fg:#000;--dim:#333;--line:#bbb;--card:#fff;"
    "--warn:#fff;--c0:#1f6feb;--c1:#c2410c;--c2:#15803d;--c3:#7c3aed;--c4:#b45309;"
    "--c5:#0e7490}body{max-width:none;padding:0;font-size:11pt}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}"
    "h2{break-after:avoid}svg,table,.warn{break-inside:avoid}"
    ".scroll{overflow:visible}th,td{white-space:normal;font-size:.8em;"
    "padding:.2rem .3rem}th:first-child,td:first-child{min-width:5.5rem}"
    ".heat td,.heat th{font-size:.65em}}";

/* No figure of a result is larger than 10^18: such a number is none. */
static double number_of(const cJSON *v)
{
    bool ok = v && cJSON_IsNumber(v) && fabs(v->valuedouble) <= 1e18;

    return ok ? v->valuedouble : PAGE_NONE;
}

double page_num(const cJSON *j, const char *key)
{
    return number_of(cJSON_GetObjectItemCaseSensitive(j, key));
}

const char *page_word(const cJSON *j, const char *key)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, key));

    return s ? s : "";
}

const cJSON *page_list(const cJSON *j, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(j, key);

    return cJSON_IsArray(v) ? v : NULL;
}

const cJSON *page_named(const cJSON *list, const char *name)
{
    const cJSON *e;

    cJSON_ArrayForEach(e, list)
    {
        if (strcmp(page_word(e, "name"), name) == 0)
            return e;
    }
    return NULL;
}

double page_at(const cJSON *list, int i)
{
    return number_of(list ? cJSON_GetArrayItem(list, i) : NULL);
}

int page_names(const char **name, int max, const struct page *r, enum page_kind kind,
               const char *key)
{
    const cJSON *e;
    int n = 0;

    for (int i = 0; i < r->n; i++) {
        cJSON_ArrayForEach(e, page_list(r->cand[i].result[kind], key))
        {
            const char *word = page_word(e, "name");
            int k = 0;
            while (k < n && strcmp(name[k], word) != 0)
                k++;
            if (k == n && n < max)
                name[n++] = word;
        }
    }
    return n;
}

bool page_any(const struct page *r, enum page_kind kind)
{
    for (int i = 0; i < r->n; i++)
        if (r->cand[i].result[kind])
            return true;
    return false;
}

const char *page_short(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

void page_text(struct str *out, const char *text)
{
    heatmap_escape(out, text);
}

void page_name(struct str *out, const char *name)
{
    for (const char *p = name; *p; p++) {
        const char one[2] = {*p, '\0'};
        page_text(out, one);
        if (strchr("_.-", *p) && p[1])
            str_put(out, "<wbr>");
    }
}

void page_percent(struct str *out, double share, int digits)
{
    if (isfinite(share))
        str_printf(out, "%.*f\u00a0%%", digits, 100.0 * share);
    else
        str_put(out, "–");
}

void page_number(struct str *out, double v, int digits)
{
    if (isfinite(v))
        str_printf(out, "%.*f", digits, v);
    else
        str_put(out, "–");
}

/* ---- parts of tables ---- */

void page_label(char *out, size_t size, const char *name, const struct page *r, int i)
{
    if (r->n > 1)
        (void)snprintf(out, size, "%s · %c", name, 'A' + i);
    else
        (void)snprintf(out, size, "%s", name);
}

void page_key(struct str *out, int color, const char *name)
{
    str_printf(out, "<span class=\"name\"><span class=\"key b%d\">%c</span>", color,
               'A' + color);
    str_put(out, "<span>");
    page_name(out, name);
    str_put(out, "</span></span>");
}

void page_legend(struct str *out, const struct page *r, enum page_kind kind)
{
    if (r->n < 2)
        return;
    str_put(out, "<p class=\"dim\">");
    for (int i = 0; i < r->n; i++) {
        if (!r->cand[i].result[kind])
            continue;
        page_key(out, i, page_short(r->cand[i].model));
        str_put(out, " &nbsp; ");
    }
    str_put(out, "</p>\n");
}

void page_td(struct str *out, const char *text)
{
    str_put(out, "<td>");
    page_text(out, text);
    str_put(out, "</td>");
}

void page_td_percent(struct str *out, double v)
{
    str_put(out, "<td>");
    page_percent(out, v, 1);
    str_put(out, "</td>");
}

void page_td_number(struct str *out, double v, int digits)
{
    str_put(out, "<td>");
    page_number(out, v, digits);
    str_put(out, "</td>");
}

/* ---- candidates ---- */

static int kind_of(const cJSON *j)
{
    static const char *const names[PAGE_KINDS] = {
        "ppl", "kld", "task", "retention", "loops", "rollback", "speed", "blind"};
    const char *measure = page_word(j, "measure");

    for (int i = 0; i < PAGE_KINDS; i++)
        if (strcmp(measure, names[i]) == 0)
            return i;
    if (page_list(j, "rows") && cJSON_HasObjectItem(j, "load_warm_ms"))
        return PAGE_SPEED; /* of bench */
    return -1;
}

static struct page_cand *cand_of(struct page *r, const cJSON *j)
{
    const char *model = page_word(j, "model");
    const char *print = page_word(j, "fingerprint");
    const char *weights = page_word(j, "weights_sha256");

    for (int i = 0; i < r->n; i++) {
        struct page_cand *c = &r->cand[i];
        bool other = *weights && *c->weights && strcmp(weights, c->weights) != 0;
        bool same = *print && *c->fingerprint ? strcmp(print, c->fingerprint) == 0
                                              : strcmp(model, c->model) == 0;
        if (!same || other)
            continue;
        if (*weights)
            c->weights = weights;
        return c;
    }
    if (r->n == PAGE_MAX_CANDIDATES)
        return NULL;
    r->cand[r->n] =
        (struct page_cand){.model = model, .fingerprint = print, .weights = weights};
    return &r->cand[r->n++];
}

static enum b2_status add_result(struct page *r, const cJSON *j, struct b2_err *err)
{
    const cJSON *list = page_list(j, "candidates"), *e;
    enum b2_status rc = B2_OK;
    int kind = kind_of(j);

    if (page_is_heat(j)) {
        rc = page_heat_check(j, err);
        if (!rc && r->n_heat == PAGE_MAX_CANDIDATES)
            rc = err_set(err, B2_EARG, "more than %d sensitivity files on one page",
                         PAGE_MAX_CANDIDATES);
        if (!rc)
            r->heat[r->n_heat++] = j;
        return rc;
    }
    if (list) {
        cJSON_ArrayForEach(e, list)
        {
            if (!rc)
                rc = add_result(r, e, err);
        }
        return rc;
    }
    if (kind < 0 || !*page_word(j, "model"))
        return err_set(
            err, B2_EARG,
            "a result of no known measure: what --json of an eval measure or "
            "of bench printed is needed, or the sensitivity file of an analysis");
    struct page_cand *c = cand_of(r, j);
    if (!c)
        return err_set(err, B2_EARG, "more than %d models on one page",
                       PAGE_MAX_CANDIDATES);
    c->result[kind] = j;
    if (isfinite(page_num(j, "model_bytes")))
        c->bytes = page_num(j, "model_bytes");
    if (*page_word(j, "baseline"))
        r->baseline = page_word(j, "baseline");
    if (isfinite(page_num(j, "baseline_bytes")))
        r->baseline_bytes = page_num(j, "baseline_bytes");
    return B2_OK;
}

enum b2_status page_check(const cJSON *result, struct b2_err *err)
{
    struct page r = {0};

    return add_result(&r, result, err);
}

/* ---- the frame ---- */

static void put_head(struct str *out, const struct page *r)
{
    str_put(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, "
            "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
            "dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>");
    page_text(out, r->n == 0   ? "Sensitivity"
                   : r->n == 1 ? page_short(r->cand[0].model)
                               : "Several models");
    str_put(out, " – evaluation</title>\n<style>");
    str_put(out, style);
    str_put(out, "</style>\n</head>\n<body>\n<main>\n<h1>What compression cost</h1>\n");
    if (r->baseline) {
        str_put(out, "<p class=\"dim\">compared with ");
        page_text(out, page_short(r->baseline));
        str_put(out, "</p>\n");
    }
}

/* The results as they were, but for what a sensitivity file has of every hidden value
 * and head: millions of numbers in a large model, of which the page shows none. */
static char *data_text(const cJSON *results)
{
    cJSON *copy = cJSON_Duplicate(results, true), *e, *l;
    char *text;

    cJSON_ArrayForEach(e, copy)
    {
        if (!page_is_heat(e))
            continue;
        cJSON_ArrayForEach(l, cJSON_GetObjectItemCaseSensitive(e, "layers"))
        {
            cJSON_DeleteItemFromObjectCaseSensitive(l, "neurons");
            cJSON_DeleteItemFromObjectCaseSensitive(l, "heads");
        }
    }
    text = copy ? cJSON_PrintUnformatted(copy) : NULL;
    cJSON_Delete(copy);
    return text;
}

/* JSON inside a script element: no '<' may stand in it as such. */
static void put_data(struct str *out, const cJSON *results)
{
    char *text = data_text(results);

    str_put(out, "<script type=\"application/json\" id=\"results\">");
    for (const char *p = text ? text : "null"; *p; p++) {
        if (*p == '<')
            str_put(out, "\\u003c");
        else
            str_putn(out, p, 1);
    }
    str_put(out, "</script>\n");
    if (!text)
        out->bad = true;
    cJSON_free(text);
}

enum b2_status page_html(struct str *out, const cJSON *results, struct b2_err *err)
{
    struct page r = {0};
    const cJSON *e;
    enum b2_status rc = B2_OK;

    cJSON_ArrayForEach(e, results)
    {
        if (!rc)
            rc = add_result(&r, e, err);
    }
    if (!rc && r.n + r.n_heat == 0)
        rc = err_set(err, B2_EARG, "no result to show");
    if (rc)
        return rc;
    put_head(out, &r);
    if (r.n > 0)
        page_overview(out, &r);
    page_retention(out, &r);
    page_size(out, &r);
    page_divergence(out, &r);
    page_tasks(out, &r);
    page_loops(out, &r);
    page_blind(out, &r);
    page_heat(out, &r);
    page_rollback(out, &r);
    page_speed(out, &r);
    page_memory(out, &r);
    if (r.n > 0)
        page_conditions(out, &r);
    str_put(out, "</main>\n");
    put_data(out, results);
    str_put(out, "</body>\n</html>\n");
    return str_ok(out) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory for the page");
}
