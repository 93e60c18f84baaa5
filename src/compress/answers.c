/*
 * answers.c - a teacher answers, line by line into a file that outlives a crash.
 */
#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "compress/answers_int.h"
#include "compress/calib_text.h"
#include "compress/recipe.h"
#include "format/hash.h"
#include "model/chat.h"
#include "model/generate.h"

#include <string.h>

enum { PROMPT_ROOM = 1024 };

static const uint64_t max_file = (uint64_t)1 << 30;

struct asking {
    const struct model *m;
    const struct answers_how *how;
    const struct answers_env *env;
    struct questions q;
    struct chat *chat; /* NULL: no template */
    struct backend *be;
    struct session *s;
    struct file_append *out;
    struct str head; /* the first line */
    size_t keep;     /* bytes of whole lines in the file */
    bool whole;      /* nothing is missing */
    int64_t done;    /* answers in the file */
    int64_t n_no_room;
};

/* The first line: all that the answers depend on. */
static enum b2_status make_head(const struct asking *a, struct str *out,
                                struct b2_err *err)
{
    struct hash *h = NULL;
    char teacher[HASH_HEX], questions[HASH_HEX];
    enum b2_status rc = modelfile_sha256(a->m->mf, teacher, err);

    if (!rc)
        rc = hash_new(&h, err);
    for (int64_t i = 0; i < a->q.n && !rc; i++)
        rc = hash_add(h, a->q.text[i], strlen(a->q.text[i]) + 1, err);
    if (!rc)
        rc = hash_hex(h, questions, err);
    hash_free(h);
    if (rc)
        return rc;
    str_printf(
        out,
        "{\"b2_answers\":1,\"teacher_sha256\":\"%s\",\"questions_sha256\":\"%s\","
        "\"n\":%lld,\"max_tokens\":%lld,\"temperature\":%.9g,\"seed\":%llu}\n",
        teacher, questions, (long long)a->q.n, (long long)a->how->max_tokens,
        a->how->temperature, (unsigned long long)a->env->seed);
    return str_ok(out) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

/* What is there: answers, and whole lines in bytes. */
static enum b2_status look(struct asking *a, struct b2_err *err)
{
    const char *path = a->how->path;
    const struct str *head = &a->head;
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc =
        file_exists(path) ? file_read_all(&text, &n, path, max_file, err) : B2_OK;

    for (size_t i = 0; i < n && !rc; i++) {
        if (text[i] == '\n') {
            a->keep = i + 1;
            a->done++;
        }
    }
    a->done -= a->done > 0; /* the head */
    if (!rc && text && a->keep > 0 &&
        (a->keep < head->len || memcmp(text, head->data, head->len) != 0))
        rc = err_set(err, B2_EARG,
                     "holds answers of another teacher, to other questions or with "
                     "other settings; give another file, or remove it");
    if (!rc && a->done > a->q.n)
        rc = err_set(err, B2_EFORMAT, "has more lines than questions");
    a->whole = a->keep > 0 && a->keep == n && a->done == a->q.n;
    mem_free(text);
    return rc;
}

/* Opens the file behind its last whole line. */
static enum b2_status open_file(struct asking *a, struct b2_err *err)
{
    enum b2_status rc = file_append_open(&a->out, a->how->path, a->keep, err);

    if (!rc && a->keep == 0)
        rc = file_append_write(a->out, a->head.data, a->head.len, err);
    return rc;
}

/* The ids of a question as the model is asked it. */
static enum b2_status prompt_of(const struct asking *a, const char *question,
                                struct tok_ids *out, struct b2_err *err)
{
    struct str s = {0};
    enum b2_status rc = B2_OK;

    if (a->chat) {
        cJSON *request = cJSON_CreateObject(), *m = cJSON_CreateObject();
        cJSON *list = cJSON_AddArrayToObject(request, "messages");
        cJSON_AddStringToObject(m, "role", "user");
        cJSON_AddStringToObject(m, "content", question);
        cJSON_AddBoolToObject(request, "add_generation_prompt", true);
        if (!list || !cJSON_AddItemToArray(list, m)) {
            cJSON_Delete(m);
            rc = err_set(err, B2_ENOMEM, "out of memory");
        }
        if (!rc)
            rc = chat_render(a->chat, request, 0, &s, err);
        cJSON_Delete(request);
    } else {
        str_put(&s, question);
    }
    if (!rc && !str_ok(&s))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = tok_encode(a->m->tok, s.data, s.len,
                        TOK_ADD_BOS | (a->chat ? TOK_SPECIAL : 0), out, err);
    str_free(&s);
    return rc;
}

static enum b2_status write_line(struct asking *a, const char *question,
                                 const struct generate_result *g, struct b2_err *err)
{
    struct str line = {0};

    str_put(&line, "{\"question\":");
    recipe_json_string(&line, question);
    str_put(&line, ",\"answer\":");
    recipe_json_string(&line, g && g->text.data ? g->text.data : "");
    str_put(&line, "}\n");
    enum b2_status rc = str_ok(&line)
                            ? file_append_write(a->out, line.data, line.len, err)
                            : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&line);
    return rc;
}

/* Each token of an answer reads the whole model: no use where it does not stay. */
static enum b2_status check_fits(const struct asking *a, struct b2_err *err)
{
    const uint64_t bytes = modelfile_bytes(a->m->mf), limit = a->env->mem_limit;

    if (limit == 0 || bytes <= limit)
        return B2_OK;
    return err_set(
        err, B2_EARG,
        "each token of one reads the whole model, %llu MB, which is above "
        "--mem-limit; leave out --self, or make the file with a higher limit "
        "first",
        (unsigned long long)(bytes / 1000000));
}

/* As long as there is room; a question that leaves none has no answer. */
static enum b2_status answer(struct asking *a, int64_t i, struct b2_err *err)
{
    struct sampler_params sp = SAMPLER_PARAMS_GREEDY;
    struct generate_params gp = {.max_tokens = a->how->max_tokens};
    struct generate_result g = {0};
    struct sampler *smp = NULL;
    struct tok_ids ids = {0};
    enum b2_status rc = prompt_of(a, a->q.text[i], &ids, err);

    sp.temperature = (float)a->how->temperature;
    sp.seed = a->env->seed + (uint64_t)i;
    gp.max_tokens = min_i64(gp.max_tokens, session_ctx(a->s) - ids.n);
    const bool room = !rc && gp.max_tokens > 0;
    a->n_no_room += !rc && !room;
    if (room)
        rc = sampler_new(&smp, &sp, a->m->hp.vocab, err);
    if (room && !rc)
        rc = generate_run(a->s, smp, ids.id, ids.n, &gp, &g, err);
    if (!rc)
        rc = write_line(a, a->q.text[i], room ? &g : NULL, err);
    generate_result_free(&g);
    sampler_free(smp);
    tok_ids_free(&ids);
    return rc;
}

static enum b2_status answer_all(struct asking *a, struct b2_err *err)
{
    const struct answers_env *e = a->env;
    const struct backend_config cfg = {.pool = e->pool, .cpu = e->cpu, .log = e->log};
    const struct session_params sp = {
        .ctx = min_i64(a->m->hp.ctx_train, a->how->max_tokens + PROMPT_ROOM),
        .log = e->log};
    enum b2_status rc = backend_cpu_new(&a->be, &cfg, err);

    if (!rc)
        rc = session_new(&a->s, a->m, a->be, &sp, err);
    if (!rc && chat_new(&a->chat, modelfile_meta(a->m->mf), NULL, NULL))
        a->chat = NULL;
    for (int64_t i = a->done; i < a->q.n && !rc; i++) {
        if (e->cancelled && e->cancelled(e->ctx))
            rc =
                err_set(err, B2_ECANCEL,
                        "interrupted; %lld of %lld answers are in %s, the same command "
                        "goes on from there",
                        (long long)i, (long long)a->q.n, a->how->path);
        if (!rc)
            rc = answer(a, i, err);
        if (e->progress)
            progress_update(e->progress, (uint64_t)i + 1, 0.0);
    }
    if (!rc && a->n_no_room == a->q.n)
        rc = err_set(err, B2_EARG,
                     "no question leaves room for an answer in the model's context of "
                     "%lld tokens; give shorter ones (a .jsonl with \"question\")",
                     (long long)session_ctx(a->s));
    return rc;
}

static enum b2_status make_missing(struct asking *a, struct b2_err *err)
{
    enum b2_status rc = check_fits(a, err);

    if (!rc)
        rc = open_file(a, err);
    if (!rc)
        rc = answer_all(a, err);
    if (a->out && !rc)
        return file_append_close(a->out, err);
    file_append_abort(a->out);
    return rc;
}

enum b2_status answers_make(const struct model *m, const struct answers_how *how,
                            const struct answers_env *env, struct b2_err *err)
{
    struct asking a = {.m = m, .how = how, .env = env};
    enum b2_status rc = B2_OK;

    if (!calib_text_is_jsonl(how->path))
        rc = err_set(err, B2_EARG, "the name must end in .jsonl, as they are read");
    if (!rc)
        rc = questions_make(&a.q, env->from, how->n, err);
    if (!rc)
        rc = make_head(&a, &a.head, err);
    if (!rc)
        rc = look(&a, err);
    if (env->missing)
        *env->missing = !a.whole;
    else if (!rc && !a.whole)
        rc = make_missing(&a, err);
    else if (!rc)
        log_line(env->log, LOG_INFO, "%s: %lld answers were there", how->path,
                 (long long)a.done);
    session_free(a.s);
    backend_free(a.be);
    chat_free(a.chat);
    questions_free(&a.q);
    str_free(&a.head);
    if (rc)
        err_wrap(err, "the model's own answers, %s", how->path);
    return rc;
}
