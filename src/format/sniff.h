/*
 * sniff.h - what a file that is no model probably is instead.
 *
 * Downloads go wrong in a few well-known ways; saying which one saves an hour.
 */
#ifndef FORMAT_SNIFF_H
#define FORMAT_SNIFF_H

#include "base/util.h"

/* A static sentence about what these first bytes are and what to do ("this is a Git LFS
 * pointer …"), or NULL when they look like none of the usual mistakes. Looks at text
 * only, so no header of a real model can be mistaken. */
const char *sniff_mistake(const void *data, size_t size);

/* The same for binary formats that are no container of ours (zip, pickle, gzip): ask
 * only after the real readers have refused. NULL: nothing known. */
const char *sniff_other_format(const void *data, size_t size);

#endif
