/*
 * tok_table.c - the two lookup tables: token bytes to id, pair of ids to merge.
 *
 * Open addressing with linear probing, at most half full, built once and then only
 * read. The hash mixes eight bytes at a time with a 64-bit multiply and a fold.
 */
#include "base/reader.h"
#include "text/tok_int.h"

#include <string.h>

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ h >> 32;
}

static uint32_t hash_bytes(const char *s, size_t n)
{
    const uint8_t *b = (const uint8_t *)s;
    uint64_t h = n * 0x9E3779B97F4A7C15u, tail = 0;

    for (; n >= 8; n -= 8, b += 8)
        h = mix(h ^ le_get64(b));
    for (size_t i = 0; i < n; i++)
        tail |= (uint64_t)b[i] << (8 * i);
    return (uint32_t)mix(h ^ tail);
}

static uint32_t hash_pair(int32_t left, int32_t right)
{
    return (uint32_t)mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
}

/* Slots for n entries: a power of two, at least 2n. */
static uint32_t slots_for(int64_t n)
{
    uint32_t slots = 16;

    while (slots < 2 * (uint64_t)n)
        slots *= 2;
    return slots;
}

bool tok_table_init(struct tok_table *h, struct arena *a, int64_t n)
{
    uint32_t slots = slots_for(n);

    h->mask = slots - 1;
    h->slot = arena_calloc(a, slots, sizeof *h->slot);
    if (h->slot)
        memset(h->slot, 0xFF, (size_t)slots * sizeof *h->slot); /* all -1 */
    return h->slot != NULL;
}

/* The slot that holds these bytes, or the empty one where they belong. */
static int32_t *table_slot(const struct tok_table *h, const struct tok_piece *bytes,
                           const char *s, size_t n)
{
    uint32_t i = hash_bytes(s, n) & h->mask;

    while (h->slot[i] >= 0) {
        const struct tok_piece *p = &bytes[h->slot[i]];
        if (p->len == n && memcmp(p->data, s, n) == 0)
            break;
        i = (i + 1) & h->mask;
    }
    return &h->slot[i];
}

int32_t tok_table_find(const struct tok_table *h, const struct tok_piece *bytes,
                       const char *s, size_t n)
{
    return *table_slot(h, bytes, s, n);
}

int32_t tok_table_add(struct tok_table *h, const struct tok_piece *bytes, int32_t id)
{
    int32_t *slot = table_slot(h, bytes, bytes[id].data, bytes[id].len);

    if (*slot < 0)
        *slot = id;
    return *slot;
}

bool tok_pairs_init(struct tok_pairs *h, struct arena *a, int64_t n)
{
    uint32_t slots = slots_for(n);

    h->mask = slots - 1;
    h->slot = arena_calloc(a, slots, sizeof *h->slot);
    for (uint32_t i = 0; h->slot && i < slots; i++)
        h->slot[i].left = -1;
    return h->slot != NULL;
}

const struct tok_pair *tok_pairs_find(const struct tok_pairs *h, int32_t left,
                                      int32_t right)
{
    uint32_t i = hash_pair(left, right) & h->mask;

    for (; h->slot[i].left >= 0; i = (i + 1) & h->mask) {
        if (h->slot[i].left == left && h->slot[i].right == right)
            return &h->slot[i];
    }
    return NULL;
}

void tok_pairs_add(struct tok_pairs *h, struct tok_pair pair)
{
    uint32_t i = hash_pair(pair.left, pair.right) & h->mask;

    for (; h->slot[i].left >= 0; i = (i + 1) & h->mask) {
        if (h->slot[i].left == pair.left && h->slot[i].right == pair.right)
            return;
    }
    h->slot[i] = pair;
}
