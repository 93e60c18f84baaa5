/*
 * mf_folder.c - opens a Hugging Face folder: config.json, tokenizer, safetensors.
 *
 * Tensors come out under their GGUF names in the order of a GGUF made from the folder:
 * embedding, layers, output.
 */
#include "base/mem.h"
#include "base/str.h"
#include "format/hf.h"
#include "format/hf_tokenizer.h"
#include "format/json.h"
#include "format/modelfile_int.h"
#include "format/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_MAX = 64 << 20, INDEX_VALUES = 2000000, SHARDS_MAX = 4096 };

/* A folder while it is being opened. */
struct folder {
    struct modelfile *mf;
    struct hf_model model;
    struct mf_entry *entry; /* unsorted */
    int64_t n, cap;
    int64_t n_vision, n_mtp; /* tensors left out */
    struct meta *map; /* of the index: tensor name to shard, as strings; or NULL */
};

static char *join(struct modelfile *mf, const char *name, struct b2_err *err)
{
    struct str s = {0};

    str_printf(&s, "%s/%s", mf->path, name);
    char *path = str_ok(&s) ? arena_strdup(mf->arena, s.data) : NULL;
    str_free(&s);
    if (!path)
        (void)err_set(err, B2_ENOMEM, "%s: out of memory", name);
    return path;
}

/* Maps a file of the folder as a part. *map is empty when it is absent. */
static enum b2_status map_file(struct modelfile *mf, const char *name, bool in_head,
                               struct file_map *map, struct b2_err *err)
{
    struct mf_part *part;
    const char *path = join(mf, name, err);

    *map = (struct file_map){0};
    if (!path)
        return B2_ENOMEM;
    if (!file_exists(path))
        return B2_OK;
    enum b2_status rc = mf_add_part(mf, path, &part, err);
    if (rc)
        return rc;
    part->head = in_head ? part->map.size : 0;
    *map = part->map;
    return B2_OK;
}

static enum b2_status open_config(struct folder *f, struct b2_err *err)
{
    struct modelfile *mf = f->mf;
    struct file_map map;
    enum b2_status rc = map_file(mf, "config.json", true, &map, err);

    if (rc)
        return rc;
    if (!map.data)
        return err_set(err, B2_ENOTFOUND,
                       "%s: no config.json in this folder, or an empty one; a model is "
                       "a GGUF file, a "
                       "safetensors file or a Hugging Face folder",
                       mf->path);
    mf->meta = meta_new(SIZE_MAX / 2);
    mf->owns_meta = true;
    if (!mf->meta)
        return err_set(err, B2_ENOMEM, "%s: out of memory", mf->path);
    rc = hf_config_meta(mf->meta, &f->model, (const char *)map.data, map.size, mf->log,
                        err);
    if (rc)
        err_wrap(err, "%s", mf->path);
    return rc;
}

/* The folder's own name, without a trailing slash, as general.name. */
static enum b2_status set_name(struct modelfile *mf, struct b2_err *err)
{
    size_t end = strlen(mf->path), start;

    while (end > 1 && mf->path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && mf->path[start - 1] != '/'; start--)
        ;
    char *name = arena_strndup(mf->arena, mf->path + start, end - start);
    if (!name)
        return err_set(err, B2_ENOMEM, "out of memory");
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return B2_OK;
    return meta_set_str(mf->meta, "general.name", name, err);
}

/* "license: apache-2.0" in the front matter of a model card: its value, n bytes. */
static const char *find_licence(const struct file_map *card, size_t *n)
{
    static const char word[] = "\nlicense:";
    const size_t len = sizeof word - 1, size = card->size < 65536 ? card->size : 65536;
    const char *p = (const char *)card->data, *end = p + size;

    if (size < len + 4 || memcmp(p, "---\n", 4) != 0)
        return NULL;
    for (p += 3; (size_t)(end - p) > len && memcmp(p, word, len) != 0; p++) {
        if (p != (const char *)card->data + 3 && memcmp(p, "\n---", 4) == 0)
            return NULL;
    }
    if ((size_t)(end - p) <= len)
        return NULL;
    for (p += len; p < end && *p == ' '; p++)
        ;
    for (*n = 0; p + *n < end && p[*n] > ' ' && p[*n] < 0x7f; (*n)++)
        ;
    return *n > 0 ? p : NULL;
}

/* The licence from README.md. The card is no part of the model: not kept, not counted. */
static enum b2_status set_licence(struct modelfile *mf, struct b2_err *err)
{
    const char *path = join(mf, "README.md", err);
    struct file_map card = {0};
    size_t n = 0;

    if (!path)
        return B2_ENOMEM;
    if (!file_exists(path) || file_map(&card, path, NULL))
        return B2_OK; /* a card that cannot be read says nothing */
    const char *p = find_licence(&card, &n);
    enum b2_status rc = B2_OK;
    if (p) {
        struct meta_str s = {p, n};
        struct meta_kv kv = {
            .key = "general.license", .type = MT_STR, .n = 1, .v.strs = &s};
        rc = meta_copy(mf->meta, &kv, err);
    }
    file_unmap(&card);
    return rc;
}

/* tokenizer.json and what belongs to it. */
static enum b2_status open_tokenizer(struct folder *f, struct b2_err *err)
{
    struct modelfile *mf = f->mf;
    struct file_map tok = {0}, conf = {0}, tmpl = {0}, gen = {0};
    uint32_t vocab = 0;
    char key[128];
    enum b2_status rc = map_file(mf, "tokenizer.json", false, &tok, err);

    if (rc == B2_OK)
        rc = map_file(mf, "tokenizer_config.json", false, &conf, err);
    if (rc == B2_OK)
        rc = map_file(mf, "chat_template.jinja", false, &tmpl, err);
    if (rc == B2_OK)
        rc = map_file(mf, "generation_config.json", false, &gen, err);
    (void)snprintf(key, sizeof key, "%s.vocab_size", f->model.arch->gguf);
    if (rc == B2_OK)
        rc = meta_get_u32(mf->meta, key, &vocab, err);
    if (rc == B2_OK && tok.data)
        rc = hf_tokenizer_meta(mf->meta, (const char *)tok.data, tok.size,
                               (const char *)conf.data, conf.size, vocab, err);
    else if (rc == B2_OK)
        log_line(mf->log, LOG_WARN,
                 "%s: no tokenizer.json, so the model has no tokenizer", mf->path);
    if (rc == B2_OK && tmpl.data && tmpl.size <= HF_CONFIG_MAX) {
        struct meta_str s = {(const char *)tmpl.data, tmpl.size};
        struct meta_kv kv = {
            .key = "tokenizer.chat_template", .type = MT_STR, .n = 1, .v.strs = &s};
        rc = meta_copy(mf->meta, &kv, err);
    }
    if (rc == B2_OK && conf.data)
        rc =
            hf_tokenizer_config_meta(mf->meta, (const char *)conf.data, conf.size, err);
    if (rc == B2_OK && gen.data)
        rc = hf_token_ids_meta(mf->meta, (const char *)gen.data, gen.size,
                               "generation_config.json", err);
    if (rc == B2_OK && gen.data)
        rc = hf_sampling_meta(mf->meta, (const char *)gen.data, gen.size, err);
    if (rc == B2_OK && (!meta_find(mf->meta, "tokenizer.ggml.eos_token_id") ||
                        !meta_find(mf->meta, "tokenizer.ggml.bos_token_id")))
        rc = hf_token_ids_meta(mf->meta, (const char *)mf->parts[0].map.data,
                               mf->parts[0].map.size, "config.json", err);
    if (rc)
        err_wrap(err, "%s", mf->path);
    return rc;
}

static enum b2_status push(struct folder *f, const struct mf_entry *e,
                           struct b2_err *err)
{
    if (f->n == f->cap) {
        int64_t cap = f->cap ? f->cap * 2 : 256;
        struct mf_entry *p = mem_realloc(f->entry, (size_t)cap, sizeof *p);
        if (!p)
            return err_set(err, B2_ENOMEM, "out of memory");
        f->entry = p;
        f->cap = cap;
    }
    f->entry[f->n++] = *e;
    return B2_OK;
}

/* One tensor of a shard: finds its GGUF name and how it is loaded. */
static enum b2_status take_tensor(struct folder *f, const struct safetensors *s,
                                  int64_t i, struct b2_err *err)
{
    const struct tensor *t = &s->tensors[i];
    struct mf_entry e = {.t = *t,
                         .how = mf_place(t),
                         .part = f->mf->n_parts - 1,
                         .offset = s->offsets[i],
                         .src = t->data};
    struct hf_target target;
    char show[NAMES_SHOW_MAX];

    names_show(show, t->name, strlen(t->name));
    switch (hf_tensor_target(&f->model, t->name, &target)) {
    case HF_SKIP:
        return B2_OK;
    case HF_SKIP_VISION:
        f->n_vision++;
        return B2_OK;
    case HF_SKIP_MTP:
        f->n_mtp++;
        return B2_OK;
    case HF_UNKNOWN:
        return err_set(err, B2_EUNSUP,
                       "tensor %s: not a tensor that %s with %" PRIu32
                       " layers is known to have",
                       show, f->model.arch->hf, f->model.n_layers);
    case HF_TENSOR:
        break;
    }
    e.order = target.order;
    if (target.n_heads > 0) {
        if (tensor_rows(t) % (2 * (int64_t)target.n_heads) != 0)
            return err_set(err, B2_EFORMAT,
                           "tensor %s: %" PRId64 " rows are not an even number for "
                           "each of %" PRIu32 " heads",
                           show, tensor_rows(t), target.n_heads);
        e.how = MF_PERMUTE;
        e.n_heads = target.n_heads;
    }
    if (target.kind->change == HF_PLUS_ONE) {
        if (!(dtype_info(t->type)->flags & DTF_FLOAT))
            return err_set(err, B2_EUNSUP, "tensor %s: %s, expected a float type", show,
                           dtype_info(t->type)->name);
        e.how = MF_PLUS_ONE;
        e.src_type = t->type;
        e.t.type = DT_F32;
        e.t.n_bytes = (uint64_t)tensor_count(t) * sizeof(float);
    }
    if (target.kind->change >= HF_V_BEHIND_QK) {
        enum b2_status rc =
            mf_delta_entry(&e, &f->model, (int)target.kind->change, err);
        if (rc) {
            err_wrap(err, "tensor %s", show);
            return rc;
        }
    }
    if (e.how != MF_IN_PLACE)
        e.t.data = NULL;
    e.t.name = arena_strdup(f->mf->arena, target.name);
    return e.t.name ? push(f, &e, err) : err_set(err, B2_ENOMEM, "out of memory");
}

/* With an index, the shard must hold what the index says, and nothing else. */
static enum b2_status check_index(const struct folder *f, const struct safetensors *s,
                                  const char *file, struct b2_err *err)
{
    int64_t want = 0;
    char show[NAMES_SHOW_MAX];

    for (int64_t i = 0; i < meta_count(f->map); i++)
        want += strcmp(meta_at(f->map, i)->v.strs->data, file) == 0;
    for (int64_t i = 0; i < s->n_tensors; i++) {
        const char *name = s->tensors[i].name, *where;
        names_show(show, name, strlen(name));
        if (!meta_find(f->map, name))
            return err_set(err, B2_EFORMAT, "tensor %s is not in the index", show);
        enum b2_status rc = meta_get_str(f->map, name, &where, err);
        if (rc)
            return rc;
        if (strcmp(where, file) != 0)
            return err_set(err, B2_EFORMAT,
                           "tensor %s lies here, but the index says %.100s", show,
                           where);
    }
    if (s->n_tensors < want)
        return err_set(err, B2_ENOTFOUND,
                       "%" PRId64 " tensors that the index places here are missing",
                       want - s->n_tensors);
    return B2_OK;
}

static enum b2_status open_shard(struct folder *f, const char *file, struct b2_err *err)
{
    struct modelfile *mf = f->mf;
    struct safetensors s = {0};
    struct mf_part *part;
    const char *path = join(mf, file, err);

    if (!path)
        return B2_ENOMEM;
    enum b2_status rc = mf_add_part(mf, path, &part, err);
    if (rc) {
        if (rc == B2_ENOTFOUND && f->map)
            err_wrap(err, "a file that the index names is missing");
        return rc;
    }
    rc = safetensors_parse(&s, part->map.data, part->map.size, err);
    part->head = s.data_offset;
    if (rc == B2_OK && f->map)
        rc = check_index(f, &s, file, err);
    for (int64_t i = 0; rc == B2_OK && i < s.n_tensors; i++)
        rc = take_tensor(f, &s, i, err);
    safetensors_close(&s);
    if (rc)
        err_wrap(err, "%s", path);
    return rc;
}

/* Reads weight_map into f->map and the distinct files, in order, into files. */
static enum b2_status read_index(struct folder *f, struct names *files,
                                 const struct file_map *map, struct b2_err *err)
{
    cJSON *root = NULL;
    const cJSON *item;

    if (map->size > INDEX_MAX)
        return err_set(err, B2_EUNSUP, "%zu bytes, at most %d are read", map->size,
                       INDEX_MAX);
    f->map = meta_new(SIZE_MAX / 2);
    if (!f->map)
        return err_set(err, B2_ENOMEM, "out of memory");
    enum b2_status rc = json_parse_bounded(&root, (const char *)map->data, map->size,
                                           INDEX_VALUES, err);
    if (rc)
        return rc;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "weight_map");
    if (!cJSON_IsObject(list))
        rc = err_set(err, B2_EFORMAT, "weight_map is missing");
    cJSON_ArrayForEach(item, list)
    {
        char show[NAMES_SHOW_MAX];
        names_show(show, item->string, strlen(item->string));
        if (!cJSON_IsString(item) || item->valuestring[0] == '\0' ||
            item->valuestring[0] == '.' || strpbrk(item->valuestring, "/\\"))
            rc = err_set(err, B2_EFORMAT,
                         "weight_map: tensor %s has no plain file name", show);
        else if (meta_find(f->map, item->string))
            rc = err_set(err, B2_EFORMAT, "weight_map: tensor %s appears twice", show);
        else
            rc = meta_set_str(f->map, item->string, item->valuestring, err);
        if (rc)
            break;
        const struct meta_kv *kv = meta_find(f->map, item->string);
        if (names_add(files, kv->v.strs->data) == NAMES_ENOMEM)
            rc = err_set(err, B2_ENOMEM, "out of memory");
        if (rc == B2_OK && files->n > SHARDS_MAX)
            rc = err_set(err, B2_EUNSUP, "more than %d files", SHARDS_MAX);
        if (rc)
            break;
    }
    cJSON_Delete(root);
    return rc;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

static enum b2_status open_weights(struct folder *f, struct b2_err *err)
{
    static const char single[] = "model.safetensors";
    static const char index_name[] = "model.safetensors.index.json";
    struct modelfile *mf = f->mf;
    struct names files = {0};
    struct file_map index;
    const char *path = join(mf, single, err);

    if (!path)
        return B2_ENOMEM;
    if (file_exists(path))
        return open_shard(f, single, err);
    enum b2_status rc = map_file(mf, index_name, true, &index, err);
    if (rc)
        return rc;
    if (!index.data)
        return err_set(err, B2_ENOTFOUND,
                       "%s: neither %s nor %s in this folder (PyTorch .bin files are "
                       "not read; convert them to safetensors)",
                       mf->path, single, index_name);
    rc = read_index(f, &files, &index, err);
    if (rc)
        err_wrap(err, "%s/%s", mf->path, index_name);
    if (rc == B2_OK && files.n > 1)
        qsort(files.name, files.n, sizeof *files.name, by_text);
    for (size_t i = 0; rc == B2_OK && i < files.n; i++)
        rc = open_shard(f, files.name[i], err);
    names_free(&files);
    return rc;
}

static int by_order(const void *a, const void *b)
{
    const struct mf_entry *x = a, *y = b;

    return x->order < y->order ? -1 : x->order > y->order;
}

/* A tensor of divisors of frequencies, as a converter would store it. */
static enum b2_status add_factors(struct folder *f, const char *name,
                                  const float *factors, struct b2_err *err)
{
    int n = f->model.n_rope_factors;
    struct mf_entry e = {.how = MF_MADE, .part = -1};

    if (n == 0)
        return B2_OK;
    float *data = arena_calloc(f->mf->arena, (size_t)n, sizeof *data);
    if (!data)
        return err_set(err, B2_ENOMEM, "out of memory");
    memcpy(data, factors, (size_t)n * sizeof *data);
    e.t = (struct tensor){.name = name,
                          .type = DT_F32,
                          .rank = 1,
                          .ne = {n, 1, 1, 1},
                          .data = (const uint8_t *)data,
                          .n_bytes = (uint64_t)n * sizeof *data};
    e.src = e.t.data;
    return mf_add_entry(f->mf, &e, err);
}

/* What of the folder is not read, in a line each. */
static void note_left_out(const struct folder *f)
{
    if (f->n_vision > 0)
        log_line(f->mf->log, LOG_INFO,
                 "%s: %" PRId64 " tensors of the part that sees pictures are left out: "
                 "text only",
                 f->mf->path, f->n_vision);
    if (f->n_mtp > 0)
        log_line(f->mf->log, LOG_INFO,
                 "%s: %" PRId64
                 " tensors that predict further tokens (mtp) are left out",
                 f->mf->path, f->n_mtp);
}

/* Of llama3 scaling, which is computed, or the two sets of longrope. */
static enum b2_status add_rope_factors(struct folder *f, struct b2_err *err)
{
    const struct hf_model *m = &f->model;
    enum b2_status rc;

    if (!m->longrope)
        return add_factors(f, "rope_freqs.weight", m->rope_factors, err);
    rc = add_factors(f, "rope_factors_long.weight", m->rope_long, err);
    return rc ? rc : add_factors(f, "rope_factors_short.weight", m->rope_factors, err);
}

static enum b2_status finish(struct folder *f, struct b2_err *err)
{
    struct modelfile *mf = f->mf;
    enum b2_status rc;

    if (f->n > 1)
        qsort(f->entry, (size_t)f->n, sizeof *f->entry, by_order);
    rc = add_rope_factors(f, err);
    for (int64_t i = 0; rc == B2_OK && i < f->n; i++)
        rc = mf_add_entry(mf, &f->entry[i], err);
    if (rc == B2_OK && !f->model.tied && modelfile_find(mf, "output.weight") < 0)
        rc = err_set(err, B2_ENOTFOUND,
                     "tensor lm_head.weight is missing, and config.json does not say "
                     "tie_word_embeddings");
    if (rc)
        err_wrap(err, "%s", mf->path);
    else
        note_left_out(f);
    return rc;
}

enum b2_status mf_open_folder(struct modelfile *mf, struct b2_err *err)
{
    struct folder f = {.mf = mf};
    enum b2_status rc = open_config(&f, err);

    if (rc == B2_OK)
        rc = set_name(mf, err);
    if (rc == B2_OK)
        rc = set_licence(mf, err);
    if (rc == B2_OK)
        rc = open_tokenizer(&f, err);
    if (rc == B2_OK)
        rc = open_weights(&f, err);
    if (rc == B2_OK)
        rc = finish(&f, err);
    meta_free(f.map);
    mem_free(f.entry);
    return rc;
}
