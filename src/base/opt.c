/*
 * opt.c - reads a command line by its table.
 */
#include "base/opt.h"

#include "base/opt_int.h"

#include <stdlib.h>
#include <string.h>

/* Where the parser is, so that its helpers take one argument. */
struct parse {
    const struct cmd *cmd;
    const struct opt *opts;
    int argc, at; /* argv[at] is the next word */
    char **argv;
    FILE *err_out;
};

static bool all_in(const char *word, const char *set)
{
    return word[0] != '\0' && word[strspn(word, set)] == '\0';
}

bool opt_parse_int(int64_t *out, const char *word, int64_t min, int64_t max)
{
    const char *p = word;
    bool minus = *p == '-';
    int64_t v = 0;

    p += minus;
    if (!all_in(p, "0123456789"))
        return false;
    for (; *p; p++) { /* downwards, since -INT64_MIN has no positive twin */
        if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_sub_overflow(v, (int64_t)(*p - '0'), &v))
            return false;
    }
    if (!minus && __builtin_sub_overflow((int64_t)0, v, &v))
        return false;
    if (v < min || v > max)
        return false;
    *out = v;
    return true;
}

bool opt_parse_num(double *out, const char *word, double min, double max)
{
    char *end;

    /* strtod would also take white space, "nan", "inf" and hexadecimal. */
    if (!all_in(word, "+-.0123456789eE"))
        return false;
    double v = strtod(word, &end);
    if (end == word || *end != '\0' || !(v >= min && v <= max))
        return false;
    *out = v;
    return true;
}

/* Compares without regard to the case of ASCII letters. */
static bool same_letters(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        int x = *a >= 'a' && *a <= 'z' ? *a - 32 : *a;
        int y = *b >= 'a' && *b <= 'z' ? *b - 32 : *b;
        if (x != y)
            return false;
    }
    return *a == *b;
}

/* The bytes of a unit; 0: no unit. */
static uint64_t unit_bytes(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"KB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {"TB", 1000000000000},
        {"KiB", UINT64_C(1) << 10},
        {"MiB", UINT64_C(1) << 20},
        {"GiB", UINT64_C(1) << 30},
        {"TiB", UINT64_C(1) << 40},
    };

    for (size_t i = 0; i < countof(units); i++)
        if (same_letters(unit, units[i].name))
            return units[i].bytes;
    return 0;
}

bool opt_parse_bytes(uint64_t *out, const char *word)
{
    size_t n_whole = strspn(word, "0123456789");
    const char *p = word + n_whole;
    uint64_t whole = 0;
    double part = 0.0, digit = 1.0;

    if (n_whole == 0)
        return false;
    for (size_t i = 0; i < n_whole; i++)
        if (!mul_u64(&whole, whole, 10) ||
            !add_u64(&whole, whole, (uint64_t)(word[i] - '0')))
            return false;
    bool has_part = *p == '.';
    if (has_part) {
        size_t n_part = strspn(p + 1, "0123456789");
        if (n_part == 0)
            return false;
        for (size_t i = 1; i <= n_part; i++)
            part += (p[i] - '0') * (digit /= 10.0);
        p += 1 + n_part;
    }
    p += strspn(p, " ");
    uint64_t unit = unit_bytes(p);
    /* Half a byte is a slip of the pen: "1.5" was meant as 1.5 of some unit. */
    if (unit == 0 || (has_part && unit == 1) || !mul_u64(&whole, whole, unit))
        return false;
    return add_u64(out, whole, (uint64_t)(part * (double)unit + 0.5));
}

/* Edits (insert, delete, replace) between two words, by the usual table kept as one
 * row; words of more than EDIT_MAX letters count as far apart. */
int opt_distance(const char *a, const char *b)
{
    enum { EDIT_MAX = 40 };
    int row[EDIT_MAX + 1];
    size_t na = strlen(a), nb = strlen(b);

    if (na > EDIT_MAX || nb > EDIT_MAX)
        return EDIT_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

bool opt_is_near(const char *word, const char *name, int distance)
{
    size_t n = strlen(word);

    /* One edit in three letters; a beginning of the name is near as well. */
    return distance <= (int)(strlen(name) + 2) / 3 ||
           (n >= 2 && strncmp(word, name, n) == 0);
}

static enum opt_result usage(const struct parse *p)
{
    fprintf(p->err_out, "Try 'bonsai2 %s --help'.\n", p->cmd->name);
    return OPT_USAGE;
}

/* Begins a line about what is wrong; the caller goes on with the rest. */
static FILE *complain(const struct parse *p)
{
    fprintf(p->err_out, "bonsai2 %s: ", p->cmd->name);
    return p->err_out;
}

static enum opt_result unknown(const struct parse *p, const char *word, size_t n)
{
    char name[64];
    const char *best = NULL;
    int best_distance = 0;

    snprintf(name, sizeof name, "%.*s", (int)min_i64((int64_t)n, 63), word);
    for (const struct opt *o = p->opts; o->kind != OPT_END; o++) {
        int d = opt_distance(name, o->name);
        if (opt_is_near(name, o->name, d) && (!best || d < best_distance)) {
            best = o->name;
            best_distance = d;
        }
    }
    fprintf(complain(p), "unknown option '--%s'", name);
    if (best)
        fprintf(p->err_out, "; did you mean '--%s'?", best);
    fputc('\n', p->err_out);
    return usage(p);
}

/* Is word one of the words in "a|b|c"? Gives the copy inside the table's own string
 * no terminator, so the value stays the user's word. */
static bool in_words(const char *words, const char *word)
{
    size_t n = strcspn(word, "|");

    if (n == 0 || word[n] != '\0')
        return false;
    for (const char *w = words; w; w = strchr(w, '|')) {
        w += *w == '|';
        if (strncmp(w, word, n) == 0 && (w[n] == '|' || w[n] == '\0'))
            return true;
    }
    return false;
}

/* "a number from 1 to 8": what the value of o must be. */
static void print_expected(FILE *f, const struct opt *o)
{
    switch (o->kind) {
    case OPT_INT:
        fprintf(f, "a whole number from %.0f to %.0f", o->min, o->max);
        break;
    case OPT_NUM:
        fprintf(f, "a number from %g to %g", o->min, o->max);
        break;
    case OPT_BYTES:
        fputs("a size such as 512MB, 5.95GB or 2GiB", f);
        break;
    case OPT_ENUM:
        fprintf(f, "one of %s", o->arg);
        break;
    case OPT_LIST:
        fprintf(f, "at most %zu times", countof(((struct opt_list *)0)->item));
        break;
    default:
        fputs("a value", f);
    }
}

/* A whole number bound of the table as an integer; doubles beyond its range saturate. */
static int64_t bound(double v)
{
    if (v >= 9223372036854775807.0)
        return INT64_MAX;
    return v <= -9223372036854775808.0 ? INT64_MIN : (int64_t)v;
}

static bool store(const struct opt *o, const char *word)
{
    switch (o->kind) {
    case OPT_STR:
        *(const char **)o->value = word;
        return true;
    case OPT_INT:
        return opt_parse_int(o->value, word, bound(o->min), bound(o->max));
    case OPT_NUM:
        return opt_parse_num(o->value, word, o->min, o->max);
    case OPT_BYTES:
        return opt_parse_bytes(o->value, word);
    case OPT_ENUM:
        if (!in_words(o->arg, word))
            return false;
        *(const char **)o->value = word;
        return true;
    case OPT_LIST: {
        struct opt_list *list = o->value;
        if (list->n >= (int)countof(list->item))
            return false;
        list->item[list->n++] = word;
        return true;
    }
    default:
        return false;
    }
}

/* Gives option o its value: attached (may be NULL), or the next word. */
static enum opt_result take_value(struct parse *p, const struct opt *o,
                                  const char *attached)
{
    if (!attached && p->at < p->argc)
        attached = p->argv[p->at++];
    if (!attached) {
        fprintf(complain(p), "option '--%s' needs a value: ", o->name);
        if (o->kind == OPT_STR || o->kind == OPT_LIST) { /* any text will do */
            fprintf(p->err_out, "%s\n", o->arg);
            return usage(p);
        }
    } else if (store(o, attached)) {
        return OPT_RUN;
    } else {
        fprintf(complain(p), "option '--%s': '%s' is not allowed: ", o->name, attached);
    }
    print_expected(p->err_out, o);
    fputc('\n', p->err_out);
    return usage(p);
}

/* A word that starts with "--"; name is what follows. */
static enum opt_result long_option(struct parse *p, const char *name)
{
    size_t n = strcspn(name, "=");
    const char *attached = name[n] == '=' ? name + n + 1 : NULL;

    for (const struct opt *o = p->opts; o->kind != OPT_END; o++) {
        if (strncmp(o->name, name, n) != 0 || o->name[n] != '\0')
            continue;
        if (o->kind != OPT_FLAG)
            return take_value(p, o, attached);
        if (attached) {
            fprintf(complain(p), "option '--%s' takes no value\n", o->name);
            return usage(p);
        }
        *(bool *)o->value = true;
        return OPT_RUN;
    }
    return unknown(p, name, n);
}

/* A word "-abc": flags may stand together, a value may follow its letter. */
static enum opt_result short_options(struct parse *p, const char *letters, bool *help)
{
    for (; *letters; letters++) {
        const struct opt *o = p->opts;
        while (o->kind != OPT_END && o->letter != *letters)
            o++;
        if (o->kind == OPT_END && *letters == 'h') {
            *help = true;
            continue;
        }
        if (o->kind == OPT_END) {
            fprintf(complain(p), "unknown option '-%c'\n", *letters);
            return usage(p);
        }
        if (o->kind != OPT_FLAG) {
            const char *rest = letters + 1 + (letters[1] == '=');
            return take_value(p, o, letters[1] ? rest : NULL);
        }
        *(bool *)o->value = true;
    }
    return OPT_RUN;
}

static enum opt_result check_operands(const struct parse *p, int n)
{
    const struct cmd *cmd = p->cmd;

    if (n >= cmd->min_operands && n <= cmd->max_operands)
        return OPT_RUN;
    if (n < cmd->min_operands)
        fprintf(complain(p), "%s is missing\n",
                cmd->operands ? cmd->operands : "an argument");
    else
        fprintf(complain(p), "unexpected argument '%s'\n",
                p->argv[1 + cmd->max_operands]);
    return usage(p);
}

enum opt_result opt_parse(const struct cmd *cmd, const struct opt *opts, int argc,
                          char **argv, int *n_operands, FILE *out, FILE *err_out)
{
    struct parse p = {cmd, opts, argc, 1, argv, err_out};
    bool help = false, ended = false;
    int n = 0;

    while (p.at < argc && !help) {
        char *word = argv[p.at++];
        enum opt_result rc = OPT_RUN;
        if (ended || word[0] != '-' || word[1] == '\0')
            argv[1 + n++] = word; /* n < at: overwrites only what was read */
        else if (strcmp(word, "--") == 0)
            ended = true;
        else if (strcmp(word, "--help") == 0)
            help = true;
        else if (word[1] == '-')
            rc = long_option(&p, word + 2);
        else
            rc = short_options(&p, word + 1, &help);
        if (rc != OPT_RUN)
            return rc;
    }
    if (help) {
        opt_help(cmd, opts, out);
        return OPT_DONE;
    }
    *n_operands = n;
    return check_operands(&p, n);
}
