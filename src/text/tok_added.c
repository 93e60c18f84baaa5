/*
 * tok_added.c - finds added tokens (<|im_start|>, runs of spaces, …) in a text.
 *
 * All added tokens stand in one trie. From each position the longest match wins, and
 * the first position that has one: leftmost-longest, as the `tokenizers` library
 * searches. A token that may not be parsed here (a control token without TOK_SPECIAL)
 * does not hide a shorter one that may.
 */
#include "text/tok_int.h"
#include "text/utf8.h"

struct tok_node {
    int32_t child, sibling; /* node indices, 0: none (the root is nobody's child) */
    int32_t id;             /* token that ends here, -1: none */
    uint8_t byte;
};

/* n_bytes: sum of the lengths of the texts, an upper bound on the nodes. */
bool tok_added_init(struct tok_added *a, struct arena *arena, size_t n_bytes)
{
    if (n_bytes >= INT32_MAX)
        return false;
    a->cap = (int32_t)n_bytes + 1;
    a->node = arena_calloc(arena, (size_t)a->cap, sizeof *a->node);
    if (!a->node)
        return false;
    a->node[0].id = -1;
    a->n_nodes = 1;
    return true;
}

static int32_t child_of(const struct tok_added *a, int32_t node, uint8_t byte)
{
    int32_t c = a->node[node].child;

    while (c != 0 && a->node[c].byte != byte)
        c = a->node[c].sibling;
    return c;
}

void tok_added_add(struct tok_added *a, const char *s, size_t n, int32_t id)
{
    int32_t at = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t c = child_of(a, at, (uint8_t)s[i]);
        if (c == 0) {
            c = a->n_nodes++;
            a->node[c] = (struct tok_node){
                .sibling = a->node[at].child, .id = -1, .byte = (uint8_t)s[i]};
            a->node[at].child = c;
        }
        at = c;
    }
    if (n > 0 && a->node[at].id < 0)
        a->node[at].id = id;
}

int32_t tok_added_find(const struct tok_added *a, const char *s, size_t n)
{
    int32_t at = 0;

    for (size_t i = 0; i < n; i++) {
        at = child_of(a, at, (uint8_t)s[i]);
        if (at == 0)
            return -1;
    }
    return a->node[at].id;
}

/* Longest token that starts at s; *len gets its bytes. -1: none. */
static int32_t match_at(const struct tokenizer *t, const char *s, size_t n,
                        bool specials, size_t *len)
{
    const struct tok_added *a = &t->added;
    int32_t at = 0, best = -1;

    for (size_t i = 0; i < n; i++) {
        at = child_of(a, at, (uint8_t)s[i]);
        if (at == 0)
            break;
        int32_t id = a->node[at].id;
        if (id >= 0 && (specials || t->attr[id] == TOK_USER)) {
            best = id;
            *len = i + 1;
        }
    }
    return best;
}

/* Moves *begin left over white space, not below low. */
static void strip_left(const char *s, size_t low, size_t *begin)
{
    while (*begin > low) {
        size_t at = *begin - 1, used;
        while (at > low && ((uint8_t)s[at] & 0xC0) == 0x80)
            at--;
        if (!utf8_is_space(utf8_next(s + at, *begin - at, &used)))
            return;
        *begin = at;
    }
}

static void strip_right(const char *s, size_t n, size_t *end)
{
    while (*end < n) {
        size_t used;
        if (!utf8_is_space(utf8_next(s + *end, n - *end, &used)))
            return;
        *end += used;
    }
}

struct tok_match tok_added_next(const struct tokenizer *t, const char *s, size_t n,
                                size_t from, bool specials)
{
    if (t->added.n_nodes <= 1) /* no added tokens at all */
        return (struct tok_match){n, n, -1};
    for (size_t i = from; i < n; i++) {
        size_t len = 0;
        int32_t id = match_at(t, s + i, n - i, specials, &len);
        if (id < 0)
            continue;
        struct tok_match m = {i, i + len, id};
        if (t->lstrip && t->lstrip[id])
            strip_left(s, from, &m.begin);
        if (t->rstrip && t->rstrip[id])
            strip_right(s, n, &m.end);
        return m;
    }
    return (struct tok_match){n, n, -1};
}
