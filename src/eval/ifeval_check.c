/*
 * ifeval_check.c - the instructions that all languages share.
 */
#include "eval/ifeval_int.h"

#include "base/mem.h"
#include "text/letter.h"
#include "text/pattern.h"
#include "text/utf8.h"

#include <string.h>

static bool no_comma(struct check *c)
{
    return !strchr(c->text, ',');
}

/* Matches, none overlapping, whose first group holds more than white space. */
static int64_t count_filled(const struct check *c, const char *regex)
{
    struct pattern *p = NULL;
    struct pattern_match m;
    int64_t count = 0;

    if (pattern_new(&p, regex, 0, NULL))
        return 0;
    for (size_t at = 0; pattern_find(p, c->text, c->n, at, &m); at = m.to[0]) {
        const char *inside = c->text + m.from[1];
        size_t n = m.to[1] - m.from[1];
        check_strip(&inside, &n);
        count += n > 0;
    }
    pattern_free(p);
    return count;
}

/* *one* and **two**; both kinds count, as in the original. */
static bool highlights(struct check *c)
{
    int64_t one = count_filled(c, "\\*([^\\n*]*)\\*");
    int64_t two = count_filled(c, "\\*\\*([^\\n*]*)\\*\\*");

    return one + two >= check_int(c, "num_highlights");
}

static bool number_words(struct check *c)
{
    return check_relation(c, check_words(c, NULL), "num_words", "relation");
}

static bool placeholders(struct check *c)
{
    return check_relation(c, check_matches(c, "\\[.*?\\]"), "num_placeholders",
                          "relation");
}

static bool repeat_prompt(struct check *c)
{
    const char *want = check_str(c, "prompt_to_repeat"), *text = c->text;
    size_t n_want = strlen(want), n = c->n;
    struct str a = {0}, b = {0};
    bool ok;

    check_strip(&want, &n_want);
    check_strip(&text, &n);
    letter_put_lower(&a, text, n);
    letter_put_lower(&b, want, n_want);
    ok = b.len > 0 && a.len >= b.len && memcmp(a.data, b.data, b.len) == 0;
    str_free(&a);
    str_free(&b);
    return ok;
}

static bool title(struct check *c)
{
    return check_matches(c, "<<[^\\n]*[^\\n<>\\s][^\\n]*>>") > 0;
}

static bool lowercase(struct check *c)
{
    static const char *const code[] = {"en", "es", "fr", "ja"};

    return check_is_lower(c->text, c->n) && check_language(c, code[c->tongue]);
}

static bool uppercase(struct check *c)
{
    static const char *const code[] = {"en", "es", "fr", "ja"};

    return check_is_upper(c->text, c->n) && check_language(c, code[c->tongue]);
}

static bool bullets(struct check *c)
{
    int64_t n = check_matches(c, "^\\s*\\*[^*].*$") + check_matches(c, "^\\s*-.*$");

    return n == check_int(c, "num_bullets");
}

/* A word of the data in a pattern: it is text, not an expression. */
static void put_literal(struct str *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("\\^$.|?*+()[]{}", *text))
            str_put(out, "\\");
        str_putn(out, text, 1);
    }
}

static bool sections(struct check *c)
{
    const char *word = check_str(c, "section_spliter");
    size_t n = strlen(word);
    struct str p = {0}, trimmed = {0};
    int64_t count;

    check_strip(&word, &n);
    str_putn(&trimmed, word, n);
    str_put(&trimmed, "");
    str_put(&p, "\\s?");
    put_literal(&p, trimmed.data ? trimmed.data : "");
    str_put(&p, "\\s?\\d+\\s?");
    count = str_ok(&p) ? check_matches(c, p.data) : -1;
    str_free(&p);
    str_free(&trimmed);
    return check_relation(c, count, "num_sections", "relation");
}

static bool capital_words(struct check *c)
{
    int64_t count = 0;
    size_t from = 0;

    for (size_t at = 0, used = 1; at <= c->n; at += used) {
        uint32_t cp = ' ';
        used = 1;
        if (at < c->n)
            cp = utf8_next(c->text + at, c->n - at, &used);
        if (!utf8_is_space(cp) && (!letter_is_punct(cp) || cp == '-' || cp == '_'))
            continue;
        count += at > from && check_is_upper(c->text + from, at - from);
        from = at + used;
    }
    return check_relation(c, count, "capital_frequency", "capital_relation");
}

static bool quotation(struct check *c)
{
    const char *text = c->text;
    size_t n = c->n;

    check_strip(&text, &n);
    return n > 1 && text[0] == '"' && text[n - 1] == '"';
}

/* How often a word occurs, whatever its case; parts of words count, as in the original. */
static int64_t count_word(const struct check *c, const char *word, bool whole)
{
    struct str p = {0};
    struct pattern *pattern = NULL;
    int64_t n = 0;

    str_put(&p, whole ? "\\b" : "");
    put_literal(&p, word);
    str_put(&p, whole ? "\\b" : "");
    if (str_ok(&p) && pattern_new(&pattern, p.data, PATTERN_CASELESS, NULL) == B2_OK)
        n = pattern_count(pattern, c->text, c->n);
    pattern_free(pattern);
    str_free(&p);
    return n;
}

static bool keywords(struct check *c)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->args, "keywords"), *e;

    if (!cJSON_IsArray(list))
        c->missing = "keywords";
    cJSON_ArrayForEach(e, list)
    {
        if (!cJSON_IsString(e) || count_word(c, e->valuestring, false) == 0)
            return false;
    }
    return true;
}

static bool forbidden_words(struct check *c)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->args, "forbidden_words"),
                *e;

    if (!cJSON_IsArray(list))
        c->missing = "forbidden_words";
    cJSON_ArrayForEach(e, list)
    {
        /* Japanese has no spaces, so no bounds of words. */
        if (cJSON_IsString(e) && count_word(c, e->valuestring, c->tongue != TONGUE_JA))
            return false;
    }
    return true;
}

static bool keyword_frequency(struct check *c)
{
    const char *word = check_str(c, "keyword");
    size_t n = strlen(word);
    struct str w = {0};
    int64_t count;

    check_strip(&word, &n);
    str_putn(&w, word, n);
    str_put(&w, "");
    count = str_ok(&w) ? count_word(c, w.data, false) : 0;
    str_free(&w);
    return check_relation(c, count, "frequency", "relation");
}

static bool letter_frequency(struct check *c)
{
    const char *letter = check_str(c, "letter");
    size_t used;
    uint32_t want =
        letter[0] ? letter_lower(utf8_next(letter, strlen(letter), &used)) : 0;
    int64_t count = 0;

    for (size_t at = 0; at < c->n; at += used)
        count += letter_lower(utf8_next(c->text + at, c->n - at, &used)) == want;
    return check_relation(c, count, "let_frequency", "let_relation");
}

/* Passes text if it stands at *s, whatever its case. */
static void pass(const char **s, size_t *n, const char *text)
{
    size_t k = strlen(text);

    for (size_t i = 0; i < k; i++)
        if (i >= *n || ((*s)[i] | 0x20) != (text[i] | 0x20))
            return;
    *s += k;
    *n -= k;
}

static bool json_format(struct check *c)
{
    const char *text = c->text;
    size_t n = c->n, before;
    cJSON *json = NULL;

    check_strip(&text, &n);
    before = n;
    pass(&text, &n, "```json");
    if (n == before)
        pass(&text, &n, "```");
    if (n >= 3 && strncmp(text + n - 3, "```", 3) == 0)
        n -= 3;
    if (json_parse_bounded(&json, text, n, 1 << 20, NULL))
        return false;
    cJSON_Delete(json);
    return true;
}

/* Parts between separators of at least `stars` asterisks; empty ones at the ends do not
 * count. -1: an empty part between others. */
static int64_t parts(const char *text, size_t n, const char *mark, const char **first,
                     size_t *n_first, const char **second, size_t *n_second)
{
    int64_t count = 0;
    size_t k = strlen(mark);
    bool begin = true;

    for (const char *at = text, *end = text + n;;) {
        const char *next = strstr(at, mark), *part = at;
        size_t len;
        bool last = !next || next >= end;
        len = (size_t)((last ? end : next) - at);
        check_strip(&part, &len);
        if (len > 0) {
            if (count == 0) {
                *first = part;
                *n_first = len;
            } else if (count == 1) {
                *second = part;
                *n_second = len;
            }
            count++;
        } else if (!begin && !last) {
            return -1;
        }
        if (last)
            return count;
        begin = false;
        at = next + k;
    }
}

static bool paragraphs(struct check *c)
{
    const char *a = NULL, *b = NULL;
    size_t na = 0, nb = 0;

    return parts(c->text, c->n, "***", &a, &na, &b, &nb) ==
           check_int(c, "num_paragraphs");
}

static bool two_responses(struct check *c)
{
    const char *a = NULL, *b = NULL;
    size_t na = 0, nb = 0;

    return parts(c->text, c->n, "******", &a, &na, &b, &nb) == 2 &&
           !(na == nb && memcmp(a, b, na) == 0);
}

static bool response_language(struct check *c)
{
    return check_language(c, check_str(c, "language"));
}

static bool end_phrase(struct check *c)
{
    const char *want = check_str(c, "end_phrase"), *text = c->text;
    size_t n_want = strlen(want), n = c->n;
    struct str a = {0}, b = {0};
    bool ok;

    check_strip(&want, &n_want);
    check_strip(&text, &n);
    while (n > 0 && text[n - 1] == '"')
        n--;
    letter_put_lower(&a, text, n);
    letter_put_lower(&b, want, n_want);
    ok = b.len > 0 && a.len >= b.len &&
         memcmp(a.data + a.len - b.len, b.data, b.len) == 0;
    str_free(&a);
    str_free(&b);
    return ok;
}

static bool sentences(struct check *c)
{
    return check_relation(c, ifeval_sentences(c->text, c->n, c->tongue == TONGUE_JA),
                          "num_sentences", "relation");
}

static bool postscript(struct check *c)
{
    const char *marker = check_str(c, "postscript_marker");
    struct str p = {0};
    struct pattern *pattern = NULL;
    struct pattern_match m;
    bool ok = false;

    if (strcmp(marker, "P.P.S") == 0)
        str_put(&p, "p\\.\\s?p\\.\\s?s");
    else if (strcmp(marker, "P.S.") == 0)
        str_put(&p, "p\\.\\s?s\\.");
    else
        put_literal(&p, marker);
    if (str_ok(&p) && p.len > 0 &&
        pattern_new(&pattern, p.data, PATTERN_CASELESS, NULL) == B2_OK)
        ok = pattern_find(pattern, c->text, c->n, 0, &m);
    pattern_free(pattern);
    str_free(&p);
    return ok;
}

/* Does a paragraph begin with the words wanted? Behind them no letter goes on. */
static bool begins_with(const struct check *c, const char *text, size_t n,
                        const char *want)
{
    struct str a = {0}, b = {0};
    size_t used;
    bool ok;

    while (n > 0 && (text[0] == '"' || text[0] == '\'')) {
        text++;
        n--;
    }
    letter_put_lower(&a, text, n);
    letter_put_lower(&b, want, strlen(want));
    ok = b.len > 0 && a.len >= b.len && memcmp(a.data, b.data, b.len) == 0;
    if (ok && c->tongue != TONGUE_JA && a.len > b.len) {
        uint32_t cp = utf8_next(a.data + b.len, a.len - b.len, &used);
        ok = utf8_is_space(cp) || (cp < 128 && strchr(".,?!'\"", (int)cp));
    }
    str_free(&a);
    str_free(&b);
    return ok;
}

static bool nth_paragraph(struct check *c)
{
    int64_t want = check_int(c, "num_paragraphs"), nth = check_int(c, "nth_paragraph");
    const char *word = check_str(c, "first_word");
    int64_t filled = 0, number = 0;
    bool begins = false;

    for (const char *at = c->text;; number++) {
        const char *next = strstr(at, "\n\n"), *part = at;
        size_t n = next ? (size_t)(next - at) : strlen(at);
        check_strip(&part, &n);
        filled += n > 0;
        if (number + 1 == nth)
            begins = n > 0 && begins_with(c, part, n, word);
        if (!next)
            break;
        at = next + 2;
    }
    return filled == want && nth <= filled && begins;
}

static bool constrained(struct check *c)
{
    static const char *const options[][3] = {
        {"My answer is yes.", "My answer is no.", "My answer is maybe."},
        {"Sí.", "No.", "Quizás."},
        {"Oui.", "Non.", "Peut-être."},
        {"はい、そうです。", "いいえ、違います。", "どちらとも言えません。"}};

    for (int i = 0; i < 3; i++)
        if (strstr(c->text, options[c->tongue][i]))
            return true;
    return false;
}

const struct check_row check_rows[] = {
    {"punctuation:no_comma", no_comma},
    {"detectable_format:number_highlighted_sections", highlights},
    {"length_constraints:number_words", number_words},
    {"detectable_content:number_placeholders", placeholders},
    {"combination:repeat_prompt", repeat_prompt},
    {"detectable_format:title", title},
    {"change_case:english_lowercase", lowercase},
    {"change_case:english_capital", uppercase},
    {"change_case:spanish_lowercase", lowercase},
    {"change_case:spanish_capital", uppercase},
    {"change_case:french_lowercase", lowercase},
    {"change_case:french_capital", uppercase},
    {"detectable_format:number_bullet_lists", bullets},
    {"detectable_format:multiple_sections", sections},
    {"change_case:capital_word_frequency", capital_words},
    {"startend:quotation", quotation},
    {"keywords:existence", keywords},
    {"keywords:forbidden_words", forbidden_words},
    {"keywords:frequency", keyword_frequency},
    {"keywords:letter_frequency", letter_frequency},
    {"detectable_format:json_format", json_format},
    {"length_constraints:number_paragraphs", paragraphs},
    {"combination:two_responses", two_responses},
    {"language:response_language", response_language},
    {"startend:end_checker", end_phrase},
    {"length_constraints:number_sentences", sentences},
    {"detectable_content:postscript", postscript},
    {"length_constraints:nth_paragraph_first_word", nth_paragraph},
    {"detectable_format:constrained_response", constrained},
    {NULL, NULL}};
