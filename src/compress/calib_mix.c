/*
 * calib_mix.c - the table of mixes.
 */
#include "compress/calib_mix.h"

#include "base/mem.h"
#include "base/opt.h"

#include <string.h>

enum { MIX_MAX = 8 };

#define PREFIX "mix:"

/* Texts of the data folder that nothing is judged by; GSM8K is its train split. */
#define WIKI "wikitext-2/wiki.train.part.txt"
#define MATHS "gsm8k/train.jsonl"
#define PROSE_EN "calibration/prose_en.txt"
#define PROSE_ZH "calibration/prose_zh.txt"
#define CODE_C "calibration/code_c.txt"
#define CODE_PY "calibration/code_python.txt"

static const struct {
    const char *name, *what;
    struct {
        const char *file;
        double share;
    } part[MIX_MAX];
} mixes[] = {
    {"default",
     "prose, code, maths, Chinese",
     {{WIKI, .3},
      {PROSE_EN, .1},
      {MATHS, .2},
      {CODE_C, .1},
      {CODE_PY, .15},
      {PROSE_ZH, .15}}},
    {"no-wiki",
     "the same without WikiText",
     {{PROSE_EN, .3}, {MATHS, .25}, {CODE_C, .1}, {CODE_PY, .2}, {PROSE_ZH, .15}}},
    {"wiki-maths",
     "English encyclopaedia and word problems",
     {{WIKI, .6}, {MATHS, .4}}},
    {"code", "C and Python", {{CODE_C, .4}, {CODE_PY, .6}}},
    {"chinese", "Chinese prose", {{PROSE_ZH, 1.0}}},
};

static enum b2_status unknown(const char *word, struct b2_err *err)
{
    struct str names = {0};

    for (size_t i = 0; i < countof(mixes); i++)
        str_printf(&names, "%s mix:%s (%s)", i ? "," : "", mixes[i].name,
                   mixes[i].what);
    enum b2_status rc = err_set(err, B2_EARG, "%s: no such mix; there are%s", word,
                                str_ok(&names) ? names.data : "");
    str_free(&names);
    return rc;
}

static enum b2_status add_word(struct calib_words *out, const char *text,
                               struct b2_err *err)
{
    if (out->n == CALIB_MAX_FILES)
        return err_set(err, B2_EARG, "more than %d calibration files", CALIB_MAX_FILES);
    out->own[out->n] = text ? mem_dup(text, strlen(text) + 1) : NULL;
    out->word[out->n] = out->own[out->n];
    return out->own[out->n++] ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

static enum b2_status add_mix(struct calib_words *out, const char *word,
                              const char *dir, struct b2_err *err)
{
    const char *name = word + strlen(PREFIX), *eq = strrchr(name, '=');
    double share = 1.0;
    size_t len = strlen(name), at = 0;
    enum b2_status rc = B2_OK;

    if (eq && opt_parse_num(&share, eq + 1, 1e-6, 1e6))
        len = (size_t)(eq - name);
    while (at < countof(mixes) &&
           (strlen(mixes[at].name) != len || memcmp(mixes[at].name, name, len) != 0))
        at++;
    if (at == countof(mixes))
        return unknown(word, err);
    if (!dir)
        return err_set(
            err, B2_EARG,
            "%s: no folder of data: give --data DIR (or B2_DATA) that holds %s", word,
            mixes[at].part[0].file);
    for (int i = 0; i < MIX_MAX && mixes[at].part[i].file && !rc; i++) {
        struct str path = {0};
        str_printf(&path, "%s/%s=%.9g", dir, mixes[at].part[i].file,
                   share * mixes[at].part[i].share);
        rc = add_word(out, str_ok(&path) ? path.data : NULL, err);
        str_free(&path);
    }
    return rc;
}

enum b2_status calib_words_make(struct calib_words *out, const char *const *words,
                                int n, const char *dir, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    *out = (struct calib_words){.n = 0};
    for (int i = 0; i < n && !rc; i++)
        rc = strncmp(words[i], PREFIX, strlen(PREFIX)) == 0
                 ? add_mix(out, words[i], dir, err)
                 : add_word(out, words[i], err);
    if (rc)
        calib_words_free(out);
    return rc;
}

enum b2_status calib_words_add(struct calib_words *w, const char *path,
                               struct b2_err *err)
{
    struct str word = {0};

    str_printf(&word, "%s=1", path);
    enum b2_status rc = add_word(w, str_ok(&word) ? word.data : NULL, err);
    str_free(&word);
    return rc;
}

void calib_words_free(struct calib_words *w)
{
    for (int i = 0; i < w->n; i++)
        mem_free(w->own[i]);
    *w = (struct calib_words){.n = 0};
}
