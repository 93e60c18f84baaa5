/*
 * reader.h - a cursor over bytes that nobody vouches for.
 *
 * Every byte from outside goes through here. A read past the end marks the cursor
 * bad; once bad, all later reads give zero and pos stays at the first byte that could
 * not be read, so a parser may read a whole record and check ok once.
 */
#ifndef BASE_READER_H
#define BASE_READER_H

#include "base/util.h"

struct rd {
    const uint8_t *data; /* borrowed */
    size_t size;
    size_t pos; /* pos <= size always */
    bool ok;
};

/* A cursor at the start of size bytes. */
static inline struct rd rd_make(const void *data, size_t size)
{
    return (struct rd){.data = data, .size = size, .ok = true};
}

static inline size_t rd_left(const struct rd *r)
{
    return r->size - r->pos;
}

/* Takes n bytes, or marks the cursor bad and returns NULL. n == 0 gives a pointer. */
const uint8_t *rd_bytes(struct rd *r, uint64_t n);

/* Little-endian values; 0 when bad. */
uint8_t rd_u8(struct rd *r);
uint16_t rd_u16(struct rd *r);
uint32_t rd_u32(struct rd *r);
uint64_t rd_u64(struct rd *r);
float rd_f32(struct rd *r);
double rd_f64(struct rd *r);

/* Little-endian access to memory that is known to be there. */
static inline uint16_t le_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t le_get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static inline uint64_t le_get64(const uint8_t *p)
{
    return (uint64_t)le_get32(p) | (uint64_t)le_get32(p + 4) << 32;
}

static inline void le_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void le_put32(uint8_t *p, uint32_t v)
{
    le_put16(p, (uint16_t)v);
    le_put16(p + 2, (uint16_t)(v >> 16));
}

static inline void le_put64(uint8_t *p, uint64_t v)
{
    le_put32(p, (uint32_t)v);
    le_put32(p + 4, (uint32_t)(v >> 32));
}

#endif
