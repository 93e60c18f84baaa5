/*
 * eval_keep.c - lines behind a first line that must be the same.
 */
#include "cli/eval_keep.h"

#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/json.h"

#include <string.h>

enum { MAX_FILE = 1 << 30, LINE_VALUES = 256 };

struct eval_keep {
    struct file_append *out;
};

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory");
}

enum b2_status eval_keep_add(struct eval_keep *k, cJSON *json, struct b2_err *err)
{
    char *text = k ? cJSON_PrintUnformatted(json) : NULL;
    struct str line = {0};
    enum b2_status rc = B2_OK;

    cJSON_Delete(json);
    if (!k)
        return B2_OK;
    str_put(&line, text ? text : "");
    str_put(&line, "\n"); /* one write: a line is there whole or cut, never mixed */
    rc = text && str_ok(&line) ? file_append_write(k->out, line.data, line.len, err)
                               : no_memory(err);
    cJSON_free(text);
    str_free(&line);
    return rc;
}

/* Gives the lines of an earlier file to line(); *kept: bytes that stay. */
static enum b2_status take_old(size_t *kept, const char *path, const char *head,
                               bool (*line)(void *ctx, const cJSON *json), void *ctx,
                               struct b2_err *err)
{
    char *text = NULL;
    size_t size = 0, n_head = strlen(head);
    bool more = true;
    enum b2_status rc = file_read_all(&text, &size, path, MAX_FILE, err);

    if (rc || !text)
        return rc;
    if (!memchr(text, '\n', size))
        size = 0; /* cut inside its first line: nothing to lose */
    if (size > 0 &&
        (size <= n_head || memcmp(text, head, n_head) != 0 || text[n_head] != '\n'))
        rc = err_set(err, B2_EEXIST,
                     "%s: is of another model or other settings: give another --scores "
                     "folder, or --anew",
                     path);
    *kept = rc || size == 0 ? 0 : n_head + 1;
    for (int64_t i = 1; !rc && more && *kept < size; i++) {
        const char *at = text + *kept;
        const char *end = memchr(at, '\n', size - *kept);
        cJSON *j = NULL;
        if (!end)
            break;
        rc = json_parse_bounded(&j, at, (size_t)(end - at), LINE_VALUES, err);
        if (rc)
            err_wrap(err, "%s: line %lld", path, (long long)i + 1);
        else
            more = line(ctx, j);
        cJSON_Delete(j);
        if (!rc && more)
            *kept = (size_t)(end - text) + 1;
    }
    mem_free(text);
    return rc;
}

static enum b2_status open_at(struct eval_keep *k, const char *path, cJSON *head,
                              bool anew, bool (*line)(void *ctx, const cJSON *json),
                              void *ctx, struct b2_err *err)
{
    char *text = cJSON_PrintUnformatted(head);
    size_t kept = 0;
    enum b2_status rc = text ? B2_OK : no_memory(err);

    if (!rc && text && !anew && file_exists(path))
        rc = take_old(&kept, path, text, line, ctx, err);
    if (!rc)
        rc = file_append_open(&k->out, path, kept, err);
    if (!rc && kept == 0) {
        rc = eval_keep_add(k, head, err);
        head = NULL;
    }
    cJSON_Delete(head);
    cJSON_free(text);
    return rc;
}

enum b2_status eval_keep_open(struct eval_keep **out, const char *folder,
                              const char *name, cJSON *head, bool anew,
                              bool (*line)(void *ctx, const cJSON *json), void *ctx,
                              struct b2_err *err)
{
    struct eval_keep *k = mem_calloc(1, sizeof *k);
    struct str path = {0};
    enum b2_status rc;

    str_printf(&path, "%s/%s", folder, name);
    rc = k && str_ok(&path) ? file_make_dir(folder, err) : no_memory(err);
    if (rc)
        cJSON_Delete(head);
    else
        rc = open_at(k, path.data, head, anew, line, ctx, err);
    str_free(&path);
    if (rc)
        return k ? eval_keep_close(k, rc, err) : rc;
    *out = k;
    return B2_OK;
}

enum b2_status eval_keep_close(struct eval_keep *k, enum b2_status rc,
                               struct b2_err *err)
{
    if (!k)
        return rc;
    if (rc)
        file_append_abort(k->out);
    else
        rc = file_append_close(k->out, err);
    mem_free(k);
    return rc;
}
