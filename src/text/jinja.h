/*
 * jinja.h - chat templates: the Jinja that models' templates are written in.
 *
 * A template is parsed once and rendered as often as needed; rendering changes neither
 * the template nor the values, so several threads may share both. Values come from a
 * struct jinja_vars, which owns all of them. There is no file access, no code execution
 * and no changing of values (Jinja2's immutable sandbox), and every rendering is bounded
 * in steps, depth, output and memory.
 *
 * Reference: Jinja2 3.1.6 as transformers sets it up (trim_blocks, lstrip_blocks, loop
 * controls, tojson that escapes neither HTML nor other scripts, raise_exception,
 * strftime_now). Errors read "TYPE: message" with Python's and Jinja2's types and words.
 * Differences: integers have 64 bits; the statements extends, block, include, import,
 * from, call and autoescape, random things and a few HTML filters are absent.
 */
#ifndef TEXT_JINJA_H
#define TEXT_JINJA_H

#include "base/error.h"
#include "base/str.h"

struct jinja;
struct jinja_vars;

/* A value, by copy; what it points to belongs to its jinja_vars. Built only through the
 * functions below; { 0 } is Python's None. */
struct jval {
    unsigned char type; /* enum jtype of jinja_int.h */
    bool markup;        /* a string marked safe */
    union {
        bool b;
        int64_t i;
        double f;
        const struct jstr *s;
        struct jseq *q;
        struct jdict *d;
        const struct jundef *u;
        struct jnamespace *ns;
        struct jmacro *m;
        struct jloop *loop;
        const struct jmethod *me;
        const struct jfunc *fn;
    } v;
};

/* Parses n bytes of UTF-8. B2_EFORMAT: "TemplateSyntaxError: …, line N". B2_EUNSUP: a
 * statement that is not supported, too large. B2_ENOMEM. */
enum b2_status jinja_parse(struct jinja **out, const char *text, size_t n,
                           struct b2_err *err) NODISCARD;
void jinja_free(struct jinja *t); /* NULL is fine */

/* Values of at most max_bytes in all. NULL: out of memory. */
struct jinja_vars *jinja_vars_new(size_t max_bytes);
void jinja_vars_free(struct jinja_vars *v); /* NULL is fine */

/* Builders. A failed allocation marks vars as bad and gives None; jinja_render says so
 * once. Strings are copied; bytes that are not UTF-8 become U+FFFD. */
struct jval jinja_none(void);
struct jval jinja_bool(bool b);
struct jval jinja_int(int64_t i);
struct jval jinja_float(double f);
struct jval jinja_str(struct jinja_vars *v, const char *s, size_t n);
struct jval jinja_list(struct jinja_vars *v);
struct jval jinja_dict(struct jinja_vars *v);
void jinja_list_add(struct jinja_vars *v, struct jval list, struct jval item);
/* Replaces the value of an equal key in place. */
void jinja_dict_set(struct jinja_vars *v, struct jval dict, const char *key, size_t n,
                    struct jval item);
/* Makes a variable of the template. */
void jinja_set(struct jinja_vars *v, const char *name, struct jval value);
bool jinja_vars_ok(const struct jinja_vars *v);

struct jinja_limits {
    uint64_t max_steps; /* 0: 20 million evaluated nodes or 32-byte pieces of text */
    size_t max_output;  /* bytes; 0: 64 MiB */
    size_t max_memory;  /* bytes of values made while rendering; 0: 256 MiB */
    int max_depth;      /* nested evaluations; 0: 1000 */
    int64_t now_s;      /* what strftime_now() tells: seconds since 1970, local time */
    bool strict;        /* what is undefined is no empty text but an error */
};

/* Appends the rendered text to out; on failure out stays as it was. lim may be NULL.
 * B2_EARG: the template raised an error ("TemplateError: …" is raise_exception).
 * B2_EUNSUP: over a limit. B2_ENOMEM. */
enum b2_status jinja_render(const struct jinja *t, const struct jinja_vars *v,
                            const struct jinja_limits *lim, struct str *out,
                            struct b2_err *err) NODISCARD;

#endif
