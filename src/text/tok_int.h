/*
 * tok_int.h - what the files of the tokenizer share; nobody outside text/ includes it.
 *
 * A text goes tok_encode (tokenizer.c) → pieces between added tokens (tok_added.c) →
 * BPE: NFC (tok_nfc.c), words (tok_pre.c), or SPM: space prefix → symbols that are
 * merged pair by pair (tok_merge.c). Lookup tables: tok_table.c.
 */
#ifndef TEXT_TOK_INT_H
#define TEXT_TOK_INT_H

#include "base/arena.h"
#include "text/tokenizer.h"

/* ---- tok_table.c: two hash tables with open addressing ---- */

/* Token bytes to id. The bytes lie in a tokenizer's bytes[]. */
struct tok_table {
    int32_t *slot; /* [mask + 1] ids, -1: empty */
    uint32_t mask;
};

bool tok_table_init(struct tok_table *h, struct arena *a,
                    int64_t n); /* false: memory */
/* Id of the token with these bytes, -1 if none. */
int32_t tok_table_find(const struct tok_table *h, const struct tok_piece *bytes,
                       const char *s, size_t n);
/* Adds id unless its bytes are there; returns the id that now owns them. */
int32_t tok_table_add(struct tok_table *h, const struct tok_piece *bytes, int32_t id);

/* Two ids to the rank of their merge and the id of the result. */
struct tok_pair {
    int32_t left, right; /* left < 0: empty slot */
    int32_t rank, id;
};

struct tok_pairs {
    struct tok_pair *slot; /* NULL: no merges */
    uint32_t mask;
};

bool tok_pairs_init(struct tok_pairs *h, struct arena *a, int64_t n);
const struct tok_pair *tok_pairs_find(const struct tok_pairs *h, int32_t left,
                                      int32_t right);
/* The first rank of a pair stays. */
void tok_pairs_add(struct tok_pairs *h, struct tok_pair pair);

/* ---- tok_added.c: added tokens in a text ---- */

struct tok_added {
    struct tok_node *node; /* a trie over bytes; [0] is the root */
    int32_t n_nodes, cap;
};

bool tok_added_init(struct tok_added *a, struct arena *arena, size_t n_bytes);
void tok_added_add(struct tok_added *a, const char *s, size_t n, int32_t id);

struct tok_match {
    size_t begin, end; /* bytes, after lstrip and rstrip */
    int32_t id;        /* -1: no match, begin == end == n */
};

/* The leftmost-longest added token in s[from, n). specials: control tokens too. */
struct tok_match tok_added_next(const struct tokenizer *t, const char *s, size_t n,
                                size_t from, bool specials);
/* Id of the added token whose text is exactly s, -1 if none. */
int32_t tok_added_find(const struct tok_added *a, const char *s, size_t n);

/* ---- tok_pre.c: pre-tokenizers ---- */

struct tok_pre; /* compiled patterns */

struct tok_pre_info {
    const char *name;
    int pattern; /* enum in tok_pre.c */
    bool ignore_merges, add_bos, nfc;
};

const struct tok_pre_info *tok_pre_info(const char *name); /* NULL: unknown */
enum b2_status tok_pre_new(struct tok_pre **out, const char *name,
                           struct b2_err *err) NODISCARD;
void tok_pre_free(struct tok_pre *p);

struct tok_words {
    size_t *end; /* ends of consecutive words, in bytes */
    size_t n, cap;
};

/* Cuts n bytes of valid UTF-8 into words; words is filled anew. tmp is scratch. */
enum b2_status tok_pre_split(const struct tok_pre *p, const char *s, size_t n,
                             struct tok_words *words, struct tok_words *tmp,
                             struct b2_err *err) NODISCARD;

/* ---- tok_nfc.c ---- */

struct str;
/* Appends the NFC form of valid UTF-8. */
enum b2_status tok_nfc_put(struct str *out, const char *s, size_t n,
                           struct b2_err *err) NODISCARD;
/* True when the text is its own NFC for certain (no code point above U+02FF). */
bool tok_nfc_is_plain(const char *s, size_t n);

/* ---- tok_merge.c ---- */

struct tok_sym {
    int32_t prev, next; /* neighbours, -1: none */
    int32_t off, len;   /* bytes in the text; len == 0: merged into the left one */
    int32_t id;         /* -1: these bytes are no token */
};

struct tok_cand {
    uint64_t key; /* rank or score above, position below: smaller first */
    int32_t left, right, end, id;
};

struct tok_work { /* scratch of one tok_encode call */
    struct tok_sym *sym;
    size_t n_sym, cap_sym;
    struct tok_cand *heap;
    size_t n_heap, cap_heap;
};

/* Makes room for n symbols. */
bool tok_merge_reserve(struct tok_work *w, size_t n);
void tok_merge_push(struct tok_work *w, size_t off, size_t len, int32_t id);
/* Merges the n_sym symbols over text until no pair can be merged. False: no memory. */
bool tok_merge_run(struct tok_work *w, const struct tokenizer *t, const char *text);
void tok_merge_free(struct tok_work *w);

/* ---- tokenizer.c ---- */

struct tokenizer {
    struct arena *arena;
    enum tok_kind kind;
    int64_t n;
    struct tok_piece *bytes; /* [n] as printed */
    uint8_t *attr;           /* [n] enum tok_attr */
    bool *lstrip, *rstrip;   /* [n] or NULL */
    bool *end;               /* [n] ends a turn */
    float *score;            /* [n], SPM without merges */
    struct tok_table table;
    struct tok_pairs pairs;
    struct tok_added added;
    struct tok_pre *pre;
    int32_t byte_id[256]; /* -1: no token for this byte */
    int32_t bos, eos, unk;
    bool add_bos, add_eos, ignore_merges, nfc;
    enum tok_prefix prefix;
};

/* ---- tok_build.c ---- */

/* Fills the tables of a zeroed t with an arena from a spec. */
enum b2_status tok_build(struct tokenizer *t, const struct tok_spec *spec,
                         struct b2_err *err) NODISCARD;
/* Stored text of a BPE token to bytes: GPT-2's alphabet of 256 printable characters. Returns the
 * length, or -1 when a character is outside (the text is then literal). out has n bytes. */
int64_t tok_build_unmap(char *out, const char *s, size_t n);

#endif
