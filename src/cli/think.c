/*
 * think.c - finds the tags, however the text is cut.
 */
#include "cli/think.h"

#include <string.h>

static const char dim[] = "\033[2m", normal[] = "\033[0m";

static bool put(const struct think *t, const char *s)
{
    return t->put(s, strlen(s));
}

void think_start(struct think *t, bool inside)
{
    t->inside = inside;
    t->any = inside;
    t->skip_newlines = inside;
    t->n_held = 0;
    if (inside && !t->hide && t->color)
        (void)put(t, dim);
}

/* Text without tags. */
static bool put_text(struct think *t, const char *s, size_t n)
{
    if (t->inside && t->hide)
        return true;
    while (n && t->skip_newlines && *s == '\n') {
        s++;
        n--;
    }
    if (n == 0)
        return true;
    t->skip_newlines = false;
    return t->put(s, n);
}

static bool put_tag(struct think *t)
{
    bool begin = !t->inside;

    t->any = true;
    if (!t->hide && !t->color && !t->put(t->held, t->n_held))
        return false;
    t->inside = begin;
    t->skip_newlines = t->hide || t->color;
    if (t->hide || !t->color)
        return true;
    return begin ? put(t, dim) : put(t, normal) && put(t, "\n\n");
}

bool think_put(struct think *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *tag = t->inside ? "</think>" : "<think>";
        while (t->n_held && s[i] != tag[t->n_held]) {
            /* Only "<" can begin a tag, and it is its first letter alone. */
            if (!put_text(t, t->held, t->n_held))
                return false;
            t->n_held = 0;
        }
        if (s[i] != tag[t->n_held]) {
            size_t len = 1;
            while (i + len < n && s[i + len] != '<')
                len++;
            if (!put_text(t, s + i, len))
                return false;
            i += len - 1;
            continue;
        }
        t->held[t->n_held++] = s[i];
        if (tag[t->n_held])
            continue;
        if (!put_tag(t))
            return false;
        t->n_held = 0;
    }
    return true;
}

bool think_end(struct think *t)
{
    bool ok = put_text(t, t->held, t->n_held);

    t->n_held = 0;
    if (t->inside && !t->hide && t->color)
        ok = put(t, normal) && ok;
    t->inside = false;
    return ok;
}
