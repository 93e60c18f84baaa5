/*
 * eval_keep.h - a file of JSON lines that holds what long work has done so far.
 *
 * The first line holds the settings. A later run of the same settings gets the lines that
 * are there and goes on behind them; a last line without its end is cut off.
 */
#ifndef CLI_EVAL_KEEP_H
#define CLI_EVAL_KEEP_H

#include "base/error.h"

struct cJSON;
struct eval_keep;

/* Opens FOLDER/NAME (the folder is made) and gives every earlier line to line(ctx, json),
 * until it returns false: then the rest is thrown away. head (taken): the settings.
 * B2_EEXIST: the file is of other settings, unless anew, which begins it again. */
enum b2_status eval_keep_open(struct eval_keep **out, const char *folder,
                              const char *name, struct cJSON *head, bool anew,
                              bool (*line)(void *ctx, const struct cJSON *json),
                              void *ctx, struct b2_err *err) NODISCARD;
/* Writes a line (json taken). k NULL: nothing is kept, B2_OK. */
enum b2_status eval_keep_add(struct eval_keep *k, struct cJSON *json,
                             struct b2_err *err) NODISCARD;
/* Ends it; rc is what the work came to, and is returned where closing works. NULL is fine. */
enum b2_status eval_keep_close(struct eval_keep *k, enum b2_status rc,
                               struct b2_err *err) NODISCARD;

#endif
