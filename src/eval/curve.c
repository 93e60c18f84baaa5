/*
 * curve.c - the frame, colours and key around the page's chart.
 */
#include "eval/curve.h"

#include "base/mem.h"
#include "eval/page_int.h"

#include <math.h>

/* A size for programs that show the file alone; the chart is in per cent of the width. */
enum { WIDTH = 760, TITLE_HIGH = 30, KEY_HIGH = 30, KEY_STEP = 130 };

static const char style[] =
    "<style>svg{font:13px "
    "system-ui,sans-serif;--paper:#fff;--ink:#1c2430;--dim:#5b6675;--line:#d9dee5;"
    "--c0:#1f6fb2;--c1:#c2571a;--c2:#2e8540;--c3:#8a3ea8;--c4:#9a7b00;--c5:#b3261e}"
    "@media(prefers-color-scheme:dark){svg{--paper:#14181f;--ink:#e6eaf0;--dim:#9aa6b5;"
    "--line:#39424e;"
    "--c0:#6db3f2;--c1:#f0965a;--c2:#6cc57c;--c3:#c58be0;--c4:#d8bd4a;--c5:#f28b82}}"
    ".paper{fill:var(--paper)}text{fill:var(--ink)}.title{font-weight:600}"
    ".dim{fill:var(--dim);font-size:12px}.grid{stroke:var(--line)}"
    ".f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}"
    ".f4{fill:var(--c4)}.f5{fill:var(--c5)}.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}"
    ".s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--"
    "c5)}"
    "</style>\n";

enum b2_status curve_begin(struct curve *c, struct b2_err *err)
{
    c->xy = mem_calloc((size_t)c->n_lines * (size_t)c->n_points * 2, sizeof *c->xy);
    return c->xy ? B2_OK : err_set(err, B2_ENOMEM, "out of memory for a curve");
}

static double *point_of(const struct curve *c, int line, int point)
{
    return c->xy + 2 * ((int64_t)line * c->n_points + point);
}

void curve_set(struct curve *c, int line, int point, double x, double y)
{
    double *p = point_of(c, line, point);

    p[0] = x;
    p[1] = y;
}

static void put_key(struct str *out, const struct curve *c, int height)
{
    for (int k = 0; k < c->n_lines; k++) {
        str_printf(out,
                   "<circle class=\"f%d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>"
                   "<text x=\"%d\" y=\"%d\">",
                   k, 80 + k * KEY_STEP, height, 90 + k * KEY_STEP, height + 4);
        page_text(out, c->name[k]);
        str_put(out, "</text>\n");
    }
}

/* The points that are numbers, line after line; returns how many. */
static int collect(const struct curve *c, struct page_point *p, struct page_plot *plot)
{
    int n = 0;

    for (int k = 0; k < c->n_lines; k++) {
        for (int i = 0; i < c->n_points; i++) {
            const double *xy = point_of(c, k, i);
            if (!isfinite(xy[0]) || !isfinite(xy[1]))
                continue;
            plot->x_min = n ? fmin(plot->x_min, xy[0]) : xy[0];
            plot->x_max = n ? fmax(plot->x_max, xy[0]) : xy[0];
            plot->y_max = n ? fmax(plot->y_max, xy[1]) : xy[1];
            p[n++] = (struct page_point){xy[0], xy[1], NULL, k};
        }
    }
    plot->y_max = page_round_up(plot->y_max);
    return n;
}

void curve_svg(struct str *out, const struct curve *c)
{
    struct page_plot plot = {
        .title = c->title, .x_name = c->x_name, .y_name = c->y_name, .joined = true};
    struct page_point *p =
        mem_calloc((size_t)c->n_lines * (size_t)c->n_points + 1, sizeof *p);

    if (!p) { /* seen by str_ok() */
        out->bad = true;
        return;
    }
    const int n = collect(c, p, &plot);
    str_printf(
        out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n",
        WIDTH, TITLE_HIGH + PAGE_PLOT_HIGH + KEY_HIGH);
    str_put(out, style);
    str_put(out, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
                 "<text class=\"title\" x=\"4\" y=\"20\">");
    page_text(out, c->title);
    str_printf(out, "</text>\n<g transform=\"translate(0,%d)\">\n", TITLE_HIGH);
    page_points(out, &plot, p, n);
    put_key(out, c, PAGE_PLOT_HIGH + KEY_HIGH / 2);
    str_put(out, "</g>\n</svg>\n");
    mem_free(p);
}

void curve_end(struct curve *c)
{
    mem_free(c->xy);
    c->xy = NULL;
}
