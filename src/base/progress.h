/*
 * progress.h - how far long work is, on a terminal or in a log.
 *
 * The work calls progress_update() as often as it likes; the printer behind it writes
 * five times a second on a terminal, twice a minute in a log, and always at the end.
 * A NULL progress is silent, so library code reports without asking who listens.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include "base/util.h"

#include <stdio.h>

struct progress {
    FILE *out;           /* where lines go; NULL: silent */
    bool tty;            /* rewrite one line instead of adding lines */
    const char *what;    /* shown first: "compress", "perplexity" */
    const char *quality; /* name of the quality number ("ppl"), or NULL: none */
    const char *note;    /* in its place: what the work has to say; NULL: nothing */
    bool *open; /* kept true while an unfinished line stands on the terminal, so that
                 * who writes another one first takes it away; NULL: nobody asks */
    uint64_t total; /* > 0 */
    double start_s, last_s;
};

/* Starts a count to total. out may be NULL. */
struct progress progress_start(FILE *out, bool tty, const char *what,
                               const char *quality, uint64_t total);
/* done of total; quality is shown when p->quality is set. p may be NULL. */
void progress_update(struct progress *p, uint64_t done, double quality);

#endif
