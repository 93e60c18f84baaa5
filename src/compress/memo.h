/*
 * memo.h - a number that an earlier run found, in a small file with what it depends on.
 */
#ifndef COMPRESS_MEMO_H
#define COMPRESS_MEMO_H

#include "base/error.h"

/* The number that stands in the file behind this key; NaN: there is none. key has no line
 * breaks. */
double memo_get(const char *path, const char *key);

/* Replaces the file. Errors of files, B2_ENOMEM. */
enum b2_status memo_put(const char *path, const char *key, double value,
                        struct b2_err *err) NODISCARD;

#endif
