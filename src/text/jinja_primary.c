/*
 * jinja_primary.c - what expressions are made of: literals, names, calls, subscripts,
 * filters and tests. The operators between them: jinja_expr.c.
 */
#include "text/jinja_int.h"

#include <string.h>

struct jnode *jp_node(struct jparser *p, enum jkind kind, int line)
{
    struct jnode *n = jx_alloc(p->x, 1, sizeof *n);

    if (n) {
        n->kind = kind;
        n->line = line;
    }
    return n;
}

const struct jtoken *jp_now(const struct jparser *p)
{
    return &p->tok[p->at];
}

const struct jtoken *jp_look(const struct jparser *p)
{
    return &p->tok[p->at + 1 < p->n ? p->at + 1 : p->at];
}

void jp_next(struct jparser *p)
{
    if (p->at + 1 < p->n)
        p->at++;
}

bool jp_skip(struct jparser *p, enum jtok type)
{
    if (jp_now(p)->type != type)
        return false;
    jp_next(p);
    return true;
}

bool jp_is_name(const struct jparser *p, const char *name)
{
    return jp_now(p)->type == T_NAME && strcmp(jp_now(p)->s, name) == 0;
}

bool jp_skip_name(struct jparser *p, const char *name)
{
    if (!jp_is_name(p, name))
        return false;
    jp_next(p);
    return true;
}

/* Words of Jinja2's messages. */
static const char *describe_type(enum jtok type)
{
    static const char *const words[] = {
        [T_EOF] = "end of template",
        [T_TEXT] = "template data / text",
        [T_NAME] = "name",
        [T_STRING] = "string",
        [T_INT] = "integer",
        [T_FLOAT] = "float",
        [T_OUT_BEGIN] = "begin of print statement",
        [T_OUT_END] = "end of print statement",
        [T_BLOCK_BEGIN] = "begin of statement block",
        [T_BLOCK_END] = "end of statement block",
        [T_ADD] = "+",
        [T_SUB] = "-",
        [T_DIV] = "/",
        [T_FLOORDIV] = "//",
        [T_MUL] = "*",
        [T_MOD] = "%",
        [T_POW] = "**",
        [T_TILDE] = "~",
        [T_LBRACKET] = "[",
        [T_RBRACKET] = "]",
        [T_LPAREN] = "(",
        [T_RPAREN] = ")",
        [T_LBRACE] = "{",
        [T_RBRACE] = "}",
        [T_EQ] = "==",
        [T_NE] = "!=",
        [T_GT] = ">",
        [T_GE] = ">=",
        [T_LT] = "<",
        [T_LE] = "<=",
        [T_ASSIGN] = "=",
        [T_DOT] = ".",
        [T_COLON] = ":",
        [T_PIPE] = "|",
        [T_COMMA] = ",",
        [T_SEMICOLON] = ";",
    };

    return type < countof(words) && words[type] ? words[type] : "?";
}

const char *jp_describe(const struct jtoken *t)
{
    return t->type == T_NAME || t->type == T_STRING ? t->s : describe_type(t->type);
}

bool jp_expect(struct jparser *p, enum jtok type)
{
    const struct jtoken *t = jp_now(p);

    if (jp_skip(p, type))
        return true;
    if (t->type == T_EOF)
        return jx_syntax(p->x, t->line, "unexpected end of template, expected '%s'.",
                         describe_type(type));
    return jx_syntax(p->x, t->line, "expected token '%s', got '%s'",
                     describe_type(type), jp_describe(t));
}

bool jp_name(struct jparser *p, const char **out)
{
    *out = jp_now(p)->s;
    return jp_expect(p, T_NAME);
}

/* A constant with the value of a string token's bytes. */
static struct jnode *const_node(struct jparser *p, struct jval v, int line)
{
    struct jnode *n = jp_node(p, N_CONST, line);

    if (n)
        n->val = v;
    return n;
}

/* A node that carries a name, also as a string value. */
struct jnode *jp_named(struct jparser *p, enum jkind kind, const char *name,
                       struct jnode *a, int line)
{
    struct jnode *n = jp_node(p, kind, line);

    if (!n || !jv_str(p->x, &n->val, name, strlen(name)))
        return NULL;
    n->name = name;
    n->a = a;
    return n;
}

/* ---- primaries ---- */

static struct jnode *string_node(struct jparser *p)
{
    int line = jp_now(p)->line;
    struct str s = {0};
    struct jval v;

    for (; jp_now(p)->type == T_STRING; jp_next(p)) /* adjacent strings join */
        str_putn(&s, jp_now(p)->s, jp_now(p)->n);
    return jv_take(p->x, &v, &s) ? const_node(p, v, line) : NULL;
}

/* Items of a list up to its bracket; a comma may end it. Pairs for a dict. */
static struct jnode *items(struct jparser *p, enum jkind kind, enum jtok end)
{
    struct jnode *n = jp_node(p, kind, jp_now(p)->line), **tail = n ? &n->a : NULL;

    jp_next(p);
    while (n && jp_now(p)->type != end) {
        struct jnode *item;
        if (n->a && !jp_expect(p, T_COMMA))
            return NULL;
        if (jp_now(p)->type == end)
            break;
        item = jp_expr(p, true);
        if (item && kind == N_DICT) {
            struct jnode *pair = jp_node(p, N_PAIR, item->line);
            if (!pair || !jp_expect(p, T_COLON))
                return NULL;
            pair->a = item;
            pair->b = jp_expr(p, true);
            item = pair->b ? pair : NULL;
        }
        if (!item)
            return NULL;
        *tail = item;
        tail = &item->next;
    }
    return n && jp_expect(p, end) ? n : NULL;
}

static struct jnode *name_node(struct jparser *p, bool with_ns)
{
    static const char *const words[] = {"true",  "True", "false",
                                        "False", "none", "None"};
    const struct jtoken *t = jp_now(p);

    jp_next(p);
    for (size_t i = 0; i < countof(words); i++)
        if (strcmp(t->s, words[i]) == 0)
            return const_node(p, i < 4 ? jv_bool(i < 2) : jinja_none(), t->line);
    if (with_ns && jp_skip(p, T_DOT)) {
        struct jnode *obj = jp_named(p, N_NAME, t->s, NULL, t->line);
        const char *attr;
        return obj && jp_name(p, &attr) ? jp_named(p, N_NSREF, attr, obj, t->line)
                                        : NULL;
    }
    return jp_named(p, N_NAME, t->s, NULL, t->line);
}

struct jnode *jp_primary(struct jparser *p, bool with_ns)
{
    const struct jtoken *t = jp_now(p);
    struct jnode *n;

    switch (t->type) {
    case T_NAME:
        return name_node(p, with_ns);
    case T_STRING:
        return string_node(p);
    case T_INT:
        jp_next(p);
        return const_node(p, jv_int(t->i), t->line);
    case T_FLOAT:
        jp_next(p);
        return const_node(p, jv_float(t->f), t->line);
    case T_LPAREN:
        jp_next(p);
        n = jp_tuple(p, true, NULL, true);
        return n && jp_expect(p, T_RPAREN) ? n : NULL;
    case T_LBRACKET:
        return items(p, N_LIST, T_RBRACKET);
    case T_LBRACE:
        return items(p, N_DICT, T_RBRACE);
    default:
        (void)jx_syntax(p->x, t->line, "unexpected '%s'", jp_describe(t));
        return NULL;
    }
}

/* ---- postfix ---- */

/* One argument and its place: positional, keyword, *list or **dict. */
static struct jnode *argument(struct jparser *p, bool *keywords)
{
    struct jnode *n;
    int line = jp_now(p)->line;
    enum jkind star = jp_now(p)->type == T_MUL ? N_STAR : N_STARSTAR;

    if (jp_now(p)->type == T_MUL || jp_now(p)->type == T_POW) {
        jp_next(p);
        n = jp_node(p, star, line);
    } else if (jp_now(p)->type == T_NAME && jp_look(p)->type == T_ASSIGN) {
        n = jp_named(p, N_KEYWORD, jp_now(p)->s, NULL, line);
        jp_next(p);
        jp_next(p);
    } else {
        if (*keywords) {
            (void)jx_syntax(p->x, line, "invalid syntax for function call expression");
            return NULL;
        }
        return jp_expr(p, true);
    }
    *keywords = true;
    if (n)
        n->a = jp_expr(p, true);
    return n && n->a ? n : NULL;
}

static bool call_args(struct jparser *p, struct jnode **out)
{
    bool keywords = false;
    struct jnode **tail = out;

    if (!jp_expect(p, T_LPAREN))
        return false;
    while (jp_now(p)->type != T_RPAREN) {
        if (*out && !jp_expect(p, T_COMMA))
            return false;
        if (jp_now(p)->type == T_RPAREN)
            break;
        struct jnode *a = argument(p, &keywords);
        if (!a)
            return false;
        *tail = a;
        tail = &a->next;
    }
    return jp_expect(p, T_RPAREN);
}

static struct jnode *call(struct jparser *p, struct jnode *f)
{
    struct jnode *n = jp_node(p, N_CALL, jp_now(p)->line);

    if (!n || !call_args(p, &n->b))
        return NULL;
    n->a = f;
    return n;
}

/* A key or a slice start:stop:step, each part of which may be missing. */
static struct jnode *subscript_key(struct jparser *p)
{
    struct jnode *first = NULL, *slice;
    int line = jp_now(p)->line;

    if (jp_now(p)->type != T_COLON) {
        first = jp_expr(p, true);
        if (!first || jp_now(p)->type != T_COLON)
            return first;
    }
    slice = jp_node(p, N_SLICE, line);
    if (!slice)
        return NULL;
    slice->a = first;
    for (struct jnode **part = &slice->b;; part = &slice->c) {
        if (!jp_skip(p, T_COLON))
            break;
        if (jp_now(p)->type != T_COLON && jp_now(p)->type != T_RBRACKET &&
            jp_now(p)->type != T_COMMA) {
            *part = jp_expr(p, true);
            if (!*part)
                return NULL;
        }
        if (part == &slice->c)
            break;
    }
    return slice;
}

static struct jnode *subscript(struct jparser *p, struct jnode *of)
{
    const struct jtoken *t = jp_now(p);
    struct jnode *n, *key;

    jp_next(p);
    if (t->type == T_DOT) {
        const struct jtoken *attr = jp_now(p);
        jp_next(p);
        if (attr->type == T_NAME)
            return jp_named(p, N_ATTR, attr->s, of, t->line);
        if (attr->type != T_INT) {
            (void)jx_syntax(p->x, attr->line, "expected name or number");
            return NULL;
        }
        key = const_node(p, jv_int(attr->i), t->line);
    } else {
        key = subscript_key(p);
        if (key && jp_now(p)->type == T_COMMA) { /* a tuple as the key */
            struct jnode *tuple = jp_node(p, N_TUPLE, t->line), *last = key;
            if (!tuple)
                return NULL;
            tuple->a = key;
            while (jp_skip(p, T_COMMA)) {
                last->next = subscript_key(p);
                last = last->next;
                if (!last)
                    return NULL;
            }
            key = tuple;
        }
        if (!key || !jp_expect(p, T_RBRACKET))
            return NULL;
    }
    n = jp_node(p, N_ITEM, t->line);
    if (n) {
        n->a = of;
        n->b = key;
    }
    return key ? n : NULL;
}

struct jnode *jp_postfix(struct jparser *p, struct jnode *n)
{
    while (n) {
        if (jp_now(p)->type == T_DOT || jp_now(p)->type == T_LBRACKET)
            n = subscript(p, n);
        else if (jp_now(p)->type == T_LPAREN)
            n = call(p, n);
        else
            break;
    }
    return n;
}

/* ---- filters and tests ---- */

static bool dotted_name(struct jparser *p, const char **out)
{
    struct str s = {0};
    const char *part;

    if (!jp_name(p, out))
        return false;
    if (jp_now(p)->type != T_DOT)
        return true;
    str_put(&s, *out);
    while (jp_skip(p, T_DOT)) {
        if (!jp_name(p, &part)) {
            str_free(&s);
            return false;
        }
        str_printf(&s, ".%s", part);
    }
    *out = str_ok(&s) ? arena_strdup(p->x->arena, s.data) : NULL;
    str_free(&s);
    return *out || jx_nomem(p->x);
}

/* Notes a filter or test that does not exist: an error at the end of parsing, but inside
 * an if only when it is reached. */
static void note_unknown(struct jparser *p, const struct jnode *n)
{
    if (!n->fn && !p->soft && !p->unknown)
        p->unknown = n;
}

struct jnode *jp_filters(struct jparser *p, struct jnode *value, bool inline_first)
{
    while (inline_first || jp_skip(p, T_PIPE)) {
        struct jnode *n = jp_node(p, N_FILTER, jp_now(p)->line);
        if (!n || !dotted_name(p, &n->name))
            return NULL;
        if (jp_now(p)->type == T_LPAREN && !call_args(p, &n->b))
            return NULL;
        n->a = value;
        n->fn = jinja_filter(n->name);
        note_unknown(p, n);
        value = n;
        inline_first = false;
    }
    return value;
}

static struct jnode *test(struct jparser *p, struct jnode *value)
{
    int line = jp_now(p)->line;
    bool negated;
    struct jnode *n = jp_node(p, N_TEST, line), *not_node;
    const struct jtoken *t;

    jp_next(p);
    negated = jp_skip_name(p, "not");
    if (!n || !dotted_name(p, &n->name))
        return NULL;
    n->a = value;
    n->fn = jinja_test(n->name);
    note_unknown(p, n);
    t = jp_now(p);
    if (t->type == T_LPAREN) {
        if (!call_args(p, &n->b))
            return NULL;
    } else if ((t->type == T_NAME && !jp_is_name(p, "else") && !jp_is_name(p, "or") &&
                !jp_is_name(p, "and")) ||
               t->type == T_STRING || t->type == T_INT || t->type == T_FLOAT ||
               t->type == T_LBRACKET || t->type == T_LBRACE) {
        if (jp_is_name(p, "is")) {
            (void)jx_syntax(p->x, t->line, "You cannot chain multiple tests with is");
            return NULL;
        }
        n->b = jp_postfix(p, jp_primary(p, false));
        if (!n->b)
            return NULL;
    }
    if (!negated)
        return n;
    not_node = jp_node(p, N_NOT, line);
    if (not_node)
        not_node->a = n;
    return not_node;
}

struct jnode *jp_filters_and_tests(struct jparser *p, struct jnode *n)
{
    while (n) {
        if (jp_now(p)->type == T_PIPE)
            n = jp_filters(p, n, false);
        else if (jp_is_name(p, "is"))
            n = test(p, n);
        else if (jp_now(p)->type == T_LPAREN)
            n = call(p, n);
        else
            break;
    }
    return n;
}
