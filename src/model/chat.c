/*
 * chat.c - JSON into template values, and the template of a model.
 */
#include "model/chat.h"

#include "base/mem.h"
#include "text/jinja.h"

#include <math.h>
#include <string.h>

static const size_t max_values_bytes = (size_t)256 << 20;

struct chat {
    struct jinja *template;
    char *bos, *eos;
    bool strict; /* what is undefined is an error */
};

enum b2_status chat_set_tokens(struct chat *c, const char *bos, const char *eos,
                               struct b2_err *err)
{
    const char *const text[] = {bos, eos};
    char **const slot[] = {&c->bos, &c->eos};

    for (size_t i = 0; i < countof(text); i++) {
        if (!text[i])
            continue;
        char *copy = mem_strdup(text[i]);
        if (!copy)
            return err_set(err, B2_ENOMEM, "out of memory");
        mem_free(*slot[i]);
        *slot[i] = copy;
    }
    return B2_OK;
}

enum b2_status chat_new_text(struct chat **out, const char *text, size_t n,
                             const char *bos, const char *eos, struct b2_err *err)
{
    struct chat *c = mem_calloc(1, sizeof *c);
    enum b2_status rc;

    if (!c)
        return err_set(err, B2_ENOMEM, "out of memory");
    rc = chat_set_tokens(c, bos ? bos : "", eos ? eos : "", err);
    if (rc == B2_OK) {
        rc = jinja_parse(&c->template, text, n, err);
        if (rc)
            err_wrap(err, "chat template");
    }
    if (rc) {
        chat_free(c);
        return rc;
    }
    *out = c;
    return B2_OK;
}

void chat_set_strict(struct chat *c)
{
    c->strict = true;
}

void chat_free(struct chat *c)
{
    if (!c)
        return;
    jinja_free(c->template);
    mem_free(c->bos);
    mem_free(c->eos);
    mem_free(c);
}

const char *chat_token(const struct meta *m, const char *which)
{
    const char *key = strcmp(which, "bos") == 0 ? "tokenizer.ggml.bos_token_id"
                                                : "tokenizer.ggml.eos_token_id";
    const struct meta_str *tokens;
    uint64_t n;
    uint32_t id;

    if (meta_get_u32(m, key, &id, NULL) ||
        meta_get_strs(m, "tokenizer.ggml.tokens", &tokens, &n, NULL) || id >= n)
        return NULL;
    return tokens[id].data;
}

enum b2_status chat_new(struct chat **out, const struct meta *m, const char *name,
                        struct b2_err *err)
{
    const char *text = NULL;
    struct str key = {0};
    enum b2_status rc;

    str_put(&key, "tokenizer.chat_template");
    if (name && strcmp(name, "default") != 0)
        str_printf(&key, ".%s", name);
    rc = str_ok(&key) ? meta_opt_str(m, key.data, &text, NULL, err)
                      : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&key);
    if (rc)
        return rc;
    if (!text)
        return err_set(err, B2_ENOTFOUND,
                       "the model has no chat template%s%s: it may be a base model; a "
                       "template can be given with --template",
                       name ? " named " : "", name ? name : "");
    return chat_new_text(out, text, strlen(text), chat_token(m, "bos"),
                         chat_token(m, "eos"), err);
}

/* ---- JSON as values ---- */

/* A whole number is an int, as Python's json reads it; the text is gone, so 2.0 is too. */
static struct jval number(double d)
{
    if (d == floor(d) && fabs(d) < 9007199254740992.0)
        return jinja_int((int64_t)d);
    return jinja_float(d);
}

/* Depth is bounded by json_parse_bounded; the builder by its bytes. */
static struct jval value(struct jinja_vars *v, const cJSON *item)
{
    const cJSON *e;
    struct jval out;

    if (cJSON_IsBool(item))
        return jinja_bool(cJSON_IsTrue(item));
    if (cJSON_IsNumber(item))
        return number(item->valuedouble);
    if (cJSON_IsString(item))
        return jinja_str(v, item->valuestring, strlen(item->valuestring));
    if (cJSON_IsArray(item)) {
        out = jinja_list(v);
        cJSON_ArrayForEach(e, item)
        {
            jinja_list_add(v, out, value(v, e));
        }
        return out;
    }
    if (!cJSON_IsObject(item))
        return jinja_none();
    out = jinja_dict(v);
    cJSON_ArrayForEach(e, item)
    {
        jinja_dict_set(v, out, e->string, strlen(e->string), value(v, e));
    }
    return out;
}

enum b2_status chat_render(const struct chat *c, const cJSON *request, int64_t now_s,
                           struct str *out, struct b2_err *err)
{
    const struct jinja_limits limits = {.now_s = now_s, .strict = c->strict};
    const cJSON *e;

    if (!cJSON_IsObject(request))
        return err_set(err, B2_EARG, "the conversation is no JSON object");
    struct jinja_vars *v = jinja_vars_new(max_values_bytes);
    if (!v)
        return err_set(err, B2_ENOMEM, "out of memory");
    jinja_set(v, "bos_token", jinja_str(v, c->bos, strlen(c->bos)));
    jinja_set(v, "eos_token", jinja_str(v, c->eos, strlen(c->eos)));
    jinja_set(v, "tools", jinja_none());
    jinja_set(v, "documents", jinja_none());
    jinja_set(v, "add_generation_prompt", jinja_bool(false));
    cJSON_ArrayForEach(e, request)
    {
        jinja_set(v, e->string, value(v, e));
    }
    enum b2_status rc = jinja_render(c->template, v, &limits, out, err);
    jinja_vars_free(v);
    return rc;
}
