/*
 * sampler.c - penalties, filters and the draw.
 *
 *   l_i   penalised logits
 *   p_i   = exp((l_i - max l) / temperature), not normalised
 *   top-k keeps the k largest; top-p the shortest prefix, in falling order, whose share of
 *   what is left reaches top_p; min-p those with p_i >= min_p * max p; then one draw.
 *
 * Nothing is sorted that need not be: a whole sort of a large vocabulary would cost more
 * than the head of a small model. top-k empties a heap as far as it looks; top-p adds up
 * classes of magnitude, and only the class in which its sum ends is looked at closely.
 * The penalties follow llama.cpp: the prompt's tokens count too.
 */
#include "model/sampler.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

struct cand {
    double p; /* exp of the scaled logit, 1 at the largest */
    int32_t id;
};

struct sampler {
    struct sampler_params par;
    int64_t vocab;
    struct rng rng;
    float *logits;      /* [vocab] penalised copy */
    struct cand *heap;  /* [vocab], a heap for top-k only */
    int32_t *count;     /* [vocab] occurrences among the tokens looked back at */
    int32_t *recent;    /* ring of penalty_last_n accepted tokens */
    int64_t n_accepted; /* in all; the ring's end is this modulo penalty_last_n */
};

static enum b2_status check_params(const struct sampler_params *p, int64_t vocab,
                                   struct b2_err *err)
{
    const struct {
        const char *name;
        double value, min, max;
    } ranges[] = {
        {"temperature", (double)p->temperature, 0, 1000},
        {"top-k", (double)p->top_k, 0, INT32_MAX},
        {"top-p", (double)p->top_p, 0, 1},
        {"min-p", (double)p->min_p, 0, 1},
        {"repeat penalty", (double)p->repeat_penalty, 1e-3, 1000},
        {"presence penalty", (double)p->presence_penalty, -1000, 1000},
        {"frequency penalty", (double)p->frequency_penalty, -1000, 1000},
        {"penalty last n", (double)p->penalty_last_n, -1, 1 << 24},
    };

    if (vocab < 1 || vocab > INT32_MAX)
        return err_set(err, B2_EARG, "vocabulary of %lld", (long long)vocab);
    for (size_t i = 0; i < countof(ranges); i++)
        if (!(ranges[i].value >= ranges[i].min && ranges[i].value <= ranges[i].max))
            return err_set(err, B2_EARG, "%s %g is not in %g..%g", ranges[i].name,
                           ranges[i].value, ranges[i].min, ranges[i].max);
    return B2_OK;
}

enum b2_status sampler_new(struct sampler **out, const struct sampler_params *p,
                           int64_t vocab, struct b2_err *err)
{
    enum b2_status rc = check_params(p, vocab, err);
    struct sampler *s;

    if (rc)
        return rc;
    s = mem_calloc(1, sizeof *s);
    if (!s)
        return err_set(err, B2_ENOMEM, "out of memory");
    s->par = *p;
    s->vocab = vocab;
    s->logits = mem_calloc((size_t)vocab, sizeof *s->logits);
    s->heap = mem_calloc((size_t)vocab, sizeof *s->heap);
    s->count = mem_calloc((size_t)vocab, sizeof *s->count);
    s->recent = mem_calloc((size_t)max_i64(p->penalty_last_n, 0), sizeof *s->recent);
    if (!s->logits || !s->heap || !s->count || !s->recent) {
        sampler_free(s);
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    sampler_reset(s);
    *out = s;
    return B2_OK;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    mem_free(s->logits);
    mem_free(s->heap);
    mem_free(s->count);
    mem_free(s->recent);
    mem_free(s);
}

void sampler_reset(struct sampler *s)
{
    s->rng = rng_make(s->par.seed);
    s->n_accepted = 0;
    memset(s->count, 0, (size_t)s->vocab * sizeof *s->count);
}

void sampler_accept(struct sampler *s, int32_t id)
{
    const int64_t last_n = s->par.penalty_last_n;

    if (last_n == 0 || id < 0 || id >= s->vocab)
        return;
    if (last_n > 0) {
        int32_t *slot = &s->recent[s->n_accepted % last_n];
        if (s->n_accepted >= last_n)
            s->count[*slot]--;
        *slot = id;
    }
    s->count[id]++;
    s->n_accepted++;
}

static bool penalises(const struct sampler *s)
{
    return s->par.repeat_penalty != 1.0f || s->par.presence_penalty != 0.0f ||
           s->par.frequency_penalty != 0.0f;
}

static float penalised(const struct sampler *s, float l, int32_t count)
{
    if (count == 0)
        return l;
    l = l > 0.0f ? l / s->par.repeat_penalty : l * s->par.repeat_penalty;
    return l - (float)count * s->par.frequency_penalty - s->par.presence_penalty;
}

/* Checks all logits, writes the penalised copy, gives the best id (ties: the smallest). */
static enum b2_status prepare(struct sampler *s, const float *logits, int32_t *best,
                              struct b2_err *err)
{
    const bool penalty = penalises(s);
    float max = -INFINITY;

    *best = -1;
    for (int64_t i = 0; i < s->vocab; i++) {
        float l = logits[i];
        if (isnan(l) || l == INFINITY)
            return err_set(err, B2_EFORMAT,
                           "the logit of token %lld is %s: the model or its file is "
                           "broken",
                           (long long)i, isnan(l) ? "not a number" : "infinite");
        s->logits[i] = penalty ? penalised(s, l, s->count[i]) : l;
        if (s->logits[i] > max) {
            max = s->logits[i];
            *best = (int32_t)i;
        }
    }
    if (*best < 0)
        return err_set(err, B2_EFORMAT, "no token has a finite logit");
    return B2_OK;
}

/* Falling probability, then rising id. */
static bool before(const struct cand *a, const struct cand *b)
{
    return a->p > b->p || (a->p == b->p && a->id < b->id);
}

static void sift_down(struct cand *h, int64_t n, int64_t i)
{
    struct cand top = h[i];

    for (int64_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && before(&h[k + 1], &h[k]))
            k++;
        if (!before(&h[k], &top))
            break;
        h[i] = h[k];
    }
    h[i] = top;
}

/* Moves the n_want best of the heap's n to its end, the best last. */
static void take_best(struct cand *h, int64_t n, int64_t n_want)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift_down(h, n, i);
    while (n_want-- > 0) {
        struct cand best = h[0];
        n--;
        h[0] = h[n];
        h[n] = best;
        sift_down(h, n, 0);
    }
}

/* Classes of p in 0..1, the largest first: eight for each power of two down to 2^-127. */
enum { N_CLASSES = 1024, FEW = 16 };

static int class_of(double p)
{
    const uint64_t one = 0x3ff0000000000000u;
    uint64_t bits, c;

    memcpy(&bits, &p, sizeof bits);
    c = (one - bits) >> 49;
    return c < N_CLASSES ? (int)c : N_CLASSES - 1;
}

/* Keeps the candidates of classes up to last, without a branch that nobody could foresee;
 * returns how many. */
static int64_t keep_classes(struct cand *c, int64_t n, int last)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++) {
        c[kept] = c[i];
        kept += class_of(c[i].p) <= last;
    }
    return kept;
}

/* Drops most of the candidates that cannot be among the n_want best; returns how many are
 * left. */
static int64_t near_best(struct cand *c, int64_t n, int64_t n_want)
{
    int64_t count[N_CLASSES] = {0}, sum = 0;
    int last = 0;

    for (int64_t i = 0; i < n; i++)
        count[class_of(c[i].p)]++;
    while (last < N_CLASSES - 1 && (sum += count[last]) < n_want)
        last++;
    return keep_classes(c, n, last);
}

static void swap_cands(struct cand *a, struct cand *b)
{
    struct cand was = *a;

    *a = *b;
    *b = was;
}

/* Puts what is before the middle one of three candidates first; returns how many. */
static int64_t split(struct cand *c, int64_t n)
{
    int64_t m = n / 2, k = 0;

    if (before(&c[m], &c[0]))
        swap_cands(&c[m], &c[0]);
    if (before(&c[n - 1], &c[m]))
        swap_cands(&c[n - 1], &c[m]);
    if (before(&c[m], &c[0]))
        swap_cands(&c[m], &c[0]);
    swap_cands(&c[m], &c[n - 1]); /* the pivot waits at the end */
    for (int64_t i = 0; i < n - 1; i++)
        if (before(&c[i], &c[n - 1]))
            swap_cands(&c[i], &c[k++]);
    swap_cands(&c[k], &c[n - 1]);
    return k;
}

/* Puts the shortest prefix in falling order whose sum reaches enough first; returns its
 * length, n if all together do not. Linear time as a rule. */
static int64_t prefix_of(struct cand *c, int64_t n, double enough)
{
    int64_t done = 0;
    double sum = 0.0;

    while (n - done > FEW) {
        int64_t k = done + split(c + done, n - done);
        double part = sum;
        for (int64_t i = done; i < k; i++)
            part += c[i].p;
        if (part >= enough) {
            n = k; /* the pivot itself is not needed */
            continue;
        }
        sum = part + c[k].p;
        done = k + 1;
        if (sum >= enough)
            return done;
    }
    for (; done < n && sum < enough; done++) {
        int64_t best = done;
        for (int64_t i = done + 1; i < n; i++)
            if (before(&c[i], &c[best]))
                best = i;
        swap_cands(&c[done], &c[best]);
        sum += c[done].p;
    }
    return done;
}

/* The same for a whole vocabulary: classes that surely belong stay unordered. */
static int64_t top_prefix(struct cand *c, int64_t n, double enough)
{
    double sum[N_CLASSES] = {0.0}, sure = 0.0;
    int last = 0;
    int64_t within, front = 0;

    for (int64_t i = 0; i < n; i++)
        sum[class_of(c[i].p)] += c[i].p;
    while (last < N_CLASSES - 1 && sure + sum[last] < enough)
        sure += sum[last++];
    within = keep_classes(c, n, last);
    for (int64_t i = 0; i < within; i++)
        if (class_of(c[i].p) < last)
            swap_cands(&c[i], &c[front++]);
    return front + prefix_of(c + front, within - front, enough - sure);
}

/* One draw from c[n] by weight. Rounding may leave the draw past the end: then it is the
 * last one that has any weight. */
static int32_t draw(struct rng *rng, const struct cand *c, int64_t n)
{
    double sum = 0.0, at;
    int32_t id = c[0].id;

    for (int64_t i = 0; i < n; i++)
        sum += c[i].p;
    at = rng_f64(rng) * sum;
    for (int64_t i = 0; i < n && at >= 0.0; i++) {
        at -= c[i].p;
        if (c[i].p > 0.0)
            id = c[i].id;
    }
    return id;
}

/* Filters and draws; s->logits[best] is the largest. */
static int32_t sample(struct sampler *s, int32_t best)
{
    const struct sampler_params *par = &s->par;
    const double max = (double)s->logits[best], t = (double)par->temperature;
    struct cand *c = s->heap;
    int64_t n = s->vocab, kept = 0;
    double total = 0.0;

    for (int64_t i = 0; i < n; i++) {
        c[i] = (struct cand){exp(((double)s->logits[i] - max) / t), (int32_t)i};
        total += c[i].p; /* beside exp it costs nothing */
    }
    if (par->top_k > 0 && par->top_k < n) {
        n = near_best(c, n, par->top_k);
        take_best(c, n, par->top_k);
        c += n - par->top_k;
        n = par->top_k;
        total = 0.0;
        for (int64_t i = 0; i < n; i++)
            total += c[i].p;
    }
    if (par->top_p < 1.0f) {
        if (par->top_p <= 0.0f) /* still keeps the best */
            return best;
        n = top_prefix(c, n, (double)par->top_p * total);
    }
    if (par->min_p <= 0.0f)
        return draw(&s->rng, c, n);
    for (int64_t i = 0; i < n; i++)
        if (c[i].p >= (double)par->min_p)
            c[kept++] = c[i];
    return draw(&s->rng, c, kept);
}

enum b2_status sampler_pick(struct sampler *s, const float *logits, int32_t *id,
                            struct b2_err *err)
{
    int32_t best;
    enum b2_status rc = prepare(s, logits, &best, err);

    if (rc == B2_OK)
        *id = s->par.temperature == 0.0f ? best : sample(s, best);
    return rc;
}
