/*
 * task_judge.c - comparing answers, and the door to the other judges.
 *
 * Matching follows lm-evaluation-harness's exact_match: the pattern's part of the answer
 * (first or last match; of its groups the first that took part), then patterns to
 * ignore, case and punctuation are taken out of both sides. Beyond it: "contains" asks
 * whether the right answer stands in the answer as whole words.
 */
#include "eval/task_judge.h"

#include "base/mem.h"
#include "eval/ifeval.h"
#include "text/letter.h"
#include "text/utf8.h"

#include <string.h>

void verdict_free(struct verdict *v)
{
    str_free(&v->details);
}

/* Finds the part of the answer that a metric looks at. False: there is none. */
static bool find_part(const struct task_metric *m, const char *answer, size_t n,
                      size_t *from, size_t *to)
{
    struct pattern_match now, best = {0};
    bool found = false;

    if (!m->find) {
        *from = 0;
        *to = n;
        return true;
    }
    for (size_t at = 0; pattern_find(m->find, answer, n, at, &now);) {
        best = now;
        found = true;
        if (!m->last)
            break;
        at = now.to[0] > at ? now.to[0] : at + 1;
    }
    if (!found)
        return false;
    *from = best.from[0];
    *to = best.to[0];
    for (int g = 1; g < best.n_groups; g++)
        if (best.took[g]) {
            *from = best.from[g];
            *to = best.to[g];
            break;
        }
    return true;
}

/* string.punctuation of Python, and every character that Unicode calls punctuation. */
static bool is_punctuation(uint32_t cp)
{
    return letter_is_punct(cp) || (cp < 128 && cp && strchr("$+<=>^`|~", (int)cp));
}

/* Appends text after the rules of d; runs of white space become one space. */
static void put_normal(struct str *out, const struct task_desc *d, const char *text,
                       size_t n)
{
    struct str a = {0}, b = {0};
    char buf[4];
    bool space = false;

    str_putn(&a, text, n);
    for (int i = 0; i < d->n_ignore; i++) {
        str_clear(&b);
        pattern_replace(d->ignore[i], a.data ? a.data : "", a.len, "", &b);
        struct str swap = a;
        a = b;
        b = swap;
    }
    for (size_t at = 0, used; at < a.len; at += used) {
        uint32_t cp = utf8_next(a.data + at, a.len - at, &used);
        if (utf8_is_space(cp)) {
            space = true;
            continue;
        }
        if (d->ignore_punctuation && is_punctuation(cp))
            continue;
        if (space && out->len > 0)
            str_put(out, " ");
        space = false;
        cp = d->ignore_case ? letter_lower(cp) : cp;
        str_putn(out, buf, (size_t)utf8_put(buf, cp));
    }
    if (a.bad || b.bad)
        out->bad = true;
    str_free(&a);
    str_free(&b);
}

/* Would a letter or digit at this place go on with the word? Chinese has no spaces. */
static bool is_word(const char *text, size_t n, size_t at)
{
    size_t used;
    uint32_t cp;

    if (at >= n)
        return false;
    cp = utf8_next(text + at, n - at, &used);
    return cp < 0x2e80 && (letter_is_alpha(cp) || letter_is_digit(cp));
}

/* Start of the character before at > 0. */
static size_t before(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static bool has_words(const struct str *text, const struct str *part)
{
    const char *at = text->data;

    if (part->len == 0)
        return false;
    while ((at = strstr(at, part->data))) {
        size_t from = (size_t)(at - text->data), to = from + part->len;
        bool left = from > 0 &&
                    is_word(text->data, text->len, before(text->data, from)) &&
                    is_word(part->data, part->len, 0);
        bool right = is_word(text->data, text->len, to) &&
                     is_word(part->data, part->len, before(part->data, part->len));
        if (!left && !right)
            return true;
        at++;
    }
    return false;
}

static bool match_one(const struct task_desc *d, const struct task_metric *m,
                      const char *right, size_t n_right, const char *part, size_t n)
{
    struct str a = {0}, b = {0};
    bool ok;

    put_normal(&a, d, part, n);
    put_normal(&b, d, right, n_right);
    str_put(&a, "");
    str_put(&b, "");
    ok = str_ok(&a) && str_ok(&b) &&
         (m->contains ? has_words(&a, &b) : strcmp(a.data, b.data) == 0);
    str_free(&a);
    str_free(&b);
    return ok;
}

bool judge_match(const struct task_desc *d, const struct task_metric *m,
                 const char *right, const char *answer)
{
    size_t from, to;
    bool ok = false;

    if (!find_part(m, answer, strlen(answer), &from, &to))
        return false;
    if (!d->gold_lines)
        return match_one(d, m, right, strlen(right), answer + from, to - from);
    for (const char *line = right; line && !ok;) {
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        ok = match_one(d, m, line, n, answer + from, to - from);
        line = end ? end + 1 : NULL;
    }
    return ok;
}

static enum b2_status judge_ifeval(struct verdict *v, const cJSON *row,
                                   const char *answer, struct b2_err *err)
{
    struct ifeval_result r = {0};
    enum b2_status rc = ifeval_judge(&r, row, answer, err);

    if (rc)
        return rc;
    v->score[0] = r.strict == r.n;
    v->score[1] = (double)r.strict / r.n;
    v->score[2] = r.loose == r.n;
    v->score[3] = (double)r.loose / r.n;
    v->weight[1] = v->weight[3] = r.n; /* the mean is one over instructions */
    str_put(&v->details, ",\"followed\":[");
    for (int i = 0; i < r.n; i++)
        str_printf(&v->details, "%s%d", i ? "," : "", r.followed[i]);
    str_put(&v->details, "]");
    return B2_OK;
}

enum b2_status judge_answer(struct verdict *out, const struct task *t, int64_t i,
                            const char *right, const char *answer, struct b2_err *err)
{
    const char *thought = strstr(answer, "</think>"), *next;
    struct verdict v = {0};
    bool passed = false;
    enum b2_status rc = B2_OK;

    while (thought && (next = strstr(thought + 1, "</think>")))
        thought = next;
    if (thought)
        answer = thought + strlen("</think>");
    for (int k = 0; k < ITEM_SCORES; k++)
        v.weight[k] = 1.0;
    switch (t->d.check) {
    case TASK_IFEVAL:
        rc = judge_ifeval(&v, task_row(t, i), answer, err);
        break;
    case TASK_CODE:
        rc = judge_code(&passed, &v.details, task_row(t, i), answer, err);
        v.score[0] = passed;
        break;
    case TASK_MATCH:
        for (int k = 0; k < t->d.n_metrics; k++)
            v.score[k] = judge_match(&t->d, &t->d.metric[k], right, answer);
        break;
    }
    if (rc) {
        verdict_free(&v);
        return rc;
    }
    *out = v;
    return B2_OK;
}
