/*
 * netmodel_int.h - a model's tensors by the numbers of train/layer.h.
 */
#ifndef COMPRESS_NETMODEL_INT_H
#define COMPRESS_NETMODEL_INT_H

#include "compress/netmodel.h"

/* Of no rows: this kind of layer has no such matrix. */
const struct weight *netmodel_weight(const struct model *m, int64_t layer, int which);
/* NULL: none. */
const float *netmodel_bias(const struct model *m, int64_t layer, int which);
const float *netmodel_norm(const struct model *m, int64_t layer, int which);
int64_t netmodel_norm_len(const struct hparams *hp, int which);
/* buf [64] */
const char *netmodel_norm_name(char *buf, const struct model *m, int64_t layer,
                               int which);

/* Rows [begin, end) in the plain basis. */
void netmodel_rows(const struct weight *w, float *dst, int64_t begin, int64_t end);
void netmodel_decode(const struct weight *w, float *dst, struct pool *pool);

#endif
