/*
 * hash.h - SHA-256 in pieces.
 */
#ifndef FORMAT_HASH_H
#define FORMAT_HASH_H

#include "base/error.h"

enum { HASH_HEX = 65 }; /* 64 digits and a zero */

struct hash;

/* Starts a sum. B2_ENOMEM. */
enum b2_status hash_new(struct hash **out, struct b2_err *err) NODISCARD;
enum b2_status hash_add(struct hash *h, const void *data, size_t n,
                        struct b2_err *err) NODISCARD;
/* Ends the sum: lower-case hex. Only hash_free() may follow. */
enum b2_status hash_hex(struct hash *h, char hex[HASH_HEX],
                        struct b2_err *err) NODISCARD;
void hash_free(struct hash *h); /* NULL is fine */

/* All at once. */
enum b2_status hash_sha256(char hex[HASH_HEX], const void *data, size_t n,
                           struct b2_err *err) NODISCARD;

#endif
