/*
 * tok_pre.c - cuts text into the words inside which byte-level BPE merges.
 *
 * A pre-tokenizer is one pattern or several in a row; each step cuts every piece of the
 * step before into matches and the stretches between them, and a piece is matched as if
 * it were the whole text (look-ahead does not see past its end), as `Split` with
 * "isolated" works in the `tokenizers` library. The patterns are those of the models'
 * tokenizer.json; the names are llama.cpp's values of tokenizer.ggml.pre.
 *
 * White space is written out: PCRE2's \s holds U+180E, which Unicode (and the library
 * that the models were trained with) does not count as a space.
 */
#include "base/mem.h"
#include "text/tok_int.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum {
    PRE_MAX_STEPS = 6,
    /* Per match. A word is found in a few steps per byte, so this is reached only by a pattern that
     * backtracks without end; 1 MiB runs stay far below it. */
    PRE_MATCH_LIMIT = 50 * 1000 * 1000,
    PRE_HEAP_KIB = 1 << 18,
};

/* Inside a class: the 25 characters of White_Space. */
#define WS                                                                             \
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"    \
    "\\x{205F}\\x{3000}"
#define SPACES "[" WS "]+(?![^" WS "])|[" WS "]+"
#define LINES "[" WS "]*[\\r\\n]+|" SPACES
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2                                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|" SPACES
#define LLAMA3_WITH(number)                                                            \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" number "| ?[^" WS                    \
                "\\p{L}\\p{N}]+[\\r\\n]*|" LINES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WITH(suffix, number)                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|"                            \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix "|" number "| ?[^" WS          \
    "\\p{L}\\p{N}]+[\\r\\n/]*|" LINES
#define CJK_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define CJK_HANGUL "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
/* `\s+$` of the original, which matches a run of spaces that ends the piece; written so
 * that a run that does not is rejected at its first character and not once per start. */
#define TRAILING "(?<![" WS "])[" WS "]++\\z"

/* The cased letters that DeepSeek's first tokenizer lists. */
#define CASED_LETTERS                                                                  \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"     \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}"              \
    "\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"      \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"             \
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"     \
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}"     \
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"     \
    "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}"                \
    "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"               \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}"     \
    "\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}"      \
    "\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}"       \
    "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}"      \
    "\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"      \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"      \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"     \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"   \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"                  \
    "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

enum pattern {
    P_DEFAULT,
    P_GPT2,
    P_SMOLLM,
    P_LLAMA3,
    P_QWEN2,
    P_QWEN35,
    P_GPT4O,
    P_TEKKEN,
    P_DEEPSEEK_LLM,
    P_DEEPSEEK_CODER,
    P_DEEPSEEK3,
    P_FALCON,
    N_PATTERNS
};

static const char *const steps[N_PATTERNS][PRE_MAX_STEPS] = {
    [P_DEFAULT] = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    [P_GPT2] = {GPT2},
    [P_SMOLLM] = {"\\p{N}", GPT2},
    [P_LLAMA3] = {LLAMA3_WITH("\\p{N}{1,3}")},
    [P_QWEN2] = {LLAMA3_WITH("\\p{N}")},
    [P_QWEN35] = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                              "| ?[^" WS "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES},
    [P_GPT4O] = {CASED_WITH(CONTRACTION "?", "\\p{N}{1,3}")},
    [P_TEKKEN] = {CASED_WITH("", "\\p{N}")},
    [P_DEEPSEEK_LLM] = {"[\\r\\n]", "[" WS "]?[" CASED_LETTERS "]+",
                        "[" WS "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}"
                        "\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
                        TRAILING, CJK_HANGUL, "\\p{N}"},
    [P_DEEPSEEK_CODER] = {"[\\r\\n]", "[" WS "]?\\p{L}+", "[" WS "]?\\p{P}+",
                          CJK_HANGUL, "\\p{N}"},
    [P_DEEPSEEK3] = {"\\p{N}{1,3}", CJK_KANA,
                     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
                     "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                     "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES},
    [P_FALCON] = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"},
};

/* ignore_merges, add_bos, nfc: what the models of that name do where the file does not say. */
static const struct tok_pre_info infos[] = {
    {"default", P_DEFAULT, false, false, false},
    {"gpt-2", P_GPT2, false, false, false},
    {"phi-2", P_GPT2, false, false, false},
    {"mpt", P_GPT2, false, false, true},
    {"olmo", P_GPT2, false, false, true},
    {"exaone4", P_GPT2, false, false, true},
    {"modern-bert", P_GPT2, false, false, true},
    {"granite-docling", P_GPT2, false, false, false},
    {"smollm", P_SMOLLM, false, false, false},
    {"starcoder", P_SMOLLM, false, false, false},
    {"refact", P_SMOLLM, false, false, false},
    {"codeshell", P_SMOLLM, false, false, false},
    {"command-r", P_SMOLLM, false, false, true},
    {"llama-bpe", P_LLAMA3, true, true, false},
    {"llama3", P_LLAMA3, true, true, false},
    {"llama-v3", P_LLAMA3, true, true, false},
    {"falcon3", P_LLAMA3, true, true, false},
    {"falcon-h1", P_LLAMA3, true, true, false},
    {"lfm2", P_LLAMA3, true, true, false},
    {"dbrx", P_LLAMA3, false, false, false},
    {"smaug-bpe", P_LLAMA3, false, false, false},
    {"glm4", P_LLAMA3, false, false, false},
    {"chatglm-bpe", P_LLAMA3, false, false, false},
    {"qwen2", P_QWEN2, false, false, true},
    {"deepseek-r1-qwen", P_QWEN2, false, false, true},
    {"megrez", P_QWEN2, false, false, true},
    {"hunyuan", P_QWEN2, false, false, false},
    {"stablelm2", P_QWEN2, false, false, false},
    {"qwen35", P_QWEN35, false, false, true},
    {"gpt-4o", P_GPT4O, false, false, false},
    {"llama4", P_GPT4O, false, false, false},
    {"minimax-m2", P_GPT4O, false, false, false},
    {"tekken", P_TEKKEN, true, true, false},
    {"deepseek-llm", P_DEEPSEEK_LLM, false, false, false},
    {"deepseek-coder", P_DEEPSEEK_CODER, false, false, false},
    {"deepseek-v3", P_DEEPSEEK3, false, false, false},
    {"hunyuan-dense", P_DEEPSEEK3, false, false, false},
    {"falcon", P_FALCON, false, false, false},
};

struct tok_pre {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code[PRE_MAX_STEPS];
    int n_steps;
};

const struct tok_pre_info *tok_pre_info(const char *name)
{
    for (size_t i = 0; i < countof(infos); i++) {
        if (strcmp(infos[i].name, name) == 0)
            return &infos[i];
    }
    return NULL;
}

bool tok_knows_pre(const char *name)
{
    return tok_pre_info(name) != NULL;
}

static enum b2_status unknown_name(const char *name, struct b2_err *err)
{
    char list[B2_ERR_MAX - 256];
    size_t len = 0;

    for (size_t i = 0; i < countof(infos); i++) {
        size_t n = strlen(infos[i].name);
        if (len + n + 3 > sizeof list)
            break;
        memcpy(list + len, infos[i].name, n);
        memcpy(list + len + n, ", ", 2);
        len += n + 2;
    }
    list[len - 2] = '\0';
    return err_set(
        err, B2_EUNSUP,
        "unknown pre-tokenizer \"%.64s\": its words would be cut wrongly; known: %s",
        name, list);
}

static void *pre_malloc(size_t n, void *ctx)
{
    (void)ctx;
    return mem_realloc(NULL, n, 1);
}

static void pre_release(void *p, void *ctx)
{
    (void)ctx;
    mem_free(p);
}

static enum b2_status compile_step(struct tok_pre *p, const char *pattern,
                                   struct b2_err *err)
{
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *cc = pcre2_compile_context_create(p->memory);

    if (!cc)
        return err_set(err, B2_ENOMEM, "out of memory for a pre-tokenizer");
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP, &error, &at, cc);
    pcre2_compile_context_free(cc);
    if (!code)
        return err_set(err, error == PCRE2_ERROR_HEAP_FAILED ? B2_ENOMEM : B2_EUNSUP,
                       "pre-tokenizer pattern: PCRE2 error %d at %zu", error, at);
    p->code[p->n_steps++] = code;
    /* Without JIT (not built in, no executable memory) matching is slower, not other. */
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return B2_OK;
}

enum b2_status tok_pre_new(struct tok_pre **out, const char *name, struct b2_err *err)
{
    const struct tok_pre_info *info = tok_pre_info(name);
    enum b2_status rc = B2_OK;

    if (!info)
        return unknown_name(name, err);
    struct tok_pre *p = mem_calloc(1, sizeof *p);
    if (p)
        p->memory = pcre2_general_context_create(pre_malloc, pre_release, NULL);
    if (p && p->memory)
        p->limits = pcre2_match_context_create(p->memory);
    if (!p || !p->limits) {
        tok_pre_free(p);
        return err_set(err, B2_ENOMEM, "out of memory for a pre-tokenizer");
    }
    pcre2_set_match_limit(p->limits, PRE_MATCH_LIMIT);
    pcre2_set_heap_limit(p->limits, PRE_HEAP_KIB);
    for (int i = 0; !rc && i < PRE_MAX_STEPS && steps[info->pattern][i]; i++)
        rc = compile_step(p, steps[info->pattern][i], err);
    if (rc) {
        tok_pre_free(p);
        return rc;
    }
    *out = p;
    return B2_OK;
}

void tok_pre_free(struct tok_pre *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_steps; i++)
        pcre2_code_free(p->code[i]);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->memory);
    mem_free(p);
}

static bool words_push(struct tok_words *w, size_t end)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 256;
        size_t *e = mem_realloc(w->end, cap, sizeof *e);
        if (!e)
            return false;
        w->end = e;
        w->cap = cap;
    }
    w->end[w->n++] = end;
    return true;
}

/* One match in the n bytes at s from offset from. The JIT's small stack may run out on
 * long words; the interpreter then does the same match on the heap. */
static int match(const struct tok_pre *p, const pcre2_code *code, const char *s,
                 size_t n, size_t from, pcre2_match_data *md)
{
    int rc =
        pcre2_match(code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, md, p->limits);

    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, (PCRE2_SPTR)s, n, from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, md, p->limits);
    return rc;
}

struct cut { /* what one call of tok_pre_split carries through its steps */
    const struct tok_pre *p;
    const char *s;
    pcre2_match_data *md;
    struct tok_words *out;
};

/* Cuts the piece s[begin, end) by one pattern. */
static enum b2_status cut_piece(const struct cut *c, const pcre2_code *code,
                                size_t begin, size_t end, struct b2_err *err)
{
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(c->md);
    size_t n = end - begin, done = 0;
    bool ok = true;

    while (ok && done < n) {
        int rc = match(c->p, code, c->s + begin, n, done, c->md);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT)
            return err_set(err, B2_ENOMEM, "out of memory in the pre-tokenizer");
        if (rc < 0)
            return err_set(err, B2_EUNSUP,
                           "the pre-tokenizer gave up on this text (PCRE2 error %d)",
                           rc);
        if (at[1] <= done) /* an empty match would stand still */
            break;
        if (at[0] > done)
            ok = words_push(c->out, begin + at[0]);
        ok = ok && words_push(c->out, begin + at[1]);
        done = at[1];
    }
    if (ok && done < n)
        ok = words_push(c->out, end);
    return ok ? B2_OK
              : err_set(err, B2_ENOMEM, "out of memory for %zu words", c->out->n);
}

enum b2_status tok_pre_split(const struct tok_pre *p, const char *s, size_t n,
                             struct tok_words *words, struct tok_words *tmp,
                             struct b2_err *err)
{
    struct cut c = {p, s, pcre2_match_data_create(1, p->memory), tmp};
    enum b2_status rc = B2_OK;

    words->n = 0;
    if (!c.md || (n > 0 && !words_push(words, n)))
        rc = err_set(err, B2_ENOMEM, "out of memory in the pre-tokenizer");
    for (int step = 0; !rc && step < p->n_steps; step++) {
        size_t begin = 0;
        tmp->n = 0;
        for (size_t i = 0; !rc && i < words->n; i++) {
            rc = cut_piece(&c, p->code[step], begin, words->end[i], err);
            begin = words->end[i];
        }
        struct tok_words swap = *words;
        *words = *tmp;
        *tmp = swap;
    }
    pcre2_match_data_free(c.md);
    return rc;
}
