/*
 * page_svg.c - bars, points and cells, in per cent of the width and pixels of height.
 */
#include "eval/page_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR_ROW = 42, BAR_TOP = 20, BAR_HIGH = 14, PLOT_LEFT = 10 };

/* Letter of a colour's classes: its number, or g for grey. */
static char shade(int color)
{
    return color < 0 ? 'g' : (char)('0' + color);
}

double page_round_up(double v)
{
    double unit = pow(10.0, floor(log10(v)));
    static const double steps[] = {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};

    if (!(v > 0.0) || !isfinite(v))
        return 1.0;
    for (size_t i = 0; i < countof(steps); i++)
        if (steps[i] * unit >= v * 0.999999)
            return steps[i] * unit;
    return 10.0 * unit;
}

static double share_of(double v, double max)
{
    double p = max > 0.0 ? 100.0 * v / max : 0.0;

    return !(p > 0.0) ? 0.0 : p > 100.0 ? 100.0 : p; /* NaN: 0 */
}

static void open_svg(struct str *out, int height, const char *title)
{
    str_printf(out, "<svg role=\"img\" height=\"%d\" aria-label=\"", height);
    page_text(out, title);
    str_put(out, "\">\n");
}

static void put_ticks(struct str *out, const struct page_axis *a, int height)
{
    char word[32];

    for (int i = 0; i < a->n_ticks; i++) {
        double x = share_of(a->tick[i], a->max);
        const char *anchor = x < 3 ? "start" : x > 97 ? "end" : "middle";
        str_printf(out,
                   "<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" "
                   "y2=\"%d\"/>",
                   x, x, height - 18);
        snprintf(word, sizeof word, "%g", a->tick[i] * a->scale);
        str_printf(out,
                   "<text class=\"dim\" x=\"%.2f%%\" y=\"%d\" text-anchor=\"%s\">%s", x,
                   height - 4, anchor, word);
        page_text(out, a->unit);
        str_put(out, "</text>\n");
    }
    if (isfinite(a->mark)) {
        double x = share_of(a->mark, a->max);
        str_printf(out,
                   "<line class=\"mark\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" "
                   "y2=\"%d\"/>\n",
                   x, x, height - 18);
    }
}

static void put_bar(struct str *out, const struct page_bar *b, double max, int y)
{
    int middle = y + BAR_TOP + BAR_HIGH / 2;

    str_printf(out, "<text x=\"0\" y=\"%d\">", y + 14);
    page_text(out, b->label);
    str_printf(out, "</text><text x=\"100%%\" y=\"%d\" text-anchor=\"end\">", y + 14);
    page_text(out, b->value);
    str_printf(out,
               "</text><rect class=\"f%c\" x=\"0\" y=\"%d\" width=\"%.2f%%\" "
               "height=\"%d\" rx=\"2\"/>",
               shade(b->color), y + BAR_TOP, share_of(b->at, max), BAR_HIGH);
    if (isfinite(b->low) && isfinite(b->high)) {
        double l = share_of(b->low, max), h = share_of(b->high, max);
        str_printf(out,
                   "<line class=\"ci\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%d\" "
                   "y2=\"%d\"/>",
                   l, h, middle, middle);
        for (int i = 0; i < 2; i++)
            str_printf(out,
                       "<line class=\"ci\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%d\" "
                       "y2=\"%d\"/>",
                       i ? h : l, i ? h : l, middle - 5, middle + 5);
    }
    str_put(out, "\n");
}

void page_bars(struct str *out, const char *title, const struct page_bar *bar, int n,
               const struct page_axis *axis)
{
    int height = n * BAR_ROW + 26;

    open_svg(out, height, title);
    put_ticks(out, axis, height);
    for (int i = 0; i < n; i++)
        put_bar(out, &bar[i], axis->max, i * BAR_ROW);
    str_put(out, "</svg>\n");
}

/* Place of a point: x in per cent, y in pixels. */
static void place(const struct page_plot *q, const struct page_point *p, double *x,
                  double *y)
{
    double span = q->x_max - q->x_min;

    *x = PLOT_LEFT + (98.0 - PLOT_LEFT) * (span > 0.0 ? (p->x - q->x_min) / span : 0.5);
    *y = 26 + (PAGE_PLOT_HIGH - 70) * (1.0 - (q->y_max > 0.0 ? p->y / q->y_max : 0.0));
}

/* A scale that does not begin at 0 counts things: whole numbers. Large ones that do go in
 * thousands or millions. */
static void put_x_number(struct str *out, const struct page_plot *q, double x)
{
    if (q->x_min > 0.0)
        str_printf(out, "%.*g", 1 + (int)floor(log10(fmax(q->x_max, 1.0))), x);
    else if (x < 9999.5)
        str_printf(out, "%.4g", x);
    else if (q->x_max < 999500.0)
        str_printf(out, "%.3g k", x / 1e3);
    else
        str_printf(out, "%.3g M", x / 1e6);
}

static void put_axes(struct str *out, const struct page_plot *q)
{
    for (int i = 0; i <= 4; i++) {
        struct page_point p = {q->x_min + (q->x_max - q->x_min) * i / 4,
                               q->y_max * i / 4, NULL, 0};
        double x, y;
        place(q, &p, &x, &y);
        str_printf(out,
                   "<line class=\"grid\" x1=\"%d%%\" x2=\"98%%\" y1=\"%.1f\" "
                   "y2=\"%.1f\"/><text class=\"dim\" x=\"%d%%\" y=\"%.1f\" dx=\"-6\" "
                   "text-anchor=\"end\">%.3g</text>",
                   PLOT_LEFT, y, y, PLOT_LEFT, y + 4, p.y);
        str_printf(out,
                   "<text class=\"dim\" x=\"%.2f%%\" y=\"%d\" "
                   "text-anchor=\"%s\">",
                   x, PAGE_PLOT_HIGH - 26, i == 4 ? "end" : "middle");
        put_x_number(out, q, p.x);
        str_put(out, "</text>\n");
    }
    str_printf(out, "<text class=\"dim\" x=\"54%%\" y=\"%d\" text-anchor=\"middle\">",
               PAGE_PLOT_HIGH - 8);
    page_text(out, q->x_name);
    str_put(out, "</text><text class=\"dim\" x=\"4\" y=\"12\">");
    page_text(out, q->y_name);
    str_put(out, "</text>\n");
}

/* The last point before i of the same colour, or -1. */
static int before(const struct page_point *p, int i)
{
    for (int k = i - 1; k >= 0; k--)
        if (p[k].color == p[i].color)
            return k;
    return -1;
}

/* Would the label of point i stand on that of an earlier one? Then it goes below. */
static bool crowded(const struct page_plot *plot, const struct page_point *p, int i)
{
    double x, y, x0, y0;
    int above = 0;

    place(plot, &p[i], &x, &y);
    for (int k = 0; k < i; k++) {
        place(plot, &p[k], &x0, &y0);
        above += fabs(x - x0) < 20.0 && fabs(y - y0) < 14.0;
    }
    return above % 2 == 1;
}

void page_points(struct str *out, const struct page_plot *plot,
                 const struct page_point *p, int n)
{
    double x, y, x0, y0;

    open_svg(out, PAGE_PLOT_HIGH, plot->title);
    put_axes(out, plot);
    for (int i = 0; i < n; i++) {
        int last = plot->joined ? before(p, i) : -1;
        place(plot, &p[i], &x, &y);
        if (last >= 0) {
            place(plot, &p[last], &x0, &y0);
            str_printf(out,
                       "<line class=\"s%c\" stroke-width=\"2\" x1=\"%.2f%%\" "
                       "y1=\"%.1f\" x2=\"%.2f%%\" y2=\"%.1f\"/>",
                       shade(p[i].color), x0, y0, x, y);
        }
        str_printf(out, "<circle class=\"f%c\" cx=\"%.2f%%\" cy=\"%.1f\" r=\"%d\"/>",
                   shade(p[i].color), x, y, plot->joined ? 3 : 6);
        if (p[i].label) {
            bool right = x > 55;
            str_printf(out,
                       "<text x=\"%.2f%%\" y=\"%.1f\" dx=\"%d\" text-anchor=\"%s\">", x,
                       crowded(plot, p, i) ? y + 20 : y - 9, right ? 4 : -4,
                       right ? "end" : "start");
            page_text(out, p[i].label);
            str_put(out, "</text>");
        }
        str_put(out, "\n");
    }
    str_put(out, "</svg>\n");
}

void page_cells(struct str *out, const char *title, const struct page_cell *cell, int n)
{
    double most = 0.0;

    for (int i = 0; i < n; i++)
        most = fmax(most, cell[i].at);
    str_put(out, "<div class=\"cells\" role=\"img\" aria-label=\"");
    page_text(out, title);
    str_put(out, "\">\n");
    for (int i = 0; i < n; i++) {
        double dark = most > 0.0 && cell[i].at > 0.0 ? cell[i].at / most : 0.0;
        str_printf(out, "<div><i style=\"opacity:%.3f\"></i><span>", 0.75 * dark);
        page_name(out, cell[i].label);
        str_put(out, "</span><span><b>");
        page_text(out, cell[i].value);
        str_put(out, "</b></span></div>\n");
    }
    str_put(out, "</div>\n");
}
