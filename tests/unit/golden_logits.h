/*
 * golden_logits.h - logits of tiny models by transformers (golden/arch/make.py), and the
 * ways in which ours are run and compared with them.
 */
#ifndef UNIT_GOLDEN_LOGITS_H
#define UNIT_GOLDEN_LOGITS_H

#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "tensor/f16.h"
#include "unit/unit.h"
#include "unit/variant.h"

#include <math.h>

enum { GL_V = 320, GL_T = 200, GL_EVERY = 10, GL_ROWS = GL_T / GL_EVERY };

static const float gl_error_bound = 2e-3f; /* of a row, relative to its size */

struct golden {
    int32_t ids[GL_T], top1[GL_T];
    float rows[GL_ROWS][GL_V];
};

static inline void gl_must(enum b2_status rc, const struct b2_err *err)
{
    if (rc)
        fail_msg("%s", err->msg);
}

/* name: of the file in golden/arch. */
static inline void gl_read(struct golden *g, const char *name)
{
    char path[512];
    char *bytes = NULL;
    size_t n = 0;
    struct b2_err err = {0};

    snprintf(path, sizeof path, "%s/arch/%s", B2_GOLDEN_DIR, name);
    gl_must(file_read_all(&bytes, &n, path, 1 << 20, &err), &err);
    assert_int_equal(n, 4 * (2 * GL_T + GL_ROWS * GL_V));
    const uint8_t *p = (const uint8_t *)bytes;
    for (int i = 0; i < GL_T; i++, p += 4)
        g->ids[i] = (int32_t)le_get32(p);
    for (int i = 0; i < GL_T; i++, p += 4)
        g->top1[i] = (int32_t)le_get32(p);
    for (int i = 0; i < GL_ROWS * GL_V; i++, p += 4)
        g->rows[i / GL_V][i % GL_V] = f32_from_bits(le_get32(p));
    mem_free(bytes);
}

/* How a sequence is run. */
struct way {
    bool exact;
    int threads;
    int64_t piece;
};

static inline void gl_run(float *logits, const struct model *m, const int32_t *ids,
                          const struct way *w)
{
    const struct session_params sp = {.ctx = GL_T, .batch = w->piece};
    struct b2_err err = {0};
    struct rig r;

    gl_must(rig_open(&r, m, w->threads, w->exact, &sp, &err), &err);
    for (int64_t i = 0; i < GL_T; i += w->piece)
        gl_must(session_eval(r.s, ids + i, min_i64(w->piece, GL_T - i),
                             logits + i * GL_V, &err),
                &err);
    rig_close(&r);
}

static inline int32_t gl_best(const float *row)
{
    int32_t best = 0;

    for (int32_t i = 1; i < GL_V; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

/* |a - b| / |b| */
static inline float gl_error(const float *a, const float *b, int64_t n)
{
    double diff = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return (float)sqrt(diff / size);
}

static inline void gl_check(const char *what, const struct golden *g,
                            const float *logits)
{
    for (int i = 0; i < GL_T; i++)
        if (gl_best(logits + i * GL_V) != g->top1[i])
            fail_msg("%s: after token %d the most likely is %d, golden %d", what, i,
                     gl_best(logits + i * GL_V), g->top1[i]);
    for (int r = 0; r < GL_ROWS; r++) {
        int at = (r + 1) * GL_EVERY - 1;
        float e = gl_error(logits + at * GL_V, g->rows[r], GL_V);
        if (!(e < gl_error_bound))
            fail_msg("%s: logits after token %d are off by %g", what, at, (double)e);
    }
}

#endif
