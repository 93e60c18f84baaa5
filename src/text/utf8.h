/*
 * utf8.h - decoding with defined behaviour on any bytes, and hold-back for streams.
 */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include "base/util.h"

/* Decodes one code point from n > 0 bytes; *used >= 1. Bad bytes: U+FFFD, one byte used
 * per maximal ill-formed prefix (Unicode 15, section 3.9, U+FFFD substitution). */
uint32_t utf8_next(const char *s, size_t n, size_t *used);

/* Writes 1..4 bytes to buf, returns how many. Surrogates and > U+10FFFF: U+FFFD. */
int utf8_put(char buf[4], uint32_t cp);

bool utf8_valid(const char *s, size_t n);

/* How many bytes at the start of s may be printed now: all but an incomplete sequence
 * at the end that later bytes could complete. */
size_t utf8_complete(const char *s, size_t n);

/* Bytes of the first character as a reader sees it (a grapheme cluster: a letter with
 * its accents, a flag, a family of emoji) of n > 0 bytes; *width: columns that a terminal
 * gives it, 0..2. Control characters have 0. */
size_t utf8_cluster(const char *s, size_t n, int *width);

/* The 25 code points with the Unicode property White_Space (`\s` of the patterns). */
bool utf8_is_space(uint32_t cp);

#endif
