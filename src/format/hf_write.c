/*
 * hf_write.c - the files of a Hugging Face folder: names, tokenizer_config.json, writing.
 *
 * Everything that changes the arithmetic is written or refused; the inverse of
 * hf_config.c and hf_rope.c. config.json is in hf_write_config.c and hf_write_rope.c.
 */
#include "format/hf_write.h"

#include "base/file.h"
#include "base/str.h"
#include "format/hf_write_int.h"
#include "format/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The row of the model's architecture; NULL: it has no folder form. */
static const struct hf_arch *arch_of(const struct meta *m)
{
    const char *name;

    if (meta_get_str(m, "general.architecture", &name, NULL))
        return NULL;
    return hf_arch_of_gguf(name);
}

enum b2_status hf_write_check(const struct meta *m, struct b2_err *err)
{
    const char *name;
    enum b2_status rc = meta_get_str(m, "general.architecture", &name, err);

    if (rc || arch_of(m))
        return rc;
    return err_set(err, B2_EUNSUP,
                   "architecture %.40s: no Hugging Face folder is written for it; "
                   "export to a GGUF format instead",
                   name);
}

/* ---- tensors ---- */

/* "blk.17.rest" gives 17 and rest; NULL for other names. */
static const char *block_of(const char *name, unsigned long *layer)
{
    char *end;

    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9')
        return NULL;
    *layer = strtoul(name + 4, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

/* The head counts are read again for each tensor: they were checked when the file was
 * opened as a model, and an absent one means "as many as query heads". Only `llama` has
 * rows that move. */
static int64_t heads_of(const struct meta *m, const struct hf_tensor *t)
{
    uint32_t q = 0, kv = 0;

    if ((t->change != HF_HEADS_Q && t->change != HF_HEADS_KV) ||
        meta_opt_u32(m, "llama.attention.head_count", &q, 0, NULL) ||
        meta_opt_u32(m, "llama.attention.head_count_kv", &kv, q, NULL))
        return 0;
    return t->change == HF_HEADS_Q ? q : kv;
}

/* Rows of a value head of a gated delta net in this tensor. */
static int64_t v_dim_of(const struct meta *m, const struct hf_tensor *t)
{
    uint32_t inner = 0, heads = 0;

    if (t->change == HF_V_ONES)
        return 1;
    if ((t->change != HF_V_BEHIND_QK && t->change != HF_V_ROWS &&
         t->change != HF_V_CONV) ||
        meta_opt_u32(m, "qwen35.ssm.inner_size", &inner, 0, NULL) ||
        meta_opt_u32(m, "qwen35.ssm.time_step_rank", &heads, 1, NULL) || heads == 0)
        return 0;
    return inner / heads;
}

bool hf_write_name(struct hf_write_place *out, const struct meta *m,
                   const char *gguf_name)
{
    unsigned long layer = 0;
    const char *rest = block_of(gguf_name, &layer);
    const struct hf_arch *arch = arch_of(m);

    for (const struct hf_tensor *t = arch ? arch->tensors : NULL; t && t->hf; t++) {
        if (t->in_layer != (rest != NULL) ||
            strcmp(t->gguf, rest ? rest : gguf_name) != 0)
            continue;
        if (rest)
            (void)snprintf(out->name, sizeof out->name, "model.layers.%lu.%s", layer,
                           t->hf);
        else
            (void)snprintf(out->name, sizeof out->name, "%s", t->hf);
        out->heads = heads_of(m, t);
        out->change = t->change;
        out->v_dim = v_dim_of(m, t);
        return true;
    }
    return false;
}

const char *hf_write_class(const struct meta *m)
{
    const struct hf_arch *arch = arch_of(m);

    return arch ? arch->hf : "?";
}

int64_t hf_write_row(int64_t r, int64_t rows, int64_t heads)
{
    int64_t dim = rows / heads, head = r / dim, at = r % dim;

    return head * dim + 2 * (at % (dim / 2)) + at / (dim / 2);
}

/* ---- JSON ---- */

void hf_put_f32(struct str *s, float v)
{
    char buf[32];
    int digits = 1;

    if (v == floorf(v) && fabsf(v) < 1e9f) {
        str_printf(s, "%.1f", (double)v);
        return;
    }
    do {
        (void)snprintf(buf, sizeof buf, "%.*g", digits, (double)v);
    } while (strtof(buf, NULL) != v && digits++ < 9);
    str_put(s, buf);
}

void hf_put_key(struct str *s, const char *key)
{
    str_printf(s, "%s\n  \"%s\": ", s->len > 1 ? "," : "", key);
}

void hf_put_int(struct str *s, const char *key, int64_t v)
{
    hf_put_key(s, key);
    str_printf(s, "%" PRId64, v);
}

void hf_put_bool(struct str *s, const char *key, bool v)
{
    hf_put_key(s, key);
    str_put(s, v ? "true" : "false");
}

void hf_put_word(struct str *s, const char *key, const char *v)
{
    hf_put_key(s, key);
    json_put_string(s, v);
}

void hf_put_ids(struct str *s, const struct hf_write_vocab *v)
{
    const struct {
        const char *name;
        int64_t id;
    } ids[] = {
        {"bos_token_id", v->bos}, {"eos_token_id", v->eos}, {"pad_token_id", v->pad}};

    for (size_t i = 0; i < countof(ids); i++) {
        hf_put_key(s, ids[i].name);
        if (ids[i].id >= 0)
            str_printf(s, "%" PRId64, ids[i].id);
        else
            str_put(s, "null");
    }
}

/* ---- keys ---- */

const char *hf_doc_key(char buf[HF_KEY_MAX], const struct hf_doc *d, const char *name)
{
    (void)snprintf(buf, HF_KEY_MAX, "%s.%s", d->arch->gguf, name);
    return buf;
}

bool hf_doc_has(const struct hf_doc *d, const char *name)
{
    char key[HF_KEY_MAX];

    return meta_find(d->w->meta, hf_doc_key(key, d, name)) != NULL;
}

enum b2_status hf_doc_u32(const struct hf_doc *d, const char *name, uint32_t *out,
                          struct b2_err *err)
{
    char key[HF_KEY_MAX];

    return meta_get_u32(d->w->meta, hf_doc_key(key, d, name), out, err);
}

enum b2_status hf_doc_opt_u32(const struct hf_doc *d, const char *name, uint32_t *out,
                              uint32_t def, struct b2_err *err)
{
    char key[HF_KEY_MAX];

    return meta_opt_u32(d->w->meta, hf_doc_key(key, d, name), out, def, err);
}

enum b2_status hf_doc_opt_f32(const struct hf_doc *d, const char *name, float *out,
                              float def, struct b2_err *err)
{
    char key[HF_KEY_MAX];

    return meta_opt_f32(d->w->meta, hf_doc_key(key, d, name), out, def, err);
}

static enum b2_status write_text(const char *dir, const char *name, struct str *s,
                                 bool force, struct b2_err *err)
{
    struct str path = {0};
    enum b2_status rc;

    str_printf(&path, "%s/%s", dir, name);
    if (!str_ok(&path) || !str_ok(s))
        rc = err_set(err, B2_ENOMEM, "%s: out of memory", name);
    else
        rc = file_write_all(path.data, s->data, s->len, force, err);
    str_free(&path);
    return rc;
}

/* ---- tokenizer_config.json ---- */

static enum b2_status put_tokenizer_config(const struct hf_doc *d,
                                           const struct hf_write_vocab *v,
                                           struct b2_err *err)
{
    const struct {
        const char *name;
        int64_t id;
    } words[] = {{"bos_token", v->bos},
                 {"eos_token", v->eos},
                 {"pad_token", v->pad},
                 {"unk_token", v->kind == HF_WRITE_SPM ? v->unk : -1}};
    const char *template;
    struct str *s = d->s;
    uint32_t ctx;
    enum b2_status rc =
        meta_opt_str(d->w->meta, "tokenizer.chat_template", &template, NULL, err);

    if (!rc)
        rc = hf_doc_u32(d, "context_length", &ctx, err);
    if (rc)
        return rc;
    str_put(s, "{");
    hf_put_bool(s, "add_bos_token", v->add_bos);
    hf_put_bool(s, "add_eos_token", v->add_eos);
    hf_put_bool(s, "add_prefix_space",
                v->kind == HF_WRITE_SPM && strcmp(v->prefix, "none") != 0);
    for (size_t i = 0; i < countof(words); i++) {
        hf_put_key(s, words[i].name);
        if (words[i].id >= 0)
            json_put_string(s, v->tokens[words[i].id].data);
        else
            str_put(s, "null");
    }
    hf_put_bool(s, "clean_up_tokenization_spaces", false);
    hf_put_int(s, "model_max_length", ctx);
    hf_put_word(s, "tokenizer_class", "PreTrainedTokenizerFast");
    if (template)
        hf_put_word(s, "chat_template", template);
    str_put(s, "\n}\n");
    return B2_OK;
}

enum { TOKENIZER, TOKENIZER_CONFIG, GENERATION, CONFIG, N_FILES };

static const char *const file_names[N_FILES] = {
    [TOKENIZER] = "tokenizer.json",
    [TOKENIZER_CONFIG] = "tokenizer_config.json",
    [GENERATION] = "generation_config.json",
    [CONFIG] = "config.json", /* last: a folder without it is not a model yet */
};

/* All texts; the caller frees them in every case. */
static enum b2_status make_texts(struct str s[N_FILES], const struct hf_write_model *w,
                                 struct b2_err *err)
{
    struct hf_doc doc = {&s[CONFIG], w, arch_of(w->meta)};
    struct hf_write_vocab v;
    enum b2_status rc = hf_write_check(w->meta, err);

    if (rc || !doc.arch)
        return rc;
    rc = hf_write_vocab_read(&v, w->meta, err);
    if (!rc)
        rc = hf_write_config(&doc, &v, err);
    doc.s = &s[TOKENIZER_CONFIG];
    if (!rc)
        rc = put_tokenizer_config(&doc, &v, err);
    if (!rc)
        rc = hf_write_vocab_json(&s[TOKENIZER], &v, err);
    if (rc)
        return rc;
    str_put(&s[GENERATION], "{");
    hf_put_bool(&s[GENERATION], "_from_model_config", true);
    hf_put_ids(&s[GENERATION], &v);
    str_put(&s[GENERATION], "\n}\n");
    return B2_OK;
}

static void free_texts(struct str s[N_FILES])
{
    for (int i = 0; i < N_FILES; i++)
        str_free(&s[i]);
}

enum b2_status hf_write_dry(const struct hf_write_model *w, struct b2_err *err)
{
    struct str s[N_FILES] = {{0}};
    enum b2_status rc = make_texts(s, w, err);

    free_texts(s);
    return rc;
}

enum b2_status hf_write_files(const struct hf_write_model *w, const char *dir,
                              bool force, uint64_t *n_bytes, struct b2_err *err)
{
    struct str s[N_FILES] = {{0}};
    enum b2_status rc = make_texts(s, w, err);

    for (int i = 0; !rc && i < N_FILES; i++) {
        rc = write_text(dir, file_names[i], &s[i], force, err);
        *n_bytes += s[i].len;
    }
    free_texts(s);
    return rc;
}
