/*
 * tok_small.h - a vocabulary made by hand, for tests and fuzz targets of text/.
 */
#ifndef UNIT_TOK_SMALL_H
#define UNIT_TOK_SMALL_H

#include "text/tokenizer.h"
#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

enum { SMALL_MAX = 400 };

struct small {
    char pool[8192];
    size_t used;
    struct tok_piece tokens[SMALL_MAX], merges[SMALL_MAX];
    int32_t attrs[SMALL_MAX];
    float scores[SMALL_MAX];
    bool lstrip[SMALL_MAX], rstrip[SMALL_MAX];
    int64_t n, n_merges;
};

static inline struct tok_piece small_text(struct small *s, const char *text, size_t n)
{
    struct tok_piece p = {s->pool + s->used, n};

    memcpy(s->pool + s->used, text, n);
    s->used += n;
    return p;
}

/* Returns the id of the new token. */
static inline int32_t small_add(struct small *s, const char *text, enum tok_attr attr,
                                float score)
{
    s->tokens[s->n] = small_text(s, text, strlen(text));
    s->attrs[s->n] = (int32_t)attr;
    s->scores[s->n] = score;
    return (int32_t)s->n++;
}

static inline void small_merge(struct small *s, const char *text)
{
    s->merges[s->n_merges++] = small_text(s, text, strlen(text));
}

/* Token i is byte i, in GPT-2's alphabet. */
static inline void small_bpe(struct small *s)
{
    uint32_t next = 0x100;

    *s = (struct small){0};
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        char buf[5] = {0};
        utf8_put(buf, printable ? b : next++);
        small_add(s, buf, TOK_NORMAL, 0.0f);
    }
}

/* 0 <unk>, 1 <s>, 2 </s>, 3 + b is byte b. */
static inline void small_spm(struct small *s)
{
    *s = (struct small){0};
    small_add(s, "<unk>", TOK_UNKNOWN, 0.0f);
    small_add(s, "<s>", TOK_CONTROL, 0.0f);
    small_add(s, "</s>", TOK_CONTROL, 0.0f);
    for (int b = 0; b < 256; b++) {
        char buf[8];
        snprintf(buf, sizeof buf, "<0x%02X>", b);
        small_add(s, buf, TOK_BYTE, 0.0f);
    }
}

static inline struct tok_spec small_spec(const struct small *s, enum tok_kind kind)
{
    return (struct tok_spec){
        .kind = kind,
        .pre = "gpt-2",
        .tokens = s->tokens,
        .n_tokens = s->n,
        .attrs = s->attrs,
        .scores = kind == TOK_SPM ? s->scores : NULL,
        .merges = kind == TOK_BPE ? s->merges : NULL,
        .n_merges = kind == TOK_BPE ? s->n_merges : 0,
        .bos = -1,
        .eos = -1,
        .eot = -1,
        .unk = kind == TOK_SPM ? 0 : -1,
        .pad = -1,
        .lstrip = s->lstrip,
        .rstrip = s->rstrip,
    };
}

#endif
