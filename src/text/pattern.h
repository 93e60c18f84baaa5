/*
 * pattern.h - regular expressions that come with data: compile once, search, replace.
 *
 * PCRE2 with a match limit, so that no pattern can hang the program. Text is read as
 * UTF-8; bytes that are none never match. Immutable after compiling.
 */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include "base/error.h"
#include "base/str.h"

struct pattern;

enum { PATTERN_CASELESS = 1 << 0, PATTERN_MULTILINE = 1 << 1, PATTERN_GROUPS = 10 };

struct pattern_match {
    size_t from[PATTERN_GROUPS], to[PATTERN_GROUPS]; /* of group 0 (all), 1, … */
    bool took[PATTERN_GROUPS]; /* the group is part of the match */
    int n_groups;
};

/* B2_EFORMAT: not a pattern (says where). */
enum b2_status pattern_new(struct pattern **out, const char *regex, unsigned flags,
                           struct b2_err *err) NODISCARD;
void pattern_free(struct pattern *p); /* NULL is fine */

/* First match at or behind byte `from` of text [n]. False: none, or over a limit. */
bool pattern_find(const struct pattern *p, const char *text, size_t n, size_t from,
                  struct pattern_match *out);
/* Number of matches that do not overlap; an empty one counts once per place. */
int64_t pattern_count(const struct pattern *p, const char *text, size_t n);
/* Appends text to out with every match replaced by with. */
void pattern_replace(const struct pattern *p, const char *text, size_t n,
                     const char *with, struct str *out);

#endif
