/*
 * json.c - limits around cJSON.
 */
#include "format/json.h"

#include <string.h>

/* What one pass over the text knows without parsing it. */
struct scan {
    size_t depth, max_depth, values;
    bool in_string, nul;
};

/* Handles the byte at text[i] inside a string; returns the index to go on from. */
static size_t scan_string(struct scan *s, const char *text, size_t n, size_t i)
{
    if (text[i] == '"') {
        s->in_string = false;
    } else if (text[i] == '\\') {
        if (n - i >= 6 && memcmp(text + i + 1, "u0000", 5) == 0)
            s->nul = true; /* cJSON would end the C string here, silently */
        return i + 2;
    }
    return i + 1;
}

static struct scan scan_text(const char *text, size_t n)
{
    struct scan s = {.values = 1};

    for (size_t i = 0; i < n;) {
        if (s.in_string) {
            i = scan_string(&s, text, n, i);
            continue;
        }
        switch (text[i++]) {
        case '"':
            s.in_string = true;
            break;
        case '[':
        case '{':
            s.values++; /* its first element; the others come with commas */
            if (++s.depth > s.max_depth)
                s.max_depth = s.depth;
            break;
        case ']':
        case '}':
            if (s.depth > 0)
                s.depth--;
            break;
        case ',':
            s.values++;
            break;
        case '\0':
            s.nul = true;
            break;
        default:
            break;
        }
    }
    return s;
}

enum b2_status json_parse_bounded(cJSON **out, const char *text, size_t n,
                                  size_t max_values, struct b2_err *err)
{
    struct scan s = scan_text(text, n);
    const char *end = NULL;

    if (s.nul)
        return err_set(err, B2_EFORMAT, "JSON with a zero byte in it");
    if (s.max_depth > JSON_MAX_DEPTH)
        return err_set(err, B2_EFORMAT, "JSON nested deeper than %d levels",
                       JSON_MAX_DEPTH);
    if (s.values > max_values)
        return err_set(err, B2_EUNSUP, "JSON with more than %zu values", max_values);
    cJSON *root = cJSON_ParseWithLengthOpts(text, n, &end, false);
    if (!root)
        return err_set(err, B2_EFORMAT, "not valid JSON (near byte %zu)",
                       end && end >= text ? (size_t)(end - text) : (size_t)0);
    for (; end < text + n; end++) {
        if (*end != ' ' && *end != '\t' && *end != '\r' && *end != '\n') {
            cJSON_Delete(root);
            return err_set(err, B2_EFORMAT, "text after the JSON value (byte %zu)",
                           (size_t)(end - text));
        }
    }
    *out = root;
    return B2_OK;
}

bool json_get_u64(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
        item->valuedouble > 9007199254740992.0)
        return false;
    *out = (uint64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

void json_put_string(struct str *s, const char *text)
{
    str_put(s, "\"");
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            str_printf(s, "\\%c", c);
        else if (c < 0x20)
            str_printf(s, "\\u%04x", (unsigned)c);
        else
            str_putn(s, p, 1);
    }
    str_put(s, "\"");
}
