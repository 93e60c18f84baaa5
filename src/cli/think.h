/*
 * think.h - a model's thinking in a stream of text: shown dimmed, or hidden.
 *
 * Thinking stands between <think> and </think>; the tags may come in pieces.
 */
#ifndef CLI_THINK_H
#define CLI_THINK_H

#include "base/util.h"

struct think {
    bool hide;  /* else shown */
    bool color; /* dimmed, without the tags; else as it is */
    bool inside;
    bool skip_newlines; /* behind a hidden or dimmed block */
    bool any;           /* has there been a block? */
    char held[16];      /* the beginning of a tag, perhaps */
    size_t n_held;
    bool (*put)(const char *s, size_t n); /* false: stop */
};

/* Starts an answer; inside: its prompt ended in <think>. */
void think_start(struct think *t, bool inside);
/* Takes text as it comes. False: put said stop. */
bool think_put(struct think *t, const char *s, size_t n);
bool think_end(struct think *t); /* what was held back, and the normal colour */

#endif
