/*
 * chat.h - a chat template and what it makes of a conversation.
 *
 * A conversation is a JSON object as clients send it: messages, tools,
 * add_generation_prompt; every other key becomes a variable of the template. As in
 * transformers, tools and documents are None when they are absent, and bos_token and
 * eos_token are the texts of the model's tokens. Rendering changes nothing here, so
 * several threads may share a chat.
 */
#ifndef MODEL_CHAT_H
#define MODEL_CHAT_H

#include "base/str.h"
#include "format/json.h"
#include "format/meta.h"

enum { CHAT_JSON_VALUES = 1 << 20 }; /* most values in a conversation */

struct chat;

/* The template of a model's keys. name: one of its named templates ("tool_use"), or
 * NULL. B2_ENOTFOUND: it has none. Otherwise as jinja_parse. */
enum b2_status chat_new(struct chat **out, const struct meta *m, const char *name,
                        struct b2_err *err) NODISCARD;
/* A template of n bytes; bos and eos may be NULL: empty. */
enum b2_status chat_new_text(struct chat **out, const char *text, size_t n,
                             const char *bos, const char *eos,
                             struct b2_err *err) NODISCARD;
void chat_free(struct chat *c); /* NULL is fine */

/* Replaces the texts of the begin and end token; NULL keeps one. */
enum b2_status chat_set_tokens(struct chat *c, const char *bos, const char *eos,
                               struct b2_err *err) NODISCARD;

/* The text of a token of the model's keys: which is "bos" or "eos". NULL: none. */
const char *chat_token(const struct meta *m, const char *which);

/* chat_render() of an undefined name gives no text; after this it is an error, as in
 * templates that are data, where a misspelt column must not pass. */
void chat_set_strict(struct chat *c);

/* Appends the prompt to out. request: a JSON object; now_s: seconds since 1970 of the
 * local clock, for strftime_now. B2_EARG: not an object, or the template raised an error
 * ("TYPE: message"). B2_EUNSUP: over a limit. B2_ENOMEM. */
enum b2_status chat_render(const struct chat *c, const cJSON *request, int64_t now_s,
                           struct str *out, struct b2_err *err) NODISCARD;

#endif
