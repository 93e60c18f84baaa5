/*
 * gunzip.h - the bytes inside a .gz file.
 */
#ifndef FORMAT_GUNZIP_H
#define FORMAT_GUNZIP_H

#include "base/error.h"

bool gunzip_is(const void *data, size_t n); /* does it begin as a .gz file? */

/* Unpacks n bytes, all members. *out owned (mem_free), with a terminating zero that
 * *size does not count. B2_EFORMAT: corrupt; B2_ETRUNC: cut short; B2_EUNSUP: more than
 * max_bytes. */
enum b2_status gunzip(char **out, size_t *size, const void *data, size_t n,
                      size_t max_bytes, struct b2_err *err) NODISCARD;

#endif
