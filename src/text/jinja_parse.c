/*
 * jinja_parse.c - statements: a template as a list of nodes.
 */
#include "base/mem.h"
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <string.h>

enum { MAX_TEMPLATE = 4 << 20, MAX_BLOCK_DEPTH = 100 };
static const size_t max_tree_bytes = (size_t)512 << 20;

static struct jnode *body(struct jparser *p, const char *const *ends);

/* Statements up to the tag that ends them, which is skipped with its "%}". */
static bool body_until(struct jparser *p, const char *end, struct jnode **out)
{
    const char *const ends[] = {end, NULL};

    *out = body(p, ends);
    return !p->x->rc && jp_skip_name(p, end) && jp_expect(p, T_BLOCK_END);
}

/* A body that Jinja2 compiles as a frame of its own: unknown filters count again. */
static bool scope_until(struct jparser *p, const char *end, struct jnode **out)
{
    bool soft = p->soft;

    p->soft = false;
    bool ok = body_until(p, end, out);
    p->soft = soft;
    return ok;
}

static struct jnode *parse_for(struct jparser *p, int line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jnode *n = jp_node(p, N_FOR, line);
    bool soft = p->soft;

    if (!n || !jv_str(p->x, &n->val, "loop", 4))
        return NULL;
    n->a = jp_target(p, "in", false, false);
    if (!n->a)
        return NULL;
    if (!jp_skip_name(p, "in")) {
        (void)jx_syntax(p->x, line, "expected token 'in', got '%s'",
                        jp_describe(jp_now(p)));
        return NULL;
    }
    n->b = jp_tuple(p, false, "recursive", false);
    struct jnode *test = NULL;
    if (n->b && jp_skip_name(p, "if")) {
        test = jp_expr(p, true);
        if (!test)
            return NULL;
    }
    n->op = jp_skip_name(p, "recursive");
    if (!n->b || !jp_expect(p, T_BLOCK_END))
        return NULL;
    p->soft = false;
    p->loops++;
    n->c = body(p, ends);
    p->loops--;
    p->soft = soft;
    /* The optional parts hang on one more node: a the test, b the else. */
    n->d = jp_node(p, N_SCOPE, line);
    if (p->x->rc || !n->d)
        return NULL;
    n->d->a = test;
    if (jp_skip_name(p, "else")) {
        if (!jp_expect(p, T_BLOCK_END) || !scope_until(p, "endfor", &n->d->b))
            return NULL;
        return n;
    }
    return jp_skip_name(p, "endfor") && jp_expect(p, T_BLOCK_END) ? n : NULL;
}

/* if, elif and else make a chain: a the test (NULL: else), b the body, c what follows. */
static struct jnode *parse_if(struct jparser *p, int line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jnode *first = NULL, **tail = &first;
    bool soft = p->soft, has_test = true;

    p->soft = true;
    for (;;) {
        struct jnode *n = jp_node(p, N_IF, line);
        if (!n)
            return NULL;
        if (has_test) {
            n->a = jp_tuple(p, false, NULL, false);
            if (!n->a)
                return NULL;
        }
        if (!jp_expect(p, T_BLOCK_END))
            return NULL;
        if (!has_test) {
            if (!body_until(p, "endif", &n->b))
                return NULL;
            *tail = n;
            break;
        }
        n->b = body(p, ends);
        if (p->x->rc)
            return NULL;
        *tail = n;
        tail = &n->c;
        if (jp_skip_name(p, "endif")) {
            if (!jp_expect(p, T_BLOCK_END))
                return NULL;
            break;
        }
        line = jp_now(p)->line;
        has_test = !jp_skip_name(p, "else");
        if (has_test && !jp_skip_name(p, "elif"))
            return NULL;
    }
    p->soft = soft;
    return first;
}

static struct jnode *parse_set(struct jparser *p, int line)
{
    struct jnode *target = jp_target(p, NULL, false, true), *n;

    if (!target)
        return NULL;
    if (jp_skip(p, T_ASSIGN)) {
        n = jp_node(p, N_SET, line);
        if (!n)
            return NULL;
        n->a = target;
        n->b = jp_tuple(p, true, NULL, false);
        return n->b && jp_expect(p, T_BLOCK_END) ? n : NULL;
    }
    n = jp_node(p, N_SETBLOCK, line);
    if (!n)
        return NULL;
    n->a = target;
    n->b = jp_filters(p, NULL, false);
    if (p->x->rc || !jp_expect(p, T_BLOCK_END) || !scope_until(p, "endset", &n->c))
        return NULL;
    return n;
}

static struct jnode *parse_macro(struct jparser *p, int line)
{
    struct jnode *n = jp_node(p, N_MACRO, line), **tail = n ? &n->a : NULL;
    bool defaults = false;
    int loops = p->loops;

    if (!n || !jp_name(p, &n->name) ||
        !jv_str(p->x, &n->val, n->name, strlen(n->name)) || !jp_expect(p, T_LPAREN))
        return NULL;
    while (jp_now(p)->type != T_RPAREN) {
        if (n->a && !jp_expect(p, T_COMMA))
            return NULL;
        struct jnode *arg = jp_target(p, NULL, true, false);
        if (!arg)
            return NULL;
        if (jp_skip(p, T_ASSIGN)) {
            arg->a = jp_expr(p, true);
            if (!arg->a)
                return NULL;
            defaults = true;
        } else if (defaults) {
            (void)jx_syntax(p->x, arg->line,
                            "non-default argument follows default argument");
            return NULL;
        }
        *tail = arg;
        tail = &arg->next;
    }
    p->loops = 0;
    bool ok = jp_expect(p, T_RPAREN) && jp_expect(p, T_BLOCK_END) &&
              scope_until(p, "endmacro", &n->c);
    p->loops = loops;
    return ok ? n : NULL;
}

static struct jnode *parse_filter_block(struct jparser *p, int line)
{
    struct jnode *n = jp_node(p, N_FILTERBLOCK, line);

    if (!n)
        return NULL;
    n->a = jp_filters(p, NULL, true);
    if (!n->a || !jp_expect(p, T_BLOCK_END) || !scope_until(p, "endfilter", &n->c))
        return NULL;
    return n;
}

/* a: a list of N_SET, evaluated outside. */
static struct jnode *parse_with(struct jparser *p, int line)
{
    struct jnode *n = jp_node(p, N_WITH, line), **tail = n ? &n->a : NULL;

    while (n && jp_now(p)->type != T_BLOCK_END) {
        if (n->a && !jp_expect(p, T_COMMA))
            return NULL;
        struct jnode *set = jp_node(p, N_SET, line);
        if (!set)
            return NULL;
        set->a = jp_target(p, NULL, false, false);
        if (!set->a || !jp_expect(p, T_ASSIGN))
            return NULL;
        set->b = jp_expr(p, true);
        if (!set->b)
            return NULL;
        *tail = set;
        tail = &set->next;
    }
    if (!n || !jp_expect(p, T_BLOCK_END) || !scope_until(p, "endwith", &n->c))
        return NULL;
    return n;
}

/* transformers' marker of what the model wrote: shown as it is. */
static struct jnode *parse_generation(struct jparser *p, int line)
{
    struct jnode *n = jp_node(p, N_WITH, line);

    if (!n || !jp_expect(p, T_BLOCK_END) || !scope_until(p, "endgeneration", &n->c))
        return NULL;
    return n;
}

/* Expressions one after the other, as a body without a scope of its own. */
static struct jnode *parse_print(struct jparser *p, int line)
{
    struct jnode *n = jp_node(p, N_IF, line), **tail = n ? &n->b : NULL;

    while (n && jp_now(p)->type != T_BLOCK_END) {
        struct jnode *out = jp_node(p, N_OUT, line);
        if (!out || (n->b && !jp_expect(p, T_COMMA)))
            return NULL;
        out->a = jp_expr(p, true);
        if (!out->a)
            return NULL;
        *tail = out;
        tail = &out->next;
    }
    return n && jp_expect(p, T_BLOCK_END) ? n : NULL;
}

static struct jnode *parse_leave(struct jparser *p, enum jkind kind, int line)
{
    if (p->loops == 0) {
        (void)jx_syntax(p->x, line, "'%s' outside loop",
                        kind == N_BREAK ? "break" : "continue");
        return NULL;
    }
    struct jnode *n = jp_node(p, kind, line);
    return n && jp_expect(p, T_BLOCK_END) ? n : NULL;
}

static struct jnode *unknown_tag(struct jparser *p, const char *name, int line)
{
    static const char *const absent[] = {"extends", "block", "include",   "import",
                                         "from",    "call",  "autoescape"};

    for (size_t i = 0; i < countof(absent); i++)
        if (strcmp(name, absent[i]) == 0 && !p->x->rc)
            p->x->rc = err_set(p->x->err, B2_EUNSUP,
                               "line %d: the statement '%s' is not supported in chat "
                               "templates",
                               line, name);
    (void)jx_syntax(p->x, line, "Encountered unknown tag '%s'.", name);
    return NULL;
}

static struct jnode *statement(struct jparser *p)
{
    const char *name;
    int line = jp_now(p)->line;

    if (!jp_name(p, &name))
        return NULL;
    if (strcmp(name, "for") == 0)
        return parse_for(p, line);
    if (strcmp(name, "if") == 0)
        return parse_if(p, line);
    if (strcmp(name, "set") == 0)
        return parse_set(p, line);
    if (strcmp(name, "macro") == 0)
        return parse_macro(p, line);
    if (strcmp(name, "filter") == 0)
        return parse_filter_block(p, line);
    if (strcmp(name, "with") == 0)
        return parse_with(p, line);
    if (strcmp(name, "print") == 0)
        return parse_print(p, line);
    if (strcmp(name, "generation") == 0)
        return parse_generation(p, line);
    if (strcmp(name, "break") == 0)
        return parse_leave(p, N_BREAK, line);
    if (strcmp(name, "continue") == 0)
        return parse_leave(p, N_CONTINUE, line);
    return unknown_tag(p, name, line);
}

static struct jnode *text_node(struct jparser *p)
{
    const struct jtoken *t = jp_now(p);
    struct jnode *n = jp_node(p, N_TEXT, t->line);

    p->at++;
    return n && jv_str(p->x, &n->val, t->s, t->n) ? n : NULL;
}

static struct jnode *out_node(struct jparser *p)
{
    struct jnode *n = jp_node(p, N_OUT, jp_now(p)->line);

    p->at++;
    if (!n)
        return NULL;
    n->a = jp_tuple(p, true, NULL, false);
    return n->a && jp_expect(p, T_OUT_END) ? n : NULL;
}

/* True at one of the tags that end a body; those are left standing behind "{%". */
static bool at_end(struct jparser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (jp_is_name(p, *ends))
            return true;
    return false;
}

/* Statements until one of the ends (NULL: the end of the template). The error, if any,
 * is in the context: an empty body is NULL too. */
static struct jnode *body(struct jparser *p, const char *const *ends)
{
    struct jnode *first = NULL, **tail = &first;

    if (p->x->depth >= MAX_BLOCK_DEPTH) {
        (void)jx_limit(p->x, "nested statements");
        return NULL;
    }
    p->x->depth++;
    for (;;) {
        const struct jtoken *t = jp_now(p);
        struct jnode *n = NULL;
        if (t->type == T_EOF) {
            if (ends)
                (void)jx_syntax(p->x, t->line,
                                "Unexpected end of template. Jinja was looking for the "
                                "following tags: '%s'. The innermost block that needs "
                                "to be closed is open",
                                ends[0]);
            break;
        }
        if (t->type == T_TEXT) {
            n = text_node(p);
        } else if (t->type == T_OUT_BEGIN) {
            n = out_node(p);
        } else { /* T_BLOCK_BEGIN: the lexer gives nothing else here */
            p->at++;
            if (at_end(p, ends))
                break;
            n = statement(p);
        }
        if (!n) {
            /* Also when a needed tag was another one. */
            (void)jx_syntax(p->x, jp_now(p)->line, "unexpected '%s'",
                            jp_describe(jp_now(p)));
            break;
        }
        *tail = n;
        tail = &n->next;
    }
    p->x->depth--;
    return p->x->rc ? NULL : first;
}

enum b2_status jinja_parse(struct jinja **out, const char *text, size_t n,
                           struct b2_err *err)
{
    struct jinja *t;
    struct jx x = {.err = err, .max_steps = UINT64_MAX, .max_depth = 1000};
    struct jparser p = {.x = &x};
    struct jtoken *tok;

    if (n > MAX_TEMPLATE)
        return err_set(err, B2_EUNSUP, "a chat template of more than %d bytes",
                       MAX_TEMPLATE);
    if (!utf8_valid(text, n))
        return err_set(err, B2_EFORMAT, "the chat template is not UTF-8");
    t = mem_calloc(1, sizeof *t);
    x.arena = arena_new(max_tree_bytes);
    if (!t || !x.arena) {
        arena_free(x.arena);
        mem_free(t);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    t->arena = x.arena;
    if (jinja_lex(&x, text, n, &tok, &p.n)) {
        p.tok = tok;
        t->body = body(&p, NULL);
    }
    if (!x.rc && p.unknown) /* after all errors of syntax, as Jinja2 compiles last */
        x.rc = err_set(err, B2_EFORMAT, "TemplateAssertionError: No %s named '%s'.",
                       p.unknown->kind == N_TEST ? "test" : "filter", p.unknown->name);
    if (x.rc) {
        jinja_free(t);
        return x.rc;
    }
    *out = t;
    return B2_OK;
}

void jinja_free(struct jinja *t)
{
    if (!t)
        return;
    arena_free(t->arena);
    mem_free(t);
}
