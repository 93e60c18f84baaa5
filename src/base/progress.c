/*
 * progress.c - rate-limited printing of how far long work is.
 */
#include "base/progress.h"

#include "base/clock.h"

/* Seconds between two prints: often enough to see it move, rare enough for a log. */
static const double TTY_EVERY_S = 0.2, LOG_EVERY_S = 30.0;

struct progress progress_start(FILE *out, bool tty, const char *what,
                               const char *quality, uint64_t total)
{
    double now = clock_s();

    return (struct progress){.out = out,
                             .tty = tty,
                             .what = what,
                             .quality = quality,
                             .total = total,
                             .start_s = now,
                             .last_s = now};
}

void progress_update(struct progress *p, uint64_t done, double quality)
{
    if (!p || !p->out || p->total == 0)
        return;
    double now = clock_s(), spent_s = now - p->start_s;
    bool end = done >= p->total;

    if (!end && now - p->last_s < (p->tty ? TTY_EVERY_S : LOG_EVERY_S))
        return;
    p->last_s = now;
    double part = end ? 1.0 : (double)done / (double)p->total;
    double left_s = part > 0.0 ? spent_s / part - spent_s : 0.0;
    fprintf(p->out, "%s%s %3.0f%%", p->tty ? "\r\033[K" : "", p->what, 100.0 * part);
    if (p->note)
        fprintf(p->out, "  %s", p->note);
    else if (p->quality)
        fprintf(p->out, "  %s %.4f", p->quality, quality);
    if (end)
        fprintf(p->out, "  %.0f s", spent_s);
    else
        fprintf(p->out, "  %.0f s, %.0f s left", spent_s, left_s);
    fputs(p->tty && !end ? "" : "\n", p->out);
    if (p->open)
        *p->open = p->tty && !end;
    fflush(p->out);
}
