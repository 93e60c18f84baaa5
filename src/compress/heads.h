/*
 * heads.h - the order of value heads in the output projection of a gated delta net.
 *
 * A GGUF has the columns of ssm_out tiled (head j reads key head j mod k), as the
 * activations come. The rotation contract wants them grouped by key head before the fold
 * when it says gdn_v_grouped (FORMATS.md §1.5).
 */
#ifndef COMPRESS_HEADS_H
#define COMPRESS_HEADS_H

#include "format/meta.h"

struct heads {
    int64_t k, v; /* key heads, value heads; 0: nothing to reorder */
};

/* The heads of a model's keys; zeros when both orders are the same. */
struct heads heads_read(const struct meta *m);

/* Row [width] of v heads, in place: place g * reps + r gets head r * k + g. */
void heads_group(const struct heads *h, float *row, int64_t width);

#endif
