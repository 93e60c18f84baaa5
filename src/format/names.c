/*
 * names.c - the hash set behind keys and tensor names.
 */
#include "format/names.h"

#include "base/mem.h"

#include <string.h>

/* FNV-1a over the bytes from a seeded start, then a mix (the finaliser of splitmix64),
 * because FNV's low bits alone are weak. */
static uint64_t hash_name(uint64_t seed, const char *name)
{
    uint64_t h = seed ^ 0xcbf29ce484222325u;

    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        h = (h ^ *p) * 0x100000001b3u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

/* The slot that holds name, or the free slot where it belongs. Needs a free slot. */
static uint32_t *slot_of(const struct names *set, const char *name)
{
    size_t mask = set->n_slots - 1;

    for (size_t i = (size_t)hash_name(set->seed, name) & mask;; i = (i + 1) & mask) {
        uint32_t *s = &set->slot[i];
        if (*s == 0 || strcmp(set->name[*s - 1], name) == 0)
            return s;
    }
}

/* Makes room for one more name: doubles both tables when the slots are half full. */
static bool grow(struct names *set)
{
    if (set->n < set->cap)
        return true;
    if (set->n >= UINT32_MAX / 4)
        return false;
    size_t cap = set->cap ? set->cap * 2 : 16;
    const char **name = mem_realloc(set->name, cap, sizeof *name);
    if (!name)
        return false;
    set->name = name;
    uint32_t *slot = mem_calloc(cap * 2, sizeof *slot);
    if (!slot)
        return false;
    mem_free(set->slot);
    set->slot = slot;
    set->n_slots = cap * 2;
    set->cap = cap;
    for (size_t i = 0; i < set->n; i++)
        *slot_of(set, set->name[i]) = (uint32_t)i + 1;
    return true;
}

enum names_result names_add(struct names *set, const char *name)
{
    if (set->n_slots == 0)
        set->seed = (uint64_t)(uintptr_t)set * 0x9e3779b97f4a7c15u;
    if (!grow(set))
        return NAMES_ENOMEM;
    uint32_t *s = slot_of(set, name);
    if (*s)
        return NAMES_EXISTS;
    set->name[set->n++] = name;
    *s = (uint32_t)set->n;
    return NAMES_ADDED;
}

int64_t names_find(const struct names *set, const char *name)
{
    return set->n_slots ? (int64_t)*slot_of(set, name) - 1 : -1;
}

void names_remove(struct names *set, size_t i)
{
    set->n--;
    memmove(&set->name[i], &set->name[i + 1], (set->n - i) * sizeof *set->name);
    memset(set->slot, 0, set->n_slots * sizeof *set->slot);
    for (size_t k = 0; k < set->n; k++)
        *slot_of(set, set->name[k]) = (uint32_t)k + 1;
}

void names_free(struct names *set)
{
    if (!set)
        return;
    mem_free(set->name);
    mem_free(set->slot);
    *set = (struct names){0};
}

const char *names_show(char buf[NAMES_SHOW_MAX], const char *name, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (n + 4 >= NAMES_SHOW_MAX) {
            memcpy(buf + n, "...", 3);
            n += 3;
            break;
        }
        buf[n++] = name[i] >= 0x20 && name[i] < 0x7f ? name[i] : '?';
    }
    buf[n] = '\0';
    return buf;
}
