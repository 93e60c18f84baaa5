/*
 * textout.h - from token bytes to text that may be shown: whole characters, no stop string.
 *
 * Bytes that can still become a character, and text that can still become a stop string,
 * are held back until it is sure. Bytes that are no UTF-8 become U+FFFD.
 */
#ifndef MODEL_TEXTOUT_H
#define MODEL_TEXTOUT_H

#include "base/error.h"
#include "base/str.h"

struct textout {
    struct str *text; /* all of it so far, the held-back part included */
    const char *const *stop;
    int n_stop;
    bool (*on_text)(void *ctx, const char *text, size_t n); /* may be NULL */
    void *ctx;
    size_t sent;   /* bytes of text already given to on_text */
    char tail[4];  /* an unfinished character */
    size_t n_tail; /* < 4 */
    bool found;    /* a stop string came: text ends before it */
    bool unwanted; /* on_text returned false */
};

/* text is borrowed and starts empty. B2_EARG: an empty stop string. */
enum b2_status textout_init(struct textout *o, struct str *text,
                            const char *const *stop, int n_stop,
                            struct b2_err *err) NODISCARD;

/* Adds the bytes of one token. False: over (o->found or o->unwanted says why). After
 * memory ran out the text is bad (str_ok). */
bool textout_put(struct textout *o, const char *bytes, size_t n);

/* No more tokens: gives out what was held back; an unfinished character becomes one
 * U+FFFD. Not needed after found, harmless then. */
void textout_end(struct textout *o);

#endif
