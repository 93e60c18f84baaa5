/*
 * pattern.c - PCRE2 behind a small door.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include "base/mem.h"

#include <pcre2.h>
#include <string.h>

enum { MATCH_LIMIT = 1000000, HEAP_KIB = 65536 };

struct pattern {
    pcre2_code *code;
    pcre2_match_context *limits;
};

void pattern_free(struct pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    mem_free(p);
}

enum b2_status pattern_new(struct pattern **out, const char *regex, unsigned flags,
                           struct b2_err *err)
{
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF;
    struct pattern *p = mem_calloc(1, sizeof *p);
    int code = 0;
    PCRE2_SIZE at = 0;

    if (!p || !(p->limits = pcre2_match_context_create(NULL))) {
        mem_free(p);
        return err_set(err, B2_ENOMEM, "out of memory for a pattern");
    }
    if (flags & PATTERN_CASELESS)
        options |= PCRE2_CASELESS;
    if (flags & PATTERN_MULTILINE)
        options |= PCRE2_MULTILINE;
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(p->limits, HEAP_KIB);
    p->code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, options, &code,
                            &at, NULL);
    if (!p->code) {
        char words[120] = "";
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof words);
        pattern_free(p);
        return err_set(err, B2_EFORMAT, "pattern '%s': %s at byte %zu", regex, words,
                       (size_t)at);
    }
    *out = p;
    return B2_OK;
}

static void take_groups(struct pattern_match *out, const pcre2_match_data *md, int n)
{
    /* PCRE2's getter is not const-correct before 10.43. */
    union {
        const pcre2_match_data *in;
        pcre2_match_data *out;
    } data = {.in = md};
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(data.out);

    *out = (struct pattern_match){
        .n_groups = n > PATTERN_GROUPS || n == 0 ? PATTERN_GROUPS : n};
    for (int g = 0; g < out->n_groups; g++) {
        size_t from = at[(size_t)g * 2], to = at[(size_t)g * 2 + 1];
        out->took[g] = from != PCRE2_UNSET && from <= to;
        out->from[g] = out->took[g] ? from : 0;
        out->to[g] = out->took[g] ? to : 0;
    }
}

bool pattern_find(const struct pattern *p, const char *text, size_t n, size_t from,
                  struct pattern_match *out)
{
    pcre2_match_data *md;
    int rc;

    if (from > n || !(md = pcre2_match_data_create(PATTERN_GROUPS, NULL)))
        return false;
    rc = pcre2_match(p->code, (PCRE2_SPTR)text, n, from, 0, md, p->limits);
    if (rc >= 0)
        take_groups(out, md, rc);
    pcre2_match_data_free(md);
    return rc >= 0;
}

/* Where to look on after a match: behind an empty one by a whole character. */
static size_t next_from(const struct pattern_match *m, const char *text, size_t n)
{
    size_t at = m->to[0];

    if (m->to[0] > m->from[0])
        return at;
    at++;
    while (at < n && ((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

int64_t pattern_count(const struct pattern *p, const char *text, size_t n)
{
    struct pattern_match m;
    int64_t count = 0;

    for (size_t at = 0; pattern_find(p, text, n, at, &m); at = next_from(&m, text, n))
        count++;
    return count;
}

void pattern_replace(const struct pattern *p, const char *text, size_t n,
                     const char *with, struct str *out)
{
    struct pattern_match m;
    size_t done = 0;

    for (size_t at = 0; pattern_find(p, text, n, at, &m); at = next_from(&m, text, n)) {
        str_putn(out, text + done, m.from[0] - done);
        str_put(out, with);
        done = m.to[0];
    }
    str_putn(out, text + done, n - done);
}
