/*
 * gguf_build.h - GGUF files byte by byte, right ones and hostile ones.
 *
 * Nothing here shares code with the writer under test. A build that does not fit its
 * buffer aborts: the test is wrong then.
 */
#ifndef UNIT_GGUF_BUILD_H
#define UNIT_GGUF_BUILD_H

#include "format/gguf.h"
#include "unit/unit.h"

#include <stdlib.h>

struct gb {
    size_t n;
    uint8_t b[16384];
};

static inline void gb_bytes(struct gb *g, const void *p, size_t n)
{
    if (n > sizeof g->b - g->n)
        abort();
    if (n)
        memcpy(g->b + g->n, p, n);
    g->n += n;
}

static inline void gb_u8(struct gb *g, unsigned v)
{
    uint8_t b = (uint8_t)v;

    gb_bytes(g, &b, 1);
}

static inline void gb_u32(struct gb *g, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        gb_u8(g, v >> (8 * i) & 255);
}

static inline void gb_u64(struct gb *g, uint64_t v)
{
    gb_u32(g, (uint32_t)v);
    gb_u32(g, (uint32_t)(v >> 32));
}

static inline void gb_str(struct gb *g, const char *s)
{
    gb_u64(g, strlen(s));
    gb_bytes(g, s, strlen(s));
}

static inline void gb_zeros(struct gb *g, size_t n)
{
    while (n-- > 0)
        gb_u8(g, 0);
}

/* Zeros up to a multiple of align. */
static inline void gb_pad(struct gb *g, size_t align)
{
    while (g->n % align != 0)
        gb_u8(g, 0);
}

static inline void gb_header(struct gb *g, uint32_t version, uint64_t n_tensors,
                             uint64_t n_keys)
{
    gb_bytes(g, "GGUF", 4);
    gb_u32(g, version);
    gb_u64(g, n_tensors);
    gb_u64(g, n_keys);
}

/* Name and type; the value follows by hand. */
static inline void gb_key(struct gb *g, const char *name, uint32_t type)
{
    gb_str(g, name);
    gb_u32(g, type);
}

static inline void gb_key_u32(struct gb *g, const char *name, uint32_t v)
{
    gb_key(g, name, 4);
    gb_u32(g, v);
}

static inline void gb_key_str(struct gb *g, const char *name, const char *v)
{
    gb_key(g, name, 8);
    gb_str(g, v);
}

/* A record of rank 1 or 2: ne1 == UINT64_MAX stands for rank 1. */
static inline void gb_tensor(struct gb *g, const char *name, uint64_t ne0, uint64_t ne1,
                             uint32_t type, uint64_t offset)
{
    gb_str(g, name);
    gb_u32(g, ne1 == UINT64_MAX ? 1 : 2);
    gb_u64(g, ne0);
    if (ne1 != UINT64_MAX)
        gb_u64(g, ne1);
    gb_u32(g, type);
    gb_u64(g, offset);
}

#define GB_RANK1 UINT64_MAX

/* A small good file: keys of each shape, three tensors; ends with its last data byte. */
static inline void gb_small(struct gb *g)
{
    gb_header(g, 3, 3, 5);
    gb_key_str(g, "general.architecture", "llama");
    gb_key_u32(g, "llama.block_count", 2);
    gb_key(g, "a.flag", 7);
    gb_u8(g, 1);
    gb_key(g, "a.words", 9);
    gb_u32(g, 8);
    gb_u64(g, 3);
    gb_str(g, "one");
    gb_str(g, "");
    gb_str(g, "three");
    gb_key(g, "a.floats", 9);
    gb_u32(g, 6);
    gb_u64(g, 2);
    gb_u32(g, 0x3f800000); /* 1.0 */
    gb_u32(g, 0xc0000000); /* -2.0 */
    gb_tensor(g, "norm.weight", 5, GB_RANK1, 0, 0);
    gb_tensor(g, "a.weight", 32, 2, 8, 32); /* Q8_0: 68 bytes */
    gb_tensor(g, "b.weight", 128, 1, 143, 128);
    gb_pad(g, 32);
    size_t data = g->n;
    for (int i = 0; i < 5 * 4; i++)
        gb_u8(g, (unsigned)i);
    gb_pad(g, 32);
    for (int i = 0; i < 68; i++)
        gb_u8(g, (unsigned)i);
    while (g->n < data + 128)
        gb_u8(g, 0);
    for (int i = 0; i < 28; i++)
        gb_u8(g, 0x80);
}

/* A file with this alignment and nothing else: USERS.md T03. */
static inline void gb_align_with(struct gb *b, uint32_t v)
{
    gb_header(b, 3, 0, 1);
    gb_key_u32(b, "general.alignment", v);
}

/* Type id 42 and the distance to the next tensor: USERS.md T06. */
static inline void gb_type_42(struct gb *b, uint64_t second, size_t total)
{
    gb_header(b, 3, 2, 0);
    gb_tensor(b, "a.weight", 128, 32, 42, 0);
    gb_tensor(b, "b.weight", 64, GB_RANK1, 0, second);
    gb_pad(b, 32);
    assert_int_equal(b->n, 128);
    gb_zeros(b, total - b->n);
}

/* Parses a copy; the copy is freed when the file is refused, else returned. */
static inline enum b2_status gb_parse(struct gguf *g, const struct gb *b,
                                      uint8_t **copy, struct b2_err *err)
{
    *copy = malloc(b->n ? b->n : 1);
    assert_non_null(*copy);
    if (b->n)
        memcpy(*copy, b->b, b->n);
    enum b2_status rc = gguf_parse(g, *copy, b->n, err);
    if (rc) {
        free(*copy);
        *copy = NULL;
        assert_null(g->meta); /* nothing is left behind */
    }
    return rc;
}

#endif
