/*
 * fuzz_tokenizer_json.c - tokenizer.json, a zero byte, tokenizer_config.json.
 *
 * Any bytes give an explained error, or keys from which a tokenizer can be made or is
 * refused with a reason; one that is made encodes and decodes any text.
 */
#include "base/str.h"
#include "format/hf_tokenizer.h"
#include "fuzz.h"
#include "model/vocab.h"

enum { META_BYTES = 64 << 20, ROWS = 300 };

static void use(const struct tokenizer *t)
{
    static const char text[] = "a b\xC3\xA9 <s>1234\n\xFF\xE2\x96\x81 ab'll";
    struct tok_ids ids = {0};
    struct str out = {0};
    struct b2_err err = {0};
    enum b2_status rc =
        tok_encode(t, text, sizeof text, TOK_SPECIAL | TOK_ADD_BOS, &ids, &err);

    fuzz_check_error(rc, &err);
    for (int64_t i = 0; i < ids.n; i++)
        fuzz_require(ids.id[i] >= 0 && ids.id[i] < tok_count(t), "ids are in range");
    rc = tok_decode(t, ids.id, ids.n, true, &out, &err);
    fuzz_check_error(rc, &err);
    tok_ids_free(&ids);
    str_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct b2_err err = {0};
    struct tokenizer *t = NULL;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t n = zero ? (size_t)(zero - data) : size, n2 = zero ? size - n - 1 : 0;
    char *json = (char *)fuzz_copy(data, n);
    char *config = zero ? (char *)fuzz_copy(zero + 1, n2) : NULL;
    struct meta *m = meta_new(META_BYTES);

    if (json && m && (config || !zero)) {
        enum b2_status rc = hf_tokenizer_meta(m, json, n, config, n2, ROWS, &err);
        fuzz_check_error(rc, &err);
        if (rc == B2_OK) {
            rc = vocab_tokenizer(&t, m, &err);
            fuzz_check_error(rc, &err);
            if (rc == B2_OK)
                use(t);
        }
    }
    tok_free(t);
    meta_free(m);
    free(json);
    free(config);
    return 0;
}
