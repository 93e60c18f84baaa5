/*
 * lineedit.h - a small editor for what the user types: one text, of one or more lines.
 *
 * On a terminal: arrows, Home, End, Ctrl-A/E/B/F/K/U/W/L, history with Up and Down,
 * pasting of many lines, wide and combined characters. Enter sends; a line that ends in a
 * backslash goes on, as does everything between two lines of """, and Alt-Enter makes a
 * new line. Without a terminal the same text is read line by line.
 */
#ifndef CLI_LINEEDIT_H
#define CLI_LINEEDIT_H

#include "base/str.h"

struct lineedit;

enum lineedit_result {
    LINE_OK,
    LINE_END,       /* Ctrl-D on an empty line, or the end of the input */
    LINE_INTERRUPT, /* Ctrl-C: the text is dropped */
    LINE_NOMEM,
};

/* NULL: out of memory. */
struct lineedit *lineedit_new(void);
void lineedit_free(struct lineedit *ed); /* NULL is fine */

/* Reads one text into out, which is emptied first; prompt is shown on a terminal only. */
enum lineedit_result lineedit_read(struct lineedit *ed, const char *prompt,
                                   struct str *out);

#endif
