/*
 * dynlib.h - a shared library that is used when it is there.
 */
#ifndef BASE_DYNLIB_H
#define BASE_DYNLIB_H

#include "base/error.h"

struct dynlib;

/* A function of unknown type; cast it to its own before the call. */
typedef void dynlib_fn(void);

/* B2_ENOTFOUND: not installed. */
enum b2_status dynlib_open(struct dynlib **out, const char *name,
                           struct b2_err *err) NODISCARD;
/* NULL: the library has no such function. */
dynlib_fn *dynlib_find(const struct dynlib *lib, const char *symbol);
void dynlib_close(struct dynlib *lib); /* NULL is fine */

#endif
