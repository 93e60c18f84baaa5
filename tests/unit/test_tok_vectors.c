/*
 * test_tok_vectors.c - ids against the models' own tokenizers: llama.cpp's vector files
 * (made by the Hugging Face tokenizers), ids made by make_ids.py with `tokenizers` and
 * llama.cpp, and a published table for Qwen.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "format/hash.h"
#include "text/utf8.h"
#include "unit/tok_data.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <utf8proc.h>

/* ---- .inp and .out ---- */

struct vectors {
    const char *name;
    const struct tokenizer *t;
    const char *out; /* rest of the .out file: one line of ids per text */
};

static void check_vector(void *ctx, int64_t i, const char *s, size_t n)
{
    struct vectors *v = ctx;
    struct tok_ids ids = {0};
    struct b2_err err = {0};

    if (*v->out == '\0') { /* the .inp files end with a separator */
        assert_int_equal(n, 0);
        return;
    }
    if (tok_encode(v->t, s, n, 0, &ids, &err))
        fail_msg("%s: %s", v->name, err.msg);
    const char *end = strchr(v->out, '\n'), *p = v->out;
    int64_t k = 0;
    for (;; k++) {
        char *next = NULL;
        while (p < end && *p == ' ')
            p++;
        if (p >= end)
            break;
        long want = strtol(p, &next, 10);
        if (k >= ids.n || ids.id[k] != want)
            fail_msg("%s: text %d \"%.*s\": id %d is %d, not %ld", v->name, (int)i,
                     (int)n, s, (int)k, k < ids.n ? ids.id[k] : -1, want);
        p = next;
    }
    if (k != ids.n)
        fail_msg("%s: text %d: %d ids, not %d", v->name, (int)i, (int)ids.n, (int)k);
    tok_ids_free(&ids);
    v->out = end + 1;
}

static void check_vectors(const char *vocab, const char *out_name)
{
    struct tok_data d;
    size_t n_in, n_out;

    if (!tok_data_open(&d, vocab)) {
        print_message("skipped: %s is not in B2_DATA or ../shared/data\n", vocab);
        return;
    }
    char *in = tok_data_read(tok_data_golden("vectors", ".inp"), &n_in);
    char *out = tok_data_read(tok_data_golden(out_name, ".out"), &n_out);
    assert_true(in && out);
    struct vectors v = {out_name, d.t, out};
    tok_data_split(in, n_in, tok_data_separator, check_vector, &v);
    assert_int_equal(*v.out, '\0'); /* none left */
    mem_free(in);
    mem_free(out);
    tok_data_close(&d);
}

static void test_vectors(void **state)
{
    static const char *const pairs[][2] = {
        {"gpt-2", "gpt-2"},
        {"phi-3", "phi-3"},
        {"falcon", "falcon"},
        {"qwen3", "qwen2"},
        {"qwen3", "deepseek-r1-qwen"},
        {"smollm2", "smollm2"},
        {"spm_llama", "spm_llama"},
        {"spm_mistral", "spm_mistral"},
        {"spm_gemma", "spm_gemma"},
        {"deepseek_v3", "deepseek_v3"},
        {"gpt-oss", "gpt-oss"},
    };

    (void)state;
    for (size_t i = 0; i < countof(pairs); i++)
        check_vectors(pairs[i][0], pairs[i][1]);
}

/* ---- Qwen, by hand: ids from the model's tokenizer.json ---- */

static void test_qwen_table(void **state)
{
    static const struct {
        const char *text;
        unsigned flags;
        const char *ids;
    } rows[] = {
        {"", 0, ""},
        {" ", 0, "220"},
        {"  ", 0, "256"},
        {"   ", 0, "262"},
        {"\t", 0, "197"},
        {"\n", 0, "198"},
        {"\n\n", 0, "271"},
        {"\n\n\n", 0, "1406"},
        {"\t\n", 0, "1572"},
        {"ied 4 ½ months", 0, "1122 220 19 220 26062 3951"},
        {"Führer", 0, "37 50753 261"},
        {"    Hello\n    Hello", 0, "262 21927 198 262 21927"},
        {"333333333", 0, "18 18 18 18 18 18 18 18 18"},
        {" this is 🦙.cpp", 0, "419 374 11162 99 247 13 10821"},
        {"Hello, y'all! How are you 😁 ?我想在apple工作1314151天～", 0,
         "9707 11 379 64848 0 2585 525 498 26525 223 937 104100 18493 22377 99257 16 "
         "18 16 "
         "19 16 20 16 35727 21216"},
        {"你好，世界", 0, "108386 3837 99489"},
        {"请用三句话说明量子计算的基本原理。", 0,
         "14880 11622 44991 100908 66394 109539 100768 105166 105318 1773"},
        {"caf\xC3\xA9", 0, "924 58858"},
        {"cafe\xCC\x81", 0, "924 58858"}, /* NFC */
        {"\xED\x95\x9C", 0, "23573"},
        {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", 0, "23573"},
        {"\xE3\x80\x80", 0, "22441"},
        {"\xEF\xBC\x91", 0, "20109"},
        {"\xEF\xAC\x81", 0, "144300"}, /* a ligature: NFC, not NFKC */
        {"->", 0, "405"},
        {"(x):\n", 0, "2075 982"},
        {"<|im_start|>user\nhi<|im_end|>", TOK_SPECIAL,
         "151644 872 198 6023 151645 198"},
    };
    struct tok_data d;

    (void)state;
    assert_true(tok_data_open(&d, "qwen3"));
    for (size_t i = 0; i < countof(rows); i++) {
        struct tok_ids ids = {0};
        struct str got = {0};
        /* The last row's text goes on with a newline. */
        const char *text =
            i + 1 < countof(rows) ? rows[i].text : "<|im_start|>user\nhi<|im_end|>\n";
        assert_int_equal(tok_encode(d.t, text, strlen(text), rows[i].flags, &ids, NULL),
                         B2_OK);
        str_put(&got, "");
        for (int64_t k = 0; k < ids.n; k++)
            str_printf(&got, "%s%d", k ? " " : "", ids.id[k]);
        assert_string_equal(got.data, rows[i].ids);
        str_free(&got);
        tok_ids_free(&ids);
    }
    const char *pre = NULL;
    uint32_t pad = 0;
    assert_int_equal(meta_get_str(d.meta, "tokenizer.ggml.pre", &pre, NULL), B2_OK);
    assert_string_equal(pre, "qwen2");
    assert_int_equal(
        meta_get_u32(d.meta, "tokenizer.ggml.padding_token_id", &pad, NULL), B2_OK);
    assert_int_equal(pad, 151643);
    assert_non_null(meta_find(d.meta, "tokenizer.chat_template"));
    assert_int_equal(tok_eos(d.t), 151645);
    assert_int_equal(tok_find(d.t, "<|im_end|>"), 151645);
    assert_true(tok_is_end(d.t, 151645));
    tok_data_close(&d);
}

/* The mixed string at the end of vectors.inp: 181 ids with a known hash. */
static void last_vector(void *ctx, int64_t i, const char *s, size_t n)
{
    struct tok_piece *longest = ctx;

    (void)i;
    if (n > longest->len)
        *longest = (struct tok_piece){s, n};
}

static void test_qwen_hash(void **state)
{
    struct tok_data d;
    struct tok_piece text = {0};
    struct tok_ids ids = {0};
    struct str list = {0};
    char hex[HASH_HEX];
    size_t n;

    (void)state;
    assert_true(tok_data_open(&d, "qwen3"));
    char *in = tok_data_read(tok_data_golden("vectors", ".inp"), &n);
    assert_non_null(in);
    tok_data_split(in, n, tok_data_separator, last_vector, &text);
    assert_int_equal(tok_encode(d.t, text.data, text.len, 0, &ids, NULL), B2_OK);
    assert_int_equal(ids.n, 181);
    for (int64_t i = 0; i < ids.n; i++)
        str_printf(&list, "%s%d", i ? ", " : "[", ids.id[i]);
    str_put(&list, "]");
    assert_int_equal(hash_sha256(hex, list.data, list.len, NULL), B2_OK);
    assert_string_equal(
        hex, "e636dc30a262dcc0d8c323492e32ae2b70728f4df7dfe9737d9f920a282b8aea");
    str_free(&list);
    tok_ids_free(&ids);
    mem_free(in);
    tok_data_close(&d);
}

/* ---- ids as text ---- */

struct lines {
    const struct tokenizer *t;
    struct str ids;
};

static void add_ids(void *ctx, int64_t i, const char *s, size_t n)
{
    struct lines *l = ctx;
    struct tok_ids ids = {0};

    (void)i;
    assert_int_equal(tok_encode(l->t, s, n, TOK_SPECIAL, &ids, NULL), B2_OK);
    for (int64_t k = 0; k < ids.n; k++)
        str_printf(&l->ids, "%s%d", k ? " " : "", ids.id[k]);
    str_put(&l->ids, "\n");
    tok_ids_free(&ids);
}

/* ---- round trips ---- */

struct trip {
    const char *vocab;
    const struct tokenizer *t;
    bool nfc;
};

/* decode(encode(s)) is s, or its NFC form by utf8proc's one-call function. */
static void check_trip(void *ctx, int64_t i, const char *s, size_t n)
{
    const struct trip *trip = ctx;
    struct tok_ids ids = {0};
    struct str back = {0};
    utf8proc_uint8_t *nfc = NULL;
    const char *want = s;
    size_t n_want = n;

    if (trip->nfc) {
        utf8proc_ssize_t len =
            utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &nfc,
                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        assert_true(len >= 0);
        want = (const char *)nfc;
        n_want = (size_t)len;
    }
    assert_int_equal(tok_encode(trip->t, s, n, TOK_SPECIAL, &ids, NULL), B2_OK);
    assert_int_equal(tok_decode(trip->t, ids.id, ids.n, true, &back, NULL), B2_OK);
    if (back.len != n_want || (n_want > 0 && memcmp(back.data, want, n_want) != 0))
        fail_msg("%s: text %d \"%.*s\" comes back as \"%s\"", trip->vocab, (int)i,
                 (int)n, s, back.data ? back.data : "");
    free(nfc);
    tok_ids_free(&ids);
    str_free(&back);
}

/* Code points of all planes; U+2581 is left out: SentencePiece reads it as a space. */
static void random_trips(struct trip *trip)
{
    static const uint32_t limits[] = {0x80, 0x800, 0x3000, 0x10000, 0x110000};
    struct rng rng = rng_make(7);

    for (int i = 0; i < 2000; i++) {
        char text[256];
        size_t n = 0;
        for (uint64_t k = rng_below(&rng, 40); k > 0; k--) {
            uint32_t cp = (uint32_t)rng_below(&rng, limits[rng_below(&rng, 5)]);
            if (cp != 0x2581)
                n += (size_t)utf8_put(text + n, cp);
        }
        check_trip(trip, i, text, n);
    }
}

static void test_round_trips(void **state)
{
    /* SmolLM2 and Falcon lack some of the 256 bytes: of any text they cannot give all
     * back, as with the programs they were made with. Mistral's prefix swallows a space
     * at the beginning. */
    static const struct {
        const char *vocab;
        bool nfc;
    } rows[] = {
        {"gpt-2", false},     {"phi-3", false},     {"qwen3", true},
        {"spm_llama", false}, {"spm_gemma", false},
    };

    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct tok_data d;
        assert_true(tok_data_open(&d, rows[i].vocab));
        struct trip trip = {rows[i].vocab, d.t, rows[i].nfc};
        random_trips(&trip);
        tok_data_close(&d);
    }
}

/* ---- hashes of ids.inc ---- */

static const struct {
    const char *vocab, *text, *sha256;
} hashes[] = {
#include "golden/tokenizer/ids.inc"
};

/* The open vocabulary; it stays open while rows ask for the same. */
struct open_row {
    struct tok_data d;
    const char *name;
};

static bool open_for_row(struct open_row *o, size_t row)
{
    if (o->name && strcmp(o->name, hashes[row].vocab) == 0)
        return true;
    tok_data_close(&o->d);
    o->name = tok_data_open(&o->d, hashes[row].vocab) ? hashes[row].vocab : NULL;
    return o->name != NULL;
}

static void check_hash(const struct tok_data *d, size_t row, const char *text, size_t n,
                       const char *separator)
{
    char hex[HASH_HEX];
    struct lines l = {d->t, {0}};

    tok_data_split(text, n, separator, add_ids, &l);
    assert_int_equal(hash_sha256(hex, l.ids.data, l.ids.len, NULL), B2_OK);
    if (strcmp(hex, hashes[row].sha256) != 0)
        fail_msg("%s: the ids of %s have another hash: %s", hashes[row].vocab,
                 hashes[row].text, hex);
    str_free(&l.ids);
}

/* vectors.inp and hard.inp lie here, the other texts beside the project. */
static bool is_golden(size_t row)
{
    return strstr(hashes[row].text, ".inp") != NULL;
}

static void note_skipped(const char *vocab)
{
    print_message("skipped: %s is not in %s\n", vocab,
                  strcmp(vocab, "gemma") == 0 ? "the cache of models"
                                              : "B2_DATA or ../shared/data");
}

static void test_hard_strings(void **state)
{
    struct open_row o = {0};

    (void)state;
    for (size_t i = 0; i < countof(hashes); i++) {
        size_t n;
        if (!is_golden(i))
            continue;
        char *text = tok_data_read(tok_data_golden(hashes[i].text, ""), &n);
        assert_non_null(text);
        if (open_for_row(&o, i))
            check_hash(&o.d, i, text, n, tok_data_separator);
        else if (strcmp(hashes[i].text, "hard.inp") == 0)
            note_skipped(hashes[i].vocab);
        mem_free(text);
    }
    tok_data_close(&o.d);
}

/* Ids of each line of the texts beside the project, and back. */
static void test_texts(void **state)
{
    struct open_row o = {0};
    char name[64];

    (void)state;
    for (size_t i = 0; i < countof(hashes); i++) {
        size_t n;
        if (is_golden(i))
            continue;
        if (!open_for_row(&o, i)) {
            if (strcmp(hashes[i].text, "corpus.en") == 0)
                note_skipped(hashes[i].vocab);
            continue;
        }
        snprintf(name, sizeof name, "texts/%s", hashes[i].text);
        char *text = tok_data_read(tok_data_shared(name), &n);
        if (!text)
            fail_msg("%s is missing beside the others", name);
        check_hash(&o.d, i, text, n, "\n");
        struct trip trip = {hashes[i].vocab, o.d.t,
                            strcmp(hashes[i].vocab, "qwen3") == 0};
        tok_data_split(text, n, "\n", check_trip, &trip);
        mem_free(text);
    }
    tok_data_close(&o.d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest vectors[] = {
        cmocka_unit_test(test_vectors),     cmocka_unit_test(test_qwen_table),
        cmocka_unit_test(test_qwen_hash),   cmocka_unit_test(test_hard_strings),
        cmocka_unit_test(test_round_trips),
    };
    const struct CMUnitTest texts[] = {cmocka_unit_test(test_texts)};

    if (argc > 1 && strcmp(argv[1], "texts") == 0) {
        if (!file_exists(tok_data_shared("texts/corpus.en"))) {
            puts("skipped: no texts/corpus.en in B2_DATA or ../shared/data");
            return 77;
        }
        return cmocka_run_group_tests(texts, NULL, NULL);
    }
    return cmocka_run_group_tests(vectors, NULL, NULL);
}
