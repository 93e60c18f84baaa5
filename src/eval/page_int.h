/*
 * page_int.h - what the files of the page share: candidates, words, charts.
 */
#ifndef EVAL_PAGE_INT_H
#define EVAL_PAGE_INT_H

#include "eval/page.h"

#include <math.h>

enum page_kind {
    PAGE_PPL,
    PAGE_KLD,
    PAGE_TASK,
    PAGE_RETENTION,
    PAGE_LOOPS,
    PAGE_ROLLBACK,
    PAGE_SPEED,
    PAGE_BLIND,
    PAGE_KINDS
};

/* One model and its results; the last of a kind counts. */
struct page_cand {
    const char *model;               /* as the result names it */
    const char *fingerprint;         /* may be "" */
    const char *weights;             /* "" until a result tells */
    const cJSON *result[PAGE_KINDS]; /* NULL: not measured */
    double bytes;                    /* of the model's file; 0: not known */
};

struct page {
    struct page_cand cand[PAGE_MAX_CANDIDATES];
    int n;
    const cJSON *heat[PAGE_MAX_CANDIDATES]; /* sensitivity files, in their order */
    int n_heat;
    const char *baseline; /* NULL: none named */
    double baseline_bytes;
};

#define PAGE_NONE ((double)NAN)

/* Values of a result; a missing one is PAGE_NONE, "" or NULL. */
double page_num(const cJSON *j, const char *key);
const char *page_word(const cJSON *j, const char *key);
const cJSON *page_list(const cJSON *j, const char *key);
/* The element of a list whose "name" is name, or NULL. */
const cJSON *page_named(const cJSON *list, const char *name);
double page_at(const cJSON *list, int i); /* a number of an array */

/* The different "name"s in the lists `key` of all candidates, in their order; at most max. */
int page_names(const char **name, int max, const struct page *r, enum page_kind kind,
               const char *key);

/* Has any candidate a result of this kind? */
bool page_any(const struct page *r, enum page_kind kind);
const char *page_short(const char *path); /* without folders */

void page_text(struct str *out, const char *text); /* escaped for HTML */
/* The same for a file's or tensor's name, which may break behind _ . and - */
void page_name(struct str *out, const char *name);
/* A share as "98.2 %", or an en dash where it is not known. */
void page_percent(struct str *out, double share, int digits);
void page_number(struct str *out, double v, int digits); /* the same for numbers */

/* A bar's label: name, and the candidate's letter where there are several. */
void page_label(char *out, size_t size, const char *name, const struct page *r, int i);
void page_key(struct str *out, int color, const char *name); /* letter and colour */
/* Names of the candidates that have this kind, where there are several. */
void page_legend(struct str *out, const struct page *r, enum page_kind kind);
/* Cells of a table. */
void page_td(struct str *out, const char *text);
void page_td_percent(struct str *out, double v);
void page_td_number(struct str *out, double v, int digits);

/* ---- charts (page_svg.c) ---- */

/* A bar of a chart, from 0; low and high: its interval, PAGE_NONE where there is none. */
struct page_bar {
    const char *label, *value; /* value: in words, at the right */
    double at, low, high;
    int color; /* a candidate's number; -1: grey */
};

/* Bars one below the other over the range [0, max]; ticks [n_ticks] are drawn as lines and
 * named with the unit behind. mark: a line that stands out; PAGE_NONE: none. */
struct page_axis {
    double max, mark;
    const double *tick;
    int n_ticks;
    const char *unit;
    double scale; /* ticks are shown multiplied by it */
};
void page_bars(struct str *out, const char *title, const struct page_bar *bar, int n,
               const struct page_axis *axis);

enum { PAGE_PLOT_HIGH = 260 }; /* pixels of a plot */

struct page_point {
    double x, y;
    const char *label; /* NULL: none */
    int color;
};
/* Points, joined to lines within a colour where joined; axes from 0. */
struct page_plot {
    const char *title, *x_name, *y_name;
    double x_min, x_max, y_max;
    bool joined;
};
void page_points(struct str *out, const struct page_plot *plot,
                 const struct page_point *p, int n);

/* Cells in a row, stronger in colour for more; values scaled to the largest. */
struct page_cell {
    const char *label, *value;
    double at;
};
void page_cells(struct str *out, const char *title, const struct page_cell *cell,
                int n);

/* A round number at or above v, for the end of an axis. */
double page_round_up(double v);

/* ---- sections (page_parts.c, page_more.c); nothing where nothing was measured ---- */
void page_overview(struct str *out, const struct page *r);
void page_retention(struct str *out, const struct page *r);
void page_size(struct str *out, const struct page *r);
void page_divergence(struct str *out, const struct page *r);
void page_tasks(struct str *out, const struct page *r);
void page_loops(struct str *out, const struct page *r);
void page_rollback(struct str *out, const struct page *r);
void page_speed(struct str *out, const struct page *r);
void page_memory(struct str *out, const struct page *r);
void page_blind(struct str *out, const struct page *r);
void page_conditions(struct str *out, const struct page *r);

/* ---- sensitivity files (page_heat.c) ---- */
bool page_is_heat(const cJSON *result);
/* B2_EFORMAT: it says that it is one, but has no layers. */
enum b2_status page_heat_check(const cJSON *result, struct b2_err *err) NODISCARD;
void page_heat(struct str *out, const struct page *r);

#endif
