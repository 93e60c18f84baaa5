/*
 * attn_int.h - what attention.c needs to know of kv.c.
 */
#ifndef BACKEND_ATTN_INT_H
#define BACKEND_ATTN_INT_H

#include "backend/cpu/cpu_int.h"

/* The rows of keys or values of one head from position pos on, as many as follow each
 * other in memory: to the end of the slots. The caller cuts n to what it wants. */
struct kv_rows cpu_kv_rows(const struct kv_layer *kv, bool values, int64_t kv_head,
                           int64_t head_dim, int64_t pos);

#endif
