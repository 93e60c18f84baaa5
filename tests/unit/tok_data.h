/*
 * tok_data.h - the vocabularies under tests/golden/tokenizer and beside the project.
 */
#ifndef UNIT_TOK_DATA_H
#define UNIT_TOK_DATA_H

#include "format/meta.h"
#include "text/tokenizer.h"

struct tok_data {
    struct tokenizer *t;
    struct meta *meta; /* what it was made from */
};

/* "gpt-2", "phi-3", "falcon", "smollm2" (GGUF), "qwen3", "spm_llama", … (tokenizer.json)
 * from the goldens; "deepseek_v3" and "gpt-oss" from the shared data; "gemma" from the
 * cache of models. Fails the test on an error. False: the file is not there (only
 * possible for the last three). */
bool tok_data_open(struct tok_data *d, const char *name);
void tok_data_close(struct tok_data *d);

/* A whole file with a terminating zero, unpacked when its name ends in .gz (by gzip);
 * NULL when it is not there. Free with mem_free. */
char *tok_data_read(const char *path, size_t *n);
/* Path of a golden, and of a file under B2_DATA or ../shared/data; valid until the next
 * call. */
const char *tok_data_golden(const char *name, const char *suffix);
const char *tok_data_shared(const char *name);

/* Cuts text (n bytes) at every separator; calls fn for each piece. */
void tok_data_split(const char *text, size_t n, const char *separator,
                    void (*fn)(void *ctx, int64_t i, const char *s, size_t n),
                    void *ctx);
extern const char tok_data_separator[]; /* of .inp files */

#endif
