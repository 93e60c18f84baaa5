/*
 * test_modelfile.c - whole, split and sharded models; a folder and its GGUF are the same.
 */
#define _GNU_SOURCE
#include "format/modelfile.h"
#include "unit/format_dump.h"
#include "unit/gguf_build.h"
#include "unit/scratch.h"

static const char *golden(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/format/%s", B2_GOLDEN_DIR, name);
    return path;
}

static struct modelfile *open_or_fail(const char *path)
{
    struct modelfile *mf = NULL;
    struct b2_err err = {0};

    if (modelfile_open(&mf, path, NULL, &err))
        fail_msg("%s", err.msg);
    return mf;
}

/* Writes bytes as dir/name. */
static void put(struct scratch *dir, const char *name, const void *data, size_t n)
{
    struct b2_err err = {0};

    if (file_write_all(scratch_path(dir, name), data, n, true, &err))
        fail_msg("%s", err.msg);
}

static void copy_golden(struct scratch *dir, const char *name, const char *as)
{
    char *data = NULL;
    size_t n = 0;
    struct b2_err err = {0};

    if (file_read_all(&data, &n, golden(name), 1 << 20, &err))
        fail_msg("%s", err.msg);
    put(dir, as, data, n);
    mem_free(data);
}

/* Opens and wants a refusal with these words. */
static void refuse(const char *path, enum b2_status want, const char *words)
{
    struct modelfile *mf = NULL;
    struct b2_err err = {0};
    enum b2_status rc = modelfile_open(&mf, path, NULL, &err);

    if (rc != want || err.status != rc || !strstr(err.msg, words))
        fail_msg("status %d, want %d and \"%s\": %s", rc, want, words, err.msg);
    assert_null(mf);
}

/* Same names, shapes, types and bytes after loading, in the same order. */
static void check_same(struct modelfile *a, struct modelfile *b)
{
    struct b2_err err = {0};

    assert_int_equal(modelfile_n_tensors(a), modelfile_n_tensors(b));
    for (int64_t i = 0; i < modelfile_n_tensors(a); i++) {
        const struct tensor *t = modelfile_tensor(a, i), *u = modelfile_tensor(b, i);
        assert_string_equal(t->name, u->name);
        assert_int_equal(modelfile_find(b, t->name), i);
        assert_int_equal(modelfile_load(a, i, &err), B2_OK);
        assert_int_equal(modelfile_load(b, i, &err), B2_OK);
        assert_true(t->type == u->type && t->rank == u->rank);
        assert_memory_equal(t->ne, u->ne, sizeof t->ne);
        assert_int_equal(t->n_bytes, u->n_bytes);
        if (memcmp(t->data, u->data, (size_t)t->n_bytes) != 0)
            fail_msg("tensor %s: other bytes", t->name);
        modelfile_unload(a, i);
        modelfile_unload(b, i);
    }
}

static void test_folder_is_its_gguf(void **state)
{
    static const char *const folders[] = {"llama", "llama-sharded"};

    (void)state;
    for (size_t i = 0; i < countof(folders); i++) {
        struct modelfile *gguf = open_or_fail(golden("llama.gguf"));
        struct modelfile *dir = open_or_fail(golden(folders[i]));
        assert_int_equal(modelfile_kind(gguf), MF_GGUF);
        assert_int_equal(modelfile_kind(dir), MF_FOLDER);
        check_same(dir, gguf);
        check_same(dir, gguf); /* again after unloading */
        int64_t q = modelfile_find(dir, "blk.1.attn_q.weight");
        assert_int_equal(modelfile_load_bytes(dir, q), 16 * 16 * 2);
        assert_int_equal(modelfile_load_bytes(gguf, q), 0);
        assert_int_equal(modelfile_find(dir, "blk.2.attn_q.weight"), -1);
        modelfile_close(gguf);
        modelfile_close(dir);
    }
}

/* The keys of a folder, as llama.cpp's converter names them. */
static void test_folder_keys(void **state)
{
    static const struct {
        const char *key;
        uint32_t want;
    } numbers[] = {
        {"llama.block_count", 2},           {"llama.context_length", 131072},
        {"llama.embedding_length", 16},     {"llama.feed_forward_length", 24},
        {"llama.attention.head_count", 4},  {"llama.attention.head_count_kv", 2},
        {"llama.rope.dimension_count", 4},  {"llama.vocab_size", 20},
        {"general.file_type", 32},          {"tokenizer.ggml.bos_token_id", 1},
        {"tokenizer.ggml.eos_token_id", 2}, {"tokenizer.ggml.eot_token_id", 3},
    };
    static const char *const words[][2] = {
        {"general.architecture", "llama"},
        {"general.name", "llama"},
        {"general.license", "apache-2.0"},
    };
    struct modelfile *mf = open_or_fail(golden("llama"));
    struct b2_err err = {0};
    float f = 0;

    (void)state;
    for (size_t i = 0; i < countof(numbers); i++) {
        uint32_t v = 0;
        if (meta_get_u32(modelfile_meta(mf), numbers[i].key, &v, &err))
            fail_msg("%s", err.msg);
        ROW_CHECK(i, v == numbers[i].want);
    }
    for (size_t i = 0; i < countof(words); i++) {
        const char *v = "";
        if (meta_get_str(modelfile_meta(mf), words[i][0], &v, &err))
            fail_msg("%s", err.msg);
        assert_string_equal(v, words[i][1]);
    }
    assert_int_equal(meta_get_f32(modelfile_meta(mf), "llama.rope.freq_base", &f, &err),
                     B2_OK);
    assert_true(f == 500000.0f);
    assert_null(meta_find(modelfile_meta(mf), "llama.rope.scaling.type"));
    modelfile_close(mf);
}

static void test_split(void **state)
{
    static const char *const parts[] = {"split-00001-of-00003.gguf",
                                        "split-00002-of-00003.gguf",
                                        "split-00003-of-00003.gguf"};

    (void)state;
    for (size_t i = 0; i < countof(parts); i++) {
        struct modelfile *mf = open_or_fail(golden(parts[i]));
        const char *name = "";
        struct b2_err err = {0};
        assert_int_equal(modelfile_n_tensors(mf), 5);
        for (int64_t k = 0; k < 5; k++) {
            char want[3] = {'t', (char)('0' + k), '\0'};
            assert_string_equal(modelfile_tensor(mf, k)->name, want);
        }
        assert_int_equal(modelfile_bytes(mf), 416 + 320 + 224);
        assert_null(meta_find(modelfile_meta(mf), "split.count"));
        assert_int_equal(meta_get_str(modelfile_meta(mf), "general.name", &name, &err),
                         B2_OK);
        assert_string_equal(name, "split");
        modelfile_close(mf);
    }
}

static void test_split_mistakes(void **state)
{
    struct scratch dir;

    (void)state;
    scratch_make(&dir);
    copy_golden(&dir, "split-00001-of-00003.gguf", "split-00001-of-00003.gguf");
    copy_golden(&dir, "split-00003-of-00003.gguf", "split-00003-of-00003.gguf");
    refuse(scratch_path(&dir, "split-00003-of-00003.gguf"), B2_ENOTFOUND,
           "part 2 of 3 is missing");
    copy_golden(&dir, "split-00003-of-00003.gguf", "split-00002-of-00003.gguf");
    refuse(scratch_path(&dir, "split-00001-of-00003.gguf"), B2_EFORMAT,
           "says it is part 3 of 3, expected 2 of 3");
    copy_golden(&dir, "split-00001-of-00003.gguf", "model.gguf");
    refuse(scratch_path(&dir, "model.gguf"), B2_EFORMAT, "-00001-of-00003.gguf");
    copy_golden(&dir, "split-00001-of-00003.gguf", "split-00001-of-00002.gguf");
    refuse(scratch_path(&dir, "split-00001-of-00002.gguf"), B2_EFORMAT,
           "-00001-of-00003.gguf");
    scratch_remove(&dir);
}

/* The sum of all bytes is what sha256sum says; the fingerprint covers the header. */
static void test_hashes(void **state)
{
    struct modelfile *mf = open_or_fail(golden("align.gguf"));
    char *data = NULL, all[65], head[65], want[65];
    size_t n = 0;
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(file_read_all(&data, &n, golden("align.gguf"), 1 << 20, &err),
                     B2_OK);
    assert_int_equal(modelfile_sha256(mf, all, &err), B2_OK);
    assert_int_equal(hash_sha256(want, data, n, &err), B2_OK);
    assert_string_equal(all, want);
    assert_int_equal(modelfile_fingerprint(mf, head, &err), B2_OK);
    assert_int_equal(hash_sha256(want, data, 256, &err), B2_OK); /* data start there */
    assert_string_equal(head, want);
    modelfile_close(mf);
    mem_free(data);
}

/* The sample changes with the values, the fingerprint does not; fewer bytes than pieces:
 * it is the sum of all values. */
static void test_sample(void **state)
{
    struct scratch dir;
    const char *path;
    char *data = NULL, print[2][65], sample[2][65], want[65];
    size_t n = 0;
    struct b2_err err = {0};

    (void)state;
    scratch_make(&dir);
    path = scratch_path(&dir, "m.gguf");
    assert_int_equal(file_read_all(&data, &n, golden("align.gguf"), 1 << 20, &err),
                     B2_OK);
    for (int i = 0; i < 2; i++) {
        struct modelfile *mf = NULL;
        data[256] = (char)(data[256] ^ i);
        assert_int_equal(file_write_all(path, data, n, true, &err), B2_OK);
        assert_int_equal(modelfile_open(&mf, path, NULL, &err), B2_OK);
        assert_int_equal(modelfile_fingerprint(mf, print[i], &err), B2_OK);
        assert_int_equal(modelfile_sample(mf, sample[i], &err), B2_OK);
        modelfile_close(mf);
        assert_int_equal(hash_sha256(want, data + 256, n - 256, &err), B2_OK);
        assert_string_equal(sample[i], want);
    }
    assert_string_equal(print[0], print[1]);
    assert_string_not_equal(sample[0], sample[1]);
    mem_free(data);
    scratch_remove(&dir);
}

static void test_hash_vector(void **state)
{
    char hex[65]; /* FIPS 180-2, appendix B.1 */
    struct b2_err err = {0};

    (void)state;
    assert_int_equal(hash_sha256(hex, "abc", 3, &err), B2_OK);
    assert_string_equal(
        hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* A safetensors file on its own keeps its names; odd addresses are copied. */
static void test_safetensors_file(void **state)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[1,25]}}";
    struct scratch dir;
    struct b2_err err = {0};
    uint8_t file[8 + sizeof header - 1 + 25] = {0};

    (void)state;
    le_put64(file, sizeof header - 1);
    memcpy(file + 8, header, sizeof header - 1);
    for (size_t i = 0; i < 25; i++)
        file[8 + sizeof header - 1 + i] = (uint8_t)i;
    scratch_make(&dir);
    put(&dir, "x.safetensors", file, sizeof file);
    struct modelfile *mf = open_or_fail(scratch_path(&dir, "x.safetensors"));
    assert_int_equal(modelfile_kind(mf), MF_SAFETENSORS);
    int64_t b = modelfile_find(mf, "b");
    const struct tensor *t = modelfile_tensor(mf, b);
    assert_true(t->ne[0] == 3 && t->ne[1] == 2 && t->rank == 2);
    bool odd = ((8 + sizeof header - 1 + 1) % 4) != 0;
    assert_int_equal(modelfile_load_bytes(mf, b), odd ? 24 : 0);
    assert_int_equal(modelfile_load(mf, b, &err), B2_OK);
    assert_int_equal((uintptr_t)t->data % 4, 0);
    assert_true(t->data[0] == 1 && t->data[23] == 24);
    modelfile_close(mf);
    put(&dir, "renamed.bin", file, sizeof file); /* known by its bytes too */
    mf = open_or_fail(scratch_path(&dir, "renamed.bin"));
    assert_int_equal(modelfile_kind(mf), MF_SAFETENSORS);
    modelfile_close(mf);
    scratch_remove(&dir);
}

static void test_mistakes(void **state)
{
    static const char index_up[] = "{\"weight_map\":{\"a\":\"../x.safetensors\"}}";
    static const char index_no[] = "{\"weight_map\":{\"model.norm.weight\":\"x.s\"}}";
    struct scratch dir;

    (void)state;
    scratch_make(&dir);
    refuse(scratch_path(&dir, "absent.gguf"), B2_ENOTFOUND, "absent.gguf");
    refuse(dir.dir, B2_ENOTFOUND, "no config.json");
    put(&dir, "config.json", "[]", 2);
    refuse(dir.dir, B2_EFORMAT, "config.json: not a JSON object");
    copy_golden(&dir, "llama/config.json", "config.json");
    refuse(dir.dir, B2_ENOTFOUND, "neither model.safetensors nor");
    put(&dir, "model.safetensors.index.json", index_up, sizeof index_up - 1);
    refuse(dir.dir, B2_EFORMAT, "no plain file name");
    put(&dir, "model.safetensors.index.json", index_no, sizeof index_no - 1);
    refuse(dir.dir, B2_ENOTFOUND, "a file that the index names is missing");
    copy_golden(&dir, "llama-sharded/model-00001-of-00002.safetensors", "x.s");
    refuse(dir.dir, B2_EFORMAT, "is not in the index");
    copy_golden(&dir, "kinds.safetensors", "model.safetensors");
    refuse(dir.dir, B2_EUNSUP, "not a tensor that LlamaForCausalLM");
    scratch_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder_is_its_gguf),
        cmocka_unit_test(test_folder_keys),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_mistakes),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_hash_vector),
        cmocka_unit_test(test_safetensors_file),
        cmocka_unit_test(test_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
