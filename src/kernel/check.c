/*
 * check.c - runs the checks of a kernel table: buffers, fills, comparison, result.
 */
#include "kernel/check.h"
#include "base/mem.h"
#include "tensor/f16.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SEED = 1, MARGIN = 64, MARGIN_BYTE = 0xa5 };

enum { AREA_BYTES = KCHECK_BUFFER_BYTES + 2 * MARGIN };

void *kcheck_buffer(struct kcheck *t, size_t n_bytes)
{
    assert(t->n_buffers < KCHECK_BUFFERS && n_bytes <= KCHECK_BUFFER_BYTES);
    uint8_t *area = t->buffer[t->n_buffers++];
    return t->front ? area : area + KCHECK_BUFFER_BYTES - n_bytes;
}

void kcheck_reset(struct kcheck *t)
{
    t->n_buffers = 0;
}

struct kq_act kcheck_act(struct kcheck *t, int64_t rows, int64_t n, enum kq_order order)
{
    size_t cells = (size_t)(rows * n), groups = cells / KQ_GROUP;

    return (struct kq_act){
        kcheck_buffer(t, cells),
        kcheck_buffer(t, (size_t)(rows * kq_p_step(order, n))),
        kcheck_buffer(t, cells),
        kcheck_buffer(t, (size_t)(rows * kq_ep_step(order, n)) * sizeof(int16_t)),
        kcheck_buffer(t, (groups + (size_t)rows) * sizeof(int32_t)),
        kcheck_buffer(t, groups * sizeof(float)),
        kcheck_buffer(t, (size_t)rows * sizeof(float)),
        rows,
        n,
        order,
    };
}

void kcheck_fail(struct kcheck *t, const char *what, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->n_failed++;
    if (t->report)
        t->report(t->ctx, what, text);
}

static float one_value(struct kcheck *t, enum kcheck_fill fill)
{
    static const float special[] = {NAN,    INFINITY, -INFINITY, 0.0f,    -0.0f,
                                    1.0f,   -1.0f,    3.4e38f,   1e-45f,  -1e-45f,
                                    127.5f, 0.5f,     -0.5f,     65504.f, 65520.f};
    float v = (float)rng_normal(&t->rng);

    switch (fill) {
    case KC_ZERO:
        return 0.0f;
    case KC_LARGE:
        return v * 1e18f;
    case KC_TINY:
        return v * 1e-38f;
    case KC_MIXED: /* magnitudes from 2^-20 to 2^20 */
        return ldexpf(v, (int)rng_below(&t->rng, 41) - 20);
    case KC_SPECIAL:
        return rng_below(&t->rng, 4) ? v
                                     : special[rng_below(&t->rng, countof(special))];
    default:
        return v;
    }
}

void kcheck_floats(struct kcheck *t, float *x, int64_t n, enum kcheck_fill fill)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = one_value(t, fill);
}

void kcheck_bytes(struct kcheck *t, void *p, size_t n)
{
    uint8_t *b = p;

    for (size_t i = 0; i < n; i++)
        b[i] = (uint8_t)rng_u64(&t->rng);
}

int64_t kcheck_diff(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (f32_bits(a[i]) != f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return i;
    return -1;
}

int kcheck_run(struct kcheck *t)
{
    static const struct kcheck_item *const lists[] = {kcheck_dot,   kcheck_unpack,
                                                      kcheck_float, kcheck_attn,
                                                      kcheck_delta, kcheck_sets};

    for (int front = 0; front < 2; front++) {
        t->front = front;
        for (size_t l = 0; l < countof(lists); l++)
            for (const struct kcheck_item *c = lists[l]; c->name; c++) {
                c->run(t);
                kcheck_reset(t);
                t->n_checks++;
                if (t->stop && t->n_failed)
                    return t->n_failed;
            }
    }
    return t->n_failed;
}

/* The checks of one level with what belongs to them. */
struct level_run {
    struct kcheck t;
    struct kcheck_result *out;
    void (*report)(void *ctx, const char *what, const char *text);
    void *ctx;
    uint8_t *areas; /* [KCHECK_BUFFERS][AREA_BYTES] */
};

static void on_failure(void *ctx, const char *what, const char *text)
{
    struct level_run *r = ctx;

    if (r->t.n_failed == 1) {
        snprintf(r->out->what, sizeof r->out->what, "%s", what);
        snprintf(r->out->text, sizeof r->out->text, "%s", text);
    }
    if (r->report)
        r->report(r->ctx, what, text);
}

/* A kernel that wrote outside its buffers cannot be told from the others afterwards. */
static void check_margins(struct level_run *r)
{
    for (int i = 0; i < KCHECK_BUFFERS; i++) {
        const uint8_t *lo = r->areas + (size_t)i * AREA_BYTES;
        const uint8_t *hi = lo + MARGIN + KCHECK_BUFFER_BYTES;
        for (int j = 0; j < MARGIN; j++)
            if (lo[j] != MARGIN_BYTE || hi[j] != MARGIN_BYTE) {
                kcheck_fail(&r->t, "memory", "a kernel wrote outside its output");
                return;
            }
    }
}

enum b2_status kcheck_level(struct kcheck_result *out, unsigned cpu,
                            void (*report)(void *ctx, const char *what,
                                           const char *text),
                            void *ctx, struct b2_err *err)
{
    struct level_run *r = mem_calloc(1, sizeof *r);

    *out = (struct kcheck_result){0};
    if (r)
        r->areas = mem_aligned(MARGIN, KCHECK_BUFFERS, AREA_BYTES);
    if (!r || !r->areas) {
        mem_free(r);
        return err_set(err, B2_ENOMEM, "kernel checks: out of memory");
    }
    memset(r->areas, MARGIN_BYTE, (size_t)KCHECK_BUFFERS * AREA_BYTES);
    for (int i = 0; i < KCHECK_BUFFERS; i++)
        r->t.buffer[i] = r->areas + (size_t)i * AREA_BYTES + MARGIN;
    r->out = out;
    r->report = report;
    r->ctx = ctx;
    r->t.report = on_failure;
    r->t.ctx = r;
    r->t.rng = rng_make(SEED);
    kernels_init(&r->t.k, cpu);
    kernels_init(&r->t.ref, 0);
    kcheck_run(&r->t);
    check_margins(r);
    out->n_checks = r->t.n_checks;
    out->n_failed = r->t.n_failed;
    mem_free(r->areas);
    mem_free(r);
    return B2_OK;
}
