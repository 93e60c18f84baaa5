/*
 * cache_opts.c - words for kinds of caches.
 */
#include "cli/cache_opts.h"

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

const char *cache_type_word(enum dtype t)
{
    for (size_t i = 0; i < countof(types); i++)
        if (types[i].type == t)
            return types[i].word;
    return "?";
}
