/*
 * textkind.h - what kind of text a piece is, as far as its characters tell.
 *
 * The script of most of its letters; Latin text with many brackets and semicolons is code. Enough to see what a mix of texts is made of, not to tell French from English.
 */
#ifndef COMPRESS_TEXTKIND_H
#define COMPRESS_TEXTKIND_H

#include <stddef.h>

enum text_kind {
    KIND_LATIN,
    KIND_CODE,
    KIND_HAN, /* Chinese; Japanese has kana between */
    KIND_KANA,
    KIND_HANGUL,
    KIND_CYRILLIC,
    KIND_ARABIC,
    KIND_INDIC,
    KIND_OTHER,
    N_TEXT_KINDS
};

enum text_kind text_kind(const char *text, size_t n);
const char *text_kind_name(enum text_kind kind); /* "latin", "code", … */

#endif
