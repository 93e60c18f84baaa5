/*
 * opt_int.h - the search for the word that was meant; shared with the command table.
 */
#ifndef BASE_OPT_INT_H
#define BASE_OPT_INT_H

#include <stdbool.h>

/* Edits (insert, delete, replace) that turn a into b. */
int opt_distance(const char *a, const char *b);

/* Is word, distance edits away from name, near enough to offer name? */
bool opt_is_near(const char *word, const char *name, int distance);

#endif
