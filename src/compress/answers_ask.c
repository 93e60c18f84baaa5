/*
 * answers_ask.c - the questions that a teacher is asked.
 */
#include "base/file.h"
#include "base/mem.h"
#include "compress/answers_int.h"
#include "compress/calib_text.h"
#include "format/hash.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { OPENING_BYTES = 240 };

static const uint64_t max_file = (uint64_t)1 << 30;
static const char go_on[] = "Go on with this text:\n\n";

void questions_free(struct questions *q)
{
    for (int64_t i = 0; i < q->n; i++)
        mem_free(q->text[i]);
    mem_free(q->text);
    *q = (struct questions){0};
}

static enum b2_status add(struct questions *q, const char *before, const char *text,
                          size_t n, struct b2_err *err)
{
    struct str s = {0};

    if (q->n == q->cap) {
        const int64_t cap = 2 * q->cap + 64;
        char **more = mem_realloc(q->text, (size_t)cap, sizeof *more);
        if (!more)
            return err_set(err, B2_ENOMEM, "out of memory");
        q->text = more;
        q->cap = cap;
    }
    str_put(&s, before);
    str_putn(&s, text, n);
    if (!str_ok(&s)) {
        str_free(&s);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    q->text[q->n++] = s.data;
    return B2_OK;
}

static const char *string_of(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

/* The first words of a text, whole characters. */
static enum b2_status add_opening(struct questions *q, const char *text, size_t n,
                                  struct b2_err *err)
{
    size_t end = n < OPENING_BYTES ? n : OPENING_BYTES;

    while (end > 0 && end < n && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    for (size_t i = end; i > end / 2 && end < n; i--) {
        if (text[i - 1] == ' ' || text[i - 1] == '\n') {
            end = i;
            break;
        }
    }
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
        end--;
    return end > 0 ? add(q, go_on, text, end, err) : B2_OK;
}

static size_t line_end(const char *text, size_t at, size_t n)
{
    const char *nl = memchr(text + at, '\n', n - at);

    return nl ? (size_t)(nl - text) + 1 : n;
}

/* Lines of a .jsonl: what they ask, or how their text begins. */
static enum b2_status add_lines(struct questions *q, const char *text, size_t n,
                                struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (size_t at = 0, end; at < n && !rc; at = end) {
        end = line_end(text, at, n);
        cJSON *o = cJSON_ParseWithLength(text + at, end - at);
        const char *word = string_of(o, "question"), *plain = string_of(o, "text");
        word = word ? word : string_of(o, "prompt");
        if (word && *word)
            rc = add(q, "", word, strlen(word), err);
        else if (plain)
            rc = add_opening(q, plain, strlen(plain), err);
        cJSON_Delete(o);
    }
    return rc;
}

/* Lines of a plain text at even distances. */
static enum b2_status add_places(struct questions *q, const char *text, size_t n,
                                 int64_t want, struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    size_t last = n;

    for (int64_t k = 0; k < want && !rc; k++) {
        size_t at = (size_t)((double)n * (double)k / (double)want);
        while (at > 0 && at < n && text[at - 1] != '\n')
            at = line_end(text, at, n);
        while (at < n && (text[at] == '\n' || text[at] == '\r'))
            at++;
        if (at < n && at != last)
            rc = add_opening(q, text + at, n - at, err);
        last = at;
    }
    return rc;
}

static enum b2_status add_source(struct questions *q, const char *path, int64_t want,
                                 struct b2_err *err)
{
    char *text = NULL, hex[HASH_HEX];
    const char *set = NULL;
    size_t n = 0;
    enum b2_status rc = file_read_all(&text, &n, path, max_file, err);

    if (!rc)
        rc = hash_sha256(hex, text, n, err);
    if (!rc)
        set = calib_known_set(hex);
    if (set)
        rc = err_set(err, B2_EARG, "%s is %s, a text that models are judged by", path,
                     set);
    if (!rc)
        rc = calib_text_is_jsonl(path) ? add_lines(q, text, n, err)
                                       : add_places(q, text, n, want, err);
    mem_free(text);
    return rc;
}

/* Every source gives the same number, as far as it can. */
enum b2_status questions_make(struct questions *out, const struct calib_params *from,
                              int64_t n, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    *out = (struct questions){0};
    for (int i = 0; i < from->n_files && !rc; i++) {
        const int64_t want = n * (i + 1) / from->n_files - n * i / from->n_files;
        struct questions all = {0};
        struct str path = {0};
        rc = calib_source_path(&path, from->files[i], err);
        if (!rc)
            rc = add_source(&all, path.data, want, err);
        const int64_t take = min_i64(want, all.n);
        for (int64_t k = 0; k < take && !rc; k++) {
            const char *text = all.text[k * all.n / take];
            rc = add(out, "", text, strlen(text), err);
        }
        questions_free(&all);
        str_free(&path);
    }
    if (!rc && out->n == 0)
        rc = err_set(err, B2_EARG, "the texts give nothing to ask the teacher");
    if (rc)
        questions_free(out);
    return rc;
}
