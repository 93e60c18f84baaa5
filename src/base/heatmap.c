/*
 * heatmap.c - rectangles and words in fixed units; the picture scales as a whole.
 */
#include "base/heatmap.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = 56, TOP = 112, CELL_W = 46, CELL_H = 18, BOTTOM = 30, RIGHT = 76 };

void heatmap_escape(struct str *out, const char *text)
{
    for (; text && *text; text++) {
        switch (*text) {
        case '<':
            str_put(out, "&lt;");
            break;
        case '>':
            str_put(out, "&gt;");
            break;
        case '&':
            str_put(out, "&amp;");
            break;
        case '"':
            str_put(out, "&quot;");
            break;
        default:
            str_putn(out, text, 1);
        }
    }
}

static double largest(const struct heatmap *h, int column)
{
    double most = 0.0;

    for (int r = 0; r < h->rows; r++) {
        double v = h->value[r * h->columns + column];
        if (isfinite(v) && v > most)
            most = v;
    }
    return most;
}

/* Two or three digits, as short as they may be. */
static void put_value(struct str *out, double v)
{
    char word[32];

    snprintf(word, sizeof word, fabs(v) >= 100.0 ? "%.0f" : "%.2g", v);
    str_put(out, word[0] == '0' && word[1] == '.' ? word + 1 : word);
}

static void put_column(struct str *out, const struct heatmap *h, int c)
{
    const double most = largest(h, c);
    const int x = LEFT + c * CELL_W;

    str_printf(out, "<text x=\"0\" y=\"0\" transform=\"translate(%d %d) rotate(-45)\">",
               x + CELL_W / 2, TOP - 8);
    heatmap_escape(out, h->column[c]);
    str_put(out, "</text>\n");
    for (int r = 0; r < h->rows; r++) {
        const double v = h->value[r * h->columns + c];
        const int y = TOP + r * CELL_H;
        if (!isfinite(v)) {
            str_printf(out,
                       "<text class=\"dim\" x=\"%d\" y=\"%d\" "
                       "text-anchor=\"middle\">\xe2\x80\x93</text>\n",
                       x + CELL_W / 2, y + 13);
            continue;
        }
        /* Shades follow the square root, so that small differences show too. */
        const double dark = most > 0.0 && v > 0.0 ? sqrt(v / most) : 0.0;
        str_printf(out,
                   "<rect class=\"h\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                   "opacity=\"%.3f\"/><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                   x, y, CELL_W - 1, CELL_H - 1, 0.9 * dark, x + CELL_W / 2, y + 13);
        put_value(out, v);
        str_put(out, "</text>\n");
    }
}

void heatmap_svg(struct str *out, const struct heatmap *h, bool alone)
{
    const int width = LEFT + h->columns * CELL_W + RIGHT;
    const int height = TOP + h->rows * CELL_H + BOTTOM;

    str_printf(out,
               "<svg%s role=\"img\" class=\"heat\" viewBox=\"0 0 %d %d\"%s "
               "style=\"max-width:%dpx\" aria-label=\"",
               alone ? " xmlns=\"http://www.w3.org/2000/svg\"" : "", width, height,
               alone ? "" : " width=\"100%\"", width);
    heatmap_escape(out, h->title);
    str_put(out, "\">\n<style>.heat text{font:11px sans-serif;fill:#1b1b1b}"
                 ".heat .dim{fill:#777}.heat .h{fill:#e07a1f}.heat .b{fill:#fff}"
                 "@media(prefers-color-scheme:dark){.heat text{fill:#eee}"
                 ".heat .h{fill:#b3541e}.heat .b{fill:#161616}}</style>\n");
    if (alone)
        str_printf(out, "<rect class=\"b\" width=\"%d\" height=\"%d\"/>\n", width,
                   height);
    str_put(out, "<text x=\"8\" y=\"18\" font-weight=\"bold\">");
    heatmap_escape(out, h->title);
    str_printf(out, "</text>\n<text class=\"dim\" x=\"8\" y=\"%d\">", TOP - 8);
    heatmap_escape(out, h->row_name);
    str_put(out, "</text>\n");
    for (int r = 0; r < h->rows; r++)
        str_printf(
            out,
            "<text class=\"dim\" x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>\n",
            LEFT - 10, TOP + r * CELL_H + 13, r);
    for (int c = 0; c < h->columns; c++)
        put_column(out, h, c);
    str_printf(out,
               "<text class=\"dim\" x=\"8\" y=\"%d\">each column against its largest "
               "value</text>\n</svg>\n",
               height - 10);
}
