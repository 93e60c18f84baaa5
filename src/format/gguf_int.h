/*
 * gguf_int.h - what the parts of the GGUF reader and writer share.
 */
#ifndef FORMAT_GGUF_INT_H
#define FORMAT_GGUF_INT_H

#include "format/gguf.h"

enum {
    GGUF_MAGIC = 0x46554747, /* "GGUF" */
    GGUF_VERSION = 3,        /* what we write unless asked; 2 has the same bytes */
    GGUF_ID_Q2_0 = 42,       /* the id with two meanings */
    GGUF_ALIGN_DEFAULT = 32,
    GGUF_ALIGN_MAX = 65536,
    GGUF_KEY_MAX = 65535, /* bytes of a key, from the specification */
    GGUF_NAME_MAX = 63,   /* bytes of a tensor name */
};

/* Shape rules for every container: dimensions that fit int64, element count too. Fills
 * t->n_bytes. B2_EFORMAT names what is wrong (no tensor name in front). */
enum b2_status gguf_check_shape(struct tensor *t, struct b2_err *err) NODISCARD;

/* The value of general.alignment, checked; the default if the key is absent. */
enum b2_status gguf_alignment(const struct meta *m, uint64_t *out,
                              struct b2_err *err) NODISCARD;

/* g->tensors have name, type, shape; g->offsets are relative to the data section. Tells
 * the two meanings of id 42 apart, sets n_bytes and data, makes offsets absolute.
 * data_bytes: size of the data section that is present. */
enum b2_status gguf_place_tensors(struct gguf *g, const uint8_t *data_section,
                                  uint64_t data_bytes, struct b2_err *err) NODISCARD;

#endif
