/*
 * names.h - a set of names with their order: key and tensor look-ups.
 *
 * Open addressing on a hash whose start depends on the set's address, so that a hostile
 * file cannot prepare names that all collide. Names are borrowed and must outlive the
 * set. A zeroed struct is an empty set.
 */
#ifndef FORMAT_NAMES_H
#define FORMAT_NAMES_H

#include "base/util.h"

struct names {
    const char **name; /* in the order of adding */
    uint32_t *slot;    /* index + 1 into name, 0: free; n_slots is a power of two */
    size_t n, cap, n_slots;
    uint64_t seed;
};

enum names_result { NAMES_ADDED, NAMES_EXISTS, NAMES_ENOMEM };

/* Adds name as number set->n, unless it is there already. */
enum names_result names_add(struct names *set, const char *name) NODISCARD;

/* The number of name, -1 if absent. */
int64_t names_find(const struct names *set, const char *name);

/* Takes out number i; those behind it move down by one. O(n). */
void names_remove(struct names *set, size_t i);

void names_free(struct names *set); /* zeroed is fine; leaves it zeroed */

/* Copies name for a message into buf: what is not printing ASCII
 * becomes '?', and long names end in "...". Returns buf. */
enum { NAMES_SHOW_MAX = 96 };
const char *names_show(char buf[NAMES_SHOW_MAX], const char *name, size_t len);

#endif
