/*
 * opt_help.c - prints the table that opt.c parses by.
 */
#include "base/opt.h"

#include <string.h>

/* Columns: the help starts after the longest option, at most here; lines end here. */
enum { HELP_COLUMN_MAX = 30, LINE_COLUMNS = 88 };

/* Columns of "  -m, --model FILE"; prints it unless f is NULL. */
static int option_head(FILE *f, const struct opt *o)
{
    char letter[8] = "    ";
    char head[160];

    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    int n = snprintf(head, sizeof head, "  %s--%s%s%s", letter, o->name,
                     o->arg ? " " : "", o->arg ? o->arg : "");
    if (f)
        fputs(head, f);
    return n < (int)sizeof head ? n : (int)sizeof head - 1;
}

/* Bytes of the next word; a default in [brackets] is one word. */
static int word_length(const char *text)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;

    return (int)(end ? (size_t)(end - text) + strcspn(end, " ") : strcspn(text, " "));
}

/* Prints text from column on, broken at spaces; later lines are indented to column. */
static void put_wrapped(FILE *f, const char *text, int column)
{
    int at = column;

    for (;;) {
        int n = word_length(text);
        if (at > column && at + 1 + n > LINE_COLUMNS) {
            fprintf(f, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', f);
            at++;
        }
        fprintf(f, "%.*s", n, text);
        at += n;
        text += n;
        if (*text == '\0')
            break;
        text++;
    }
    fputc('\n', f);
}

static void put_option(FILE *f, const struct opt *o, int column)
{
    int n = option_head(f, o);

    if (n + 2 > column)
        fprintf(f, "\n%*s", column, "");
    else
        fprintf(f, "%*s", column - n, "");
    put_wrapped(f, o->help, column);
}

void opt_help(const struct cmd *cmd, const struct opt *opts, FILE *out)
{
    static const struct opt help = {
        .letter = 'h', .name = "help", .help = "Print this help."};
    int column = 0;

    for (const struct opt *o = opts; o->kind != OPT_END; o++) {
        int n = option_head(NULL, o) + 2;
        if (n > column && n <= HELP_COLUMN_MAX)
            column = n;
    }
    int n_help = option_head(NULL, &help) + 2;
    if (column < n_help)
        column = n_help;
    fprintf(out, "Usage: bonsai2 %s [options]%s%s\n\n", cmd->name,
            cmd->operands ? " " : "", cmd->operands ? cmd->operands : "");
    put_wrapped(out, cmd->summary, 0);
    fputs("\nOptions:\n", out);
    for (const struct opt *o = opts; o->kind != OPT_END; o++)
        put_option(out, o, column);
    put_option(out, &help, column);
    if (cmd->example)
        fprintf(out, "\nExample:\n  %s\n", cmd->example);
}
