/*
 * private.h - tensor types of our own, and the keys that declare them.
 *
 * Their ids lie where no other program has any (0x4232....), and a file that holds such a
 * tensor says what it is:
 *
 *   bonsai2.types.names   str[]  names of the types used ("B2_T64")
 *   bonsai2.types.ids     u32[]  their ids
 *   bonsai2.types.groups  u32[]  weights of a block
 *   bonsai2.types.bytes   u32[]  bytes of a block
 *
 * B2_T64: 64 weights in 14 bytes, 1.75 bits each. Bytes 0 to 11 hold five base-3 digits
 * each, digit n of byte m for weight m + 12 n; byte 12 holds four, weights 60 to 63;
 * digits as in PTQ1_0 (tensor/ternary.c). Byte 13 is the scale (tensor/log8.h). The group
 * divides rows that 128 does not, such as 576 and 1,536.
 *
 * B2_Q2 and B2_Q3: 64 weights in 17 or 25 bytes, 2.125 and 3.125 bits each, at odd
 * multiples of the scale, (2 c - 3) d or (2 c - 7) d. Bytes 0 to 15: bits 2 n and 2 n + 1 of
 * byte m are the low bits of c for weight m + 16 n. In B2_Q3, bit n of byte 16 + m is the
 * third bit for weight m + 8 n. The last byte is the scale.
 *
 * B2_C128: 128 weights in 25 bytes, 1.5625 bits each: 24 bytes hold 32 words of four codes
 * (tensor/quad.h), of which at least one is 0; byte 24 is the scale. B2_C64: 64 weights in
 * 13 bytes, 1.625 bits each, 16 words and the scale, for rows that 128 does not divide.
 */
#ifndef FORMAT_PRIVATE_H
#define FORMAT_PRIVATE_H

#include "format/meta.h"

/* Whether key belongs to this declaration. */
bool private_is_key(const char *key);

/* Sets the keys for those of the types in use that are private; used [N_DTYPES]. */
enum b2_status private_set_keys(struct meta *m, const bool *used,
                                struct b2_err *err) NODISCARD;

#endif
