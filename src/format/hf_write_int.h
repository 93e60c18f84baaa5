/*
 * hf_write_int.h - what the writers of a folder's JSON files share.
 */
#ifndef FORMAT_HF_WRITE_INT_H
#define FORMAT_HF_WRITE_INT_H

#include "base/str.h"
#include "format/hf.h"
#include "format/hf_write.h"
#include "format/hf_write_vocab.h"

/* A JSON object being written, and what it is about. */
struct hf_doc {
    struct str *s;
    const struct hf_write_model *w;
    const struct hf_arch *arch;
};

/* ---- JSON: hf_write.c ---- */

/* The shortest decimal number that reads back as v; whole numbers as 100000.0. */
void hf_put_f32(struct str *s, float v);
/* A key of the object, with the comma before it. */
void hf_put_key(struct str *s, const char *key);
void hf_put_int(struct str *s, const char *key, int64_t v);
void hf_put_bool(struct str *s, const char *key, bool v);
void hf_put_word(struct str *s, const char *key, const char *v);
/* Ids of special tokens, null where there is none. */
void hf_put_ids(struct str *s, const struct hf_write_vocab *v);

/* ---- keys "<arch>.NAME": hf_write.c ---- */

enum { HF_KEY_MAX = 128 };
const char *hf_doc_key(char buf[HF_KEY_MAX], const struct hf_doc *d, const char *name);
bool hf_doc_has(const struct hf_doc *d, const char *name);
enum b2_status hf_doc_u32(const struct hf_doc *d, const char *name, uint32_t *out,
                          struct b2_err *err) NODISCARD;
enum b2_status hf_doc_opt_u32(const struct hf_doc *d, const char *name, uint32_t *out,
                              uint32_t def, struct b2_err *err) NODISCARD;
enum b2_status hf_doc_opt_f32(const struct hf_doc *d, const char *name, float *out,
                              float def, struct b2_err *err) NODISCARD;

/* ---- parts of config.json ---- */

/* hf_write_rope.c: rope_theta, rope_scaling. B2_EUNSUP: a stretching that has no form. */
enum b2_status hf_write_rope(const struct hf_doc *d, struct b2_err *err) NODISCARD;

/* hf_write_config.c: the whole text. */
enum b2_status hf_write_config(const struct hf_doc *d, const struct hf_write_vocab *v,
                               struct b2_err *err) NODISCARD;

#endif
