/*
 * act.c - an activation with its rotated and 8-bit forms, each made at most once.
 *
 * q, k and v read one activation, and so do gate and up: the rotation and the
 * quantisation are shared by all weights that ask for the same form.
 */
#include "backend/cpu/cpu_int.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum {
    TOKENS_CHUNK = 4,
    FEW_TOKENS = 16
}; /* of a piece; up to so many go one by one */

/* Byte offsets of the parts of one allocation; total is its size. */
struct act_layout {
    uint64_t x, rotated, q[2], p[2], e[2], ep[2], sum[2], s[2], d[2], total;
};

static uint64_t place(struct act_layout *l, uint64_t n_bytes)
{
    uint64_t at = l->total;

    l->total = align_up_u64(at + n_bytes, CPU_ALIGN);
    return at;
}

/* Products fit: the width is limited and tokens x width floats must exist anyway. */
static struct act_layout layout(const struct backend *be, int64_t max_tokens,
                                int64_t max_width)
{
    uint64_t n = (uint64_t)max_tokens * (uint64_t)max_width;
    /* Room for every type: rows of whole blocks of the widest, p of base-3 types. */
    uint64_t n_q =
        (uint64_t)max_tokens * align_up_u64((uint64_t)max_width, CPU_MAX_BLOCK);
    struct act_layout l = {0};

    l.x = place(&l, 4 * n);
    l.rotated = place(&l, 4 * n);
    for (int i = 0; i < 2 && !be->exact; i++) {
        l.q[i] = place(&l, n_q);
        l.p[i] = place(&l, n_q / 4 * 5);
        l.e[i] = place(&l, n_q);
        l.ep[i] = place(&l, n_q / 2);
        l.sum[i] = place(&l, 4 * (n_q / KQ_GROUP + (uint64_t)max_tokens));
        l.s[i] = place(&l, 4 * (n_q / KQ_GROUP));
        l.d[i] = place(&l, 4 * (uint64_t)max_tokens);
    }
    return l;
}

uint64_t backend_act_bytes(const struct backend *be, int64_t max_tokens,
                           int64_t max_width)
{
    return sizeof(struct act) + sizeof(struct act_cpu) +
           layout(be, max_tokens, max_width).total;
}

static float *floats_at(struct act_cpu *c, uint64_t offset)
{
    return (float *)(void *)(c->mem + offset);
}

static void bind_form(struct act_form *f, struct act_cpu *c, const struct act_layout *l,
                      int i)
{
    f->q.q = (int8_t *)(c->mem + l->q[i]);
    f->q.p = (int8_t *)(c->mem + l->p[i]);
    f->q.e = (int16_t *)(void *)(c->mem + l->e[i]);
    f->q.ep = (int16_t *)(void *)(c->mem + l->ep[i]);
    f->q.sum = (int32_t *)(void *)(c->mem + l->sum[i]);
    f->q.s = floats_at(c, l->s[i]);
    f->q.d = floats_at(c, l->d[i]);
}

enum b2_status act_new(struct act **out, struct backend *be, int64_t max_tokens,
                       int64_t max_width, struct b2_err *err)
{
    struct act *a = NULL;
    struct act_cpu *c;

    if (max_tokens < 1 || max_width < 1 || max_width > CPU_MAX_WIDTH ||
        max_tokens > INT32_MAX)
        return err_set(err, B2_EARG,
                       "activation of %lld tokens x %lld: the CPU backend takes widths "
                       "of 1 to %d",
                       (long long)max_tokens, (long long)max_width, CPU_MAX_WIDTH);
    struct act_layout l = layout(be, max_tokens, max_width);
    a = mem_calloc(1, sizeof *a);
    if (!a)
        goto fail;
    a->impl = c = mem_calloc(1, sizeof *c);
    if (!c)
        goto fail;
    c->mem = mem_aligned(CPU_ALIGN, 1, l.total);
    if (!c->mem)
        goto fail;
    c->max_tokens = max_tokens;
    c->max_width = max_width;
    a->x = floats_at(c, l.x);
    c->plain.x = a->x;
    c->turned.x = c->turned.rotated = floats_at(c, l.rotated);
    if (!be->exact) {
        bind_form(&c->plain, c, &l, 0);
        bind_form(&c->turned, c, &l, 1);
    }
    *out = a;
    return B2_OK;

fail:
    act_free(be, a);
    return err_set(err, B2_ENOMEM, "activation of %lld tokens x %lld: out of memory",
                   (long long)max_tokens, (long long)max_width);
}

void act_free(struct backend *be, struct act *a)
{
    (void)be;
    if (!a)
        return;
    if (a->impl)
        mem_free(((struct act_cpu *)a->impl)->mem);
    mem_free(a->impl);
    mem_free(a);
}

void act_changed(struct act *a, int64_t n_tokens, int64_t width)
{
    struct act_cpu *c = a->impl;

    assert(n_tokens <= c->max_tokens && width <= c->max_width);
    a->n_tokens = n_tokens;
    a->width = width;
    c->plain.have_x = true;
    c->turned.have_x = c->plain.have_q = c->turned.have_q = false;
}

struct form_job {
    const struct backend *be;
    const struct kernels *k;
    const struct act *a;
    struct act_form *f;
    bool make_x, make_q;
};

/* Token t in 8 bits. A width that the kernels do not take gets zeros behind it, in row
 * [CPU_MAX_WIDTH]. */
static void quantise(const struct form_job *j, int64_t t, const float *x, float *row)
{
    int64_t width = j->a->width, q_width = j->f->q.n;

    if (q_width > width) {
        memcpy(row, x, (size_t)width * sizeof *x);
        memset(row + width, 0, (size_t)(q_width - width) * sizeof *x);
        x = row;
    }
    j->k->act_quant(&j->f->q, t, x);
}

/* The heads of x in the order in which the weight was folded. */
static void reorder_heads(float *y, const float *x, const struct rotation *rot)
{
    const size_t bytes = (size_t)rot->head * sizeof *x;
    int64_t groups = rot->width / rot->head / rot->reps;

    for (int64_t g = 0; g < groups; g++)
        for (int64_t r = 0; r < rot->reps; r++)
            memcpy(y + (g * rot->reps + r) * rot->head,
                   x + (r * groups + g) * rot->head, bytes);
}

/* Order of heads, then signs, then the transform. */
static void rotate(const struct kernels *k, float *y, const float *x,
                   const struct rotation *rot)
{
    if (rot->head) {
        reorder_heads(y, x, rot);
        x = y;
    }
    if (rot->signs)
        k->mul(y, x, rot->signs, rot->width);
    else if (x != y)
        memcpy(y, x, (size_t)rot->width * sizeof *y);
    k->fwht(y, rot->width, rot->block);
}

static void form_part(void *ctx, int64_t begin, int64_t end, int thread)
{
    const struct form_job *j = ctx;
    struct act_form *f = j->f;
    int64_t width = j->a->width;

    for (int64_t t = begin; t < end; t++) {
        const float *x = j->a->x + t * width;
        if (f->rot) {
            float *y = f->rotated + t * width;
            if (j->make_x)
                rotate(j->k, y, x, f->rot);
            x = y;
        }
        if (j->make_q)
            quantise(j, t, x, cpu_scratch(j->be, thread));
    }
}

/* The form for rot, its parts that are asked for made. */
static struct act_form *make_form(struct backend *be, struct act *a,
                                  const struct rotation *rot, bool want_q,
                                  enum dtype type)
{
    struct act_cpu *c = a->impl;
    struct act_form *f = rot ? &c->turned : &c->plain;
    enum kq_order order = kernel_order(type);
    int64_t q_width = cpu_q_width(type, a->width);

    if (rot && f->rot != rot) {
        assert(rot->width == a->width);
        f->rot = rot;
        f->have_x = f->have_q = false;
    }
    if (want_q && (f->q.order != order || f->q.n != q_width))
        f->have_q = false;
    struct form_job j = {be, &be->k, a, f, !f->have_x, want_q && !f->have_q};

    if (j.make_q) {
        f->q.order = order;
        f->q.rows = a->n_tokens;
        f->q.n = q_width;
    }
    if (j.make_x || j.make_q)
        cpu_run(be, form_part, &j, a->n_tokens,
                a->n_tokens <= FEW_TOKENS ? 1 : TOKENS_CHUNK);
    f->have_x = true;
    f->have_q = f->have_q || want_q;
    return f;
}

const struct act_form *cpu_act_form(struct backend *be, struct act *a,
                                    const struct rotation *rot)
{
    return make_form(be, a, rot, false, DT_F32);
}

const struct act_form *cpu_act_form_q(struct backend *be, struct act *a,
                                      const struct rotation *rot, enum dtype type)
{
    return make_form(be, a, rot, true, type);
}
