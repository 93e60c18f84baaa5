/*
 * fuzz_gguf.c - any bytes as a GGUF file: an explained error, or tensors that can be
 * read and keys that can be asked for.
 */
#include "format/gguf.h"
#include "fuzz.h"

static void touch_key(const struct meta *m, const struct meta_kv *kv)
{
    uint32_t u;
    float f;
    bool b;
    const char *s;
    const int32_t *i32;
    const float *f32;
    const struct meta_str *strs;
    uint64_t n;

    if (meta_get_strs(m, kv->key, &strs, &n, NULL) == B2_OK) {
        for (uint64_t i = 0; i < n; i++)
            fuzz_touch(strs[i].data, strs[i].len + 1);
    }
    if (meta_get_i32s(m, kv->key, &i32, &n, NULL) == B2_OK)
        fuzz_touch(i32, (size_t)n * sizeof *i32);
    if (meta_get_f32s(m, kv->key, &f32, &n, NULL) == B2_OK)
        fuzz_touch(f32, (size_t)n * sizeof *f32);
    if (meta_get_str(m, kv->key, &s, NULL) == B2_OK)
        fuzz_touch(s, strlen(s) + 1);
    (void)!meta_get_u32(m, kv->key, &u, NULL);
    (void)!meta_get_f32(m, kv->key, &f, NULL);
    (void)!meta_get_bool(m, kv->key, &b, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf g = {0};
    struct b2_err err = {0};
    uint8_t *copy = fuzz_copy(data, size);

    if (!copy)
        return 0;
    enum b2_status rc = gguf_parse(&g, copy, size, &err);
    fuzz_check_error(rc, &err);
    for (int64_t i = 0; rc == B2_OK && i < g.n_tensors; i++) {
        const struct tensor *t = &g.tensors[i];
        fuzz_touch(t->data, (size_t)t->n_bytes);
        fuzz_require(tensor_count(t) >= 0 && tensor_rows(t) >= 0, "counts fit");
        fuzz_require(strlen(t->name) < 64, "names are short");
    }
    for (int64_t i = 0; rc == B2_OK && i < meta_count(g.meta); i++)
        touch_key(g.meta, meta_at(g.meta, i));
    gguf_close(&g);
    free(copy);
    return 0;
}
