/*
 * cache_opts.c - words for kinds of caches.
 */
#include "cli/cache_opts.h"

#include "cli/terminal.h"

#include <string.h>

static const struct {
    const char *word;
    enum dtype type;
} types[] = {{"f16", DT_F16}, {"q8_0", DT_Q8_0}, {"q4_0", DT_Q4_0}};

enum dtype cache_word_type(const char *word)
{
    for (size_t i = 0; word && i < countof(types); i++)
        if (strcmp(types[i].word, word) == 0)
            return types[i].type;
    return (enum dtype)0;
}

void cache_words_apply(const struct cache_words *c, struct session_params *sp)
{
    sp->cache = cache_word_type(c->type);
    sp->window = c->window;
    sp->sinks = c->sinks > 0 ? c->sinks : -1;
}

enum b2_status cache_words_repack(const struct cache_words *c, struct model *m,
                                  struct backend *be, const struct session_params *sp,
                                  bool quiet, bool plan_only, struct b2_err *err)
{
    struct progress progress = progress_start(
        quiet ? NULL : stderr, terminal_stderr_is_tty(), "repack", NULL, 1);
    struct repack_params p = {
        .session = sp, .progress = &progress, .plan_only = plan_only};

    if (c->repack && strcmp(c->repack, "same") == 0)
        p.mode = REPACK_SAME;
    else if (c->repack && strcmp(c->repack, "fast") == 0)
        p.mode = REPACK_FAST;
    return model_repack(m, be, &p, err);
}

const char *cache_type_word(enum dtype t)
{
    for (size_t i = 0; i < countof(types); i++)
        if (types[i].type == t)
            return types[i].word;
    return "?";
}
