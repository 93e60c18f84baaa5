/*
 * hf_split.c - recognises what a tokenizer.json does to a text before merging.
 *
 * The chain of pre-tokenizers is flattened to steps; a step is the text of its regular
 * expression, or a word for one that has no text (STEP_*). A chain is known when all its
 * steps are those of one row of the table; it gets llama.cpp's name for that pattern.
 */
#include "format/hf_tokenizer_int.h"

#include <string.h>

enum { MAX_STEPS = 8 };

#define STEP_GPT2 "\x01gpt2"   /* ByteLevel with its own pattern */
#define STEP_PUNCT "\x01punct" /* Punctuation, runs kept together */
#define GPT2_TEXT                                                                      \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| "                                    \
    "?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LINES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3_WITH(number)                                                            \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" number                               \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WITH(suffix, number)                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|"                            \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix "|" number                     \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES
#define CJK_HANGUL "[一-龥ࠀ-一가-\xED\x9F\xBF]+"

/* The list of cased letters of DeepSeek's first pattern is 700 bytes long and stands in
 * copies with some characters normalised; its beginning is enough to know it. */
#define CASED_LETTERS "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳ"

static const struct {
    const char *pre;
    const char *step[MAX_STEPS];
} known[] = {
    {"gpt-2", {STEP_GPT2}},
    {"smollm", {"\\p{N}", STEP_GPT2}},
    {"llama-bpe", {LLAMA3_WITH("\\p{N}{1,3}")}},
    {"qwen2", {LLAMA3_WITH("\\p{N}")}},
    {"qwen35",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES}},
    {"gpt-4o", {CASED_WITH(CONTRACTION "?", "\\p{N}{1,3}")}},
    {"tekken", {CASED_WITH("", "\\p{N}")}},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[一-龥\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
      "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
      "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {"deepseek-llm",
     {"[\r\n]", CASED_LETTERS, "\\s?[!-/:-~！-／：-～‘-‟\xE3\x80\x80-。]+", "\\s+$",
      CJK_HANGUL, "\\p{N}"}},
    {"deepseek-coder", {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_HANGUL, "\\p{N}"}},
    {"falcon", {STEP_PUNCT, STEP_GPT2, "[0-9][0-9][0-9]"}},
};

struct chain { /* what was found so far */
    const char *step[MAX_STEPS];
    int n;
    bool byte_level;
    const char *metaspace; /* space_prefix value of a Metaspace step */
    bool
        only_gaps_free; /* a "Removed, inverted" step: unmatched text would be dropped */
    const char *prefix;  /* of a Prepend normaliser */
    bool replaces_space; /* a Replace normaliser " " to U+2581 */
    bool nfc;
};

static enum b2_status refuse(const char *what, const char *detail, struct b2_err *err)
{
    return err_set(
        err, B2_EUNSUP,
        "tokenizer.json: %s %.400s is not known here, its ids would be wrong", what,
        detail ? detail : "(none)");
}

static enum b2_status add_step(struct chain *c, const char *text, struct b2_err *err)
{
    if (c->n == MAX_STEPS)
        return refuse("a pre-tokenizer of more than eight steps, at", text, err);
    c->step[c->n++] = strcmp(text, GPT2_TEXT) == 0 ? STEP_GPT2 : text;
    return B2_OK;
}

static bool is(const char *s, const char *word)
{
    return s && strcmp(s, word) == 0;
}

static enum b2_status read_split(struct chain *c, const cJSON *p, struct b2_err *err)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(p, "pattern");
    const char *regex = hf_vocab_str(pattern, "Regex");
    const char *string = hf_vocab_str(pattern, "String");
    const char *behavior = hf_vocab_str(p, "behavior");
    bool invert = hf_vocab_bool(p, "invert", false);

    /* Gemma splits at spaces after it has replaced them all: nothing happens. */
    if (is(string, " ") && c->replaces_space)
        return B2_OK;
    if (!regex)
        return refuse("a pre-tokenizer Split at the string", string, err);
    if (is(behavior, "Removed") && invert)
        c->only_gaps_free = true;
    else if (!is(behavior, "Isolated") || invert)
        return refuse("a pre-tokenizer Split with behaviour", behavior, err);
    return add_step(c, regex, err);
}

static enum b2_status read_metaspace(struct chain *c, const cJSON *p,
                                     struct b2_err *err)
{
    const char *scheme = hf_vocab_str(p, "prepend_scheme");

    if (!is(hf_vocab_str(p, "replacement"), "\xE2\x96\x81"))
        return refuse("a pre-tokenizer Metaspace with replacement",
                      hf_vocab_str(p, "replacement"), err);
    if (hf_vocab_bool(p, "split", true))
        return refuse("a pre-tokenizer", "Metaspace that splits at each word", err);
    if (!scheme)
        scheme = hf_vocab_bool(p, "add_prefix_space", true) ? "always" : "never";
    c->replaces_space = true;
    c->metaspace = is(scheme, "always")  ? "unless_space"
                   : is(scheme, "first") ? "first"
                   : is(scheme, "never") ? "none"
                                         : NULL;
    if (!c->metaspace)
        return refuse("a pre-tokenizer Metaspace with prepend_scheme", scheme, err);
    return B2_OK;
}

static enum b2_status read_pre(struct chain *c, const cJSON *p, struct b2_err *err)
{
    const char *type = hf_vocab_str(p, "type");
    const cJSON *child = NULL;

    if (!p || cJSON_IsNull(p))
        return B2_OK;
    if (is(type, "Sequence")) {
        cJSON_ArrayForEach(child, cJSON_GetObjectItemCaseSensitive(p, "pretokenizers"))
        {
            enum b2_status rc = read_pre(c, child, err); /* as deep as json.h allows */
            if (rc)
                return rc;
        }
        return B2_OK;
    }
    if (is(type, "Split"))
        return read_split(c, p, err);
    if (is(type, "Metaspace"))
        return read_metaspace(c, p, err);
    if (is(type, "Digits"))
        return add_step(
            c, hf_vocab_bool(p, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
            err);
    if (is(type, "Punctuation") && is(hf_vocab_str(p, "behavior"), "Contiguous"))
        return add_step(c, STEP_PUNCT, err);
    if (!is(type, "ByteLevel"))
        return refuse("the pre-tokenizer", type, err);
    if (hf_vocab_bool(p, "add_prefix_space", true))
        return refuse("a pre-tokenizer", "ByteLevel with add_prefix_space", err);
    c->byte_level = true;
    return hf_vocab_bool(p, "use_regex", true) ? add_step(c, STEP_GPT2, err) : B2_OK;
}

static enum b2_status read_normalizer(struct chain *c, const cJSON *p,
                                      struct b2_err *err)
{
    const char *type = hf_vocab_str(p, "type");
    const cJSON *child = NULL;

    if (!p || cJSON_IsNull(p))
        return B2_OK;
    if (is(type, "Sequence")) {
        cJSON_ArrayForEach(child, cJSON_GetObjectItemCaseSensitive(p, "normalizers"))
        {
            enum b2_status rc = read_normalizer(c, child, err);
            if (rc)
                return rc;
        }
        return B2_OK;
    }
    if (is(type, "NFC")) {
        c->nfc = true;
        return B2_OK;
    }
    if (is(type, "Prepend") && is(hf_vocab_str(p, "prepend"), "\xE2\x96\x81")) {
        c->prefix = "always";
        return B2_OK;
    }
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(p, "pattern");
    if (is(type, "Replace") && is(hf_vocab_str(pattern, "String"), " ") &&
        is(hf_vocab_str(p, "content"), "\xE2\x96\x81")) {
        c->replaces_space = true;
        return B2_OK;
    }
    return refuse("the normalizer", type, err);
}

static bool same_step(const char *have, const char *want)
{
    if (strcmp(want, CASED_LETTERS) == 0)
        return strncmp(have, want, strlen(want)) == 0;
    return strcmp(have, want) == 0;
}

static bool same_chain(const struct chain *c, const char *const *want)
{
    for (int i = 0; i < MAX_STEPS; i++) {
        if (i >= c->n || !want[i])
            return i >= c->n && !want[i];
        if (!same_step(c->step[i], want[i]))
            return false;
    }
    return true;
}

static enum b2_status name_chain(struct hf_split *out, const struct chain *c,
                                 bool ignore_merges, struct b2_err *err)
{
    for (size_t i = 0; i < countof(known); i++) {
        if (!same_chain(c, known[i].step))
            continue;
        /* Dropping what no match covers equals keeping it only where a match covers all:
         * in patterns that end in "any white space". */
        if (c->only_gaps_free &&
            (c->n != 1 || !strstr(c->step[0], "|\\s+(?!\\S)|\\s+")))
            break;
        out->pre = known[i].pre;
        if (is(out->pre, "llama-bpe") && !ignore_merges)
            out->pre = "smaug-bpe"; /* the same pattern without the short cut */
        return B2_OK;
    }
    const char *longest = c->n > 0 ? c->step[0] : NULL; /* the one that tells most */
    for (int i = 1; i < c->n; i++) {
        if (strlen(c->step[i]) > strlen(longest))
            longest = c->step[i];
    }
    return refuse("the pre-tokenizer pattern", longest, err);
}

enum b2_status hf_split_read(struct hf_split *out, const cJSON *root,
                             bool ignore_merges, struct b2_err *err)
{
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    struct chain c = {0};
    enum b2_status rc =
        read_normalizer(&c, cJSON_GetObjectItemCaseSensitive(root, "normalizer"), err);

    if (!rc)
        rc = read_pre(&c, cJSON_GetObjectItemCaseSensitive(root, "pre_tokenizer"), err);
    if (rc)
        return rc;
    *out = (struct hf_split){.spm = !c.byte_level, .nfc = c.nfc};
    if (c.byte_level) {
        if (c.replaces_space || c.prefix || c.metaspace)
            return refuse("a byte-level pre-tokenizer with", "a normalizer for spaces",
                          err);
        return name_chain(out, &c, ignore_merges, err);
    }
    if (c.n > 0)
        return refuse("without byte level, the pre-tokenizer pattern", c.step[0], err);
    if (!c.replaces_space || c.nfc || !hf_vocab_bool(model, "byte_fallback", false))
        return refuse("a model that is",
                      "neither byte-level nor SentencePiece-style with "
                      "byte fallback",
                      err);
    out->prefix = c.prefix ? c.prefix : c.metaspace ? c.metaspace : "none";
    return B2_OK;
}
