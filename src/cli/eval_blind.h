/*
 * eval_blind.h - pairs of answers without names, a page to vote on, votes to a result.
 *
 * The page knows nothing of who wrote what: that stands in the key file. Both carry the
 * same id, the SHA-256 of all answers, and so do the votes that the page saves:
 *   {"id":"…","votes":["left","right","same",null,…]}     null: not voted
 */
#ifndef CLI_EVAL_BLIND_H
#define CLI_EVAL_BLIND_H

#include "cli/eval_answers.h"

struct cJSON;

struct blind_pair {
    const char *slice, *prompt; /* borrowed */
    char *model, *baseline;     /* answers, owned */
    bool model_left;
};

struct blind {
    struct blind_pair *pair; /* [n] */
    int64_t n;
    char id[HASH_HEX];
};

/* Shuffles sides by seed and makes the id, once all answers are there. */
enum b2_status blind_seal(struct blind *b, uint64_t seed, struct b2_err *err) NODISCARD;
void blind_free(struct blind *b);

/* Appends the page. */
void blind_page(struct str *out, const struct blind *b);
/* The sides, for the key file. */
struct cJSON *blind_sides(const struct blind *b);

/* 'l' left, 'r' right, 's' same, '-' not voted. */
struct blind_result {
    int64_t n, wins, losses, ties;
    double preference; /* wins / (wins + losses); 0.5 when none is decided */
    double low, high;  /* 95 %, Clopper-Pearson */
    double p;          /* two-sided sign test */
};
struct blind_result blind_count(const char *votes, const bool *model_left, int64_t n);

/* votes [n] from a votes file, sides [n] from a key file; both owned (mem_free).
 * B2_EARG: they are not of the same page. B2_EFORMAT. */
enum b2_status blind_read(char **votes, bool **model_left, int64_t *n,
                          const struct cJSON *vote_file, const struct cJSON *key,
                          struct b2_err *err) NODISCARD;

#endif
