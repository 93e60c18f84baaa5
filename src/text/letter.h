/*
 * letter.h - what Unicode says about a character: kind, case, accents, script.
 */
#ifndef TEXT_LETTER_H
#define TEXT_LETTER_H

#include "base/str.h"

bool letter_is_alpha(uint32_t cp);  /* categories L* */
bool letter_is_digit(uint32_t cp);  /* category Nd */
bool letter_is_mark(uint32_t cp);   /* categories M* */
bool letter_is_punct(uint32_t cp);  /* categories P* */
bool letter_is_upper(uint32_t cp);  /* category Lu */
bool letter_is_lower(uint32_t cp);  /* category Ll */
uint32_t letter_lower(uint32_t cp); /* simple case mapping */
uint32_t letter_upper(uint32_t cp);

/* Appends text [n] in lower or upper case, character by character. */
void letter_put_lower(struct str *out, const char *text, size_t n);
void letter_put_upper(struct str *out, const char *text, size_t n);

/* The first code point of the canonical decomposition, its mark in *mark (0: none):
 * é gives e and U+0301. */
uint32_t letter_base(uint32_t cp, uint32_t *mark);

int64_t letter_count(const char *text, size_t n); /* code points */

#endif
