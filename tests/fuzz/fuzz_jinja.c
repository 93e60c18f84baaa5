/*
 * fuzz_jinja.c - any bytes as a chat template, over a fixed conversation.
 *
 * A template renders or fails with a reason, within its limits, and twice the same.
 */
#include "base/mem.h"
#include "fuzz.h"
#include "text/jinja.h"
#include "text/utf8.h"

static struct jval text(struct jinja_vars *v, const char *s)
{
    return jinja_str(v, s, strlen(s));
}

static void add_message(struct jinja_vars *v, struct jval list, const char *role,
                        const char *content)
{
    struct jval m = jinja_dict(v);

    jinja_dict_set(v, m, "role", 4, text(v, role));
    jinja_dict_set(v, m, "content", 7, text(v, content));
    jinja_list_add(v, list, m);
}

static struct jinja_vars *conversation(void)
{
    struct jinja_vars *v = jinja_vars_new(1 << 20);

    if (!v)
        return NULL;
    struct jval messages = jinja_list(v), tools = jinja_list(v), tool = jinja_dict(v);
    add_message(v, messages, "system", "You are terse.");
    add_message(v, messages, "user", " Grüße, 你好 🙂 ");
    add_message(v, messages, "assistant", "<think>\nhm\n</think>\n\nHello");
    add_message(v, messages, "user", "Again");
    jinja_dict_set(v, tool, "name", 4, text(v, "get_weather"));
    jinja_dict_set(v, tool, "days", 4, jinja_int(-7));
    jinja_dict_set(v, tool, "temp", 4, jinja_float(21.5));
    jinja_dict_set(v, tool, "none", 4, jinja_none());
    jinja_list_add(v, tools, tool);
    jinja_set(v, "messages", messages);
    jinja_set(v, "tools", tools);
    jinja_set(v, "add_generation_prompt", jinja_bool(true));
    jinja_set(v, "bos_token", text(v, "<s>"));
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct jinja_limits lim = {.max_steps = 200000,
                                     .max_output = 1 << 20,
                                     .max_memory = 16 << 20,
                                     .max_depth = 200,
                                     .now_s = 1767323045};
    struct jinja *t = NULL;
    struct b2_err err = {0};
    struct str out = {0}, again = {0};
    uint8_t *copy = fuzz_copy(data, size);
    struct jinja_vars *v = copy ? conversation() : NULL;

    if (!v) {
        free(copy);
        return 0;
    }
    enum b2_status rc = jinja_parse(&t, (const char *)copy, size, &err);
    fuzz_check_error(rc, &err);
    if (rc == B2_OK) {
        rc = jinja_render(t, v, &lim, &out, &err);
        fuzz_check_error(rc, &err);
        fuzz_require(utf8_valid(out.data ? out.data : "", out.len),
                     "the text is UTF-8");
        enum b2_status rc_2 = jinja_render(t, v, &lim, &again, NULL);
        fuzz_require(rc == rc_2, "the same status again");
        fuzz_require(out.len == again.len &&
                         (out.len == 0 || memcmp(out.data, again.data, out.len) == 0),
                     "the same text again");
    }
    str_free(&out);
    str_free(&again);
    jinja_free(t);
    jinja_vars_free(v);
    free(copy);
    return 0;
}
