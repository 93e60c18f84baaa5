/*
 * calib_mix.h - named mixes of calibration texts.
 *
 * "mix:NAME" or "mix:NAME=SHARE" stands for some files of a folder of data, each with its
 * share of the mix.
 */
#ifndef COMPRESS_CALIB_MIX_H
#define COMPRESS_CALIB_MIX_H

#include "compress/calib.h"

/* Files and shares, as calib_params takes them. */
struct calib_words {
    char *own[CALIB_MAX_FILES];
    const char *word[CALIB_MAX_FILES]; /* the same */
    int n;
};

/* words with every mix of them replaced by its files below dir. B2_EARG: an unknown mix
 * (all are named), no folder (dir NULL), more than CALIB_MAX_FILES files. */
enum b2_status calib_words_make(struct calib_words *out, const char *const *words,
                                int n, const char *dir, struct b2_err *err) NODISCARD;
/* One file more, of share 1, whatever its name ends in. B2_EARG: CALIB_MAX_FILES. */
enum b2_status calib_words_add(struct calib_words *w, const char *path,
                               struct b2_err *err) NODISCARD;
void calib_words_free(struct calib_words *w); /* zeroed is fine */

#endif
