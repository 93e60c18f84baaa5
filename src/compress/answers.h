/*
 * answers.h - a model's own answers, a text to calibrate on and to learn from.
 *
 * What a chat model says is not what its calibration texts say; learning from its own
 * answers keeps the student where it will be used. Questions are taken at even distances
 * from the sources: "question" or "prompt" of a .jsonl; where there is plain text, the
 * first words of some of its lines, which the model is asked to go on with. Each
 * goes through the chat template (as it is, where there is none) and is answered with a
 * seed of its own, so that the same bytes come at any number of threads and after any
 * interruption.
 *
 * The file is a .jsonl that calibration reads (calib.h): first what was run, then
 * {"question", "answer"} line by line. A file that is there is used again when it was
 * made by the same teacher, questions and numbers, and gone on with when it is shorter.
 */
#ifndef COMPRESS_ANSWERS_H
#define COMPRESS_ANSWERS_H

#include "base/pool.h"
#include "base/progress.h"
#include "compress/calib.h"
#include "model/model.h"

struct answers_how {
    const char *path;      /* the .jsonl; NULL: there are none */
    int64_t n, max_tokens; /* answers; of each one */
    double temperature;    /* 0: greedy */
};

struct answers_env {
    const struct calib_params *from; /* where questions come from */
    uint64_t seed;
    uint64_t mem_limit; /* a model of more bytes is not asked; 0: any is */
    bool *missing; /* not NULL: asks nothing, and says whether answers are missing */
    struct pool *pool;
    unsigned cpu; /* features that kernels may use */
    const struct log *log;
    struct progress *progress;    /* counts answers; may be NULL */
    bool (*cancelled)(void *ctx); /* may be NULL */
    void *ctx;
};

/* Makes what is missing of the file. B2_EARG: the file is another run's, or no .jsonl; a
 * source is an evaluation set; no question leaves room for an answer; the model is above
 * the limit. B2_ECANCEL: stopped; what was answered is kept. */
enum b2_status answers_make(const struct model *m, const struct answers_how *how,
                            const struct answers_env *env,
                            struct b2_err *err) NODISCARD;

#endif
