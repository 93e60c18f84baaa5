/*
 * test_gguf_write.c - what we write is what gguf-py writes, byte for byte.
 */
#define _GNU_SOURCE
#include "format/gguf.h"
#include "unit/format_dump.h"
#include "unit/scratch.h"

static const char *const files[] = {"kinds.gguf", "align.gguf", "llama.gguf"};

static void golden_path(char path[512], const char *name)
{
    snprintf(path, 512, "%s/format/%s", B2_GOLDEN_DIR, name);
}

/* gguf-py reads the same keys and values out of the files. */
static void test_read_like_gguf_py(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(files); i++) {
        char path[512], dump[64];
        struct file_map map;
        struct gguf g;
        struct b2_err err = {0};
        struct str s = {0};
        golden_path(path, files[i]);
        ROW_CHECK(i, file_map(&map, path, &err) == B2_OK);
        if (gguf_parse(&g, map.data, map.size, &err))
            fail_msg("%s: %s", files[i], err.msg);
        for (int64_t k = 0; k < meta_count(g.meta); k++)
            dump_key(&s, meta_at(g.meta, k));
        for (int64_t k = 0; k < g.n_tensors; k++)
            dump_tensor(&s, &g.tensors[k]);
        snprintf(dump, sizeof dump, "%s.dump", files[i]);
        gguf_close(&g);
        file_unmap(&map);
        dump_check(&s, dump);
    }
}

/* Writes g again, its data in pieces of an odd size. */
static enum b2_status write_again(const struct gguf *g, const char *path,
                                  uint64_t *size, struct b2_err *err)
{
    struct gguf_out *o = NULL;
    enum b2_status rc = gguf_out_open(&o, path, false, g->meta, err);

    if (rc)
        return rc;
    for (int64_t i = 0; rc == B2_OK && i < g->n_tensors; i++) {
        const struct tensor *t = &g->tensors[i];
        rc = gguf_out_tensor(o, t->name, t->type, t->rank, t->ne, err);
    }
    if (rc == B2_OK)
        rc = gguf_out_size(o, size, err);
    if (rc == B2_OK)
        rc = gguf_out_header(o, err);
    for (int64_t i = 0; rc == B2_OK && i < g->n_tensors; i++) {
        const struct tensor *t = &g->tensors[i];
        for (uint64_t at = 0; rc == B2_OK && at < t->n_bytes; at += 101) {
            uint64_t n = t->n_bytes - at < 101 ? t->n_bytes - at : 101;
            rc = gguf_out_data(o, t->data + at, (size_t)n, err);
        }
    }
    if (rc == B2_OK)
        return gguf_out_finish(o, err);
    gguf_out_abort(o);
    return rc;
}

static void check_again(const char *from, struct scratch *dir)
{
    struct file_map a, b;
    struct gguf g;
    uint64_t size = 0;
    struct b2_err err = {0};
    const char *to = scratch_path(dir, "again.gguf");

    if (file_map(&a, from, &err) || gguf_parse(&g, a.data, a.size, &err) ||
        write_again(&g, to, &size, &err) || file_map(&b, to, &err))
        fail_msg("%s: %s", from, err.msg);
    assert_int_equal(size, b.size);
    assert_int_equal(a.size, b.size);
    if (memcmp(a.data, b.data, a.size) != 0)
        fail_msg("%s: other bytes", from);
    gguf_close(&g);
    file_unmap(&a);
    file_unmap(&b);
    assert_int_equal(file_remove(to, &err), B2_OK);
}

static void test_same_bytes(void **state)
{
    struct scratch dir;

    (void)state;
    scratch_make(&dir);
    for (size_t i = 0; i < countof(files); i++) {
        char path[512];
        golden_path(path, files[i]);
        check_again(path, &dir);
    }
    scratch_remove(&dir);
}

/* The real model, where it has been fetched. */
static void test_real_model(void **state)
{
    const char *cache = getenv("B2_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char path[512];
    struct scratch dir;

    (void)state;
    if (cache)
        snprintf(path, sizeof path, "%s", cache);
    else if (xdg)
        snprintf(path, sizeof path, "%s/bonsai2", xdg);
    else
        snprintf(path, sizeof path, "%s/.cache/bonsai2", home ? home : "");
    strncat(path, "/SmolLM2-135M-Instruct.Q4_1.gguf", sizeof path - strlen(path) - 1);
    if (!file_exists(path))
        skip();
    scratch_make(&dir);
    check_again(path, &dir);
    scratch_remove(&dir);
}

/* Each misuse is refused, and nothing appears under the name. */
static void test_misuse(void **state)
{
    static const int64_t ne[] = {32, 2}, odd[] = {31}, negative[] = {-1};
    struct scratch dir;
    struct gguf_out *o = NULL;
    struct b2_err err = {0};
    struct meta *m = meta_new(1 << 20);
    uint8_t bytes[68] = {0};
    char path[512];

    (void)state;
    assert_non_null(m);
    scratch_make(&dir);
    snprintf(path, sizeof path, "%s", scratch_path(&dir, "x.gguf"));
    assert_int_equal(gguf_out_open(&o, path, false, m, &err), B2_OK);
    assert_int_equal(gguf_out_tensor(o, "a", DT_Q8_0, 2, ne, &err), B2_OK);
    assert_int_equal(gguf_out_tensor(o, "a", DT_Q8_0, 2, ne, &err), B2_EARG);
    assert_int_equal(gguf_out_tensor(o, "b", DT_Q8_0, 1, odd, &err), B2_EARG);
    assert_int_equal(gguf_out_tensor(o, "b", DT_F32, 1, negative, &err), B2_EARG);
    assert_int_equal(gguf_out_tensor(o, "b", DT_F32, 5, ne, &err), B2_EARG);
    assert_int_equal(gguf_out_tensor(o, "", DT_F32, 1, ne, &err), B2_EARG);
    assert_int_equal(gguf_out_tensor(o, "b", DT_U8, 1, ne, &err), B2_EARG);
    assert_int_equal(gguf_out_tensor(o, "b", DT_Q2_0_G128, 1, ne, &err), B2_EARG);
    assert_int_equal(gguf_out_data(o, bytes, 4, &err), B2_EARG);
    assert_int_equal(gguf_out_header(o, &err), B2_OK);
    assert_int_equal(gguf_out_header(o, &err), B2_EARG);
    assert_int_equal(gguf_out_tensor(o, "c", DT_F32, 1, ne, &err), B2_EARG);
    assert_int_equal(gguf_out_data(o, bytes, 60, &err), B2_OK);
    assert_int_equal(gguf_out_data(o, bytes, 9, &err), B2_EARG);
    assert_int_equal(gguf_out_finish(o, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "60 of 68"));
    assert_false(file_exists(path));
    meta_free(m);
    scratch_remove(&dir);
}

static void test_bad_alignment(void **state)
{
    struct gguf_out *o = NULL;
    struct b2_err err = {0};
    struct meta *m = meta_new(1 << 20);

    (void)state;
    assert_non_null(m);
    assert_int_equal(meta_set_u32(m, "general.alignment", 24, &err), B2_OK);
    assert_int_equal(gguf_out_open(&o, "unused.gguf", false, m, &err), B2_EFORMAT);
    assert_null(o);
    meta_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_like_gguf_py), cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_real_model),        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_bad_alignment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
