/*
 * stream_probe.c - what is said at the end of the probe: divergences of the student so
 * far, and of single tensors.
 */
#include "compress/stream_int.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "compress/decode.h"

#include <math.h>
#include <string.h>

/* log(sum(exp(l))) */
static double log_sum(const float *l, int64_t n)
{
    double max = -(double)INFINITY, sum = 0.0;

    for (int64_t i = 0; i < n; i++)
        max = (double)l[i] > max ? (double)l[i] : max;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)l[i] - max);
    return max + log(sum);
}

/* Alone it is run for every tensor, and half as long does. */
static int64_t probe_tokens(const struct stream *s)
{
    return min_i64(s->p.alone ? PROBE_TOKENS / 2 : PROBE_TOKENS, s->p.ctx);
}

/* Runs layers from `from` on over what lies in the probe's residual stream; as everywhere
 * here, no more than a layer of the source stays in memory. */
static void probe_layers(struct stream *s, int side, int64_t from)
{
    int64_t n = probe_tokens(s);

    forward_rewind(&s->probe, 0); /* what gated delta nets remember of other runs */
    for (int64_t i = from; i < s->p.m->hp.n_layers; i++) {
        forward_layer(&s->probe, i, n, 0);
        for (int part = 0; part < N_ALL_PARTS; part++) {
            const struct weight *w = stream_weight(s->p.m, i, (enum stream_part)part);
            if (w)
                decode_drop(s->p.m, w);
        }
    }
    forward_head(&s->probe, n, min_i64(PROBE_ROWS, n), s->logits[side]);
    decode_drop(s->p.m, &s->p.m->head);
}

static void probe_logits(struct stream *s, int side, int64_t from)
{
    int64_t n = probe_tokens(s), d = s->p.m->hp.d;
    const float *x = s->x[side] + (s->p.n_seqs - 1) * s->p.ctx * d;

    memcpy(s->probe.x, x, (size_t)(n * d) * sizeof *x);
    probe_layers(s, side, from);
}

/* Mean over the probe's rows. */
static double divergence_of_logits(const struct stream *s)
{
    int64_t V = s->p.m->hp.vocab, rows = min_i64(PROBE_ROWS, s->p.ctx);
    double sum = 0.0;

    for (int64_t r = 0; r < rows; r++) {
        const float *t = s->logits[TEACHER] + r * V, *c = s->logits[STUDENT] + r * V;
        double zt = log_sum(t, V), zc = log_sum(c, V);
        for (int64_t v = 0; v < V; v++) {
            double p = exp((double)t[v] - zt);
            sum += p * (((double)t[v] - zt) - ((double)c[v] - zc));
        }
    }
    return sum / (double)rows;
}

double stream_divergence(struct stream *s, int64_t layer)
{
    if (!s->p.probe)
        return (double)NAN;
    probe_logits(s, STUDENT, layer + 1);
    return divergence_of_logits(s);
}

/* The probe through the rest of the layer, from where the teacher stands, with one part
 * of the student's (N_ALL_PARTS: none). */
static void probe_layer(struct stream *s, enum stream_part part, bool attention)
{
    int64_t seq = s->p.n_seqs - 1, size = s->p.ctx * s->p.m->hp.d;
    struct forward *f = &s->worker[0].f;
    float *own[N_ALL_PARTS];

    memcpy(own, s->w[STUDENT], sizeof own);
    memcpy(s->w[STUDENT], s->w[TEACHER], sizeof own);
    if (part != N_ALL_PARTS)
        s->w[STUDENT][part] = own[part];
    memcpy(s->x[STUDENT] + seq * size, s->x[TEACHER] + seq * size,
           (size_t)size * sizeof(float));
    if (attention) {
        stream_input(s, f, STUDENT, seq, INPUT_O);
        stream_product(s, STUDENT, PART_O, f->gate, f->act->x);
        forward_attn_output(f, s->layer, s->p.ctx);
    }
    stream_input(s, f, STUDENT, seq, INPUT_DOWN);
    stream_product(s, STUDENT, PART_DOWN, f->gate, f->act->x);
    forward_ffn_output(f, s->layer, s->p.ctx);
    memcpy(s->w[STUDENT], own, sizeof own);
}

/* The layers behind this one have the probe's own arithmetic (activations of 8 bits), so
 * the teacher is made the same way, once in each layer: the difference is the part's. */
double stream_damage(struct stream *s, enum stream_part part)
{
    bool attention = stream_input_of(part) < INPUT_FFN;

    if (s->base != s->layer) {
        probe_layer(s, N_ALL_PARTS, attention);
        probe_logits(s, STUDENT, s->layer + 1);
        memcpy(s->logits[TEACHER], s->logits[STUDENT],
               (size_t)(min_i64(PROBE_ROWS, probe_tokens(s)) * s->p.m->hp.vocab) *
                   sizeof(float));
        s->base = s->layer;
    }
    probe_layer(s, part, attention);
    return stream_divergence(s, s->layer);
}

double stream_damage_table(struct stream *s, const struct weight *table, bool embed,
                           bool head)
{
    const int32_t *ids = s->p.ids + (s->p.n_seqs - 1) * s->p.ctx;
    struct model with = *s->p.m;
    int64_t n = probe_tokens(s);

    if (s->base >= 0) { /* stream_damage() has another teacher */
        forward_embed(&s->probe, ids, n);
        probe_layers(s, TEACHER, 0);
        s->base = -1;
    }
    if (embed)
        with.embd = *table;
    if (head)
        with.head = *table;
    s->probe.m = &with;
    forward_embed(&s->probe, ids, n);
    probe_layers(s, STUDENT, 0);
    s->probe.m = s->p.m;
    return divergence_of_logits(s);
}

enum b2_status stream_make_probe(struct stream *s, struct b2_err *err)
{
    const struct model *m = s->p.m;
    struct backend_config cfg = {.pool = s->p.pool, .cpu = cpu_features()};
    size_t n = (size_t)(PROBE_ROWS * m->hp.vocab);
    const struct cache_params cache = stream_cache(min_i64(PROBE_TOKENS, s->p.ctx));
    enum b2_status rc = backend_cpu_new(&s->probe_be, &cfg, err);

    if (!rc)
        rc = forward_init(&s->probe, m, s->probe_be, &cache, err);
    s->logits[TEACHER] = mem_calloc(n, sizeof(float));
    s->logits[STUDENT] = mem_calloc(n, sizeof(float));
    if (!rc && (!s->logits[TEACHER] || !s->logits[STUDENT]))
        rc = err_set(err, B2_ENOMEM, "out of memory for the probe");
    if (!rc)
        probe_logits(s, TEACHER, 0);
    return rc;
}
