/*
 * pipeline.h - a model file in, a compressed model file out.
 *
 *   scan    read and check every value, measure what each type would cost
 *   cost    effort normal with a budget: what each type would cost in nat (cost.h)
 *   choose  a type for each tensor, within the budget
 *   round   layer by layer into pieces on disk (work.h)
 *   write   pieces and keys to one GGUF
 *   distil  effort best: that file learns from the source (distill.h)
 *
 * Memory does not grow with the model: a few rows per thread, one batch of rows, and
 * the pages of the tensor at hand. The output is the same for any number of threads and
 * any number of interruptions.
 */
#ifndef COMPRESS_PIPELINE_H
#define COMPRESS_PIPELINE_H

#include "compress/calib.h"
#include "compress/distill.h"
#include "compress/report.h"
#include "compress/scan.h"

struct pipeline_params {
    const char *source;      /* anything that modelfile_open() takes */
    const char *source_name; /* for keys and report; NULL: source */
    const char *output;      /* may be NULL in a dry run */
    const struct recipe *recipe;
    const struct calib_params *calib; /* from effort normal on */
    const char *costs; /* file of measured costs (cost_file.h); NULL: none */
    /* Of effort best: how it is trained; models, texts and all below are set from here. */
    const struct distill_params *distill;
    struct distill_report *distilled; /* filled in effort best; distill_report_free() */
    bool *too_small; /* set when the budget is below the smallest types; may be NULL */
    uint64_t mem_limit; /* bytes, for plans; 0: none */
    bool dry_run;       /* stop before anything is written */
    bool force;         /* replace an existing output, throw foreign state away */
    struct scan_env env;
    const struct log *log;
    /* Called when a stage begins, with the number of values it will go through; env's
     * progress counts them. May be NULL. */
    void (*on_stage)(void *ctx, const char *name, uint64_t total);
};

/* On success fills r (report_free). Errors besides those of the parts: B2_EEXIST, the
 * output is there; B2_EIO, too little room on the disk, before and while writing.
 * B2_ECANCEL and B2_EIO leave a state that the same call goes on from; the message says
 * so. */
enum b2_status pipeline_run(struct report *r, const struct pipeline_params *p,
                            struct b2_err *err) NODISCARD;

#endif
