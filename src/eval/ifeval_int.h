/*
 * ifeval_int.h - what the checks of instructions share; for ifeval*.c only.
 */
#ifndef EVAL_IFEVAL_INT_H
#define EVAL_IFEVAL_INT_H

#include "eval/ifeval.h"

enum ifeval_tongue { TONGUE_EN, TONGUE_ES, TONGUE_FR, TONGUE_JA };

/* One check at work. */
struct check {
    const char *text; /* [n], terminated */
    size_t n;
    const cJSON *args;
    enum ifeval_tongue tongue; /* of the instruction, "en:" … */
    const char *missing;       /* an argument that is not there or unfit; NULL: none */
};

/* Arguments; one that is missing is noted in c. */
int64_t check_int(struct check *c, const char *key);
const char *check_str(struct check *c, const char *key);
/* count against the number in key under the relation in relation_key ("at least" where
 * the data give none). */
bool check_relation(struct check *c, int64_t count, const char *key,
                    const char *relation_key);

int64_t check_matches(const struct check *c,
                      const char *regex); /* per line, -1: error */

/* An instruction of all languages, and those of one. */
struct check_row {
    const char *name; /* behind the language, "punctuation:no_comma" */
    bool (*follows)(struct check *c);
};
extern const struct check_row check_rows[];    /* ends with a NULL name */
extern const struct check_row check_rows_es[]; /* the same */
extern const struct check_row check_rows_fr[];
extern const struct check_row check_rows_ja[];

/* Text without white space at its ends. */
void check_strip(const char **text, size_t *n);
bool check_is_upper(const char *text, size_t n); /* Python's str.isupper() */
bool check_is_lower(const char *text, size_t n);
/* Words (\w+) that fit; word is lower case, [n] bytes. */
int64_t check_words(const struct check *c, bool (*fits)(const char *word, size_t n));
bool check_language(const struct check *c, const char *code);

#endif
