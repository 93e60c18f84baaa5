/*
 * jinja_expr.c - operators: recursive descent in the order of Jinja2's parser.
 *
 * From loose to tight: if-else, or, and, not, comparisons, + -, ~, * / // %, **, unary,
 * then what jinja_primary.c reads: .name, [key], calls, filters and tests.
 */
#include "text/jinja_int.h"

#include <string.h>

enum { MAX_PARSE_DEPTH = 200 };

static struct jnode *unary(struct jparser *p, bool with_filter)
{
    const struct jtoken *t = jp_now(p);
    struct jnode *n;

    if (p->x->depth >= MAX_PARSE_DEPTH) {
        (void)jx_limit(p->x, "nested expressions");
        return NULL;
    }
    p->x->depth++;
    if (t->type == T_SUB || t->type == T_ADD) {
        jp_next(p);
        n = jp_node(p, t->type == T_SUB ? N_NEG : N_POS, t->line);
        if (n) {
            n->a = unary(p, false);
            n = n->a ? n : NULL;
        }
    } else {
        n = jp_primary(p, false);
    }
    n = jp_postfix(p, n);
    if (n && with_filter)
        n = jp_filters_and_tests(p, n);
    p->x->depth--;
    return n;
}

/* How tightly a binary operator holds; 0: none. */
static int strength(enum jtok type)
{
    switch (type) {
    case T_ADD:
    case T_SUB:
        return 1;
    case T_TILDE:
        return 2;
    case T_MUL:
    case T_DIV:
    case T_FLOORDIV:
    case T_MOD:
        return 3;
    case T_POW:
        return 4;
    default:
        return 0;
    }
}

/* All left-associative, ** too. */
static struct jnode *binary(struct jparser *p, int level)
{
    struct jnode *left = level > 4 ? unary(p, true) : binary(p, level + 1);

    while (left && level <= 4 && strength(jp_now(p)->type) == level) {
        enum jtok op = jp_now(p)->type;
        bool concat = op == T_TILDE;
        struct jnode *n = jp_node(p, concat ? N_CONCAT : N_BINARY, jp_now(p)->line);
        if (!n)
            return NULL;
        jp_next(p);
        n->op = (int)op;
        n->a = left;
        n->b = binary(p, level + 1);
        left = n->b ? n : NULL;
    }
    return left;
}

static bool compare_op(struct jparser *p, enum jtok *op)
{
    *op = jp_now(p)->type;
    if (*op >= T_EQ && *op <= T_LE) {
        jp_next(p);
    } else if (jp_skip_name(p, "in")) {
        *op = T_IN;
    } else if (jp_is_name(p, "not") && jp_look(p)->type == T_NAME &&
               strcmp(jp_look(p)->s, "in") == 0) {
        jp_next(p);
        jp_next(p);
        *op = T_NOT_IN;
    } else {
        return false;
    }
    return true;
}

static struct jnode *compare(struct jparser *p)
{
    struct jnode *first = binary(p, 1), *n = NULL, **tail = NULL;
    enum jtok op;

    while (first && compare_op(p, &op)) {
        struct jnode *operand = jp_node(p, N_OPERAND, jp_now(p)->line);
        if (!n) {
            n = jp_node(p, N_COMPARE, first->line);
            if (!n)
                return NULL;
            n->a = first;
            tail = &n->b;
        }
        if (!operand)
            return NULL;
        operand->op = (int)op;
        operand->a = binary(p, 1);
        if (!operand->a)
            return NULL;
        *tail = operand;
        tail = &operand->next;
    }
    return n ? n : first;
}

static struct jnode *negation(struct jparser *p)
{
    int n_not = 0, line = jp_now(p)->line;

    while (jp_skip_name(p, "not"))
        n_not++;
    struct jnode *n = compare(p);
    for (int i = 0; n && i < (n_not ? 2 - n_not % 2 : 0); i++) {
        struct jnode *outer = jp_node(p, N_NOT, line); /* not not x is a bool */
        if (outer)
            outer->a = n;
        n = outer;
    }
    return n;
}

static struct jnode *logical(struct jparser *p, bool is_or)
{
    struct jnode *left = is_or ? logical(p, false) : negation(p);

    while (left && jp_is_name(p, is_or ? "or" : "and")) {
        struct jnode *n = jp_node(p, is_or ? N_OR : N_AND, jp_now(p)->line);
        if (!n)
            return NULL;
        jp_next(p);
        n->a = left;
        n->b = is_or ? logical(p, false) : negation(p);
        left = n->b ? n : NULL;
    }
    return left;
}

struct jnode *jp_expr(struct jparser *p, bool with_cond)
{
    bool soft = p->soft;
    const struct jnode *unknown = p->unknown;

    if (p->x->depth >= MAX_PARSE_DEPTH) {
        (void)jx_limit(p->x, "nested expressions");
        return NULL;
    }
    p->x->depth++;
    struct jnode *n = logical(p, true);
    while (n && with_cond && jp_skip_name(p, "if")) {
        struct jnode *cond = jp_node(p, N_COND, n->line);
        p->soft = true;
        p->unknown = unknown; /* what stands before the if counts no more */
        if (!cond)
            return NULL;
        cond->b = n;
        cond->a = logical(p, true);
        if (cond->a && jp_skip_name(p, "else")) {
            cond->c = jp_expr(p, true);
            if (!cond->c)
                return NULL;
        }
        p->soft = soft;
        n = cond->a ? cond : NULL;
    }
    p->x->depth--;
    return n;
}

static bool tuple_end(const struct jparser *p, const char *end)
{
    enum jtok t = jp_now(p)->type;

    return t == T_OUT_END || t == T_BLOCK_END || t == T_RPAREN ||
           (end && jp_is_name(p, end));
}

struct jnode *jp_tuple(struct jparser *p, bool with_cond, const char *end, bool parens)
{
    struct jnode *first = NULL, **tail = &first, *n;
    int line = jp_now(p)->line;
    bool is_tuple = false;

    for (;;) {
        if (first && !jp_expect(p, T_COMMA))
            return NULL;
        if (tuple_end(p, end))
            break;
        struct jnode *item = jp_expr(p, with_cond);
        if (!item)
            return NULL;
        *tail = item;
        tail = &item->next;
        if (jp_now(p)->type != T_COMMA)
            break;
        is_tuple = true;
    }
    if (!is_tuple && first)
        return first;
    if (!first && !parens) {
        (void)jx_syntax(p->x, line, "Expected an expression, got '%s'",
                        jp_describe(jp_now(p)));
        return NULL;
    }
    n = jp_node(p, N_TUPLE, line);
    if (n)
        n->a = first;
    return n;
}

/* Only names, and nested tuples of them, may be assigned to. */
static bool assignable(struct jparser *p, const struct jnode *n)
{
    static const char *const kinds[] = {
        [N_CONST] = "const", [N_LIST] = "list", [N_DICT] = "dict"};

    if (n->kind == N_NAME || n->kind == N_NSREF)
        return true;
    if (n->kind != N_TUPLE)
        return jx_syntax(p->x, n->line, "can't assign to '%s'",
                         n->kind <= N_DICT && kinds[n->kind] ? kinds[n->kind]
                                                             : "expression");
    for (const struct jnode *i = n->a; i; i = i->next)
        if (!assignable(p, i))
            return false;
    return true;
}

struct jnode *jp_target(struct jparser *p, const char *end, bool name_only,
                        bool with_ns)
{
    struct jnode *first = NULL, **tail = &first, *n;
    int line = jp_now(p)->line;
    bool is_tuple = false;

    if (name_only) {
        const char *name;
        return jp_name(p, &name) ? jp_named(p, N_NAME, name, NULL, line) : NULL;
    }
    for (;;) {
        if (first && !jp_expect(p, T_COMMA))
            return NULL;
        if (tuple_end(p, end))
            break;
        struct jnode *item = jp_primary(p, with_ns);
        if (!item || !assignable(p, item))
            return NULL;
        *tail = item;
        tail = &item->next;
        if (jp_now(p)->type != T_COMMA)
            break;
        is_tuple = true;
    }
    if (!is_tuple && first)
        return first;
    if (!first) {
        (void)jx_syntax(p->x, line, "Expected an expression, got '%s'",
                        jp_describe(jp_now(p)));
        return NULL;
    }
    n = jp_node(p, N_TUPLE, line);
    if (n)
        n->a = first;
    return n;
}
