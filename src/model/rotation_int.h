/*
 * rotation_int.h - what rotation.c and rotation_own.c share.
 */
#ifndef MODEL_ROTATION_INT_H
#define MODEL_ROTATION_INT_H

#include "model/rotation.h"

/* Whether a converter may fold a weight of this name. */
bool rotation_may_fold(const struct meta_str *name);

/* Reads bonsai2.rotation.* into d, which is empty unless the file has the vendor's keys
 * too: B2_EFORMAT. Leaves d alone when the file has none of ours. */
enum b2_status rotation_read_own(struct rotation_decl *d, const struct meta *m,
                                 struct b2_err *err) NODISCARD;

#endif
