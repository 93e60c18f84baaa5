/*
 * meta_int.h - the inside of a meta, shared by the getters, the setters and the tests.
 */
#ifndef FORMAT_META_INT_H
#define FORMAT_META_INT_H

#include "base/arena.h"
#include "format/meta.h"
#include "format/names.h"

struct meta {
    struct arena *arena; /* keys and values; replaced values stay until the end */
    struct meta_kv *kv;  /* in order; kv[i].key is names.name[i] */
    size_t n, cap;
    struct names names;
    uint8_t *chunk; /* small values share chunks: an arena spends 64 bytes on each */
    size_t chunk_left;
};

#endif
