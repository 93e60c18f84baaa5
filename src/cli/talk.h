/*
 * talk.h - a conversation: its messages, and the prompt that they become.
 *
 * Messages are kept as the JSON that clients send, so saving and loading is printing and
 * parsing. The system message, if any, is the first and is never dropped.
 */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "base/error.h"
#include "format/meta.h"
#include "text/tokenizer.h"

struct talk;

/* template_file: a chat template to use instead of the model's, or NULL. m and tok are
 * borrowed. B2_ENOTFOUND: the model has none. */
enum b2_status talk_new(struct talk **out, const struct meta *m,
                        const char *template_file, const struct tokenizer *tok,
                        struct b2_err *err) NODISCARD;
void talk_free(struct talk *t); /* NULL is fine */

/* Sets, or with NULL or "" removes, the system message. */
enum b2_status talk_set_system(struct talk *t, const char *text,
                               struct b2_err *err) NODISCARD;
const char *talk_system(const struct talk *t); /* NULL: none */
enum b2_status talk_add(struct talk *t, const char *role, const char *text,
                        struct b2_err *err) NODISCARD;
/* An answer; what stands before </think> goes into reasoning_content. */
enum b2_status talk_add_answer(struct talk *t, const char *text,
                               struct b2_err *err) NODISCARD;
void talk_pop(struct talk *t);                    /* forgets the last message */
const char *talk_last_role(const struct talk *t); /* "" when there is none */
int talk_count(const struct talk *t);             /* messages */
void talk_clear(struct talk *t); /* forgets all but the system message */
/* Forgets the oldest question and what came up to the next. False: only one is left. */
bool talk_drop_oldest(struct talk *t);
/* off: the template's variable enable_thinking becomes false. */
void talk_think_off(struct talk *t, bool off);

/* The ids of the whole conversation with the answer's beginning; *out is emptied first.
 * The template writes the begin token, so none is added. */
enum b2_status talk_prompt(struct talk *t, struct tok_ids *out,
                           struct b2_err *err) NODISCARD;
bool talk_starts_thinking(const struct talk *t); /* the last prompt ends in <think> */

/* {"messages": […]}. force: an existing file may be replaced. Loading replaces all. */
enum b2_status talk_save(const struct talk *t, const char *path, bool force,
                         struct b2_err *err) NODISCARD;
enum b2_status talk_load(struct talk *t, const char *path,
                         struct b2_err *err) NODISCARD;

#endif
