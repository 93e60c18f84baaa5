/*
 * eval_kld.h - what `eval kld` gathers, and how it is shown.
 */
#ifndef CLI_EVAL_KLD_H
#define CLI_EVAL_KLD_H

#include "cli/eval_cmd.h"
#include "cli/eval_text.h"
#include "eval/fidelity.h"
#include "eval/teacher_file.h"

struct kld {
    struct eval_env env;
    struct opt_list models, include;
    const char *baseline, *teacher_path, *save_path, *scores, *report, *cache;
    struct eval_texts texts;
    int64_t top_k;
    bool exact, baseline_exact, force;
    struct eval_side cand, base;
    struct teacher_file *teacher;
    struct fidelity f;
    int64_t cut_vocab; /* of the model whose tokenizer cut the texts */
    struct cJSON *results;
    bool lost; /* rows of --scores could not be written */
    struct b2_err why_lost;
    double seconds;
};

/* The figures of one candidate: over everything, of each region, by position. */
struct kld_report {
    struct fidelity_figures all;
    struct fidelity_figures *region; /* [n_regions] */
    const char **name;               /* [n_regions], borrowed */
    int64_t *documents;              /* [n_regions] */
    int64_t n_regions;
    struct fidelity_bin bin[FIDELITY_BINS];
};

enum b2_status kld_report_make(struct kld_report *out, const struct fidelity *f,
                               const struct fidelity_row *rows, uint64_t seed,
                               struct b2_err *err) NODISCARD;
void kld_report_free(struct kld_report *r); /* zeroed is fine */

struct cJSON *kld_json(const struct kld *k, const struct kld_report *r);
void kld_print(const struct kld *k, const struct kld_report *r);

/* Writes SCORES/kld-MODEL.tsv: one line for each scored position. */
enum b2_status kld_save_rows(const struct kld *k, const struct fidelity_row *rows,
                             struct b2_err *err) NODISCARD;

#endif
