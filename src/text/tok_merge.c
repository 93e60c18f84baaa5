/*
 * tok_merge.c - byte-pair merging in O(n log n).
 *
 * The symbols form a linked list; every adjacent pair that can be merged waits in a
 * heap, the best rank (or highest score) first and, among equals, the leftmost. A
 * merge makes at most two new pairs, so the heap sees at most 3n entries. Entries of
 * pairs that are gone stay in the heap and are recognised when they come up: a symbol
 * keeps its start for ever, so a pair is the one that was meant exactly if both
 * symbols are alive, adjacent, and end where the pair ended.
 */
#include "base/mem.h"
#include "text/tok_int.h"

#include <string.h>

bool tok_merge_reserve(struct tok_work *w, size_t n)
{
    if (n <= w->cap_sym)
        return true;
    size_t cap = n > 2 * w->cap_sym ? n : 2 * w->cap_sym;
    struct tok_sym *sym = mem_realloc(w->sym, cap, sizeof *sym);
    if (!sym)
        return false;
    w->sym = sym;
    w->cap_sym = cap;
    return true;
}

void tok_merge_push(struct tok_work *w, size_t off, size_t len, int32_t id)
{
    int32_t i = (int32_t)w->n_sym++;

    w->sym[i] = (struct tok_sym){.prev = i - 1,
                                 .next = i + 1,
                                 .off = (int32_t)off,
                                 .len = (int32_t)len,
                                 .id = id};
}

/* Smaller key = merged earlier. Floats are mapped to integers of the same order. */
static uint64_t score_key(float score, int32_t left)
{
    uint32_t u;

    score += 0.0f; /* minus zero is zero */
    memcpy(&u, &score, sizeof u);
    u = u & 0x80000000u ? ~u : u | 0x80000000u; /* ascending */
    return (uint64_t)~u << 32 | (uint32_t)left;
}

/* What merging left and right gives: by the table of pairs, or by the joined text. */
static bool lookup(const struct tokenizer *t, const char *text, const struct tok_sym *l,
                   const struct tok_sym *r, int32_t left, struct tok_cand *out)
{
    if (t->pairs.slot) {
        if (l->id < 0 || r->id < 0)
            return false;
        const struct tok_pair *p = tok_pairs_find(&t->pairs, l->id, r->id);
        if (!p)
            return false;
        out->key = (uint64_t)(uint32_t)p->rank << 32 | (uint32_t)left;
        out->id = p->id;
        return true;
    }
    if (!t->score)
        return false;
    int32_t id = tok_table_find(&t->table, t->bytes, text + l->off,
                                (size_t)l->len + (size_t)r->len);
    if (id < 0 || t->attr[id] != TOK_NORMAL) /* added tokens are not merged together */
        return false;
    out->key = score_key(t->score[id], left);
    out->id = id;
    return true;
}

static bool heap_push(struct tok_work *w, struct tok_cand c)
{
    if (w->n_heap == w->cap_heap) {
        size_t cap = w->cap_heap ? 2 * w->cap_heap : 64;
        struct tok_cand *heap = mem_realloc(w->heap, cap, sizeof *heap);
        if (!heap)
            return false;
        w->heap = heap;
        w->cap_heap = cap;
    }
    size_t i = w->n_heap++;
    while (i > 0 && w->heap[(i - 1) / 2].key > c.key) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = c;
    return true;
}

static struct tok_cand heap_pop(struct tok_work *w)
{
    struct tok_cand top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;

    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= w->n_heap)
            break;
        if (c + 1 < w->n_heap && w->heap[c + 1].key < w->heap[c].key)
            c++;
        if (last.key <= w->heap[c].key)
            break;
        w->heap[i] = w->heap[c];
        i = c;
    }
    w->heap[i] = last;
    return top;
}

/* Puts the pair (left, its right neighbour) on the heap if it can be merged. */
static bool offer(struct tok_work *w, const struct tokenizer *t, const char *text,
                  int32_t left)
{
    const struct tok_sym *l = &w->sym[left], *r = &w->sym[l->next];
    struct tok_cand c = {.left = left, .right = l->next, .end = r->off + r->len};

    return !lookup(t, text, l, r, left, &c) || heap_push(w, c);
}

bool tok_merge_run(struct tok_work *w, const struct tokenizer *t, const char *text)
{
    if (w->n_sym == 0)
        return true;
    w->sym[w->n_sym - 1].next = -1;
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < w->n_sym; i++) {
        if (!offer(w, t, text, (int32_t)i))
            return false;
    }
    while (w->n_heap > 0) {
        struct tok_cand c = heap_pop(w);
        struct tok_sym *l = &w->sym[c.left], *r = &w->sym[c.right];
        if (l->len == 0 || r->len == 0 || l->next != c.right ||
            r->off + r->len != c.end)
            continue;
        l->len += r->len;
        l->id = c.id;
        l->next = r->next;
        r->len = 0;
        if (l->next >= 0)
            w->sym[l->next].prev = c.left;
        if ((l->prev >= 0 && !offer(w, t, text, l->prev)) ||
            (l->next >= 0 && !offer(w, t, text, c.left)))
            return false;
    }
    return true;
}

void tok_merge_free(struct tok_work *w)
{
    mem_free(w->sym);
    mem_free(w->heap);
    *w = (struct tok_work){0};
}
