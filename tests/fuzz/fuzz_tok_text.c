/*
 * fuzz_tok_text.c - any text under every pattern and every kind of vocabulary.
 *
 * The first byte chooses the tokenizer, the second the flags. Encoding never fails on
 * the text, ids are in range, and decoding gives the text back: bytes that are not UTF-8
 * as U+FFFD (BPE), U+2581 as a space (SPM).
 */
#include "../unit/tok_small.h"
#include "base/str.h"
#include "fuzz.h"

static const char *const pres[] = {
    "gpt-2",  "smollm",  "llama-bpe",    "qwen2",          "qwen35",      "gpt-4o",
    "tekken", "default", "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon",
};
enum { N_PRES = sizeof pres / sizeof *pres, N_KINDS = N_PRES + 4 };

/* Made once each: compiling a pattern takes longer than a fuzz step. */
static struct tokenizer *made[N_KINDS];

static struct tokenizer *make(int kind)
{
    static struct small s;
    struct tokenizer *t = NULL;
    struct b2_err err = {0};
    bool spm = kind >= N_PRES;

    if (spm)
        small_spm(&s);
    else
        small_bpe(&s);
    for (int i = 0; i < 26; i++) {
        char one[2] = {(char)('a' + i), '\0'};
        if (spm)
            small_add(&s, one, TOK_NORMAL, -1.0f);
    }
    small_add(&s, "th", TOK_NORMAL, -3.0f);
    small_add(&s, "the", TOK_NORMAL, -2.0f);
    small_add(&s, "ee", TOK_NORMAL, -4.0f);
    small_merge(&s, "t h");
    small_merge(&s, "th e");
    small_merge(&s, "e e");
    small_add(&s, "<u>", TOK_USER, 0.0f);
    small_add(&s, "<|c|>", TOK_CONTROL, 0.0f);
    struct tok_spec spec = small_spec(&s, spm ? TOK_SPM : TOK_BPE);
    if (spm)
        spec.space_prefix = (enum tok_prefix)(kind - N_PRES);
    else
        spec.pre = pres[kind];
    spec.nfc = TOK_OFF; /* so that the text itself must come back */
    enum b2_status rc = tok_new(&t, &spec, &err);
    fuzz_check_error(rc, &err);
    fuzz_require(rc == B2_OK, "the vocabulary is fine");
    return t;
}

/* The text as decoding must give it. */
static void expected(struct str *out, const char *s, size_t n, bool spm)
{
    str_put(out, "");
    for (size_t i = 0; i < n;) {
        char buf[4];
        size_t used;
        uint32_t cp = utf8_next(s + i, n - i, &used);
        if (spm && cp == 0x2581)
            str_put(out, " ");
        else if (spm)
            str_putn(out, s + i, used);
        else
            str_putn(out, buf, (size_t)utf8_put(buf, cp));
        i += used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tok_ids ids = {0};
    struct str back = {0}, want = {0};
    struct b2_err err = {0};

    if (size < 2)
        return 0;
    int kind = data[0] % N_KINDS;
    bool spm = kind >= N_PRES;
    unsigned flags = data[1] & (TOK_SPECIAL | TOK_ADD_BOS);
    size_t n = size - 2;
    char *text = (char *)fuzz_copy(data + 2, n);
    if (!made[kind])
        made[kind] = make(kind);
    const struct tokenizer *t = made[kind];
    if (text) {
        enum b2_status rc = tok_encode(t, text, n, flags, &ids, &err);
        fuzz_check_error(rc, &err);
        fuzz_require(rc == B2_OK, "every text can be encoded");
        for (int64_t i = 0; i < ids.n; i++)
            fuzz_require(ids.id[i] >= 0 && ids.id[i] < tok_count(t),
                         "ids are in range");
        rc = tok_decode(t, ids.id, ids.n, true, &back, &err);
        fuzz_require(rc == B2_OK, "what was encoded can be decoded");
        expected(&want, text, n, spm);
        /* Two of the four prefix rules swallow a space of the text's own. */
        if (!spm || kind - N_PRES <= TOK_PREFIX_ALWAYS)
            fuzz_require(
                back.len == want.len &&
                    (want.len == 0 || memcmp(back.data, want.data, want.len) == 0),
                "the text comes back");
        fuzz_require(utf8_complete(text, n) <= n, "hold-back stays inside");
    }
    tok_ids_free(&ids);
    str_free(&back);
    str_free(&want);
    free(text);
    return 0;
}
