/*
 * reader.c - bounded little-endian reads.
 */
#include "base/reader.h"

#include <string.h>

const uint8_t *rd_bytes(struct rd *r, uint64_t n)
{
    static const uint8_t nothing[1];

    if (!r->ok || n > r->size - r->pos) { /* pos <= size always: cannot wrap */
        r->ok = false;
        return NULL;
    }
    r->pos += (size_t)n;
    return r->data ? r->data + r->pos - n : nothing;
}

uint8_t rd_u8(struct rd *r)
{
    const uint8_t *p = rd_bytes(r, 1);

    return p ? p[0] : 0;
}

uint16_t rd_u16(struct rd *r)
{
    const uint8_t *p = rd_bytes(r, 2);

    return p ? le_get16(p) : 0;
}

uint32_t rd_u32(struct rd *r)
{
    const uint8_t *p = rd_bytes(r, 4);

    return p ? le_get32(p) : 0;
}

uint64_t rd_u64(struct rd *r)
{
    const uint8_t *p = rd_bytes(r, 8);

    return p ? le_get64(p) : 0;
}

float rd_f32(struct rd *r)
{
    uint32_t bits = rd_u32(r);
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

double rd_f64(struct rd *r)
{
    uint64_t bits = rd_u64(r);
    double v;

    memcpy(&v, &bits, sizeof v);
    return v;
}
