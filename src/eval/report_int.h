/*
 * report_int.h - what the files of the page share: candidates, words, charts.
 */
#ifndef EVAL_REPORT_INT_H
#define EVAL_REPORT_INT_H

#include "eval/report.h"

enum report_kind {
    REPORT_PPL,
    REPORT_KLD,
    REPORT_TASK,
    REPORT_RETENTION,
    REPORT_LOOPS,
    REPORT_ROLLBACK,
    REPORT_SPEED,
    REPORT_BLIND,
    REPORT_KINDS
};

/* One model and its results; the last of a kind counts. */
struct report_cand {
    const char *model;                /* as the result names it */
    const char *fingerprint;          /* may be "" */
    const cJSON *result[REPORT_KINDS]; /* NULL: not measured */
    double bytes;                     /* of the model's file; 0: not known */
};

struct report {
    struct report_cand cand[REPORT_MAX_CANDIDATES];
    int n;
    const char *baseline; /* NULL: none named */
    double baseline_bytes;
};

/* Values of a result; a missing one is NAN, "" or NULL. */
double report_num(const cJSON *j, const char *key);
const char *report_word(const cJSON *j, const char *key);
const cJSON *report_list(const cJSON *j, const char *key);
/* The element of a list whose "name" is name, or NULL. */
const cJSON *report_named(const cJSON *list, const char *name);
double report_at(const cJSON *list, int i); /* a number of an array */

/* Has any candidate a result of this kind? */
bool report_any(const struct report *r, enum report_kind kind);
const char *report_short(const char *path); /* without folders */

void report_text(struct str *out, const char *text); /* escaped for HTML */
/* A share as "98.2 %", or an en dash where it is not known. */
void report_percent(struct str *out, double share, int digits);
void report_number(struct str *out, double v, int digits); /* the same for numbers */

void report_key(struct str *out, int color, const char *name); /* with its colour */
/* Names of the candidates that have this kind, where there are several. */
void report_legend(struct str *out, const struct report *r, enum report_kind kind);
/* Cells of a table. */
void report_td(struct str *out, const char *text);
void report_td_percent(struct str *out, double v);
void report_td_number(struct str *out, double v, int digits);

/* ---- charts (report_svg.c) ---- */

/* A bar of a chart, from 0; low and high: its interval, NAN where there is none. */
struct report_bar {
    const char *label, *value; /* value: in words, at the right */
    double at, low, high;
    int color; /* a candidate's number; -1: grey */
};

/* Bars one below the other over the range [0, max]; ticks [n_ticks] are drawn as lines and
 * named with the unit behind. mark: a line that stands out, NAN: none. */
struct report_axis {
    double max, mark;
    const double *tick;
    int n_ticks;
    const char *unit;
    double scale; /* ticks are shown multiplied by it */
};
void report_bars(struct str *out, const char *title, const struct report_bar *bar,
                 int n, const struct report_axis *axis);

struct report_point {
    double x, y;
    const char *label; /* NULL: none */
    int color;
};
/* Points, joined to lines within a colour where joined; axes from 0. */
struct report_plot {
    const char *title, *x_name, *y_name;
    double x_min, x_max, y_max;
    bool joined;
};
void report_points(struct str *out, const struct report_plot *plot,
                   const struct report_point *p, int n);

/* Cells in a row, darker for more; values scaled to the largest. */
struct report_cell {
    const char *label, *value;
    double at;
};
void report_cells(struct str *out, const char *title, const struct report_cell *cell,
                  int n);

/* A round number at or above v, for the end of an axis. */
double report_round_up(double v);

/* ---- sections (report_parts.c, report_more.c); nothing where nothing was measured ---- */
void report_overview(struct str *out, const struct report *r);
void report_retention(struct str *out, const struct report *r);
void report_size(struct str *out, const struct report *r);
void report_divergence(struct str *out, const struct report *r);
void report_loops(struct str *out, const struct report *r);
void report_rollback(struct str *out, const struct report *r);
void report_speed(struct str *out, const struct report *r);
void report_memory(struct str *out, const struct report *r);
void report_blind(struct str *out, const struct report *r);
void report_conditions(struct str *out, const struct report *r);

#endif
