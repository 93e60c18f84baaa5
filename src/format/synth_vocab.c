/*
 * synth_vocab.c - a made-up byte-level BPE vocabulary of a given size.
 *
 * 256 byte tokens, then words of 2, 3 and 4 letters in the order of the alphabet, the
 * first letter also a space; each is the merge of the word without its last letter and
 * that letter. A text of small letters so becomes about one token per four bytes, as
 * with a real vocabulary, and every other byte is its own token.
 *
 * The special tokens are those of the Qwen family, at its ids: <|im_start|> is the
 * second and <think> the 25th after the words. The rest up to the embedding's rows is
 * unused, as converters fill it.
 */
#include "base/mem.h"
#include "base/str.h"
#include "format/synth_int.h"

#include <inttypes.h>
#include <string.h>

enum { NORMAL = 1, CONTROL = 3, USER = 4, UNUSED = 5, BYTES = 256, LETTERS = 26 };

static const struct {
    const char *text;
    int attr;
} special[] = {
    {"<|endoftext|>", CONTROL},
    {"<|im_start|>", CONTROL},
    {"<|im_end|>", CONTROL},
    {"<|object_ref_start|>", CONTROL},
    {"<|object_ref_end|>", CONTROL},
    {"<|box_start|>", CONTROL},
    {"<|box_end|>", CONTROL},
    {"<|quad_start|>", CONTROL},
    {"<|quad_end|>", CONTROL},
    {"<|vision_start|>", CONTROL},
    {"<|vision_end|>", CONTROL},
    {"<|vision_pad|>", CONTROL},
    {"<|image_pad|>", CONTROL},
    {"<|video_pad|>", CONTROL},
    {"<tool_call>", USER},
    {"</tool_call>", USER},
    {"<|fim_prefix|>", CONTROL},
    {"<|fim_middle|>", CONTROL},
    {"<|fim_suffix|>", CONTROL},
    {"<|fim_pad|>", CONTROL},
    {"<|repo_name|>", CONTROL},
    {"<|file_sep|>", CONTROL},
    {"<tool_response>", USER},
    {"</tool_response>", USER},
    {"<think>", USER},
    {"</think>", USER},
};

static const char chat_template[] =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

/* Texts one after the other, and where each ends. */
struct texts {
    struct str pool;
    size_t *end;
    uint64_t n;
};

static void close_text(struct texts *t)
{
    t->end[t->n++] = t->pool.len;
}

/* A code point below 0x800. */
static void put_char(struct str *s, unsigned cp)
{
    const char two[2] = {(char)(0xc0 | cp >> 6), (char)(0x80 | (cp & 63))};
    const char one = (char)cp;

    if (cp < 0x80)
        str_putn(s, &one, 1);
    else
        str_putn(s, two, 2);
}

/* GPT-2's alphabet: bytes that print stand for themselves, and come first; the others
 * follow from code point 256 on. */
static void put_bytes(struct texts *t)
{
    unsigned next = 256;

    for (int pass = 0; pass < 2; pass++) {
        for (unsigned b = 0; b < BYTES; b++) {
            bool prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad);
            if (prints != (pass == 0))
                continue;
            put_char(&t->pool, prints ? b : next++);
            close_text(t);
        }
    }
}

/* Letter k of the first place: a space (as GPT-2 writes it), then a to z. */
static void put_first(struct str *s, int64_t k)
{
    put_char(s, k == 0 ? 0x120 : 'a' + (unsigned)(k - 1));
}

/* Word i in the order of the header comment; sep stands before its last letter. */
static void put_word(struct str *s, int64_t i, const char *sep)
{
    int64_t count = (LETTERS + 1) * LETTERS, rest = 1;

    while (i >= count) { /* one letter more */
        i -= count;
        count *= LETTERS;
        rest++;
    }
    int64_t unit = count / (LETTERS + 1);
    put_first(s, i / unit);
    for (; rest > 0; rest--) {
        i %= unit;
        unit /= LETTERS;
        if (rest == 1)
            str_put(s, sep);
        put_char(s, 'a' + (unsigned)(i / unit));
    }
}

static void put_tokens(struct texts *t, const struct synth_model *m)
{
    put_bytes(t);
    for (int64_t i = 0; i < m->words - BYTES; i++) {
        put_word(&t->pool, i, "");
        close_text(t);
    }
    for (size_t i = 0; i < countof(special); i++) {
        str_put(&t->pool, special[i].text);
        close_text(t);
    }
    while ((int64_t)t->n < m->vocab) {
        str_printf(&t->pool, "[PAD%" PRIu64 "]", t->n);
        close_text(t);
    }
}

/* Hands the texts to the meta under key and empties t. */
static enum b2_status set_texts(struct meta *m, const char *key, struct texts *t,
                                struct b2_err *err)
{
    struct meta_str *strs = mem_calloc((size_t)t->n, sizeof *strs);
    enum b2_status rc;
    size_t at = 0;

    if (!strs || !str_ok(&t->pool)) {
        rc = err_set(err, B2_ENOMEM, "%s: out of memory", key);
    } else {
        for (uint64_t i = 0; i < t->n; at = t->end[i++])
            strs[i] = (struct meta_str){t->pool.data + at, t->end[i] - at};
        rc = meta_set_strs(m, key, strs, t->n, err);
    }
    mem_free(strs);
    str_clear(&t->pool);
    t->n = 0;
    return rc;
}

static enum b2_status set_attrs(struct meta *m, const struct synth_model *model,
                                struct b2_err *err)
{
    int32_t *attr = mem_calloc((size_t)model->vocab, sizeof *attr);

    if (!attr)
        return err_set(err, B2_ENOMEM, "token types: out of memory");
    for (int64_t i = 0; i < model->vocab; i++) {
        int64_t s = i - model->words;
        attr[i] = s < 0                           ? NORMAL
                  : s < (int64_t)countof(special) ? special[s].attr
                                                  : UNUSED;
    }
    enum b2_status rc = meta_set_arr(m, "tokenizer.ggml.token_type", MT_I32, attr,
                                     (uint64_t)model->vocab, err);
    mem_free(attr);
    return rc;
}

static enum b2_status set_lists(struct meta *m, const struct synth_model *model,
                                struct b2_err *err)
{
    struct texts t = {.end = mem_calloc((size_t)model->vocab, sizeof *t.end)};
    enum b2_status rc;

    if (!t.end)
        return err_set(err, B2_ENOMEM, "vocabulary: out of memory");
    put_tokens(&t, model);
    rc = set_texts(m, "tokenizer.ggml.tokens", &t, err);
    if (!rc)
        rc = set_attrs(m, model, err);
    for (int64_t i = 0; i < model->merges; i++) {
        put_word(&t.pool, i, " ");
        close_text(&t);
    }
    if (!rc)
        rc = set_texts(m, "tokenizer.ggml.merges", &t, err);
    str_free(&t.pool);
    mem_free(t.end);
    return rc;
}

enum b2_status synth_vocab_meta(struct meta *m, const struct synth_model *model,
                                struct b2_err *err)
{
    const uint32_t first = (uint32_t)model->words; /* <|endoftext|> */
    enum b2_status rc = meta_set_str(m, "tokenizer.ggml.model", "gpt2", err);

    if (!rc)
        rc = meta_set_str(m, "tokenizer.ggml.pre", model->pre, err);
    if (!rc)
        rc = set_lists(m, model, err);
    if (!rc)
        rc = meta_set_u32(m, "tokenizer.ggml.eos_token_id", first + 2, err);
    if (!rc)
        rc = meta_set_u32(m, "tokenizer.ggml.padding_token_id", first, err);
    if (!rc)
        rc = meta_set_u32(m, "tokenizer.ggml.bos_token_id", first, err);
    if (!rc)
        rc = meta_set_bool(m, "tokenizer.ggml.add_bos_token", false, err);
    if (!rc)
        rc = meta_set_str(m, "tokenizer.chat_template", chat_template, err);
    return rc;
}
