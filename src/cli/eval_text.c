/*
 * eval_text.c - words to texts, texts to windows; and the memory that scoring takes.
 */
#include "cli/eval_text.h"

#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "eval/task.h"
#include "model/plan.h"

#include <string.h>

enum { TEXT_MAX_BYTES = 1 << 30 };

enum b2_status eval_cut_text(struct textset *out, const struct tokenizer *tok,
                             const char *path, const char *convention, int64_t ctx,
                             int64_t chunks, struct b2_err *err)
{
    enum text_convention conv =
        strcmp(convention, "rolling") == 0 ? CONV_ROLLING : CONV_LLAMA_CPP;
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc = file_read_all(&text, &n, path, TEXT_MAX_BYTES, err);

    if (rc)
        return rc;
    rc = textset_make(out, tok, text, n, conv, ctx, chunks, err);
    if (rc)
        err_wrap(err, "%s", path);
    mem_free(text);
    return rc;
}

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory");
}

/* Keeps s (taken; NULL: out of memory) until eval_texts_free. */
static const char *keep(struct eval_texts *t, char *s)
{
    char **more =
        s ? mem_realloc(t->owned, (size_t)t->n_owned + 1, sizeof *t->owned) : NULL;

    if (!more) {
        mem_free(s);
        return NULL;
    }
    t->owned = more;
    t->owned[t->n_owned++] = s;
    return s;
}

/* "code" of "texts/region_code.txt" */
static char *region_of(const char *path)
{
    static const char prefix[] = "region_";
    const char *name = eval_name(path);
    const char *dot;
    char *s;

    if (strncmp(name, prefix, sizeof prefix - 1) == 0)
        name += sizeof prefix - 1;
    dot = strrchr(name, '.');
    s = mem_strdup(name);
    if (s && dot && dot > name)
        s[dot - name] = '\0';
    return s;
}

static enum b2_status add_text(struct fidelity *f, struct eval_texts *t,
                               const struct tokenizer *tok, const char *region,
                               const char *path, struct b2_err *err)
{
    struct textset set = {0};
    enum b2_status rc =
        eval_cut_text(&set, tok, path, t->convention, t->ctx, t->chunks, err);

    return rc ? rc : fidelity_add(f, region, path, &set, err);
}

static enum b2_status add_word(struct fidelity *f, struct eval_texts *t,
                               const struct tokenizer *tok, const char *word,
                               struct b2_err *err)
{
    const char *equals = strchr(word, '='), *slash = strchr(word, '/'), *region;
    bool named = equals && equals > word && (!slash || slash > equals);

    region = keep(t, named ? mem_strdup(word) : region_of(word));
    if (!region)
        return no_memory(err);
    if (!named)
        return add_text(f, t, tok, region, word, err);
    t->owned[t->n_owned - 1][equals - word] = '\0';
    return add_text(f, t, tok, region, equals + 1, err);
}

/* "own" are the texts that come with the program; a folder of that name is ./own. */
static enum b2_status regions_folder(struct str *out, const char *word,
                                     struct b2_err *err)
{
    if (strcmp(word, "own") == 0)
        task_regions_dir(out);
    else
        str_put(out, word);
    if (!str_ok(out))
        return no_memory(err);
    return out->len > 0 ? B2_OK
                        : err_set(err, B2_ENOTFOUND,
                                  "--regions own: the program's own texts are not "
                                  "beside it: give a folder of region_NAME.txt");
}

static enum b2_status add_folder(struct fidelity *f, struct eval_texts *t,
                                 const struct tokenizer *tok, struct b2_err *err)
{
    char **names = NULL;
    int64_t n = 0;
    struct str dir = {0};
    enum b2_status rc = regions_folder(&dir, t->regions, err);

    if (!rc)
        rc = file_match(&names, &n, dir.data, "region_*.txt", err);
    if (!rc && n == 0)
        rc = err_set(err, B2_ENOTFOUND, "%s: no region_NAME.txt in there", dir.data);
    for (int64_t i = 0; i < n && !rc; i++) {
        struct str path = {0};
        str_printf(&path, "%s/%s", dir.data, names[i]);
        const char *kept = keep(t, str_ok(&path) ? path.data : NULL);
        const char *region = keep(t, region_of(names[i]));
        rc = kept && region ? add_text(f, t, tok, region, kept, err) : no_memory(err);
    }
    file_match_free(names, n);
    str_free(&dir);
    return rc;
}

enum b2_status eval_texts_cut(struct fidelity *out, struct eval_texts *t,
                              const struct tokenizer *tok, struct b2_err *err)
{
    struct fidelity f = {0};
    enum b2_status rc = B2_OK;

    for (int i = 0; i < t->words.n && !rc; i++)
        rc = add_word(&f, t, tok, t->words.item[i], err);
    if (!rc && t->regions)
        rc = add_folder(&f, t, tok, err);
    if (rc)
        fidelity_free(&f);
    else
        *out = f;
    return rc;
}

enum b2_status eval_texts_same(const struct fidelity *f, const struct eval_texts *t,
                               const struct tokenizer *tok, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < f->n_texts && !rc; i++) {
        const struct tok_ids *a = &f->text[i].set.all;
        struct textset other = {0};
        if (strcmp(f->text[i].path, "-") == 0)
            continue; /* standard input can be read once; the vocabularies must do */
        rc = eval_cut_text(&other, tok, f->text[i].path, t->convention, t->ctx,
                           t->chunks, err);
        if (!rc && (other.all.n != a->n ||
                    memcmp(other.all.id, a->id, (size_t)a->n * sizeof *a->id) != 0))
            rc = err_set(err, B2_EARG,
                         "%s: the tokenizers of model and baseline cut this text "
                         "differently: their distributions cannot be compared",
                         f->text[i].path);
        textset_free(&other);
    }
    return rc;
}

void eval_texts_free(struct eval_texts *t)
{
    for (int64_t i = 0; i < t->n_owned; i++)
        mem_free(t->owned[i]);
    mem_free(t->owned);
    t->owned = NULL;
    t->n_owned = 0;
}

/* Bytes that one model and its share of the logits will take. */
static enum b2_status side_bytes(uint64_t *out, const struct eval_side *s,
                                 struct b2_err *err)
{
    struct plan plan;
    int64_t batch = session_batch(s->s), vocab = s->model->hp.vocab;
    enum b2_status rc = plan_make(&plan, s->model, s->be, session_cache(s->s), err);

    if (rc)
        return rc;
    *out = plan.total_bytes + (uint64_t)(divergence_rows(vocab, batch) * vocab) * 4;
    return B2_OK;
}

enum b2_status eval_check_memory(const struct eval_env *env, const struct eval_side *a,
                                 const struct eval_side *b, struct b2_err *err)
{
    uint64_t cand = 0, base = 0, limit = env->common.mem_limit;
    enum b2_status rc = a->model ? side_bytes(&cand, a, err) : B2_OK;

    if (!rc && b && b->model)
        rc = side_bytes(&base, b, err);
    if (!rc && limit > 0 && cand + base > limit)
        rc = err_set(err, B2_ENOMEM,
                     "needs %.1f MB (model %.1f, baseline %.1f), the limit is %.1f MB: "
                     "a smaller --ctx needs less",
                     (double)(cand + base) / 1e6, (double)cand / 1e6,
                     (double)base / 1e6, (double)limit / 1e6);
    return rc;
}
