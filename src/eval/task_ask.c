/*
 * task_ask.c - from a row of data to what the model reads.
 *
 * Plain: system text, then examples (prompt, delimiter, answer, separator), then the
 * prompt. Chat: the same as turns of a conversation, the system text in front of the
 * first question (some templates refuse a system turn), answers without delimiter.
 */
#include "eval/task_int.h"

#include "base/mem.h"
#include "text/letter.h"

#include <string.h>

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for a prompt");
}

enum b2_status task_render(struct str *out, const struct chat *tmpl, const cJSON *row,
                           const char *group, const char *choice, int i,
                           struct b2_err *err)
{
    cJSON *vars = cJSON_Duplicate(row, true);
    enum b2_status rc;

    if (!vars || !cJSON_AddStringToObject(vars, "group", group) ||
        (choice && (!cJSON_AddStringToObject(vars, "choice", choice) ||
                    !cJSON_AddNumberToObject(vars, "number", i)))) {
        cJSON_Delete(vars);
        return no_memory(err);
    }
    rc = chat_render(tmpl, vars, 0, out, err);
    cJSON_Delete(vars);
    return rc;
}

static enum b2_status render_new(char **out, const struct chat *tmpl, const cJSON *row,
                                 const char *group, const char *choice, int i,
                                 struct b2_err *err)
{
    struct str s = {0};
    enum b2_status rc = task_render(&s, tmpl, row, group, choice, i, err);

    if (!rc && (!str_ok(&s) || !(*out = mem_strdup(s.data ? s.data : ""))))
        rc = no_memory(err);
    str_free(&s);
    return rc;
}

/* The choices of a row, without delimiter. */
static enum b2_status row_choices(char **out, int *n, const struct task *t,
                                  const cJSON *row, const char *group,
                                  struct b2_err *err)
{
    const struct task_desc *d = &t->d;
    const cJSON *list, *e;
    enum b2_status rc = B2_OK;

    for (int i = 0; i < d->n_choices && !rc; i++) {
        rc = render_new(&out[i], d->choices[i], row, group, NULL, 0, err);
        *n += rc == B2_OK;
    }
    if (d->n_choices > 0)
        return rc;
    list = cJSON_GetObjectItemCaseSensitive(row, d->choices_column);
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < 1 ||
        cJSON_GetArraySize(list) > TASK_MAX_CHOICES)
        return err_set(err, B2_EARG, "\"%s\" is no list of 1 to 26 strings",
                       d->choices_column);
    cJSON_ArrayForEach(e, list)
    {
        if (!cJSON_IsString(e))
            return err_set(err, B2_EARG, "\"%s\" is no list of strings",
                           d->choices_column);
        if (d->choice)
            rc = render_new(&out[*n], d->choice, row, group, e->valuestring, *n, err);
        else if (!(out[*n] = mem_strdup(e->valuestring)))
            rc = no_memory(err);
        if (rc)
            return rc;
        ++*n;
    }
    return B2_OK;
}

/* The number of the right choice, which the template "gold" tells. */
static enum b2_status row_gold(int *out, const struct task *t, const cJSON *row,
                               const char *group, int n, struct b2_err *err)
{
    char *text = NULL;
    enum b2_status rc = render_new(&text, t->d.gold, row, group, NULL, 0, err);
    const char *s = rc ? NULL : text;
    int value = 0, digits = 0;

    if (rc || !s)
        return rc;
    for (; *s >= '0' && *s <= '9' && digits < 3; s++, digits++)
        value = value * 10 + (*s - '0');
    if (digits == 0 || *s || value >= n)
        rc = err_set(err, B2_EARG, "the right answer is '%s', the choices are 0 to %d",
                     text, n - 1);
    mem_free(text);
    *out = value;
    return rc;
}

/* The question of an example, with the right choice in it where prompts vary, and its
 * right answer. */
struct turn {
    char *question, *answer;
};

static enum b2_status make_turn(struct turn *out, const struct task *t,
                                const cJSON *row, const char *group, struct b2_err *err)
{
    char *choice[TASK_MAX_CHOICES] = {0};
    int n = 0, gold = 0;
    bool chooses = t->d.kind == TASK_CHOICE;
    enum b2_status rc = B2_OK;

    if (chooses)
        rc = row_choices(choice, &n, t, row, group, err);
    if (!rc && chooses)
        rc = row_gold(&gold, t, row, group, n, err);
    if (!rc)
        rc = render_new(&out->question, t->d.prompt, row, group,
                        t->d.vary_prompt ? choice[gold] : NULL, gold, err);
    if (!rc) {
        if (chooses && !t->d.vary_prompt)
            out->answer = mem_strdup(choice[gold]);
        else
            rc = render_new(&out->answer, t->d.target, row, group, NULL, 0, err);
        if (!rc && !out->answer)
            rc = no_memory(err);
    }
    for (int i = 0; i < n; i++)
        mem_free(choice[i]);
    return rc;
}

static void turn_free(struct turn *t)
{
    mem_free(t->question);
    mem_free(t->answer);
    *t = (struct turn){0};
}

/* A prompt being put together, as text or as messages. */
struct prompt {
    struct str text;
    cJSON *messages; /* NULL: plain */
    struct str lead; /* chat: goes before the next question */
};

static bool add_message(struct prompt *p, const char *role, const char *text)
{
    cJSON *m = cJSON_CreateObject();

    if (!m || !cJSON_AddItemToArray(p->messages, m)) {
        cJSON_Delete(m);
        return false;
    }
    return cJSON_AddStringToObject(m, "role", role) &&
           cJSON_AddStringToObject(m, "content", text);
}

static bool add_question(struct prompt *p, const char *question)
{
    bool ok;

    if (!p->messages) {
        str_put(&p->text, question);
        return true;
    }
    str_put(&p->lead, question);
    ok = str_ok(&p->lead) && add_message(p, "user", p->lead.data ? p->lead.data : "");
    str_clear(&p->lead);
    return ok;
}

static enum b2_status add_examples(struct prompt *p, const struct task *t,
                                   const struct task_group *g, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < g->n_shots && !rc; i++) {
        struct turn turn = {0};
        bool ok = true;
        rc = make_turn(&turn, t, g->shot[i], g->name, err);
        if (!rc)
            ok = add_question(p, turn.question);
        if (!rc && ok && p->messages)
            ok = add_message(p, "assistant", turn.answer);
        else if (!rc)
            str_printf(&p->text, "%s%s%s", t->d.delimiter, turn.answer, t->d.separator);
        if (!ok)
            rc = no_memory(err);
        turn_free(&turn);
    }
    if (rc)
        err_wrap(err, "example");
    return rc;
}

/* Renders the conversation; takes p->messages. */
static enum b2_status render_chat(struct prompt *p, const struct chat *chat,
                                  struct b2_err *err)
{
    cJSON *request = cJSON_CreateObject();
    enum b2_status rc;

    if (!request || !cJSON_AddItemToObject(request, "messages", p->messages)) {
        cJSON_Delete(request);
        return no_memory(err);
    }
    p->messages = NULL;
    if (!cJSON_AddBoolToObject(request, "add_generation_prompt", true) ||
        !cJSON_AddBoolToObject(request, "enable_thinking", false))
        rc = no_memory(err);
    else
        rc = chat_render(chat, request, 0, &p->text, err);
    cJSON_Delete(request);
    return rc;
}

/* The whole prompt whose last question is given. */
static enum b2_status put_together(char **out, const struct task *t,
                                   const struct task_group *g, const cJSON *row,
                                   const char *question, const struct chat *chat,
                                   struct b2_err *err)
{
    struct prompt p = {0};
    enum b2_status rc = B2_OK;

    if (chat && !(p.messages = cJSON_CreateArray()))
        return no_memory(err);
    if (t->d.system)
        rc = task_render(chat ? &p.lead : &p.text, t->d.system, row, g->name, NULL, 0,
                         err);
    if (!rc)
        rc = add_examples(&p, t, g, err);
    if (!rc && !add_question(&p, question))
        rc = no_memory(err);
    if (!rc && chat)
        rc = render_chat(&p, chat, err);
    if (!rc &&
        (!str_ok(&p.text) || !(*out = mem_strdup(p.text.data ? p.text.data : ""))))
        rc = no_memory(err);
    cJSON_Delete(p.messages);
    str_free(&p.lead);
    str_free(&p.text);
    return rc;
}

void task_ask_free(struct task_ask *a)
{
    for (int i = 0; i < TASK_MAX_CHOICES; i++) {
        mem_free(a->prompt[i]);
        mem_free(a->choice[i]);
    }
    mem_free(a->answer);
    *a = (struct task_ask){0};
}

static enum b2_status one_prompt(struct task_ask *a, const struct task *t,
                                 const struct task_group *g, const cJSON *row,
                                 const char *choice, const struct chat *chat,
                                 struct b2_err *err)
{
    char *question = NULL;
    enum b2_status rc =
        render_new(&question, t->d.prompt, row, g->name, choice, a->n_prompts, err);

    if (!rc)
        rc = put_together(&a->prompt[a->n_prompts], t, g, row, question, chat, err);
    if (!rc)
        a->n_prompts++;
    mem_free(question);
    return rc;
}

/* Puts the delimiter before a continuation; without chat only, as the harness does. */
static enum b2_status with_delimiter(char **text, const char *delimiter,
                                     struct b2_err *err)
{
    struct str s = {0};
    char *copy = NULL;

    str_printf(&s, "%s%s", delimiter, *text);
    if (str_ok(&s))
        copy = mem_strdup(s.data);
    str_free(&s);
    if (!copy)
        return no_memory(err);
    mem_free(*text);
    *text = copy;
    return B2_OK;
}

static enum b2_status ask_choices(struct task_ask *a, const struct task *t,
                                  const struct task_group *g, const cJSON *row,
                                  const struct chat *chat, struct b2_err *err)
{
    char *text[TASK_MAX_CHOICES] = {0};
    int n = 0;
    enum b2_status rc = row_choices(text, &n, t, row, g->name, err);

    if (!rc)
        rc = row_gold(&a->gold, t, row, g->name, n, err);
    for (int i = 0; i < n && text[i]; i++) {
        a->choice[i] = text[i]; /* owned from here on */
        a->n_choices = n;
        a->n_bytes[i] = (int64_t)strlen(text[i]);
        a->n_chars[i] = letter_count(text[i], strlen(text[i]));
    }
    for (int i = 0; i < n && t->d.vary_prompt && !rc; i++) {
        rc = one_prompt(a, t, g, row, a->choice[i], chat, err);
        mem_free(a->choice[i]);
        a->choice[i] = NULL;
        if (!rc)
            rc = render_new(&a->choice[i], t->d.target, row, g->name, NULL, 0, err);
    }
    if (!rc && !t->d.vary_prompt)
        rc = one_prompt(a, t, g, row, NULL, chat, err);
    for (int i = 0; i < n && !rc && !chat; i++)
        rc = with_delimiter(&a->choice[i], t->d.delimiter, err);
    return rc;
}

enum b2_status task_ask_make(struct task_ask *out, const struct task *t, int64_t i,
                             const struct chat *chat, struct b2_err *err)
{
    const struct task_place_item *it = &t->item[i];
    const struct task_group *g = &t->group[it->group];
    const cJSON *row = g->rows.row[it->row];
    struct task_ask a = {.gold = -1};
    enum b2_status rc = B2_OK;

    if (t->d.kind == TASK_CHOICE) {
        rc = ask_choices(&a, t, g, row, chat, err);
    } else {
        rc = one_prompt(&a, t, g, row, NULL, chat, err);
        if (!rc && t->d.kind == TASK_CLOZE) {
            rc = render_new(&a.choice[0], t->d.target, row, g->name, NULL, 0, err);
            if (!rc && !chat)
                rc = with_delimiter(&a.choice[0], t->d.delimiter, err);
            a.n_choices = rc == B2_OK;
            a.gold = 0;
        }
    }
    if (!rc && t->d.kind == TASK_GENERATE && t->d.gold)
        rc = render_new(&a.answer, t->d.gold, row, g->name, NULL, 0, err);
    else if (!rc && !(a.answer = mem_strdup("")))
        rc = no_memory(err);
    if (rc) {
        err_wrap(err, "%s: item %s", t->d.name, it->id);
        task_ask_free(&a);
        return rc;
    }
    *out = a;
    return B2_OK;
}
