/*
 * curve.c - the frame, colours and key around the page's chart.
 */
#include "eval/curve.h"

#include "base/mem.h"
#include "eval/page_int.h"

#include <math.h>
#include <string.h>

/* A size for programs that show the file alone; the chart is in per cent of the width. */
enum { WIDTH = 760, TITLE_HIGH = 30, KEY_HIGH = 24 };
enum { KEY_LEFT = 80, KEY_GAP = 34, CHAR_WIDE = 7 }; /* of 13 px, on average */

/* Plain colours: not every program that shows an SVG knows variables. */
static const char style[] =
    "<style>svg{font:13px system-ui,sans-serif}.paper{fill:#fff}text{fill:#1c2430}"
    ".title{font-weight:600}.dim{fill:#5b6675;font-size:12px}.grid{stroke:#d9dee5}"
    ".f0{fill:#1f6fb2}.f1{fill:#c2571a}.f2{fill:#2e8540}.f3{fill:#8a3ea8}"
    ".f4{fill:#9a7b00}.f5{fill:#b3261e}.s0{stroke:#1f6fb2}.s1{stroke:#c2571a}"
    ".s2{stroke:#2e8540}.s3{stroke:#8a3ea8}.s4{stroke:#9a7b00}.s5{stroke:#b3261e}"
    "@media(prefers-color-scheme:dark){.paper{fill:#14181f}text{fill:#e6eaf0}"
    ".dim{fill:#9aa6b5}.grid{stroke:#39424e}"
    ".f0{fill:#6db3f2}.f1{fill:#f0965a}.f2{fill:#6cc57c}.f3{fill:#c58be0}"
    ".f4{fill:#d8bd4a}.f5{fill:#f28b82}.s0{stroke:#6db3f2}.s1{stroke:#f0965a}"
    ".s2{stroke:#6cc57c}.s3{stroke:#c58be0}.s4{stroke:#d8bd4a}.s5{stroke:#f28b82}}"
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

/* The key, names behind each other, in as many rows as they need; out NULL: only counts
 * the rows. */
static int put_key(struct str *out, const struct curve *c, int top)
{
    int x = KEY_LEFT, row = 0;

    for (int k = 0; k < c->n_lines; k++) {
        const int wide = KEY_GAP + CHAR_WIDE * (int)strlen(c->name[k]);
        if (x > KEY_LEFT && x + wide > WIDTH) {
            x = KEY_LEFT;
            row++;
        }
        if (out) {
            const int y = top + row * KEY_HIGH + KEY_HIGH / 2;
            str_printf(out,
                       "<circle class=\"f%d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>"
                       "<text x=\"%d\" y=\"%d\">",
                       k, x, y, x + 10, y + 4);
            page_text(out, c->name[k]);
            str_put(out, "</text>\n");
        }
        x += wide;
    }
    return row + 1;
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
        WIDTH, TITLE_HIGH + PAGE_PLOT_HIGH + KEY_HIGH * put_key(NULL, c, 0));
    str_put(out, style);
    str_put(out, "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
                 "<text class=\"title\" x=\"4\" y=\"20\">");
    page_text(out, c->title);
    str_printf(out, "</text>\n<g transform=\"translate(0,%d)\">\n", TITLE_HIGH);
    page_points(out, &plot, p, n);
    (void)put_key(out, c, PAGE_PLOT_HIGH);
    str_put(out, "</g>\n</svg>\n");
    mem_free(p);
}

void curve_end(struct curve *c)
{
    mem_free(c->xy);
    c->xy = NULL;
}
