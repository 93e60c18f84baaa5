/*
 * tok_data.c - see tok_data.h.
 */
#define _GNU_SOURCE /* popen, memmem */
#include "unit/tok_data.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/gguf.h"
#include "format/hf_tokenizer.h"
#include "model/vocab.h"
#include "unit/unit.h"

#include <stdlib.h>

const char tok_data_separator[] = "\n__ggml_vocab_test__\n";

enum { MAX_BYTES = 64 << 20, META_BYTES = 512 << 20 };

static char path_buf[1024];

const char *tok_data_golden(const char *name, const char *suffix)
{
    snprintf(path_buf, sizeof path_buf, "%s/tokenizer/%s%s", B2_GOLDEN_DIR, name,
             suffix);
    return path_buf;
}

const char *tok_data_shared(const char *name)
{
    const char *data = getenv("B2_DATA");

    if (data && *data)
        snprintf(path_buf, sizeof path_buf, "%s/%s", data, name);
    else
        snprintf(path_buf, sizeof path_buf, "%s/../../../shared/data/%s", B2_GOLDEN_DIR,
                 name);
    return path_buf;
}

static char *read_packed(const char *path, size_t *n)
{
    char command[1100], chunk[65536];
    struct str out = {0};

    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    FILE *f = popen(command, "r");
    if (!f)
        return NULL;
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, f)) > 0;)
        str_putn(&out, chunk, got);
    if (pclose(f) != 0 || !str_ok(&out)) {
        str_free(&out);
        return NULL;
    }
    *n = out.len;
    return out.data;
}

char *tok_data_read(const char *path, size_t *n)
{
    size_t len = strlen(path);
    char *data = NULL;

    if (!file_exists(path))
        return NULL;
    if (len > 3 && strcmp(path + len - 3, ".gz") == 0)
        return read_packed(path, n);
    return file_read_all(&data, n, path, MAX_BYTES, NULL) ? NULL : data;
}

/* pre: another pre-tokenizer for this vocabulary, and no NFC and no short cuts. */
static void from_gguf(struct tok_data *d, const char *bytes, size_t n, const char *pre)
{
    struct gguf g = {0};
    struct b2_err err = {0};

    if (gguf_parse(&g, bytes, n, &err))
        fail_msg("%s", err.msg);
    if (pre && (meta_set_str(g.meta, "tokenizer.ggml.pre", pre, &err) ||
                meta_set_bool(g.meta, "bonsai2.tokenizer.nfc", false, &err) ||
                meta_set_bool(g.meta, "bonsai2.tokenizer.ignore_merges", false, &err)))
        fail_msg("%s", err.msg);
    if (vocab_tokenizer(&d->t, g.meta, &err))
        fail_msg("%s", err.msg);
    gguf_close(&g);
}

static void from_json(struct tok_data *d, const char *json, size_t n,
                      const char *config, size_t n_config)
{
    struct b2_err err = {0};

    d->meta = meta_new(META_BYTES);
    assert_non_null(d->meta);
    if (hf_tokenizer_meta(d->meta, json, n, config, n_config, 0, &err) ||
        vocab_tokenizer(&d->t, d->meta, &err))
        fail_msg("%s", err.msg);
}

/* Gemma's terms forbid to store its vocabulary here: its file may be in the cache that
 * tools/ fill, as gemma-3-270m-q4_k_m.gguf. */
static bool from_cache(struct tok_data *d)
{
    const char *cache = getenv("B2_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    struct file_map map;

    if (cache && *cache)
        snprintf(path_buf, sizeof path_buf, "%s/", cache);
    else if (xdg && *xdg)
        snprintf(path_buf, sizeof path_buf, "%s/bonsai2/", xdg);
    else
        snprintf(path_buf, sizeof path_buf, "%s/.cache/bonsai2/", home ? home : "");
    strncat(path_buf, "gemma-3-270m-q4_k_m.gguf",
            sizeof path_buf - strlen(path_buf) - 1);
    if (file_map(&map, path_buf, NULL))
        return false;
    from_gguf(d, (const char *)map.data, map.size, NULL);
    file_unmap(&map);
    return true;
}

bool tok_data_open(struct tok_data *d, const char *name)
{
    size_t n = 0, n_config = 0;
    char shared[128];
    const char *plus = strchr(name, '+');

    snprintf(shared, sizeof shared, "%.*s", plus ? (int)(plus - name) : 100, name);
    char *config = NULL, *data = tok_data_read(tok_data_golden(shared, ".gguf.gz"), &n);

    *d = (struct tok_data){0};
    if (strcmp(name, "gemma") == 0)
        return from_cache(d);
    if (data) {
        from_gguf(d, data, n, plus ? plus + 1 : NULL);
        mem_free(data);
        return true;
    }
    data = tok_data_read(tok_data_golden(name, ".json.gz"), &n);
    if (!data)
        data = tok_data_read(tok_data_golden(name, ".json"), &n);
    if (data) {
        config = tok_data_read(tok_data_golden(name, "_config.json"), &n_config);
    } else {
        snprintf(shared, sizeof shared, "tokenizers/%s/tokenizer.json.gz", name);
        data = tok_data_read(tok_data_shared(shared), &n);
        snprintf(shared, sizeof shared, "tokenizers/%s/tokenizer_config.json", name);
        config = tok_data_read(tok_data_shared(shared), &n_config);
    }
    if (data)
        from_json(d, data, n, config, n_config);
    mem_free(data);
    mem_free(config);
    return d->t != NULL;
}

void tok_data_close(struct tok_data *d)
{
    tok_free(d->t);
    meta_free(d->meta);
    *d = (struct tok_data){0};
}

void tok_data_split(const char *text, size_t n, const char *separator,
                    void (*fn)(void *ctx, int64_t i, const char *s, size_t n),
                    void *ctx)
{
    size_t len = strlen(separator);
    const char *end = text + n;

    for (int64_t i = 0;; i++) {
        const char *cut = memmem(text, (size_t)(end - text), separator, len);
        fn(ctx, i, text, (size_t)((cut ? cut : end) - text));
        if (!cut)
            return;
        text = cut + len;
    }
}
