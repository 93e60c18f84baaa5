/*
 * overlap.h - whether two texts share a run of words.
 *
 * A word is a run of ASCII letters and digits (case does not count) and other bytes of
 * two-byte characters; every character of three bytes and more is a word of its own, so
 * that texts without spaces have words too. Runs are compared by 64-bit hashes.
 */
#ifndef COMPRESS_OVERLAP_H
#define COMPRESS_OVERLAP_H

#include "base/error.h"

struct overlap; /* a set of runs */

/* Runs of n_words. NULL: out of memory. */
struct overlap *overlap_new(int n_words);
void overlap_free(struct overlap *o); /* NULL is fine */
/* Adds all runs of a text. False: out of memory. */
bool overlap_add(struct overlap *o, const char *text, size_t n);
/* Whether any run of the text is in the set. */
bool overlap_has(const struct overlap *o, const char *text, size_t n);

#endif
