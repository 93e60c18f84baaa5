/*
 * folder.h - a Hugging Face folder read for its tokenizer and chat template alone.
 */
#ifndef CLI_FOLDER_H
#define CLI_FOLDER_H

#include "base/error.h"

struct meta;

/* The keys of tokenizer.json, tokenizer_config.json and chat_template.jinja; weights and
 * config.json need not be there. *out owned (meta_free). */
enum b2_status folder_tokenizer(struct meta **out, const char *path,
                                struct b2_err *err) NODISCARD;

#endif
