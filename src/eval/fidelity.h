/*
 * fidelity.h - divergence over several texts, by region, with intervals.
 *
 * A region is a kind of text ("prose_en", "code"); it has one or more documents. Every
 * scored position becomes a row; figures are summaries of rows, so that kept rows
 * recompute them. Intervals are bootstrapped over clusters: documents where a region has
 * several, else the windows of its one document, because neighbouring positions are not
 * independent.
 */
#ifndef EVAL_FIDELITY_H
#define EVAL_FIDELITY_H

#include "eval/bootstrap.h"
#include "eval/divergence.h"

enum { FIDELITY_BINS = 8 };

struct fidelity_text {
    char *region;
    const char *path; /* borrowed */
    struct textset set;
};

/* The texts of a run; those of one region lie together. Start as zero. */
struct fidelity {
    struct fidelity_text *text;
    int64_t n_texts, n_windows, n_scored;
};

/* Puts a cut text behind those of its region. Takes set, also on failure. B2_ENOMEM. */
enum b2_status fidelity_add(struct fidelity *f, const char *region, const char *path,
                            struct textset *set, struct b2_err *err) NODISCARD;
void fidelity_free(struct fidelity *f);
/* Documents of text i's region. */
int64_t fidelity_documents(const struct fidelity *f, int64_t i);

struct fidelity_row {
    double nll, nll_base, kld;
    int64_t text, window, pos;
    int64_t cluster; /* grows by one from cluster to cluster, in the order of rows */
    bool same_top1;
};

struct teacher_file;

/* Walks all texts; rows [n_scored]. One of base and teacher is NULL. */
enum b2_status fidelity_run(struct fidelity_row *rows, const struct fidelity *f,
                            struct session *cand, struct session *base,
                            struct teacher_file *teacher, struct progress *pr,
                            struct b2_err *err) NODISCARD;

struct fidelity_figures {
    int64_t n_tokens, n_clusters;
    double mean_kld, kld_stderr, median_kld, p90_kld, p99_kld, max_kld;
    double same_top1;
    double dp_mean, dp_rms; /* change of the right token's probability */
    double ppl, ppl_baseline, ppl_ratio;
    struct interval kld_ci, same_ci, dp_ci, ratio_ci; /* 95 % */
};

/* Of n >= 1 rows. B2_ENOMEM. */
enum b2_status fidelity_figures(struct fidelity_figures *out,
                                const struct fidelity_row *rows, int64_t n,
                                uint64_t seed, struct b2_err *err) NODISCARD;

/* Mean divergence of the rows by place in the window: bin i holds the positions
 * [from, to); empty bins have n == 0. */
struct fidelity_bin {
    int64_t from, to, n;
    double mean_kld;
};
void fidelity_bins(struct fidelity_bin out[FIDELITY_BINS],
                   const struct fidelity_row *rows, int64_t n);

#endif
