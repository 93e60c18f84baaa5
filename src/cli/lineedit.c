/*
 * lineedit.c - keys into text, and the text drawn again after each of them.
 *
 * Drawing is whole: up to the first row, clear, write, and back to the cursor. Columns
 * are counted as terminals do, by character clusters of width 0, 1 or 2.
 */
#include "cli/lineedit.h"

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "text/utf8.h"

#include <string.h>

enum { MAX_HISTORY = 200, MAX_TEXT = 16 << 20, ESCAPE_MS = 50, TAB_WIDTH = 4 };
enum { CTRL_A = 1, CTRL_B = 2, CTRL_C = 3, CTRL_D = 4, CTRL_E = 5, CTRL_F = 6 };
enum { CTRL_H = 8, TAB = 9, CTRL_K = 11, CTRL_L = 12, ENTER = 13, CTRL_N = 14 };
enum { CTRL_P = 16, CTRL_U = 21, CTRL_W = 23, ESCAPE = 27, BACKSPACE = 127 };

static const char fence[] = "\"\"\"", more[] = "... ";

struct lineedit {
    const char *prompt;
    char *text; /* [n], and a zero */
    size_t n, cap, at;
    int row; /* of the cursor, under the prompt's row, as drawn */
    bool pasting, failed;
    char *history[MAX_HISTORY];
    int n_history, shown; /* shown == n_history: the text being written */
    char *draft;          /* that text while history is shown */
};

struct lineedit *lineedit_new(void)
{
    return mem_calloc(1, sizeof(struct lineedit));
}

void lineedit_free(struct lineedit *ed)
{
    if (!ed)
        return;
    for (int i = 0; i < ed->n_history; i++)
        mem_free(ed->history[i]);
    mem_free(ed->draft);
    mem_free(ed->text);
    mem_free(ed);
}

/* ---- the text ---- */

static void insert(struct lineedit *ed, const char *s, size_t n)
{
    if (ed->n + n >= MAX_TEXT)
        return;
    if (ed->n + n + 1 > ed->cap) {
        size_t cap = 2 * (ed->n + n) + 64;
        char *p = mem_realloc(ed->text, cap, 1);
        if (!p) {
            ed->failed = true;
            return;
        }
        ed->text = p;
        ed->cap = cap;
    }
    memmove(ed->text + ed->at + n, ed->text + ed->at, ed->n - ed->at);
    memcpy(ed->text + ed->at, s, n);
    ed->n += n;
    ed->at += n;
    ed->text[ed->n] = '\0';
}

static void erase(struct lineedit *ed, size_t from, size_t to)
{
    if (to == from)
        return;
    memmove(ed->text + from, ed->text + to, ed->n - to);
    ed->n -= to - from;
    ed->text[ed->n] = '\0';
    ed->at = from;
}

static void set_text(struct lineedit *ed, const char *s)
{
    ed->n = ed->at = 0;
    insert(ed, s, strlen(s));
}

static size_t line_start(const struct lineedit *ed, size_t at)
{
    while (at > 0 && ed->text[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(const struct lineedit *ed, size_t at)
{
    while (at < ed->n && ed->text[at] != '\n')
        at++;
    return at;
}

/* The cluster before at: clusters can only be found from the start of the line. */
static size_t before(const struct lineedit *ed, size_t at)
{
    size_t from = line_start(ed, at);
    int width;

    if (from == at)
        return at > 0 ? at - 1 : 0; /* the newline */
    for (size_t i = from; i < at;) {
        from = i;
        i += utf8_cluster(ed->text + i, ed->n - i, &width);
    }
    return from;
}

static size_t behind(const struct lineedit *ed, size_t at)
{
    int width;

    if (at >= ed->n)
        return ed->n;
    return at + utf8_cluster(ed->text + at, ed->n - at, &width);
}

static size_t word_before(const struct lineedit *ed, size_t at)
{
    while (at > 0 && (ed->text[at - 1] == ' ' || ed->text[at - 1] == '\n'))
        at--;
    while (at > 0 && ed->text[at - 1] != ' ' && ed->text[at - 1] != '\n')
        at--;
    return at;
}

/* Columns from the start of at's line to at. */
static int column(const struct lineedit *ed, size_t at)
{
    int sum = 0, width;

    for (size_t i = line_start(ed, at); i < at;) {
        bool tab = ed->text[i] == '\t';
        i += utf8_cluster(ed->text + i, ed->n - i, &width);
        sum += tab ? TAB_WIDTH : width;
    }
    return sum;
}

/* The place in the line that starts at from which lies nearest below a column. */
static size_t at_column(const struct lineedit *ed, size_t from, int want)
{
    size_t end = line_end(ed, from);

    while (from < end && column(ed, from) < want)
        from = behind(ed, from);
    return from;
}

/* ---- drawing ---- */

struct pen {
    struct str out;
    int columns, row, col;
};

static void pen_newline(struct pen *p)
{
    str_put(&p->out, "\r\n");
    p->row++;
    p->col = 0;
}

/* One cluster; a row that is full goes on in the next one at once. */
static void pen_put(struct pen *p, const char *s, size_t n, int width)
{
    if (p->col + width > p->columns)
        pen_newline(p);
    str_putn(&p->out, s, n);
    p->col += width;
    if (p->col >= p->columns)
        pen_newline(p);
}

static void pen_text(struct pen *p, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int width;
        size_t len = utf8_cluster(s + i, n - i, &width);
        if (s[i] == '\n') {
            pen_newline(p);
            pen_text(p, more, sizeof more - 1);
        } else if (s[i] == '\t') {
            for (int k = 0; k < TAB_WIDTH; k++)
                pen_put(p, " ", 1, 1);
        } else {
            pen_put(p, s + i, len, width);
        }
        i += len;
    }
}

static void draw(struct lineedit *ed)
{
    struct pen p = {.columns = terminal_columns()};

    if (ed->row > 0)
        str_printf(&p.out, "\033[%dA", ed->row);
    str_put(&p.out, "\r\033[J");
    pen_text(&p, ed->prompt, strlen(ed->prompt));
    pen_text(&p, ed->text ? ed->text : "", ed->at);
    int row = p.row, col = p.col;
    pen_text(&p, ed->n ? ed->text + ed->at : "", ed->n - ed->at);
    if (p.row > row)
        str_printf(&p.out, "\033[%dA", p.row - row);
    str_put(&p.out, "\r");
    if (col > 0)
        str_printf(&p.out, "\033[%dC", col);
    ed->row = row;
    if (str_ok(&p.out))
        (void)cli_write(p.out.data, p.out.len);
    str_free(&p.out);
}

/* ---- history ---- */

static void remember(struct lineedit *ed, const char *s)
{
    char *copy;

    if (!*s || (ed->n_history && strcmp(ed->history[ed->n_history - 1], s) == 0))
        return;
    copy = mem_strdup(s);
    if (!copy)
        return;
    if (ed->n_history == MAX_HISTORY) {
        mem_free(ed->history[0]);
        memmove(ed->history, ed->history + 1, (MAX_HISTORY - 1) * sizeof *ed->history);
        ed->n_history--;
    }
    ed->history[ed->n_history++] = copy;
}

static void show_history(struct lineedit *ed, int by)
{
    int next = ed->shown + by;

    if (next < 0 || next > ed->n_history)
        return;
    if (ed->shown == ed->n_history) {
        mem_free(ed->draft);
        ed->draft = mem_strdup(ed->n ? ed->text : "");
    }
    ed->shown = next;
    set_text(ed, next < ed->n_history ? ed->history[next] : ed->draft ? ed->draft : "");
}

/* Up and Down: between lines of the text, and beyond them through the history. */
static void move_line(struct lineedit *ed, int by)
{
    size_t start = line_start(ed, ed->at), end = line_end(ed, ed->at);
    int want = column(ed, ed->at);

    if (by < 0 && start > 0)
        ed->at = at_column(ed, line_start(ed, start - 1), want);
    else if (by > 0 && end < ed->n)
        ed->at = at_column(ed, end + 1, want);
    else
        show_history(ed, by);
}

/* ---- keys ---- */

/* The rest of "ESC [ … letter". */
static void control_sequence(struct lineedit *ed)
{
    int n = 0, c = terminal_key(ESCAPE_MS);

    for (; c >= 0x20 && c < 0x40; c = terminal_key(ESCAPE_MS))
        if (c >= '0' && c <= '9' && n < 1000)
            n = n * 10 + (c - '0');
    if (c == 'A' || c == 'B')
        move_line(ed, c == 'A' ? -1 : 1);
    else if (c == 'C')
        ed->at = behind(ed, ed->at);
    else if (c == 'D')
        ed->at = before(ed, ed->at);
    else if (c == 'H' || (c == '~' && (n == 1 || n == 7)))
        ed->at = line_start(ed, ed->at);
    else if (c == 'F' || (c == '~' && (n == 4 || n == 8)))
        ed->at = line_end(ed, ed->at);
    else if (c == '~' && n == 3)
        erase(ed, ed->at, behind(ed, ed->at));
    else if (c == '~' && (n == 200 || n == 201))
        ed->pasting = n == 200;
}

static void escape(struct lineedit *ed)
{
    int c = terminal_key(ESCAPE_MS);

    if (c == '[' || c == 'O')
        control_sequence(ed);
    else if (c == ENTER || c == '\n')
        insert(ed, "\n", 1);
}

/* A character of one or more bytes; what is broken is left out. */
static void type(struct lineedit *ed, int first)
{
    char buf[4] = {(char)first};
    size_t need = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4, n = 1;

    while (n < need) {
        int c = terminal_key(ESCAPE_MS);
        if (c < 0)
            return;
        buf[n++] = (char)c;
    }
    if (utf8_valid(buf, n))
        insert(ed, buf, n);
}

/* Enter: does the text go on? A backslash at its end becomes a newline. */
static bool goes_on(struct lineedit *ed)
{
    ed->at = ed->n;
    if (ed->n && ed->text[ed->n - 1] == '\\') {
        erase(ed, ed->n - 1, ed->n);
        insert(ed, "\n", 1);
        return true;
    }
    if (ed->n < 3 || memcmp(ed->text, fence, 3) != 0)
        return false;
    const char *close = strstr(ed->text + 3, fence);
    if (close)
        return false;
    insert(ed, "\n", 1);
    return true;
}

/* Keys that move the cursor. False: another key. */
static bool move_key(struct lineedit *ed, int c)
{
    switch (c) {
    case CTRL_A:
        ed->at = line_start(ed, ed->at);
        return true;
    case CTRL_E:
        ed->at = line_end(ed, ed->at);
        return true;
    case CTRL_B:
        ed->at = before(ed, ed->at);
        return true;
    case CTRL_F:
        ed->at = behind(ed, ed->at);
        return true;
    case CTRL_P:
    case CTRL_N:
        move_line(ed, c == CTRL_P ? -1 : 1);
        return true;
    case ESCAPE:
        escape(ed);
        return true;
    default:
        return false;
    }
}

/* Keys that change the text, and what is typed. */
static void edit_key(struct lineedit *ed, int c)
{
    switch (c) {
    case CTRL_D:
        erase(ed, ed->at, behind(ed, ed->at));
        break;
    case CTRL_H:
    case BACKSPACE:
        erase(ed, before(ed, ed->at), ed->at);
        break;
    case CTRL_K:
        erase(ed, ed->at, line_end(ed, ed->at));
        break;
    case CTRL_U:
        erase(ed, line_start(ed, ed->at), ed->at);
        break;
    case CTRL_W:
        erase(ed, word_before(ed, ed->at), ed->at);
        break;
    case CTRL_L:
        (void)cli_write("\033[H\033[2J", 7);
        ed->row = 0;
        break;
    case TAB:
        insert(ed, "\t", 1);
        break;
    default:
        if (c >= 0x20)
            type(ed, c);
        break;
    }
}

/* Takes one key. True: the text is done, or *end says why not. */
static bool take_key(struct lineedit *ed, int c, enum lineedit_result *end)
{
    *end = LINE_OK;
    if (c == TERMINAL_EOF || (c == CTRL_D && ed->n == 0)) {
        *end = LINE_END;
        return true;
    }
    if (c == CTRL_C) {
        *end = LINE_INTERRUPT;
        return true;
    }
    if (c == ENTER || c == '\n') {
        if (!ed->pasting)
            return !goes_on(ed);
        insert(ed, "\n", 1);
    } else if (!move_key(ed, c)) {
        edit_key(ed, c);
    }
    return false;
}

/* Without the fences and the newlines beside them. */
static void put_result(const char *text, struct str *out)
{
    size_t n = strlen(text);

    if (n >= 6 && memcmp(text, fence, 3) == 0) {
        const char *close = strstr(text + 3, fence);
        if (close) {
            const char *from = text + 3 + (text[3] == '\n');
            const char *to = close > from && close[-1] == '\n' ? close - 1 : close;
            str_putn(out, from, to > from ? (size_t)(to - from) : 0);
            return;
        }
    }
    str_putn(out, text, n);
}

static enum lineedit_result read_keys(struct lineedit *ed, struct str *out)
{
    enum lineedit_result end = LINE_OK;
    bool done = false;

    ed->n = ed->at = 0;
    ed->row = 0;
    ed->pasting = ed->failed = false;
    ed->shown = ed->n_history;
    insert(ed, "", 0);
    (void)cli_write("\033[?2004h", 8); /* pasted text comes between marks */
    draw(ed);
    while (!done && !ed->failed) {
        done = take_key(ed, terminal_key(-1), &end);
        if (!done && !terminal_key_waits())
            draw(ed);
    }
    ed->at = ed->n;
    draw(ed);
    (void)cli_write("\033[?2004l\r\n", 10);
    if (ed->failed)
        return LINE_NOMEM;
    if (end == LINE_OK) {
        put_result(ed->text, out);
        remember(ed, ed->text);
    }
    return end;
}

/* ---- without a terminal ---- */

/* One line without its end. False: there is none any more. */
static bool read_line(struct lineedit *ed)
{
    int c = getc(stdin);

    if (c == EOF)
        return false;
    for (; c != EOF && c != '\n'; c = getc(stdin)) {
        char byte = (char)c;
        if (c != '\r' && c != 0)
            insert(ed, &byte, 1);
    }
    return true;
}

static enum lineedit_result read_lines(struct lineedit *ed, struct str *out)
{
    ed->n = ed->at = 0;
    ed->failed = false;
    insert(ed, "", 0);
    if (ed->failed)
        return LINE_NOMEM;
    if (!read_line(ed))
        return LINE_END;
    while (goes_on(ed) && read_line(ed) && !ed->failed)
        ;
    if (ed->failed)
        return LINE_NOMEM;
    put_result(ed->text, out);
    return LINE_OK;
}

enum lineedit_result lineedit_read(struct lineedit *ed, const char *prompt,
                                   struct str *out)
{
    enum lineedit_result r;

    str_clear(out);
    ed->prompt = prompt;
    if (terminal_stdin_is_tty() && terminal_stdout_is_tty() && terminal_keys_begin()) {
        r = read_keys(ed, out);
        terminal_keys_end();
    } else {
        r = read_lines(ed, out);
    }
    str_put(out, "");
    return str_ok(out) ? r : LINE_NOMEM;
}
