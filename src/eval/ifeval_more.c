/*
 * ifeval_more.c - the instructions of Spanish, French and Japanese alone (M-IFEval).
 *
 * The checks follow what the prompts ask for; where they say little, the comment here
 * says what is taken.
 */
#include "eval/ifeval_int.h"

#include "text/letter.h"
#include "text/utf8.h"

#include <string.h>

/* ---- Spanish ---- */

static bool has_any(const char *word, size_t n, const char *letters)
{
    for (size_t at = 0, used; at < n; at += used) {
        char c[5] = "";
        c[utf8_put(c, utf8_next(word + at, n - at, &used))] = '\0';
        if (strstr(letters, c))
            return true;
    }
    return false;
}

static bool with_enie(const char *word, size_t n)
{
    return has_any(word, n, "ñ");
}

static bool with_dieresis(const char *word, size_t n)
{
    return has_any(word, n, "ü");
}

static bool with_tilde(const char *word, size_t n)
{
    return has_any(word, n, "áéíóú");
}

static bool enie(struct check *c)
{
    return check_words(c, with_enie) == check_int(c, "let_frequency");
}

static bool dieresis(struct check *c)
{
    return check_words(c, with_dieresis) == check_int(c, "let_frequency");
}

static bool tildes(struct check *c)
{
    return check_relation(c, check_words(c, with_tilde), "num_words", "relation");
}

static bool question_marks(struct check *c)
{
    return check_matches(c, "¿[^?]*\\?") > 0;
}

static bool exclamation_marks(struct check *c)
{
    return check_matches(c, "¡[^!]*!") > 0;
}

const struct check_row check_rows_es[] = {
    {"special_character:enie", enie},
    {"special_character:dieresis", dieresis},
    {"special_character:tildes", tildes},
    {"punctuation:question_marks", question_marks},
    {"punctuation:exclamation_marks", exclamation_marks},
    {NULL, NULL}};

/* ---- French ---- */

static bool is_one_of(const char *word, size_t n, const char *list)
{
    for (const char *at = list; (at = strchr(at, ' ')); at++)
        if (strncmp(at + 1, word, n) == 0 && at[n + 1] == ' ')
            return true;
    return false;
}

static bool is_tu(const char *word, size_t n)
{
    return is_one_of(word, n, " tu te t toi ton ta tes tien tienne ");
}

static bool is_vous(const char *word, size_t n)
{
    return is_one_of(word, n, " vous votre vos vôtre vôtres ");
}

/* Says tu somewhere and vous nowhere. */
static bool informal(struct check *c)
{
    return check_words(c, is_tu) > 0 && check_words(c, is_vous) == 0;
}

static bool no_digits(struct check *c)
{
    return check_matches(c, "[0-9]") == 0;
}

/* The words of the prompt that lost their accents have them again. */
static bool accents(struct check *c)
{
    const cJSON *words =
        cJSON_GetObjectItemCaseSensitive(c->args, "word_to_accentuate");
    const cJSON *e;
    struct str lower = {0};
    bool ok = true;

    if (!cJSON_IsObject(words))
        c->missing = "word_to_accentuate";
    letter_put_lower(&lower, c->text, c->n);
    cJSON_ArrayForEach(e, words)
    {
        struct str word = {0};
        if (cJSON_IsString(e))
            letter_put_lower(&word, e->valuestring, strlen(e->valuestring));
        ok = ok && word.len > 0 && lower.len > 0 && strstr(lower.data, word.data);
        str_free(&word);
    }
    str_free(&lower);
    return ok;
}

static bool forbidden_char(struct check *c)
{
    const char *letter = check_str(c, "forbidden_char");
    struct str lower = {0};
    bool ok;

    letter_put_lower(&lower, c->text, c->n);
    ok = lower.len == 0 || !strstr(lower.data, letter);
    str_free(&lower);
    return ok;
}

/* Acute, grave, circumflex, diaeresis; the cedilla is no accent. */
static bool no_accents(struct check *c)
{
    for (size_t at = 0, used; at < c->n; at += used) {
        uint32_t mark;
        (void)letter_base(utf8_next(c->text + at, c->n - at, &used), &mark);
        if (mark == 0x300 || mark == 0x301 || mark == 0x302 || mark == 0x308)
            return false;
    }
    return true;
}

static bool title_fr(struct check *c)
{
    return check_matches(c, "##[^\\n#]*[^\\n#\\s][^\\n#]*##") > 0;
}

/* Starts and ends with one of these pairs. */
static bool quoted(const struct check *c, const char *const pairs[][2], size_t n_pairs)
{
    const char *text = c->text;
    size_t n = c->n;

    check_strip(&text, &n);
    for (size_t i = 0; i < n_pairs; i++) {
        size_t a = strlen(pairs[i][0]), b = strlen(pairs[i][1]);
        if (n >= a + b && strncmp(text, pairs[i][0], a) == 0 &&
            strncmp(text + n - b, pairs[i][1], b) == 0)
            return true;
    }
    return false;
}

static bool quotation_fr(struct check *c)
{
    static const char *const pairs[][2] = {{"\"", "\""}, {"«", "»"}, {"“", "”"}};

    return quoted(c, pairs, countof(pairs));
}

const struct check_row check_rows_fr[] = {
    {"detectable_content:informal_address", informal},
    {"detectable_content:no_digits", no_digits},
    {"special_character:accents", accents},
    {"special_character:ethel_or_cedilla", forbidden_char},
    {"special_character:no_accents", no_accents},
    {"detectable_format:title", title_fr},
    {"startend:quotation", quotation_fr},
    {NULL, NULL}};

/* ---- Japanese ---- */

static bool is_hiragana(uint32_t cp)
{
    return cp >= 0x3041 && cp <= 0x309f;
}

static bool is_katakana(uint32_t cp) /* with the half-width ones; not the middle dot */
{
    return (cp >= 0x30a1 && cp <= 0x30fa) || (cp >= 0xff66 && cp <= 0xff9f);
}

static bool is_kanji(uint32_t cp)
{
    return (cp >= 0x4e00 && cp <= 0x9fff) || (cp >= 0x3400 && cp <= 0x4dbf) ||
           cp == 0x3005;
}

static int64_t count_if(const struct check *c, bool (*is)(uint32_t))
{
    int64_t count = 0;

    for (size_t at = 0, used; at < c->n; at += used)
        count += is(utf8_next(c->text + at, c->n - at, &used));
    return count;
}

/* Letters of any other script; the sign of a long vowel belongs to both kana. */
static bool not_hiragana(uint32_t cp)
{
    return letter_is_alpha(cp) && !is_hiragana(cp) && cp != 0x30fc;
}

static bool not_katakana(uint32_t cp)
{
    return letter_is_alpha(cp) && !is_katakana(cp) && cp != 0x30fc;
}

static bool is_latin_digit(uint32_t cp)
{
    return (cp >= '0' && cp <= '9') || (cp >= 0xff10 && cp <= 0xff19);
}

static bool is_ink(uint32_t cp)
{
    return !utf8_is_space(cp);
}

static bool number_letters(struct check *c)
{
    return check_relation(c, count_if(c, is_ink), "num_letters", "relation");
}

static bool kanji(struct check *c)
{
    return check_relation(c, count_if(c, is_kanji), "kanji_limit", "relation");
}

static bool no_hiragana(struct check *c)
{
    return count_if(c, is_hiragana) == 0;
}

static bool hiragana_only(struct check *c)
{
    return count_if(c, is_hiragana) > 0 && count_if(c, not_hiragana) == 0;
}

static bool no_katakana(struct check *c)
{
    return count_if(c, is_katakana) == 0;
}

static bool katakana_only(struct check *c)
{
    return count_if(c, is_katakana) > 0 && count_if(c, not_katakana) == 0;
}

static bool kansuuji(struct check *c)
{
    return count_if(c, is_latin_digit) == 0;
}

/* Each run of kanji is followed by its reading in kana between brackets. */
static bool furigana(struct check *c)
{
    int64_t runs = check_matches(c, "[\\x{4e00}-\\x{9fff}\\x{3005}]+");
    int64_t read = check_matches(c, "[\\x{4e00}-\\x{9fff}\\x{3005}]+[（(]"
                                    "[\\x{3041}-\\x{309f}\\x{30a1}-\\x{30fc}]+[）)]");

    return runs > 0 && runs == read;
}

static bool no_period(struct check *c)
{
    return !strstr(c->text, "。");
}

static bool no_comma_ja(struct check *c)
{
    return !strstr(c->text, "、") && !strstr(c->text, "，");
}

static bool bullets_ja(struct check *c)
{
    return check_matches(c, "^\\s*・.*$") == check_int(c, "num_bullets");
}

static bool numbered(struct check *c)
{
    return check_matches(c, "^\\s*[0-9０-９]+[.．、].*$") == check_int(c, "num_items");
}

static bool highlights_ja(struct check *c)
{
    return check_matches(c, "《[^\\n《》]+》") >= check_int(c, "num_highlights");
}

static bool title_ja(struct check *c)
{
    return check_matches(c, "『[^\\n『』]+』") > 0;
}

static bool quotation_ja(struct check *c)
{
    static const char *const pairs[][2] = {{"「", "」"}};

    return quoted(c, pairs, countof(pairs));
}

/* 第1章, 第２節, 第三項. */
static bool sections_ja(struct check *c)
{
    struct str p = {0};
    int64_t count;

    str_printf(&p, "第\\s?[0-9０-９一二三四五六七八九十]+\\s?%s",
               check_str(c, "section_spliter"));
    count = str_ok(&p) ? check_matches(c, p.data) : -1;
    str_free(&p);
    return count >= check_int(c, "num_sections");
}

/* Sentences, each with its last character that is neither space nor closing quote; how
 * many satisfy `fits` and how many there are. */
static void sentence_ends(struct check *c, const char *ending, int64_t *fit,
                          int64_t *all)
{
    size_t from = 0, ink = 0;
    uint32_t last = 0;

    for (size_t at = 0, used = 1; at <= c->n; at += used) {
        uint32_t cp = '\n';
        used = 1;
        if (at < c->n)
            cp = utf8_next(c->text + at, c->n - at, &used);
        if (cp != 0x3002 && cp != 0xff01 && cp != 0xff1f && cp != '!' && cp != '?' &&
            cp != '\n') {
            if (!utf8_is_space(cp) && cp != 0x300d && cp != 0x300f) {
                last = cp;
                ink = at + used;
            }
            continue;
        }
        if (last) {
            size_t k = ending ? strlen(ending) : 0;
            ++*all;
            if (ending)
                *fit += ink - from >= k && strncmp(c->text + ink - k, ending, k) == 0;
            else
                *fit += is_kanji(last) || is_katakana(last) || last == 0x30fc;
        }
        last = 0;
        from = at + used;
    }
}

static bool unified_end(struct check *c)
{
    int64_t fit = 0, all = 0;

    sentence_ends(c, check_str(c, "ending"), &fit, &all);
    return all > 0 && fit == all;
}

/* A sentence that ends in a noun: taken as one that ends in kanji or katakana. */
static bool nominal_ending(struct check *c)
{
    int64_t fit = 0, all = 0;

    sentence_ends(c, NULL, &fit, &all);
    return fit >= check_int(c, "count");
}

const struct check_row check_rows_ja[] = {
    {"length_constraints:number_letters", number_letters},
    {"letters:kanji", kanji},
    {"letters:no_hiragana", no_hiragana},
    {"letters:hiragana_only", hiragana_only},
    {"letters:no_katakana", no_katakana},
    {"letters:katakana_only", katakana_only},
    {"letters:kansuuji", kansuuji},
    {"letters:furigana", furigana},
    {"punctuation:no_period", no_period},
    {"punctuation:no_comma", no_comma_ja},
    {"detectable_format:number_bullet_lists", bullets_ja},
    {"detectable_format:number_numbered_lists", numbered},
    {"detectable_format:number_highlighted_sections", highlights_ja},
    {"detectable_format:title", title_ja},
    {"detectable_format:multiple_sections", sections_ja},
    {"startend:quotation", quotation_ja},
    {"startend:sentence_unified_end", unified_end},
    {"detectable_format:nominal_ending", nominal_ending},
    {NULL, NULL}};
