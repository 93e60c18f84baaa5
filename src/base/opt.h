/*
 * opt.h - one table per command drives parsing, checking and --help.
 *
 * Values are borrowed from argv. Numbers are parsed strictly (whole word, in range);
 * byte counts take B, KB, MB, GB (decimal) and KiB, MiB, GiB. "--name=value" and
 * "--name value" both work; "--" ends the options. No global state.
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include "base/util.h"

#include <stdio.h>

enum opt_kind {
    OPT_END,
    OPT_FLAG,  /* bool *: present = true */
    OPT_STR,   /* const char ** */
    OPT_INT,   /* int64_t *, min..max */
    OPT_NUM,   /* double *, min..max */
    OPT_BYTES, /* uint64_t * */
    OPT_LIST,  /* struct opt_list *: may be repeated */
    OPT_ENUM,  /* const char **: one of the words in arg, "a|b|c" */
};

struct opt_list {
    const char *item[64];
    int n;
};

struct opt {
    enum opt_kind kind;
    char letter;      /* 'm' for -m, 0: none */
    const char *name; /* "model" for --model */
    const char *arg;  /* "FILE", or the words of OPT_ENUM; NULL for a flag */
    void *value;
    double min, max;  /* range of OPT_INT and OPT_NUM */
    const char *help; /* a sentence; a default stands in [brackets] */
};

struct cmd {
    const char *name;     /* "eval" */
    const char *summary;  /* one sentence */
    const char *operands; /* "FILE|DIR", shown in the usage line; NULL: none */
    int min_operands, max_operands;
    const char *example; /* a working command line, ends the help */
};

enum opt_result { OPT_RUN = -1, OPT_DONE = 0, OPT_USAGE = 2 };

/* Parses argv[1..argc). Operands (words that are no options) are moved to the front
 * of argv[1..], *n_operands counts them. OPT_RUN: go on. OPT_DONE: help was printed on
 * out. OPT_USAGE: the mistake and a pointer to --help were printed on err_out. -h and
 * --help are understood always and listed. Unknown option: the nearest name is offered. */
enum opt_result opt_parse(const struct cmd *cmd, const struct opt *opts, int argc,
                          char **argv, int *n_operands, FILE *out, FILE *err_out);

/* Prints the help that --help prints. */
void opt_help(const struct cmd *cmd, const struct opt *opts, FILE *out);

/* Strict parsers, also for use on words inside values. False: not a number, trailing
 * characters, out of range. */
bool opt_parse_int(int64_t *out, const char *word, int64_t min, int64_t max);
bool opt_parse_num(double *out, const char *word, double min, double max);
bool opt_parse_bytes(uint64_t *out, const char *word);

#endif
