/*
 * calib_text.c - plain text by lines, .jsonl by objects.
 */
#include "compress/calib_text.h"

#include "model/chat.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { PIECE_BYTES = 2000 };

/* The end of the line that begins at `at`, its newline included. */
static size_t line_end(const char *text, size_t at, size_t n)
{
    const char *nl = memchr(text + at, '\n', n - at);

    return nl ? (size_t)(nl - text) + 1 : n;
}

/* Whether a line ends a document: a mark, and white space. */
static bool ends_document(const char *line, size_t n)
{
    static const char mark[] = "<|endoftext|>";
    size_t len = sizeof mark - 1;

    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        n--;
    return (n == 1 && *line == '\f') || (n == len && memcmp(line, mark, len) == 0);
}

/* A piece ends where it is long enough, or before a mark, which itself is left out. */
static enum b2_status plain_pieces(const char *text, size_t n,
                                   const struct calib_piece_fn *fn, struct b2_err *err)
{
    unsigned flags = PIECE_BEGINS;
    enum b2_status rc = B2_OK;

    for (size_t at = 0, end; at < n && !rc; at = end) {
        bool marked = false;
        for (end = at; end < n && end - at < PIECE_BYTES && !marked;) {
            const size_t next = line_end(text, end, n);
            marked = ends_document(text + end, next - end);
            if (!marked)
                end = next;
        }
        if (end > at)
            rc = fn->fn(fn->ctx, fn->source, text + at, end - at, flags, err);
        if (end > at)
            flags = 0;
        if (marked) {
            end = line_end(text, end, n);
            flags = PIECE_BEGINS;
        }
    }
    return rc;
}

static const char *get_text(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

/* A conversation of one question and its answer, by the model's template; plain lines
 * when there is none. */
static enum b2_status put_dialogue(struct str *out, const struct chat *chat,
                                   const char *question, const char *answer,
                                   struct b2_err *err)
{
    if (!chat) {
        str_put(out, question);
        str_put(out, "\n");
        str_put(out, answer);
        str_put(out, "\n\n");
        return B2_OK;
    }
    cJSON *request = cJSON_CreateObject();
    cJSON *messages = cJSON_AddArrayToObject(request, "messages");
    const char *const part[2][2] = {{"user", question}, {"assistant", answer}};
    for (int i = 0; i < 2; i++) {
        cJSON *m = cJSON_CreateObject();
        cJSON_AddStringToObject(m, "role", part[i][0]);
        cJSON_AddStringToObject(m, "content", part[i][1]);
        if (!messages || !cJSON_AddItemToArray(messages, m))
            cJSON_Delete(m);
    }
    enum b2_status rc = messages ? chat_render(chat, request, 0, out, err)
                                 : err_set(err, B2_ENOMEM, "out of memory");
    cJSON_Delete(request);
    return rc;
}

static enum b2_status put_line(struct str *out, const cJSON *o, const struct chat *chat,
                               bool *is_chat, struct b2_err *err)
{
    const char *text = get_text(o, "text");
    const char *q = get_text(o, "question"), *a = get_text(o, "answer");

    *is_chat = false;
    if (cJSON_HasObjectItem(o, "b2_answers")) /* the head of answers.h: no text */
        return B2_OK;
    if (text) {
        str_put(out, text);
        str_put(out, "\n\n");
        return B2_OK;
    }
    q = q ? q : get_text(o, "prompt");
    a = a ? a : get_text(o, "completion");
    if (q && a && !*a) /* a question that got no answer */
        return B2_OK;
    if (!q || !a)
        return err_set(
            err, B2_EFORMAT,
            "neither \"text\" nor \"question\" and \"answer\" (or \"prompt\" "
            "and \"completion\")");
    *is_chat = chat != NULL;
    return put_dialogue(out, chat, q, a, err);
}

static enum b2_status json_pieces(const char *path, const char *text, size_t n,
                                  const struct chat *chat,
                                  const struct calib_piece_fn *fn, struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    long long line = 0;

    for (size_t at = 0, end; at < n && !rc; at = end) {
        struct str piece = {0};
        bool is_chat = false;
        end = line_end(text, at, n);
        line++;
        if (strspn(text + at, " \t\r\n") >= end - at)
            continue;
        cJSON *o = cJSON_ParseWithLength(text + at, end - at);
        if (!cJSON_IsObject(o))
            rc = err_set(err, B2_EFORMAT, "not a JSON object");
        if (!rc)
            rc = put_line(&piece, o, chat, &is_chat, err);
        if (!rc && !str_ok(&piece))
            rc = err_set(err, B2_ENOMEM, "out of memory");
        if (rc)
            err_wrap(err, "%s, line %lld", path, line);
        else if (piece.len > 0)
            rc = fn->fn(fn->ctx, fn->source, piece.data, piece.len,
                        PIECE_BEGINS | (is_chat ? PIECE_CHAT : 0), err);
        cJSON_Delete(o);
        str_free(&piece);
    }
    return rc;
}

bool calib_text_is_jsonl(const char *path)
{
    static const char end[] = ".jsonl";
    const size_t len = strlen(path);

    return len >= sizeof end - 1 && strcmp(path + len - (sizeof end - 1), end) == 0;
}

enum b2_status calib_text_pieces(const char *path, const char *text, size_t n,
                                 const struct meta *meta,
                                 const struct calib_piece_fn *fn, struct b2_err *err)
{
    struct chat *chat = NULL;

    if (!calib_text_is_jsonl(path))
        return plain_pieces(text, n, fn, err);
    if (meta && chat_new(&chat, meta, NULL, NULL))
        chat = NULL; /* a model without a template reads plain text */
    enum b2_status rc = json_pieces(path, text, n, chat, fn, err);
    chat_free(chat);
    return rc;
}
