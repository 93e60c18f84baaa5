/*
 * curve.h - lines over one axis as a picture of its own: an SVG file, drawn by the report
 * page's chart (page_int.h), light and dark as the reader has it.
 */
#ifndef EVAL_CURVE_H
#define EVAL_CURVE_H

#include "base/error.h"
#include "base/str.h"

enum { CURVE_MAX_LINES = 6 };

struct curve {
    const char *title, *x_name, *y_name;
    int n_lines, n_points; /* of each line */
    const char *name[CURVE_MAX_LINES];
    double *xy; /* [n_lines, n_points, 2] */
};

/* Room for the points. B2_ENOMEM. */
enum b2_status curve_begin(struct curve *c, struct b2_err *err) NODISCARD;
void curve_set(struct curve *c, int line, int point, double x, double y);
/* Appends the picture; points that are no numbers are left out. */
void curve_svg(struct str *out, const struct curve *c);
void curve_end(struct curve *c);

#endif
