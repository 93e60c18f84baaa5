/*
 * test_parts_out.c - models cut into several files: what the readers see of them, what is
 * refused, and that a failure leaves no file.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "format/parts_out.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "unit/scratch.h"
#include "unit/unit.h"

enum { N = 5, DATA_MAX = 1024 };

/* F32 vectors, one of them without values. In bytes: 256, 128, 512, 0, 64. */
static const int64_t lengths[N] = {64, 32, 128, 0, 16};
static const char *const tensor_names[N] = {"a", "b", "c", "empty", "d"};

/* Values that tell the tensor and the place in it. */
static void fill(float *data, int k)
{
    for (int i = 0; i < lengths[k]; i++)
        data[i] = (float)(k * 1000 + i);
}

/* NULL when memory runs out, which the twin under tests/oom tries. */
static struct meta *new_meta(struct b2_err *err)
{
    struct meta *m = meta_new(1 << 20);

    if (m && !meta_set_str(m, "general.architecture", "llama", err) &&
        !meta_set_u32(m, "general.alignment", 64, err))
        return m;
    meta_free(m);
    return NULL;
}

/* Writes the tensors before number stop; N: all of them. */
static enum b2_status write_parts(const struct parts_params *p, int stop, int *n_files,
                                  uint64_t *n_bytes, struct b2_err *err)
{
    struct parts_out *o = NULL;
    float data[DATA_MAX];
    enum b2_status rc = parts_new(&o, p, err);

    for (int k = 0; !rc && k < N; k++)
        rc = parts_tensor(o, tensor_names[k], DT_F32, 1, &lengths[k], err);
    if (!rc)
        rc = parts_start(o, n_files, n_bytes, err);
    for (int k = 0; !rc && k < stop; k++) {
        size_t size = (size_t)lengths[k] * sizeof *data, half = size / 2;
        fill(data, k);
        rc = parts_data(o, data, half, err);
        if (!rc)
            rc = parts_data(o, (const char *)data + half, size - half, err);
    }
    if (!rc)
        return parts_finish(o, err);
    parts_abort(o);
    return rc;
}

static void check_tensor(const struct tensor *t)
{
    float want[DATA_MAX];
    int k = 0;

    while (k < N && strcmp(t->name, tensor_names[k]) != 0)
        k++;
    assert_true(k < N);
    fill(want, k);
    assert_int_equal(t->ne[0], lengths[k]);
    assert_int_equal(t->n_bytes, (uint64_t)lengths[k] * sizeof *want);
    if (t->n_bytes > 0)
        assert_memory_equal(t->data, want, (size_t)t->n_bytes);
}

/* Opens by any part and finds all keys and tensors, in order. */
static void check_gguf(const char *path, int n_files)
{
    struct b2_err err = {0};
    struct str name = {0};

    for (int i = 0; i < n_files; i++) {
        struct modelfile *mf = NULL;
        str_clear(&name);
        parts_name(&name, PARTS_GGUF, path, i, n_files);
        assert_true(str_ok(&name));
        if (modelfile_open(&mf, name.data, NULL, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(modelfile_n_parts(mf), n_files);
        assert_int_equal(modelfile_n_tensors(mf), N);
        assert_int_equal(meta_count(modelfile_meta(mf)), 2);
        for (int k = 0; k < N; k++) {
            assert_string_equal(modelfile_tensor(mf, k)->name, tensor_names[k]);
            check_tensor(modelfile_tensor(mf, k));
        }
        modelfile_close(mf);
    }
    str_free(&name);
}

/* Bytes per file, and the tensors of each file that they lead to. Padding to 64 bytes
 * counts, as it lies in the file. */
static void test_gguf(void **state)
{
    static const struct {
        uint64_t max_bytes;
        int n_files;
        uint32_t version;
    } cases[] = {
        {0, 1, 3},   /* no limit */
        {960, 1, 3}, /* all, exactly */
        {959, 2, 3}, /* a b c | empty d */
        {576, 2, 2}, /* a b | c empty d */
        {512, 3, 3}, /* a b | c | empty d */
        {1, 4, 2},   /* each alone; what has no bytes stays with its neighbour */
    };
    struct scratch s;
    struct b2_err err = {0};
    int n_files = 0;
    uint64_t n_bytes = 0;

    (void)state;
    struct meta *m = new_meta(&err);
    assert_non_null(m);
    for (size_t i = 0; i < countof(cases); i++) {
        uint64_t sum = 0, size = 0;
        struct str name = {0};
        scratch_make(&s);
        const struct parts_params p = {.kind = PARTS_GGUF,
                                       .path = scratch_path(&s, "m.gguf"),
                                       .meta = m,
                                       .max_bytes = cases[i].max_bytes,
                                       .version = cases[i].version};
        enum b2_status rc = write_parts(&p, N, &n_files, &n_bytes, &err);
        ROW_CHECK(i, rc == B2_OK);
        ROW_CHECK(i, n_files == cases[i].n_files);
        check_gguf(p.path, n_files);
        for (int k = 0; k < n_files; k++) {
            struct file_map map = {0};
            str_clear(&name);
            parts_name(&name, PARTS_GGUF, p.path, k, n_files);
            ROW_CHECK(i, file_size(&size, name.data, &err) == B2_OK);
            ROW_CHECK(i, file_map(&map, name.data, &err) == B2_OK);
            ROW_CHECK(i, le_get32(map.data + 4) == cases[i].version);
            file_unmap(&map);
            sum += size;
        }
        ROW_CHECK(i, sum == n_bytes);
        str_free(&name);
        scratch_remove(&s);
    }
    meta_free(m);
}

/* One part that exists refuses all; an unfinished output leaves nothing. */
static void test_refused(void **state)
{
    struct scratch s;
    struct b2_err err = {0};
    struct parts_params p = {.kind = PARTS_GGUF, .max_bytes = 512, .version = 3};
    struct parts_out *o = NULL;
    int n_files = 0;
    uint64_t n_bytes = 0;
    char path[512];

    (void)state;
    scratch_make(&s);
    memcpy(path, scratch_path(&s, "m.gguf"), sizeof path);
    p.path = path;
    struct meta *m = new_meta(&err);
    assert_non_null(m);
    p.meta = m;
    for (int stop = 0; stop < N; stop++) {
        enum b2_status rc = write_parts(&p, stop, &n_files, &n_bytes, &err);
        ROW_CHECK(stop, rc == B2_EARG);
        for (int i = 1; i <= 3; i++) {
            char name[64];
            (void)snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i);
            ROW_CHECK(stop, !file_exists(scratch_path(&s, name)));
        }
    }
    const char *last = scratch_path(&s, "m-00003-of-00003.gguf");
    assert_int_equal(file_write_all(last, "x", 1, false, &err), B2_OK);
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_EEXIST);
    assert_non_null(strstr(err.msg, "m-00003-of-00003.gguf"));
    assert_false(file_exists(scratch_path(&s, "m-00001-of-00003.gguf")));
    p.force = true;
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_OK);
    check_gguf(path, 3);
    /* The source is never replaced, by whichever of its parts it was opened. */
    struct modelfile *mf = NULL;
    last = scratch_path(&s, "m-00003-of-00003.gguf");
    assert_int_equal(modelfile_open(&mf, last, NULL, &err), B2_OK);
    p.source = mf;
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "source itself"));
    modelfile_close(mf);
    p.source = NULL;
    p.version = 1;
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_EARG);
    /* More parts than can be open. */
    p.max_bytes = 1;
    assert_int_equal(parts_new(&o, &p, &err), B2_OK);
    for (int i = 0; i <= PARTS_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(parts_tensor(o, name, DT_F32, 1, &lengths[0], &err), B2_OK);
    }
    assert_int_equal(parts_start(o, &n_files, &n_bytes, &err), B2_EARG);
    assert_non_null(strstr(err.msg, "more than 256"));
    parts_abort(o);
    meta_free(m);
    scratch_remove(&s);
}

/* A file that came into being during the work is kept; parts named before it go. */
static void test_late_failure(void **state)
{
    struct scratch s;
    struct b2_err err = {0};
    struct parts_params p = {.kind = PARTS_SAFETENSORS, .max_bytes = 512};
    struct parts_out *o = NULL;
    float data[DATA_MAX];
    char path[512], *text = NULL;
    size_t n = 0;
    int n_files = 0;
    uint64_t n_bytes = 0;

    (void)state;
    scratch_make(&s);
    memcpy(path, scratch_path(&s, "m.safetensors"), sizeof path);
    p.path = path;
    assert_int_equal(parts_new(&o, &p, &err), B2_OK);
    for (int k = 0; k < 3; k++)
        assert_int_equal(parts_tensor(o, tensor_names[k], DT_F32, 1, &lengths[k], &err),
                         B2_OK);
    assert_int_equal(parts_start(o, &n_files, &n_bytes, &err), B2_OK);
    assert_int_equal(n_files, 2);
    for (int k = 0; k < 3; k++) {
        fill(data, k);
        assert_int_equal(parts_data(o, data, (size_t)lengths[k] * sizeof *data, &err),
                         B2_OK);
    }
    const char *first = scratch_path(&s, "m-00001-of-00002.safetensors");
    FILE *f = fopen(first, "wb"); /* as another process would */
    assert_non_null(f);
    assert_int_equal(fwrite("x", 1, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(parts_finish(o, &err), B2_EEXIST);
    assert_int_equal(file_read_all(&text, &n, first, 16, &err), B2_OK);
    assert_string_equal(text, "x");
    mem_free(text);
    assert_false(file_exists(scratch_path(&s, "m-00002-of-00002.safetensors")));
    assert_false(file_exists(scratch_path(&s, "m.safetensors.index.json")));
    scratch_remove(&s);
}

/* Shards, their index, and that the other form goes when --force replaces it. */
static void test_shards(void **state)
{
    static const char index[] =
        "{\n  \"metadata\": {\n    \"total_size\": 960\n  },\n  \"weight_map\": {\n"
        "    \"a\": \"model-00001-of-00002.safetensors\",\n"
        "    \"b\": \"model-00001-of-00002.safetensors\",\n"
        "    \"c\": \"model-00002-of-00002.safetensors\",\n"
        "    \"empty\": \"model-00002-of-00002.safetensors\",\n"
        "    \"d\": \"model-00002-of-00002.safetensors\"\n  }\n}\n";
    struct scratch s;
    struct b2_err err = {0};
    struct parts_params p = {.kind = PARTS_SAFETENSORS, .max_bytes = 576};
    char path[512], index_path[512], *text = NULL;
    size_t n = 0;
    int n_files = 0;
    uint64_t n_bytes = 0, sum = 0, size = 0;

    (void)state;
    scratch_make(&s);
    memcpy(path, scratch_path(&s, "model.safetensors"), sizeof path);
    memcpy(index_path, scratch_path(&s, "model.safetensors.index.json"),
           sizeof index_path);
    p.path = path;
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_OK);
    assert_int_equal(n_files, 2);
    assert_int_equal(file_read_all(&text, &n, index_path, 4096, &err), B2_OK);
    assert_string_equal(text, index);
    mem_free(text);
    for (int i = 1; i <= 2; i++) {
        struct modelfile *mf = NULL;
        char name[64];
        (void)snprintf(name, sizeof name, "model-%05d-of-00002.safetensors", i);
        const char *shard = scratch_path(&s, name);
        assert_int_equal(file_size(&size, shard, &err), B2_OK);
        sum += size;
        assert_int_equal(modelfile_open(&mf, shard, NULL, &err), B2_OK);
        assert_int_equal(modelfile_n_tensors(mf), i == 1 ? 2 : 3);
        for (int64_t k = 0; k < modelfile_n_tensors(mf); k++) {
            assert_int_equal(modelfile_load(mf, k, &err), B2_OK);
            check_tensor(modelfile_tensor(mf, k));
        }
        modelfile_close(mf);
    }
    assert_int_equal(sum + n, n_bytes);
    p.max_bytes = 0;
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_EEXIST);
    p.force = true;
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_OK);
    assert_true(file_exists(path) && !file_exists(index_path));
    p.max_bytes = 576;
    p.force = false;
    (void)remove(scratch_path(&s, "model-00001-of-00002.safetensors"));
    (void)remove(scratch_path(&s, "model-00002-of-00002.safetensors"));
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_EEXIST);
    p.force = true;
    assert_int_equal(write_parts(&p, N, &n_files, &n_bytes, &err), B2_OK);
    assert_true(!file_exists(path) && file_exists(index_path));
    scratch_remove(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_late_failure),
        cmocka_unit_test(test_shards),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
