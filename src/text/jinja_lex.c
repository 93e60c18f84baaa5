/*
 * jinja_lex.c - a template's text as tokens.
 *
 * White space as with trim_blocks and lstrip_blocks: the first newline behind a block or
 * comment is dropped, and so are spaces between the start of a line and a block or
 * comment; "-" beside a delimiter takes all white space there, "+" keeps it. Line ends
 * become "\n", and one newline at the very end is dropped.
 */
#include "text/jinja_int.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NESTED_BRACKETS = 200, MAX_NUMBER = 400 };

struct lexer {
    struct jx *x;
    char *s; /* newlines normalised, a zero behind */
    size_t n, at;
    int line;
    bool line_start; /* the last token ended with a newline */
    struct jtoken *tok;
    int64_t n_tok, cap;
};

static struct jtoken *push(struct lexer *l, enum jtok type)
{
    if (l->n_tok == l->cap) {
        int64_t cap = l->cap ? 2 * l->cap : 256;
        struct jtoken *t = jx_alloc(l->x, (size_t)cap, sizeof *t);
        if (!t)
            return NULL;
        if (l->n_tok)
            memcpy(t, l->tok, (size_t)l->n_tok * sizeof *t);
        l->tok = t;
        l->cap = cap;
    }
    struct jtoken *t = &l->tok[l->n_tok++];
    *t = (struct jtoken){.type = type, .line = l->line};
    return t;
}

static void advance(struct lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->line += l->s[l->at] == '\n';
}

static bool starts(const struct lexer *l, size_t at, const char *what)
{
    size_t n = strlen(what);

    return l->n - at >= n && memcmp(l->s + at, what, n) == 0;
}

/* Behind all white space from at on. */
static size_t skip_space(const struct lexer *l, size_t at)
{
    while (at < l->n) {
        size_t used;
        if (!jinja_is_space(utf8_next(l->s + at, l->n - at, &used)))
            break;
        at += used;
    }
    return at;
}

/* The end of [from, to) without the white space at its end. */
static size_t trim_end(const struct lexer *l, size_t from, size_t to)
{
    size_t end = from;

    for (size_t i = from, used; i < to; i += used)
        if (!jinja_is_space(utf8_next(l->s + i, to - i, &used)))
            end = i + used;
    return end;
}

/* The text [from, to) before a delimiter, cut by its sign or by lstrip_blocks. */
static bool put_text(struct lexer *l, size_t from, size_t to, char sign, bool lstrip)
{
    if (sign == '-') {
        to = trim_end(l, from, to);
    } else if (sign != '+' && lstrip) {
        size_t line = to;
        while (line > from && l->s[line - 1] != '\n')
            line--;
        if ((line > from || l->line_start) && skip_space(l, line) >= to)
            to = line;
    }
    if (to == from)
        return true;
    struct jtoken *t = push(l, T_TEXT);
    char *s = t ? arena_strndup(l->x->arena, l->s + from, to - from) : NULL;
    if (!s)
        return jx_nomem(l->x);
    t->s = s;
    t->n = to - from;
    return true;
}

/* Takes an end delimiter ("%}", "}}" or "#}") with its sign, and what it eats behind. */
static bool take_end(struct lexer *l, const char *end, bool trim)
{
    size_t at = l->at;
    char sign = l->s[at];

    if ((sign == '-' || (sign == '+' && trim)) && starts(l, at + 1, end))
        at++;
    else if (!starts(l, at, end))
        return false;
    else
        sign = 0;
    at += 2;
    if (sign == '-')
        at = skip_space(l, at);
    else if (sign != '+' && trim && at < l->n && l->s[at] == '\n')
        at++;
    advance(l, at);
    l->line_start = l->s[at - 1] == '\n';
    return true;
}

static bool take_comment(struct lexer *l)
{
    while (l->at < l->n) {
        if (take_end(l, "#}", true))
            return true;
        advance(l, l->at + 1);
    }
    return jx_syntax(l->x, l->line, "Missing end of comment tag");
}

/* At "{%": is it "{% raw %}"? Then *body is behind it. */
static bool is_tag(const struct lexer *l, size_t at, const char *word, char *sign,
                   size_t *name_end)
{
    at += 2;
    *sign = at < l->n && (l->s[at] == '-' || l->s[at] == '+') ? l->s[at] : 0;
    at = skip_space(l, at + (*sign != 0));
    if (!starts(l, at, word))
        return false;
    *name_end = skip_space(l, at + strlen(word));
    return true;
}

static bool take_raw(struct lexer *l)
{
    size_t from = l->at, end = 0;
    char sign;

    for (size_t i = from; i < l->n; i++) {
        if (!starts(l, i, "{%") || !is_tag(l, i, "endraw", &sign, &end))
            continue;
        if (!starts(l, end, "%}") && !starts(l, end, "-%}") && !starts(l, end, "+%}"))
            continue;
        if (!put_text(l, from, i, sign, true))
            return false;
        advance(l, end);
        (void)take_end(l, "%}", true);
        return true;
    }
    return jx_syntax(l->x, l->line, "Missing end of raw directive");
}

/* ---- inside a tag ---- */

static bool is_name_byte(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80 || (!first && c >= '0' && c <= '9');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Digits with single underscores between them. */
static size_t digits_end(const struct lexer *l, size_t at, int base)
{
    while (at < l->n && (digit_value(l->s[at]) < base ||
                         (l->s[at] == '_' && digit_value(l->s[at + 1]) < base)))
        at++;
    return at;
}

static bool take_int(struct lexer *l, size_t from, size_t end, int base)
{
    struct jtoken *t = push(l, T_INT);

    if (!t)
        return false;
    for (size_t i = from; i < end; i++) {
        if (l->s[i] == '_')
            continue;
        if (__builtin_mul_overflow(t->i, base, &t->i) ||
            __builtin_add_overflow(t->i, digit_value(l->s[i]), &t->i))
            return jx_syntax(l->x, l->line, "an integer of more than 64 bits");
    }
    advance(l, end);
    return true;
}

static bool take_number(struct lexer *l)
{
    static const struct {
        char letter;
        int base;
    } bases[] = {{'b', 2}, {'o', 8}, {'x', 16}};
    size_t end = digits_end(l, l->at, 10), e = end;
    char buf[MAX_NUMBER];
    size_t n = 0;

    for (size_t i = 0; l->s[l->at] == '0' && i < countof(bases); i++)
        if ((l->s[l->at + 1] | 0x20) == bases[i].letter) {
            size_t stop = digits_end(l, l->at + 2, bases[i].base);
            if (stop > l->at + 2)
                return take_int(l, l->at + 2, stop, bases[i].base);
        }
    if (l->s[e] == '.' && is_digit(l->s[e + 1]))
        e = digits_end(l, e + 1, 10);
    size_t mantissa = e;
    if ((l->s[e] | 0x20) == 'e') {
        size_t d = e + 1 + (l->s[e + 1] == '+' || l->s[e + 1] == '-');
        if (is_digit(l->s[d]))
            e = digits_end(l, d, 10);
    }
    if (e == end && mantissa == end)
        return take_int(l, l->at, end, 10);
    struct jtoken *t = push(l, T_FLOAT);
    if (!t)
        return false;
    for (size_t i = l->at; i < e; i++) {
        if (n + 1 == sizeof buf)
            return jx_syntax(l->x, l->line, "a number of too many digits");
        if (l->s[i] != '_')
            buf[n++] = l->s[i];
    }
    buf[n] = '\0';
    t->f = strtod(buf, NULL);
    advance(l, e);
    return true;
}

/* \xhh, \uhhhh, \Uhhhhhhhh: the code point, or false. */
static bool hex_escape(const char *s, size_t left, int n_digits, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < n_digits; i++) {
        if ((size_t)i >= left || digit_value(s[i]) > 15)
            return false;
        *cp = *cp * 16 + (uint32_t)digit_value(s[i]);
    }
    return *cp < 0x110000;
}

/* What stands behind a backslash at s; *used bytes of it. False: not an escape. */
static bool unescape(const char *s, size_t left, struct str *out, size_t *used)
{
    static const char plain[] = "\\\\''\"\"n\nt\tr\ra\ab\bf\fv\v";
    uint32_t cp;
    char buf[4];
    int n_hex = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : s[0] == 'U' ? 8 : 0;

    *used = 1;
    for (size_t i = 0; i + 1 < sizeof plain; i += 2)
        if (s[0] == plain[i]) {
            str_putn(out, &plain[i + 1], 1);
            return true;
        }
    if (s[0] == '\n') /* a continued line */
        return true;
    if (n_hex) {
        if (!hex_escape(s + 1, left - 1, n_hex, &cp))
            return false;
        *used = 1 + (size_t)n_hex;
    } else if (s[0] >= '0' && s[0] <= '7') {
        cp = 0;
        for (*used = 0; *used < 3 && *used < left && s[*used] >= '0' && s[*used] <= '7';
             (*used)++)
            cp = cp * 8 + (uint32_t)(s[*used] - '0');
    } else {
        str_put(out, "\\"); /* Python keeps what it does not know */
        *used = 0;
        return true;
    }
    str_putn(out, buf, (size_t)utf8_put(buf, cp));
    return true;
}

static bool take_string(struct lexer *l)
{
    char quote = l->s[l->at];
    size_t from = l->at + 1, end = from;
    struct str text = {0};
    bool ok = true;

    while (end < l->n && l->s[end] != quote)
        end += l->s[end] == '\\' ? 2 : 1;
    if (end >= l->n)
        return jx_syntax(l->x, l->line, "unexpected char %s",
                         quote == '"' ? "'\"'" : "\"'\"");
    for (size_t i = from; ok && i < end;) {
        size_t used = 1;
        if (l->s[i] == '\\')
            ok = unescape(l->s + i + 1, end - i - 1, &text, &used), used++;
        else
            str_putn(&text, l->s + i, 1);
        i += used;
    }
    struct jtoken *t = ok ? push(l, T_STRING) : NULL;
    if (!ok)
        (void)jx_syntax(l->x, l->line, "a string with a broken escape sequence");
    if (t) {
        t->n = text.len;
        t->s = str_ok(&text)
                   ? arena_strndup(l->x->arena, text.data ? text.data : "", text.len)
                   : NULL;
        ok = t->s || jx_nomem(l->x);
    }
    str_free(&text);
    advance(l, end + 1);
    return ok && t;
}

static const struct {
    char s[3];
    enum jtok type;
} operators[] = {
    {"//", T_FLOORDIV}, {"**", T_POW},      {"==", T_EQ},    {"!=", T_NE},
    {">=", T_GE},       {"<=", T_LE},       {"+", T_ADD},    {"-", T_SUB},
    {"/", T_DIV},       {"*", T_MUL},       {"%", T_MOD},    {"~", T_TILDE},
    {"[", T_LBRACKET},  {"]", T_RBRACKET},  {"(", T_LPAREN}, {")", T_RPAREN},
    {"{", T_LBRACE},    {"}", T_RBRACE},    {">", T_GT},     {"<", T_LT},
    {"=", T_ASSIGN},    {".", T_DOT},       {":", T_COLON},  {"|", T_PIPE},
    {",", T_COMMA},     {";", T_SEMICOLON},
};

static bool take_operator(struct lexer *l, char *stack, int *n_stack)
{
    for (size_t i = 0; i < countof(operators); i++) {
        const char *s = operators[i].s;
        if (!starts(l, l->at, s))
            continue;
        if (s[0] == '(' || s[0] == '[' || s[0] == '{') {
            if (*n_stack == MAX_NESTED_BRACKETS)
                return jx_limit(l->x, "nested brackets");
            stack[(*n_stack)++] = s[0] == '(' ? ')' : s[0] == '[' ? ']' : '}';
        } else if (s[0] == ')' || s[0] == ']' || s[0] == '}') {
            if (*n_stack == 0 || stack[*n_stack - 1] != s[0])
                return jx_syntax(l->x, l->line, "unexpected '%s'", s);
            (*n_stack)--;
        }
        advance(l, l->at + strlen(s));
        return push(l, operators[i].type) != NULL;
    }
    char shown[8] = "'";
    size_t used;
    (void)utf8_next(l->s + l->at, l->n - l->at, &used);
    memcpy(shown + 1, l->s + l->at, used);
    memcpy(shown + 1 + used, "'", 2);
    return jx_syntax(l->x, l->line, "unexpected char %s", shown);
}

/* Tokens up to the end delimiter. */
static bool take_tag(struct lexer *l, bool block)
{
    char stack[MAX_NESTED_BRACKETS];
    int n_stack = 0;

    if (!push(l, block ? T_BLOCK_BEGIN : T_OUT_BEGIN))
        return false;
    for (;;) {
        advance(l, skip_space(l, l->at));
        if (l->at >= l->n) {
            if (n_stack) {
                char want[2] = {stack[n_stack - 1], 0};
                return jx_syntax(l->x, l->line,
                                 "unexpected end of template, expected '%s'.", want);
            }
            return push(l, T_EOF) != NULL; /* the parser says what is missing */
        }
        char c = l->s[l->at];
        if (n_stack == 0 && take_end(l, block ? "%}" : "}}", block))
            return push(l, block ? T_BLOCK_END : T_OUT_END) != NULL;
        bool ok = true;
        if (is_digit(c)) {
            ok = take_number(l);
        } else if (is_name_byte(c, true)) {
            size_t end = l->at + 1;
            while (end < l->n && is_name_byte(l->s[end], false))
                end++;
            struct jtoken *t = push(l, T_NAME);
            ok = t != NULL;
            if (t) {
                t->n = end - l->at;
                t->s = arena_strndup(l->x->arena, l->s + l->at, t->n);
                ok = t->s || jx_nomem(l->x);
            }
            advance(l, end);
        } else if (c == '"' || c == '\'') {
            ok = take_string(l);
        } else {
            ok = take_operator(l, stack, &n_stack);
        }
        if (!ok)
            return false;
    }
}

/* The next "{{", "{%" or "{#" from at on, or the end. */
static size_t next_tag(const struct lexer *l, size_t at)
{
    for (; at + 1 < l->n; at++)
        if (l->s[at] == '{' &&
            (l->s[at + 1] == '{' || l->s[at + 1] == '%' || l->s[at + 1] == '#'))
            return at;
    return l->n;
}

static bool take_all(struct lexer *l)
{
    while (l->at < l->n) {
        size_t from = l->at, at = next_tag(l, from), body = 0;
        char kind = at < l->n ? l->s[at + 1] : 0, sign = 0;

        if (!kind) {
            bool ok = put_text(l, from, at, '+', false);
            advance(l, at);
            return ok;
        }
        bool raw = kind == '%' && is_tag(l, at, "raw", &sign, &body) &&
                   (starts(l, body, "%}") || starts(l, body, "-%}"));
        sign = l->s[at + 2] == '-' || l->s[at + 2] == '+' ? l->s[at + 2] : 0;
        if (!put_text(l, from, at, sign, kind != '{'))
            return false;
        advance(l, at + 2 + (sign != 0));
        l->line_start = false;
        bool ok;
        if (raw) {
            advance(l, body);
            (void)take_end(l, "%}", false);
            ok = take_raw(l);
        } else if (kind == '#') {
            ok = take_comment(l);
        } else {
            ok = take_tag(l, kind == '%');
        }
        if (!ok)
            return false;
    }
    return true;
}

bool jinja_lex(struct jx *x, const char *text, size_t n, struct jtoken **out,
               size_t *n_out)
{
    struct lexer l = {.x = x, .line = 1, .line_start = true};

    l.s = jx_alloc(x, n + 8, 1); /* zeros behind: looking a little ahead is safe */
    if (!l.s)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n')
            continue;
        l.s[l.n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (l.n && l.s[l.n - 1] == '\n')
        l.s[--l.n] = '\0';
    if (!take_all(&l) || !push(&l, T_EOF))
        return false;
    *out = l.tok;
    *n_out = (size_t)l.n_tok;
    return true;
}
