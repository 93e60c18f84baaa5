/*
 * eval_answers.c - prompts from the program or a file, answers through the chat template.
 */
#include "cli/eval_answers.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/talk.h"

#include <string.h>

enum { MAX_PROMPT_FILE = 64 << 20, PROMPT_ROOM = 1024 };

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory");
}

void eval_prompts_free(struct eval_prompts *p)
{
    mem_free(p->p);
    mem_free(p->text);
    *p = (struct eval_prompts){0};
}

/* Turns the two characters \n into a line end, in place. */
static void unescape(char *s)
{
    char *to = s;

    for (; *s; s++) {
        if (s[0] == '\\' && s[1] == 'n') {
            *to++ = '\n';
            s++;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

static enum b2_status add(struct eval_prompts *p, const char *slice, const char *text,
                          struct b2_err *err)
{
    struct loops_prompt *more = mem_realloc(p->p, (size_t)p->n + 1, sizeof *p->p);

    if (!more)
        return no_memory(err);
    p->p = more;
    p->p[p->n++] = (struct loops_prompt){slice, text};
    return B2_OK;
}

/* Lines of p->text, cut in place. */
static enum b2_status read_lines(struct eval_prompts *p, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (char *line = p->text; *line && !rc;) {
        size_t n = strcspn(line, "\r\n");
        char *next = line + n + (line[n] != '\0'), *tab;
        line[n] = '\0';
        tab = strchr(line, '\t');
        if (n > 0 && line[0] != '#') {
            if (tab)
                *tab = '\0';
            char *text = tab ? tab + 1 : line;
            unescape(text);
            rc = add(p, tab ? line : "prompts", text, err);
        }
        line = next;
    }
    if (!rc && p->n == 0)
        rc = err_set(err, B2_EARG, "holds no prompt: one a line is expected");
    return rc;
}

/* Keeps the first limit prompts of each slice. */
static void cut(struct eval_prompts *p, int64_t limit)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < p->n && limit > 0; i++) {
        int64_t same = 0;
        for (int64_t k = 0; k < kept; k++)
            same += strcmp(p->p[k].slice, p->p[i].slice) == 0;
        if (same < limit)
            p->p[kept++] = p->p[i];
    }
    p->n = limit > 0 ? kept : p->n;
}

static enum b2_status fingerprint(struct eval_prompts *p, struct b2_err *err)
{
    struct str all = {0};
    enum b2_status rc;

    for (int64_t i = 0; i < p->n; i++)
        str_printf(&all, "%s\t%s\n", p->p[i].slice, p->p[i].text);
    rc = str_ok(&all) ? hash_sha256(p->sha256, all.data, all.len, err) : no_memory(err);
    str_free(&all);
    return rc;
}

enum b2_status eval_prompts_open(struct eval_prompts *out, const char *file,
                                 int64_t limit, struct b2_err *err)
{
    struct eval_prompts p = {0};
    enum b2_status rc = B2_OK;
    size_t n = 0;
    int64_t n_own;
    const struct loops_prompt *own = loops_prompts(&n_own);

    if (file) {
        rc = file_read_all(&p.text, &n, file, MAX_PROMPT_FILE, err);
        if (!rc)
            rc = read_lines(&p, err);
        if (rc)
            err_wrap(err, "%s", file);
    }
    for (int64_t i = 0; i < n_own && !file && !rc; i++)
        rc = add(&p, own[i].slice, own[i].text, err);
    if (!rc) {
        cut(&p, limit);
        rc = fingerprint(&p, err);
    }
    if (rc) {
        eval_prompts_free(&p);
        return rc;
    }
    *out = p;
    return B2_OK;
}

bool eval_has_template(const struct eval_side *s)
{
    struct talk *t = NULL;

    if (talk_new(&t, modelfile_meta(s->model->mf), NULL, s->model->tok, NULL))
        return false;
    talk_free(t);
    return true;
}

static enum b2_status prompt_ids(struct tok_ids *out, const struct eval_side *s,
                                 bool raw, const char *prompt, struct b2_err *err)
{
    struct talk *t = NULL;
    enum b2_status rc;

    if (raw)
        return tok_encode(s->model->tok, prompt, strlen(prompt), TOK_ADD_BOS, out, err);
    rc = talk_new(&t, modelfile_meta(s->model->mf), NULL, s->model->tok, err);
    if (!rc)
        rc = talk_add(t, "user", prompt, err);
    if (!rc)
        rc = talk_prompt(t, out, err);
    talk_free(t);
    return rc;
}

enum b2_status eval_answer(struct generate_result *out, const struct eval_side *s,
                           const struct eval_answering *how, const char *prompt,
                           struct b2_err *err)
{
    struct sampler_params sp = SAMPLER_PARAMS_GREEDY;
    struct generate_params gp = {.max_tokens = how->max_tokens};
    struct sampler *smp = NULL;
    struct tok_ids ids = {0};
    enum b2_status rc =
        prompt_ids(&ids, s, how->raw || !eval_has_template(s), prompt, err);

    sp.temperature = (float)how->temperature;
    sp.seed = how->seed;
    if (!rc)
        rc = sampler_new(&smp, &sp, s->model->hp.vocab, err);
    if (!rc)
        rc = generate_run(s->s, smp, ids.id, ids.n, &gp, out, err);
    sampler_free(smp);
    tok_ids_free(&ids);
    return rc;
}

enum b2_status eval_answer_loops(struct loops_answer *out,
                                 const struct generate_result *g, struct b2_err *err)
{
    int64_t n = g->tokens.n;

    if (g->finish == FINISH_STOP && n > 0)
        n--; /* the end token */
    return loops_measure(out, g->tokens.id, n, g->text.data ? g->text.data : "",
                         g->text.len, g->finish == FINISH_LENGTH, err);
}

int64_t eval_answer_ctx(const struct model *m, int64_t max_tokens)
{
    return min_i64(m->hp.ctx_train, max_tokens + PROMPT_ROOM);
}
