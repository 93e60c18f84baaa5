/*
 * json.h - JSON from outside: cJSON behind limits on depth and number of values.
 *
 * cJSON recurses and spends some 80 bytes per value, so a small hostile text could take
 * a deep stack or much memory. The text is scanned first, without allocating.
 */
#ifndef FORMAT_JSON_H
#define FORMAT_JSON_H

#include "base/error.h"
#include "base/str.h"

#include <cjson/cJSON.h>

enum { JSON_MAX_DEPTH = 128 };

/* Parses exactly one JSON value of n bytes (white space around it is fine); free *out
 * with cJSON_Delete(). max_values bounds its objects, arrays, strings, numbers.
 * B2_EFORMAT: not JSON, too deep, a NUL inside a string. B2_EUNSUP: too many values. */
enum b2_status json_parse_bounded(cJSON **out, const char *text, size_t n,
                                  size_t max_values, struct b2_err *err) NODISCARD;

/* A number that is a whole one in [0, 2^53]. False: another type or value. */
bool json_get_u64(const cJSON *item, uint64_t *out);

/* Appends text as a JSON string with its quotes. Bytes above 127 stay as they are. */
void json_put_string(struct str *s, const char *text);

#endif
