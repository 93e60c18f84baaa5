/*
 * heatmap.h - a table of numbers as a picture: SVG, darker for more.
 *
 * Columns may have measures of their own, so that each is scaled to its largest value.
 * The picture needs no fonts and no scripts and follows a light or dark setting.
 */
#ifndef BASE_HEATMAP_H
#define BASE_HEATMAP_H

#include "base/str.h"

enum { HEATMAP_MAX_COLUMNS = 32 };

struct heatmap {
    const char *title;
    int rows, columns;
    const char *row_name;      /* what a row is: "layer"; rows are numbered from 0 */
    const char *const *column; /* [columns] */
    const double *value;       /* [rows, columns]; NaN: not known */
};

/* Appends <svg>…</svg>. alone: as a file of its own. */
void heatmap_svg(struct str *out, const struct heatmap *h, bool alone);

/* Appends text with the characters of markup escaped. */
void heatmap_escape(struct str *out, const char *text);

#endif
