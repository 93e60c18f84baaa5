/*
 * tokenizer.h - text to token ids and back.
 *
 * Two families: byte-level BPE (merge ranks; the pre-tokenizer is a PCRE2 pattern
 * chosen by name) and SentencePiece-style BPE (scores, byte fallback, space prefix).
 * A tokenizer is immutable after creation and may be used by several threads at once.
 */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "base/error.h"

enum tok_kind { TOK_BPE, TOK_SPM };

enum tok_attr { /* GGUF's tokenizer.ggml.token_type */
                TOK_NORMAL = 1,
                TOK_UNKNOWN = 2,
                TOK_CONTROL = 3,
                TOK_USER = 4,
                TOK_UNUSED = 5,
                TOK_BYTE = 6,
};

struct tok_piece {
    const char *data;
    size_t len;
};

enum tok_prefix { /* SPM: a space before the first word of a text */
                  TOK_PREFIX_NONE = 0,         /* Gemma */
                  TOK_PREFIX_ALWAYS = 1,       /* also after each added token (GGUF) */
                  TOK_PREFIX_UNLESS_SPACE = 2, /* the same where no space stands */
                  TOK_PREFIX_FIRST = 3, /* only before the text's first byte, ditto */
};

enum tok_switch { TOK_BY_PRE = 0, TOK_ON = 1, TOK_OFF = -1 };

/* Everything a vocabulary says; all pointers borrowed for the call. */
struct tok_spec {
    enum tok_kind kind;
    const char *pre;                /* "qwen2", "smollm", …; BPE only */
    const struct tok_piece *tokens; /* [n_tokens], as stored (BPE: byte-to-unicode) */
    int64_t n_tokens;
    const int32_t *attrs;           /* [n_tokens] enum tok_attr, or NULL: all normal */
    const float *scores;            /* [n_tokens], SPM without merges */
    const struct tok_piece *merges; /* [n_merges] "left right"; SPM: may be NULL */
    int64_t n_merges;
    int32_t bos, eos, unk, pad; /* -1: none */
    int32_t eot;                /* end of turn beside eos, -1: none */
    enum tok_switch add_bos;    /* TOK_BY_PRE: SPM adds, BPE as the models of pre do */
    enum tok_switch add_eos;    /* TOK_BY_PRE: no */
    enum tok_prefix space_prefix;
    enum tok_switch ignore_merges; /* BPE: a whole word in the vocabulary wins */
    enum tok_switch nfc;           /* BPE: normalise to NFC first */
    const bool
        *lstrip; /* [n_tokens] added tokens that eat space around them, or NULL */
    const bool *rstrip;
};

struct tokenizer;

/* Builds the tables. B2_EUNSUP: unknown pre (named, with the known ones listed).
 * B2_EFORMAT: a merge of unknown pieces, two normal tokens of the same text, an id out
 * of range, a score that is not a number, a vocabulary that has not one byte token. */
enum b2_status tok_new(struct tokenizer **out, const struct tok_spec *spec,
                       struct b2_err *err) NODISCARD;
void tok_free(struct tokenizer *t); /* NULL is fine */

/* True when name is a pre-tokenizer that tok_new knows. */
bool tok_knows_pre(const char *name);

struct tok_ids {
    int32_t *id; /* owned; mem_free or tok_ids_free */
    int64_t n, cap;
};
void tok_ids_free(struct tok_ids *ids);

enum {
    TOK_SPECIAL = 1 << 0, /* parse control tokens written in the text */
    TOK_ADD_BOS = 1 << 1, /* begin/end tokens where the vocabulary asks for them */
};

/* Appends the ids of n bytes of text (below 2 GiB, else B2_EARG). User-defined tokens
 * are found always, control tokens with TOK_SPECIAL only; of those that overlap the
 * leftmost wins, then the longest. A begin (end) token that the text already starts
 * (ends) with is not added again.
 * Bytes that are not UTF-8 are never an error: BPE encodes one U+FFFD per maximal
 * ill-formed prefix (what utf8_next says), SPM each byte by its byte token. A byte
 * without a token: the unknown token (SPM), or nothing (BPE, as llama.cpp does).
 * B2_ENOMEM; B2_EUNSUP: pattern match limit. On failure out keeps what it had. */
enum b2_status tok_encode(const struct tokenizer *t, const char *text, size_t n,
                          unsigned flags, struct tok_ids *out,
                          struct b2_err *err) NODISCARD;

/* Bytes of one token as they are printed (not always whole UTF-8). special: control
 * tokens give their text, else nothing. Borrowed; *n bytes. NULL: id out of range. */
const char *tok_bytes(const struct tokenizer *t, int32_t id, bool special, size_t *n);

/* Appends the tokens' bytes to out: the inverse of tok_encode. SPM drops the space that
 * encoding put before the first word (and after added tokens, by space_prefix).
 * B2_EARG: id out of range. */
struct str;
enum b2_status tok_decode(const struct tokenizer *t, const int32_t *ids, int64_t n,
                          bool special, struct str *out, struct b2_err *err) NODISCARD;

int64_t tok_count(const struct tokenizer *t);
int32_t tok_bos(const struct tokenizer *t);
int32_t tok_eos(const struct tokenizer *t);
bool tok_adds_bos(const struct tokenizer *t);
/* Ids that end a turn: eos, and control tokens such as <|im_end|>, <|eot_id|>,
 * <end_of_turn>. */
bool tok_is_end(const struct tokenizer *t, int32_t id);
/* Id of an exact token text (as stored), -1 if none. */
int32_t tok_find(const struct tokenizer *t, const char *text);

#endif
