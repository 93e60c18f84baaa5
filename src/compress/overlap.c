/*
 * overlap.c - words, hashes of runs, an open hash table.
 */
#include "compress/overlap.h"

#include "base/mem.h"

#include <string.h>

enum { MAX_WORDS = 32, FIRST_SLOTS = 1024 };

struct overlap {
    int n_words;
    uint64_t *slot; /* [n_slots], 0: free */
    size_t n_slots, used;
};

/* Walks over the words of a text and the runs that they end. */
struct walk {
    const unsigned char *p, *end;
    int n_words, seen;
    uint64_t word[MAX_WORDS]; /* hashes of the last n_words, in a ring */
};

struct overlap *overlap_new(int n_words)
{
    struct overlap *o = mem_calloc(1, sizeof *o);

    if (o) {
        o->n_words = n_words < MAX_WORDS ? n_words : MAX_WORDS;
        o->n_slots = FIRST_SLOTS;
        o->slot = mem_calloc(o->n_slots, sizeof *o->slot);
        if (!o->slot) {
            mem_free(o);
            o = NULL;
        }
    }
    return o;
}

void overlap_free(struct overlap *o)
{
    if (o)
        mem_free(o->slot);
    mem_free(o);
}

static unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c - 'A' + 'a') : c;
}

static bool is_word_byte(unsigned char c)
{
    c = lower(c);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 0x80 && c < 0xe0);
}

/* The hash of the next word (FNV-1a). False: the text is over. */
static bool next_word(struct walk *w, uint64_t *hash)
{
    uint64_t h = 0xcbf29ce484222325u;

    while (w->p < w->end && !is_word_byte(*w->p) && *w->p < 0xe0)
        w->p++;
    if (w->p == w->end)
        return false;
    if (*w->p >= 0xe0) { /* one character */
        do
            h = (h ^ *w->p++) * 0x100000001b3u;
        while (w->p < w->end && (*w->p & 0xc0) == 0x80);
    } else {
        while (w->p < w->end && is_word_byte(*w->p))
            h = (h ^ lower(*w->p++)) * 0x100000001b3u;
    }
    *hash = h;
    return true;
}

/* The hash of the next run, never 0. */
static bool next_run(struct walk *w, uint64_t *run)
{
    uint64_t h;

    do {
        if (!next_word(w, &h))
            return false;
        w->word[w->seen++ % w->n_words] = h;
    } while (w->seen < w->n_words);
    *run = 0;
    for (int i = 0; i < w->n_words; i++) {
        *run = (*run ^ w->word[(w->seen + i) % w->n_words]) * 0x9e3779b97f4a7c15u;
        *run ^= *run >> 29;
    }
    *run |= 1;
    return true;
}

static struct walk walk_over(const struct overlap *o, const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;

    return (struct walk){.p = p, .end = p + n, .n_words = o->n_words};
}

/* The slot that holds h, or the free one where it belongs. */
static size_t find_slot(const uint64_t *slot, size_t n, uint64_t h)
{
    size_t i = (size_t)(h >> 7) & (n - 1);

    while (slot[i] && slot[i] != h)
        i = (i + 1) & (n - 1);
    return i;
}

static bool grow(struct overlap *o)
{
    size_t n = 2 * o->n_slots;
    uint64_t *slot = mem_calloc(n, sizeof *slot);

    if (!slot)
        return false;
    for (size_t i = 0; i < o->n_slots; i++)
        if (o->slot[i])
            slot[find_slot(slot, n, o->slot[i])] = o->slot[i];
    mem_free(o->slot);
    o->slot = slot;
    o->n_slots = n;
    return true;
}

bool overlap_add(struct overlap *o, const char *text, size_t n)
{
    struct walk w = walk_over(o, text, n);
    uint64_t run;

    while (next_run(&w, &run)) {
        if (2 * (o->used + 1) > o->n_slots && !grow(o))
            return false;
        size_t i = find_slot(o->slot, o->n_slots, run);
        o->used += o->slot[i] == 0;
        o->slot[i] = run;
    }
    return true;
}

bool overlap_has(const struct overlap *o, const char *text, size_t n)
{
    struct walk w = walk_over(o, text, n);
    uint64_t run;

    while (next_run(&w, &run))
        if (o->slot[find_slot(o->slot, o->n_slots, run)])
            return true;
    return false;
}
