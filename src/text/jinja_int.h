/*
 * jinja_int.h - what the files of the template interpreter share.
 *
 * text -> jinja_lex (tokens) -> jinja_parse, jinja_expr (nodes) -> jinja_exec
 * (statements), jinja_eval (expressions) -> jinja_ops, jinja_repr, jinja_filters, …
 * A function that returns bool returns false after setting the error of its context.
 * All memory is the arena's; nothing is freed one by one.
 */
#ifndef TEXT_JINJA_INT_H
#define TEXT_JINJA_INT_H

#include "base/arena.h"
#include "text/jinja.h"

/* ---- values ---- */

enum jtype { /* None is 0, so that zeroed memory is a value */
             JT_NONE,
             JT_UNDEF,
             JT_BOOL,
             JT_INT,
             JT_FLOAT,
             JT_STR,
             JT_SEQ,
             JT_DICT,
             JT_NAMESPACE,
             JT_MACRO,
             JT_LOOP,
             JT_METHOD,
             JT_FUNC,
};

struct jstr {
    size_t n;     /* bytes */
    size_t chars; /* code points; equal to n: all ASCII */
    char data[];  /* valid UTF-8, and a zero after it */
};

enum jseq_kind {
    SEQ_LIST,
    SEQ_TUPLE,
    SEQ_RANGE,
    SEQ_GENERATOR, /* what lazy filters give: can be walked once */
    SEQ_REVERSED,  /* Python's list_reverseiterator: the same */
    SEQ_KEYS,
    SEQ_VALUES,
    SEQ_ITEMS,
};

struct jseq {
    enum jseq_kind kind;
    int64_t n, cap;
    int64_t pos; /* of a generator */
    struct jval *at;
};

struct jpair {
    struct jval key, val;
    uint64_t hash;
};

struct jdict {
    int64_t n, cap;
    struct jpair *at; /* [n] in order of insertion */
    int32_t *slot;    /* [n_slots] index + 1 into at, open addressing; 0: free */
    int64_t n_slots;  /* a power of two */
};

struct jnamespace {
    struct jdict d;
};

/* Why a value is not there. hint, or the object and the key that it lacks, or a name. */
struct jundef {
    const char *hint, *name;
    struct jval obj, key;
    bool has_obj, unsafe; /* unsafe: a SecurityError */
};

struct jx;
struct jnode;
struct jscope;

struct jmacro {
    const struct jnode *node;
    struct jscope *scope; /* where it was defined */
};

struct jloop {
    struct jseq *items;
    int64_t index0;
    int depth0;
    const struct jnode *node; /* of a recursive loop, else NULL */
    struct jscope *scope;     /* around it */
    struct jval changed;      /* last arguments of loop.changed */
    bool has_changed;
};

/* Arguments of a call. pos[0] of a filter, test or method is the value itself. */
struct jkw {
    const char *name;
    struct jval val;
};

struct jargs {
    int n, n_kw;
    struct jval *pos;
    struct jkw *kw;
};

/* Something built in. params: "d attribute": names of the arguments after the first
 * n_self, for keywords; those from position min on may be missing (type JT_UNDEF without
 * u). "*" takes any arguments, unbound. */
struct jfunc {
    const char *name, *params;
    int min;
    bool (*fn)(struct jx *x, const struct jargs *a, struct jval *out);
};

struct jmethod {
    struct jval self;
    const struct jfunc *fn; /* NULL: a method that exists in Python but not here */
    const char *name;
};

enum { JARGS_MAX = 8 };

/* An argument that was left out, and the test for it. */
#define JARG_MISSING ((struct jval){.type = JT_UNDEF})
static inline bool jarg_given(struct jval v)
{
    return v.type != JT_UNDEF || v.v.u != NULL;
}

/* ---- nodes ---- */

enum jkind {
    N_CONST,
    N_NAME,
    N_LIST,
    N_TUPLE,
    N_DICT,
    N_PAIR,
    N_BINARY,
    N_AND,
    N_OR,
    N_NOT,
    N_NEG,
    N_POS,
    N_COMPARE,
    N_OPERAND,
    N_CONCAT,
    N_COND,
    N_ATTR,
    N_ITEM,
    N_SLICE,
    N_CALL,
    N_KEYWORD,
    N_STAR,
    N_STARSTAR,
    N_FILTER,
    N_TEST,
    N_NSREF,
    N_TEXT,
    N_OUT,
    N_FOR,
    N_IF,
    N_SET,
    N_SETBLOCK,
    N_MACRO,
    N_FILTERBLOCK,
    N_WITH,
    N_SCOPE,
    N_BREAK,
    N_CONTINUE,
};

struct jnode {
    enum jkind kind;
    int op; /* enum jtok of an operator; N_FOR: 1 recursive */
    int line;
    const char *name;       /* of a variable, attribute, filter, keyword */
    struct jval val;        /* N_CONST, N_TEXT; N_ATTR, N_NAME: the name as a string */
    const struct jfunc *fn; /* N_FILTER, N_TEST; NULL: unknown, an error when reached */
    struct jnode *a, *b, *c, *d;
    struct jnode *next; /* in a list */
};

/* ---- tokens ---- */

enum jtok {
    T_EOF,
    T_TEXT,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_OUT_BEGIN,
    T_OUT_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_ADD,
    T_SUB,
    T_DIV,
    T_FLOORDIV,
    T_MUL,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_GT,
    T_GE,
    T_LT,
    T_LE,
    T_IN,
    T_NOT_IN,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
};

struct jtoken {
    enum jtok type;
    int line;
    const char *s; /* T_NAME, T_STRING, T_TEXT: terminated bytes */
    size_t n;
    int64_t i;
    double f;
};

/* ---- contexts ---- */

/* Everything a parse or a rendering works with. */
struct jx {
    struct arena *arena;
    struct b2_err *err;
    enum b2_status rc;
    uint64_t steps, max_steps;
    int depth, max_depth;
    size_t max_output;
    int64_t now_s;
    bool strict;
    struct jscope *scope;
    const struct jinja_vars *vars;
    struct str *out;
    int break_or_continue; /* N_BREAK, N_CONTINUE while leaving a loop body, else 0 */
};

struct jinja {
    struct arena *arena;
    struct jnode *body;
};

struct jinja_vars {
    struct jx x;      /* arena and errors of the builders */
    struct jval root; /* dict: name -> value */
};

/* Marks the context failed: "TYPE: message". Only the first error counts. */
bool jx_fail(struct jx *x, const char *type, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool jx_syntax(struct jx *x, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool jx_nomem(struct jx *x);
bool jx_limit(struct jx *x, const char *what); /* B2_EUNSUP */
/* Counts the work on n bytes; false: too many steps. */
bool jx_charge(struct jx *x, size_t n);
bool jx_enter(struct jx *x); /* one level deeper; pair with x->depth-- */
void *jx_alloc(struct jx *x, size_t n, size_t size); /* NULL: x has failed */

/* jinja_value.c: making values */
struct jval jv_bool(bool b);
struct jval jv_int(int64_t i);
struct jval jv_float(double f);
bool jv_str(struct jx *x, struct jval *out, const char *s, size_t n); /* valid UTF-8 */
bool jv_take(struct jx *x, struct jval *out, struct str *s); /* copies, frees s */
bool jv_undef(struct jx *x, struct jval *out, const char *hint, const char *name);
bool jv_undef_key(struct jx *x, struct jval *out, struct jval obj, struct jval key);
bool jv_seq(struct jx *x, struct jval *out, enum jseq_kind kind, int64_t cap);
bool jseq_add(struct jx *x, struct jseq *q, struct jval item);
bool jv_dict(struct jx *x, struct jval *out);
bool jdict_put(struct jx *x, struct jdict *d, struct jval key, struct jval val);
/* *out NULL: no such key. False: a key that cannot be hashed. */
bool jdict_find(struct jx *x, const struct jdict *d, struct jval key,
                struct jval **out);
bool jv_hashable(struct jx *x, struct jval v, bool *out);
struct jval *jdict_find_str(const struct jdict *d, const char *key, size_t n);
bool jv_is_num(struct jval v);    /* bool, int or float */
int64_t jv_as_int(struct jval v); /* of an int or a bool, 0 of all else */
double jv_num(struct jval v);     /* of those */
bool jv_is_iter(struct jval v);   /* a generator or a reversed list */

/* jinja_ops.c: what operators do */
const char *jv_type_name(struct jval v); /* Python's: "str", "NoneType" */
bool jv_truth(struct jval v);
bool jv_undef_fail(struct jx *x, struct jval v); /* raises the UndefinedError */
bool jv_equal(struct jx *x, struct jval a, struct jval b, bool *out);
/* *out < 0, 0, > 0. op: "<" and so on for the message. */
bool jv_order(struct jx *x, struct jval a, struct jval b, const char *op, int *out);
bool jv_contains(struct jx *x, struct jval box, struct jval item, bool *out);
bool jv_compare(struct jx *x, int op, struct jval a, struct jval b, bool *out);
bool jv_len(struct jx *x, struct jval v, int64_t *out); /* TypeError without a length */
/* What iterating gives; a generator is used up. Not to be changed: may be the value. */
bool jv_iter(struct jx *x, struct jval v, struct jseq **out);

/* jinja_arith.c: + - * / // % ** */
bool jv_binary(struct jx *x, int op, struct jval a, struct jval b, struct jval *out);
bool jv_negate(struct jx *x, struct jval a, bool plus, struct jval *out);

/* jinja_item.c: parts of values */
bool jv_attr(struct jx *x, struct jval v, struct jval name, struct jval *out);
bool jv_item(struct jx *x, struct jval v, struct jval key, struct jval *out);
/* start, stop, step: integers or None */
bool jv_slice(struct jx *x, struct jval v, const struct jval part[3], struct jval *out);
/* Byte offset of the i-th code point. */
size_t jstr_offset(const struct jstr *s, size_t i);

/* jinja_repr.c: values as text */
bool jv_put_str(struct jx *x, struct str *s, struct jval v);  /* str(v) */
bool jv_put_repr(struct jx *x, struct str *s, struct jval v); /* repr(v) */
bool jv_to_str(struct jx *x, struct jval v, struct jval *out);
void jv_put_float(struct str *s, double f);
bool jv_put_html(struct jx *x, struct str *s, struct jval v); /* escaped, if not safe */
extern const struct jfunc jinja_tojson;

/* jinja_eval.c */
bool jx_eval(struct jx *x, const struct jnode *n, struct jval *out);
bool jx_call(struct jx *x, struct jval f, const struct jargs *a, struct jval *out);
bool jx_call_builtin(struct jx *x, const struct jfunc *f, const struct jargs *a,
                     struct jval *out);

/* jinja_exec.c */
bool jx_exec(struct jx *x, const struct jnode *list);
bool jx_call_macro(struct jx *x, struct jmacro *m, const struct jargs *a,
                   struct jval *out);
bool jx_call_loop(struct jx *x, struct jloop *l, struct jval items, struct jval *out);
/* A variable through all scopes; undefined when there is none. */
bool jx_lookup(struct jx *x, const struct jnode *name, struct jval *out);

/* jinja_loop.c, jinja_func.c */
bool jloop_attr(struct jx *x, struct jloop *l, const char *name, struct jval *out,
                bool *found);
const struct jfunc *jinja_global(const char *name);

/* An integer argument, or def when it is missing. TypeError for another type. */
bool jarg_int(struct jx *x, struct jval v, int64_t def, int64_t *out);
/* value.part.part, as the attribute= of filters has it. */
bool jinja_get_path(struct jx *x, struct jval v, struct jval path, struct jval *out);

/* Tables; NULL: no such name. */
const struct jfunc *jinja_filter(const char *name);
const struct jfunc *jinja_seq_filter(const char *name);
const struct jfunc *jinja_text_filter(const char *name);
const struct jfunc *jinja_test(const char *name);
/* *unsafe: it would change the value. *known: exists in Python. */
const struct jfunc *jinja_str_method(const char *name);
const struct jfunc *jinja_method(struct jval self, const char *name, bool *known,
                                 bool *unsafe);

/* jinja_str.c: text in pieces */
bool jstr_split(struct jx *x, struct jval s, struct jval sep, int64_t max, bool right,
                struct jval *out);
bool jstr_strip(struct jx *x, struct jval s, struct jval chars, bool left, bool right,
                struct jval *out);
bool jstr_replace(struct jx *x, struct jval s, struct jval old, struct jval new_s,
                  int64_t max, struct jval *out);
int64_t jstr_find(struct jx *x, const struct jstr *s, size_t from,
                  const struct jstr *what); /* byte offset, -1 none */
bool jinja_is_space(uint32_t cp);           /* str.isspace() */
/* jinja_case.c */
enum jcase { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_CAPITALIZE };
bool jstr_case(struct jx *x, struct jval s, enum jcase how, struct jval *out);
bool jstr_is_case(const struct jstr *s, bool upper); /* islower(), isupper() */
/* jinja_format.c: "%s and %d" % args; and strftime */
bool jstr_percent(struct jx *x, struct jval fmt, const struct jval *args, int64_t n,
                  struct jval dict, struct jval *out);
bool jinja_strftime(struct jx *x, const struct jstr *fmt, int64_t t, struct jval *out);

/* jinja_lex.c */
bool jinja_lex(struct jx *x, const char *text, size_t n, struct jtoken **out,
               size_t *n_out);

/* jinja_parse.c, jinja_expr.c */
struct jparser {
    struct jx *x;
    const struct jtoken *tok;
    size_t n, at;
    int loops; /* for break and continue */
    bool soft; /* inside an if: unknown filters are errors only when reached */
    const struct jnode *unknown; /* the first unknown filter or test elsewhere */
};

struct jnode *jp_node(struct jparser *p, enum jkind kind, int line);
const struct jtoken *jp_now(const struct jparser *p);
const struct jtoken *jp_look(const struct jparser *p); /* the one after */
void jp_next(struct jparser *p);
bool jp_skip(struct jparser *p, enum jtok type);
bool jp_skip_name(struct jparser *p, const char *name);
bool jp_is_name(const struct jparser *p, const char *name);
bool jp_expect(struct jparser *p, enum jtok type);
bool jp_name(struct jparser *p, const char **out);
const char *jp_describe(const struct jtoken *t);
/* A node with a name, which is its value as a string too. */
struct jnode *jp_named(struct jparser *p, enum jkind kind, const char *name,
                       struct jnode *a, int line);
struct jnode *jp_primary(struct jparser *p, bool with_ns);
struct jnode *jp_postfix(struct jparser *p, struct jnode *n);
struct jnode *jp_filters_and_tests(struct jparser *p, struct jnode *n);
struct jnode *jp_expr(struct jparser *p, bool with_cond);
/* end: a name that ends it too ("in", "recursive"), or NULL */
struct jnode *jp_tuple(struct jparser *p, bool with_cond, const char *end, bool parens);
struct jnode *jp_target(struct jparser *p, const char *end, bool name_only,
                        bool with_ns);
struct jnode *jp_filters(struct jparser *p, struct jnode *value, bool inline_first);

#endif
