/*
 * ifeval_text.c - sentences, and the language of a text.
 *
 * A sentence ends at . ! ? (and closing quotes or brackets) before white space; a full
 * stop not, when a lower-case letter follows, or when it belongs to an abbreviation, an
 * initial, or the number of a list item. Japanese: at 。！？ or a line end.
 *
 * The language is told by script where a script has one language; otherwise each word
 * among a language's most frequent ones, and each letter that only it uses, is a vote.
 */
#include "base/str.h"
#include "eval/ifeval_int.h"
#include "text/letter.h"
#include "text/utf8.h"

#include <string.h>

static bool is_white(uint32_t cp)
{
    return utf8_is_space(cp);
}

/* ---- sentences ---- */

/* Does the full stop at text[at] belong to the word before it? */
static bool is_abbreviation(const char *text, size_t at)
{
    static const char *const list[] = {
        "mr",  "mrs", "ms",  "dr",    "prof", "st",  "jr",  "sr",   "vs",  "etc", "e.g",
        "i.e", "inc", "ltd", "co",    "gen",  "col", "sgt", "capt", "rev", "hon", "mt",
        "fig", "al",  "p.s", "p.p.s", "u.s",  "u.k", "a.m", "p.m",  "sra", "ud"};
    size_t from = at, n;
    bool digits = true;

    while (from > 0 && !strchr(" \t\r\n(\"'", text[from - 1]))
        from--;
    n = at - from;
    if (n == 0)
        return false;
    if (n == 1 && ((text[from] >= 'A' && text[from] <= 'Z')))
        return text[from] != 'I'; /* "as do I." ends a sentence */
    for (size_t i = from; i < at; i++)
        digits = digits && text[i] >= '0' && text[i] <= '9';
    if (digits && n <= 2) { /* an item of a list: at the start of a line */
        while (from > 0 && (text[from - 1] == ' ' || text[from - 1] == '\t'))
            from--;
        return from == 0 || text[from - 1] == '\n';
    }
    for (size_t i = 0; i < countof(list); i++) {
        size_t k = 0;
        while (k < n && list[i][k] && list[i][k] == (text[from + k] | 0x20))
            k++;
        if (k == n && !list[i][k])
            return true;
    }
    return false;
}

/* Passes closing quotes and brackets. */
static size_t pass_closing(const char *text, size_t n, size_t at)
{
    static const char *const closing[] = {"\"", "'", ")", "]", "*", "”", "’", "»", "_"};

    for (bool more = true; more && at < n;) {
        more = false;
        for (size_t i = 0; i < countof(closing); i++) {
            size_t k = strlen(closing[i]);
            if (n - at >= k && strncmp(text + at, closing[i], k) == 0) {
                at += k;
                more = true;
                break;
            }
        }
    }
    return at;
}

/* Is there an end of sentence with its mark at text[at]? *next: where to go on. */
static bool ends_here(const char *text, size_t n, size_t at, size_t *next)
{
    size_t stop = at, behind, used;
    bool full_stop = text[at] == '.';
    uint32_t cp;

    while (stop < n && text[stop] && strchr(".!?", text[stop])) {
        full_stop = full_stop && text[stop] == '.';
        stop++;
    }
    behind = pass_closing(text, n, stop);
    *next = behind;
    if (behind >= n)
        return true;
    cp = utf8_next(text + behind, n - behind, &used);
    if (!is_white(cp))
        return false;
    if (!full_stop)
        return true;
    if (stop == at + 1 && is_abbreviation(text, at))
        return false;
    for (behind += used; behind < n; behind += used) {
        cp = utf8_next(text + behind, n - behind, &used);
        if (!is_white(cp))
            return !letter_is_lower(cp);
    }
    return true;
}

static int64_t japanese_sentences(const char *text, size_t n)
{
    int64_t count = 0;
    bool any = false;

    for (size_t at = 0, used; at < n; at += used) {
        uint32_t cp = utf8_next(text + at, n - at, &used);
        bool end = cp == 0x3002 || cp == 0xff01 || cp == 0xff1f || cp == '!' ||
                   cp == '?' || cp == '\n';
        if (end) {
            count += any;
            any = false;
        } else if (!is_white(cp) && cp != 0x300d && cp != 0x300f) {
            any = true; /* a closing quote alone is no sentence */
        }
    }
    return count + any;
}

int64_t ifeval_sentences(const char *text, size_t n, bool japanese)
{
    int64_t count = 0;
    bool any = false;

    if (japanese)
        return japanese_sentences(text, n);
    for (size_t at = 0, used; at < n; at += used) {
        uint32_t cp = utf8_next(text + at, n - at, &used);
        size_t next = 0;
        if (cp != '.' && cp != '!' && cp != '?') {
            any = any || !is_white(cp);
            continue;
        }
        if (ends_here(text, n, at, &next)) {
            count++;
            any = false;
        } else {
            any = true;
        }
        used = next > at ? next - at : 1;
    }
    return count + any;
}

/* ---- languages ---- */

/* Scripts that one language of the data writes; ranges of code points. */
static const struct {
    const char *code;
    uint32_t from, to;
} scripts[] = {
    {"ko", 0xac00, 0xd7a3},   {"ko", 0x1100, 0x11ff},   {"th", 0x0e00, 0x0e7f},
    {"pa", 0x0a00, 0x0a7f},   {"te", 0x0c00, 0x0c7f},   {"kn", 0x0c80, 0x0cff},
    {"bn", 0x0980, 0x09ff},   {"gu", 0x0a80, 0x0aff},   {"ta", 0x0b80, 0x0bff},
    {"ml", 0x0d00, 0x0d7f},   {"he", 0x0590, 0x05ff},   {"el", 0x0370, 0x03ff},
    {"ja", 0x3040, 0x30ff},   {"zh", 0x4e00, 0x9fff},   {"zh", 0x3400, 0x4dbf},
    {"deva", 0x0900, 0x097f}, {"arab", 0x0600, 0x06ff}, {"cyrl", 0x0400, 0x04ff},
    {"latn", 0x0041, 0x024f}, {"latn", 0x1e00, 0x1eff}};

/* Frequent words, each between spaces, and letters of its own. */
static const struct {
    const char *code, *script, *words, *letters;
} tongues[] = {
    {"en", "latn",
     " the of and to in is that for it with as was on be are this by you not or at "
     "from "
     "have an they which we your can will his her has but all one their our i my if ",
     ""},
    {"de", "latn",
     " der die und das in den von zu ist mit sich des auf für nicht ein eine als auch "
     "es "
     "an werden aus er hat dass sie nach wird bei einer im dem ich wir sind oder ",
     "ß"},
    {"fr", "latn",
     " le la les de des et en un une du que est pour qui dans par sur pas plus au avec "
     "ce il sont cette ne se nous vous je mais ou elle leur l d c n s qu à ",
     "œ"},
    {"es", "latn",
     " el la los las de y en que un una es por con para del se no su al lo como más "
     "pero "
     "sus le este está o si porque esta son también muy hay ",
     "ñ¿¡"},
    {"it", "latn",
     " il la i gli le di e in che un una è per con del della non si da al sono come "
     "più "
     "ma anche lo nel alla dei dell questo o ha l ",
     ""},
    {"pt", "latn",
     " o a os as de e em que um uma é por com para do da não se no na dos das mais "
     "como "
     "mas ao foi ele sua ou seu são também pelo você ",
     "ãõ"},
    {"fi", "latn",
     " ja on ei se että oli hän mutta ovat kun myös tai joka ovat mitä sen kuin niin "
     "voi "
     "minä olen tämä jos sekä hänen ole kanssa ",
     ""},
    {"sw", "latn",
     " na ya wa kwa ni katika la za cha kuwa hii yake kama au pia hiyo lakini sana "
     "watu "
     "moja huo hayo vya si wetu ili ",
     ""},
    {"vi", "latn",
     " và của là có trong cho các một những được không người với này để đã từ khi cũng "
     "như bạn tôi ",
     "ăđơưạảấầẩậắằặẹẻẽếềểệịọỏốồổộớờởợụủứừửựỳỵỷỹ"},
    {"nl", "latn",
     " de het een en van in is dat op te zijn met voor niet die aan er om ook als bij "
     "maar door uit naar ze hij wordt je ",
     ""},
    {"pl", "latn",
     " i w na z do nie się jest to że o jak po co dla od przez za są ale ", "łąęśżźćń"},
    {"tr", "latn", " ve bir bu da de için ile çok olarak gibi daha olan ne var mi ",
     "ışğ"},
    {"sv", "latn", " och att det i som en är på av för med till den inte har om ett ",
     "å"},
    {"da", "latn", " og at det i en er på af for med til den ikke har som de ", "æø"},
    {"ro", "latn", " și în de la a cu o este pe care nu din un să mai sunt ", "țșă"},
    {"cs", "latn", " a v se na je že o s z do to i ale jako pro by jsou ", "řěůč"},
    {"hu", "latn", " a az és hogy nem is egy ez meg de van volt csak vagy ", "őű"},
    {"id", "latn", " dan yang di ke dari untuk dengan ini itu pada adalah tidak dalam ",
     ""},
    {"ru", "cyrl", " и в не на я что с по это как но он к из у за от так для о мы ",
     "ыэё"},
    {"bg", "cyrl", " и на да се за от е с по не в са който като това че ще си ", "ъ"},
    {"uk", "cyrl", " і в на не що з до та як це за від для у ", "іїєґ"},
    {"ar", "arab", " في من على إلى أن التي عن هذا مع هذه كان ما لا أو الذي و ", "ةىأإ"},
    {"fa", "arab", " و در به از که این را با است برای آن یک می تا بر هم ", "پچژگ"},
    {"ur", "arab", " کے کی میں ہے اور سے کا کو نے پر یہ ہیں کہ اس ایک ", "ٹڈڑںےہھ"},
    {"hi", "deva", " है के में की का और को से एक यह हैं पर ने भी नहीं लिए कि हो ", ""},
    {"mr", "deva", " आहे आणि या हे च्या मध्ये एक तो ते आहेत नाही की होते साठी व ", "ळ"},
    {"ne", "deva", " छ र को मा हो यो पनि छन् गर्न एक लाई भने तथा हुन्छ ले ", ""}};

/* Is word [n] one of those in a list? */
static bool in_list(const char *list, const char *word, size_t n)
{
    for (const char *at = list; (at = strchr(at, ' ')); at++)
        if (strncmp(at + 1, word, n) == 0 && at[n + 1] == ' ')
            return true;
    return false;
}

/* Votes of the words and letters of a text in lower case. */
static double votes(const char *text, size_t n, const char *words, const char *letters)
{
    double sum = 0.0;
    size_t from = 0;

    for (size_t at = 0, used; at <= n; at += used) {
        uint32_t cp = at < n ? utf8_next(text + at, n - at, &used) : ' ';
        bool part = letter_is_alpha(cp) || letter_is_mark(cp);
        if (at == n)
            used = 1;
        if (!part) {
            if (at > from && in_list(words, text + from, at - from))
                sum += 1.0;
            from = at + used;
        }
        if (at < n &&
            cp >= 128) { /* a letter is a part of a vote: it is in few words */
            char letter[5] = "";
            int k = utf8_put(letter, cp);
            letter[k] = '\0';
            if (strstr(letters, letter))
                sum += 0.5;
        }
    }
    return sum;
}

/* The script that most letters belong to; kana make Japanese of any text. */
static const char *main_script(const char *text, size_t n)
{
    int64_t count[countof(scripts)] = {0}, best = 0, kana = 0, han = 0;
    const char *script = "";

    for (size_t at = 0, used; at < n; at += used) {
        uint32_t cp = utf8_next(text + at, n - at, &used);
        for (size_t i = 0; i < countof(scripts); i++)
            if (cp >= scripts[i].from && cp <= scripts[i].to &&
                (letter_is_alpha(cp) || letter_is_mark(cp)))
                count[i]++;
    }
    for (size_t i = 0; i < countof(scripts); i++) {
        kana += strcmp(scripts[i].code, "ja") == 0 ? count[i] : 0;
        han += strcmp(scripts[i].code, "zh") == 0 ? count[i] : 0;
        if (count[i] > best) {
            best = count[i];
            script = scripts[i].code;
        }
    }
    if (strcmp(script, "zh") == 0 && kana * 10 > han)
        return "ja";
    return script;
}

const char *ifeval_language(const char *text, size_t n)
{
    const char *script = main_script(text, n), *code = "";
    struct str lower = {0};
    double best = 0.0;

    if (strlen(script) != 4) /* "" or a language itself */
        return script;
    letter_put_lower(&lower, text, n);
    for (size_t i = 0; i < countof(tongues) && str_ok(&lower); i++) {
        double v;
        if (strcmp(tongues[i].script, script) != 0)
            continue;
        v = votes(lower.data, lower.len, tongues[i].words, tongues[i].letters);
        if (v > best) {
            best = v;
            code = tongues[i].code;
        }
    }
    str_free(&lower);
    return code;
}
