/*
 * talk.c - messages as cJSON, rendered whole for every answer.
 *
 * The session keeps what it has of the rendered prompt (session_sync), so a long
 * conversation costs only its new part.
 */
#include "cli/talk.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "model/chat.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 64 << 20, MAX_TEMPLATE_BYTES = 4 << 20 };

struct talk {
    struct chat *chat;
    const struct tokenizer *tok;
    cJSON *request;  /* messages and the template's variables */
    cJSON *messages; /* inside request */
    bool starts_thinking;
};

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory");
}

static enum b2_status open_template(struct talk *t, const struct meta *m,
                                    const char *file, struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc = chat_new(&t->chat, m, NULL, err);

    if (!file)
        return rc;
    /* The model's tokens stay when it has a template of its own; else there are none. */
    if (rc && rc != B2_ENOTFOUND)
        return rc;
    chat_free(t->chat);
    t->chat = NULL;
    rc = file_read_all(&text, &n, file, MAX_TEMPLATE_BYTES, err);
    if (rc)
        return rc; /* which names the file */
    rc = chat_new_text(&t->chat, text, n, NULL, NULL, err);
    mem_free(text);
    if (rc == B2_OK)
        rc = chat_set_tokens(t->chat, chat_token(m, "bos"), chat_token(m, "eos"), err);
    if (rc)
        err_wrap(err, "%s", file);
    return rc;
}

enum b2_status talk_new(struct talk **out, const struct meta *m,
                        const char *template_file, const struct tokenizer *tok,
                        struct b2_err *err)
{
    struct talk *t = mem_calloc(1, sizeof *t);
    enum b2_status rc;

    if (!t)
        return no_memory(err);
    t->tok = tok;
    t->request = cJSON_CreateObject();
    t->messages = cJSON_AddArrayToObject(t->request, "messages");
    if (t->messages && cJSON_AddTrueToObject(t->request, "add_generation_prompt"))
        rc = open_template(t, m, template_file, err);
    else
        rc = no_memory(err);
    if (rc) {
        talk_free(t);
        return rc;
    }
    *out = t;
    return B2_OK;
}

void talk_free(struct talk *t)
{
    if (!t)
        return;
    chat_free(t->chat);
    cJSON_Delete(t->request);
    mem_free(t);
}

/* ---- messages ---- */

static const char *field(const cJSON *message, const char *key)
{
    const char *s =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, key));

    return s ? s : "";
}

static cJSON *message(const char *role, const char *text)
{
    cJSON *m = cJSON_CreateObject();

    if (cJSON_AddStringToObject(m, "role", role) &&
        cJSON_AddStringToObject(m, "content", text))
        return m;
    cJSON_Delete(m);
    return NULL;
}

static bool has_system(const struct talk *t)
{
    return strcmp(field(cJSON_GetArrayItem(t->messages, 0), "role"), "system") == 0;
}

enum b2_status talk_set_system(struct talk *t, const char *text, struct b2_err *err)
{
    if (has_system(t))
        cJSON_DeleteItemFromArray(t->messages, 0);
    if (!text || !*text)
        return B2_OK;
    cJSON *m = message("system", text);
    if (m && cJSON_InsertItemInArray(t->messages, 0, m))
        return B2_OK;
    cJSON_Delete(m);
    return no_memory(err);
}

const char *talk_system(const struct talk *t)
{
    return has_system(t) ? field(cJSON_GetArrayItem(t->messages, 0), "content") : NULL;
}

enum b2_status talk_add(struct talk *t, const char *role, const char *text,
                        struct b2_err *err)
{
    cJSON *m = message(role, text);

    if (m && cJSON_AddItemToArray(t->messages, m))
        return B2_OK;
    cJSON_Delete(m);
    return no_memory(err);
}

enum b2_status talk_add_answer(struct talk *t, const char *text, struct b2_err *err)
{
    static const char end[] = "</think>", begin[] = "<think>";
    const char *cut = strstr(text, end);
    struct str thought = {0};

    if (!cut)
        return talk_add(t, "assistant", text, err);
    const char *from = text + strspn(text, " \n");
    if (strncmp(from, begin, sizeof begin - 1) == 0)
        from += sizeof begin - 1;
    from += strspn(from, "\n");
    while (cut > from && cut[-1] == '\n')
        cut--;
    str_putn(&thought, from, cut > from ? (size_t)(cut - from) : 0);
    const char *content = strstr(text, end) + sizeof end - 1;
    content += strspn(content, "\n");
    cJSON *m = message("assistant", content);
    bool ok = m && str_ok(&thought) &&
              cJSON_AddStringToObject(m, "reasoning_content",
                                      thought.data ? thought.data : "") &&
              cJSON_AddItemToArray(t->messages, m);
    str_free(&thought);
    if (ok)
        return B2_OK;
    cJSON_Delete(m);
    return no_memory(err);
}

int talk_count(const struct talk *t)
{
    return cJSON_GetArraySize(t->messages);
}

void talk_pop(struct talk *t)
{
    if (talk_count(t) > 0)
        cJSON_DeleteItemFromArray(t->messages, talk_count(t) - 1);
}

const char *talk_last_role(const struct talk *t)
{
    int n = talk_count(t);

    return n ? field(cJSON_GetArrayItem(t->messages, n - 1), "role") : "";
}

void talk_clear(struct talk *t)
{
    while (talk_count(t) > has_system(t))
        talk_pop(t);
}

bool talk_drop_oldest(struct talk *t)
{
    int first = has_system(t), n = talk_count(t), next = first + 1;

    while (next < n &&
           strcmp(field(cJSON_GetArrayItem(t->messages, next), "role"), "user") != 0)
        next++;
    if (next >= n)
        return false;
    for (int i = first; i < next; i++)
        cJSON_DeleteItemFromArray(t->messages, first);
    return true;
}

void talk_think_off(struct talk *t, bool off)
{
    cJSON_DeleteItemFromObject(t->request, "enable_thinking");
    if (off)
        cJSON_AddFalseToObject(t->request, "enable_thinking");
}

/* ---- the prompt ---- */

enum b2_status talk_prompt(struct talk *t, struct tok_ids *out, struct b2_err *err)
{
    static const char begin[] = "<think>";
    struct str text = {0};
    enum b2_status rc = chat_render(t->chat, t->request, cli_local_now(), &text, err);

    out->n = 0;
    if (rc) {
        err_wrap(err, "chat template");
    } else {
        size_t n = text.len;
        while (n && (text.data[n - 1] == '\n' || text.data[n - 1] == ' '))
            n--;
        t->starts_thinking =
            n >= sizeof begin - 1 &&
            memcmp(text.data + n - (sizeof begin - 1), begin, sizeof begin - 1) == 0;
        rc = tok_encode(t->tok, text.data ? text.data : "", text.len, TOK_SPECIAL, out,
                        err);
    }
    str_free(&text);
    return rc;
}

bool talk_starts_thinking(const struct talk *t)
{
    return t->starts_thinking;
}

/* ---- files ---- */

enum b2_status talk_save(const struct talk *t, const char *path, bool force,
                         struct b2_err *err)
{
    cJSON *o = cJSON_CreateObject();
    cJSON *copy = cJSON_Duplicate(t->messages, true);
    enum b2_status rc = B2_OK;

    if (!o || !copy || !cJSON_AddItemToObject(o, "messages", copy)) {
        cJSON_Delete(copy);
        cJSON_Delete(o);
        return no_memory(err);
    }
    char *text = cJSON_Print(o);
    cJSON_Delete(o);
    rc = text ? file_write_all(path, text, strlen(text), force, err) : no_memory(err);
    cJSON_free(text);
    return rc;
}

/* Every message needs a role and a text. */
static bool is_conversation(const cJSON *messages)
{
    const cJSON *m;

    if (!cJSON_IsArray(messages))
        return false;
    cJSON_ArrayForEach(m, messages)
    {
        if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(m, "role")) ||
            !cJSON_GetObjectItemCaseSensitive(m, "content"))
            return false;
    }
    return true;
}

enum b2_status talk_load(struct talk *t, const char *path, struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;
    cJSON *root = NULL;
    enum b2_status rc = file_read_all(&text, &n, path, MAX_FILE_BYTES, err);

    if (rc)
        return rc;
    rc = json_parse_bounded(&root, text, n, CHAT_JSON_VALUES, err);
    mem_free(text);
    if (rc) {
        err_wrap(err, "%s", path);
        return rc;
    }
    cJSON *messages = cJSON_DetachItemFromObjectCaseSensitive(root, "messages");
    cJSON_Delete(root);
    if (!is_conversation(messages)) {
        cJSON_Delete(messages);
        return err_set(err, B2_EFORMAT,
                       "%s: no conversation: {\"messages\": [{\"role\": …, "
                       "\"content\": …}, …]} is expected",
                       path);
    }
    if (!cJSON_ReplaceItemInObjectCaseSensitive(t->request, "messages", messages))
        return no_memory(err);
    t->messages = messages;
    return B2_OK;
}
