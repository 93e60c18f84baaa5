/*
 * eval_script.h - the scripted logits of tests/golden/eval/make_eval.py, and their values.
 */
#ifndef UNIT_EVAL_SCRIPT_H
#define UNIT_EVAL_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

enum { SCRIPT_ROWS = 12, SCRIPT_VOCAB = 50 };

static const struct {
    int32_t target;
    double lse_base, lse_cand;
    int64_t top_base, top_cand;
    double nll, kld;
} script_want[SCRIPT_ROWS] = {
#include "golden/eval/logprob.inc"
};

/* Row r of the baseline or of the candidate; every value is a multiple of 1/8. */
static inline void script_row(float *x, int r, bool candidate)
{
    for (int v = 0; v < SCRIPT_VOCAB; v++) {
        x[v] = (float)((v * 37 + r * 11) % 101 - 50) / 8.0f;
        if (candidate && r != 5)
            x[v] += (float)((v * 13 + r * 7) % 9 - 4) / 8.0f;
    }
    if (r == 9)
        x[3] = x[40] = 20.0f;
}

#endif
