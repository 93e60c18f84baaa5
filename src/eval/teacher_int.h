/*
 * teacher_int.h - what reading and writing a teacher file share.
 */
#ifndef EVAL_TEACHER_INT_H
#define EVAL_TEACHER_INT_H

#include "eval/textset.h"
#include "format/hash.h"

/* SHA-256 of the text's ids, four bytes each, little-endian. */
enum b2_status teacher_ids_sha256(char hex[HASH_HEX], const struct textset *set,
                                  struct b2_err *err) NODISCARD;

#endif
