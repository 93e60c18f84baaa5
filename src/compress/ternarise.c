/*
 * ternarise.c - the four rules.
 *
 * Least squares. For codes t with k non-zeros the best scale is s = sum(w t) / k, and
 * the error is sum w^2 - (sum w t)^2 / k. For a given k the sum is largest when the k
 * largest |w| are kept, each with the sign of its weight. So the optimum over all 3^n
 * codes is the k that maximises (sum of the k largest)^2 / k: one sort, one pass. At the
 * optimum exactly the weights with |w| > s/2 are kept, which is how the codes are found
 * again after the scale was rounded to FP16.
 *
 * Words of four codes with at least one zero (tensor/quad.h): it costs nothing to give the
 * zero to the smallest of the four. So the optimum is that of the other three quarters, but
 * for the one word of three non-zeros that is missing; there the nearest other one is taken
 * and the scale stays.
 */
#include "compress/ternarise.h"

#include "compress/words.h"
#include "tensor/quant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name, *scale;
} rules[N_TERNARISE_RULES] = {
    [TERNARISE_LS] = {"ls", "least squares"},
    [TERNARISE_ROUND] = {"round", "mean of all magnitudes"},
    [TERNARISE_THRESHOLD] = {"threshold", "mean of kept magnitudes"},
    [TERNARISE_TWN] = {"twn", "mean of kept magnitudes"},
};

const char *ternarise_rule_name(enum ternarise_rule r)
{
    return rules[r].name;
}

const char *ternarise_scale_name(enum ternarise_rule r)
{
    return rules[r].scale;
}

bool ternarise_rule_from_name(enum ternarise_rule *out, const char *name)
{
    for (int r = 0; r < N_TERNARISE_RULES; r++) {
        if (strcmp(rules[r].name, name) == 0) {
            *out = (enum ternarise_rule)r;
            return true;
        }
    }
    return false;
}

/* Insertion sort, largest first; for the short runs below. */
static void sort_run(float *a, int n)
{
    for (int i = 1; i < n; i++) {
        float x = a[i];
        int j = i;
        for (; j > 0 && a[j - 1] < x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

/* Sorts n magnitudes, largest first: merge sort between a and tmp, both [n]. A call of
 * qsort costs several times as much here, and this is the inner loop of every rounding
 * of a model. Returns the array that holds the result. */
static float *sort_magnitudes(float *a, float *tmp, int n)
{
    enum { RUN = 8 };

    for (int i = 0; i < n; i += RUN)
        sort_run(a + i, n - i < RUN ? n - i : RUN);
    for (int width = RUN; width < n; width *= 2) {
        for (int lo = 0; lo < n; lo += 2 * width) {
            int mid = lo + width < n ? lo + width : n;
            int hi = lo + 2 * width < n ? lo + 2 * width : n;
            int i = lo, j = mid;
            for (int k = lo; k < hi; k++) {
                bool left = j >= hi || (i < mid && a[i] >= a[j]);
                tmp[k] = left ? a[i++] : a[j++];
            }
        }
        float *swap = a;
        a = tmp;
        tmp = swap;
    }
    return a;
}

/* The scale of the best k, from magnitudes in any order (overwritten). */
static double scale_ls(float *mag, int n)
{
    float tmp[TERNARISE_MAX_GROUP];
    const float *a = sort_magnitudes(mag, tmp, n);
    double sum = 0.0, best = 0.0, scale = 0.0;

    for (int k = 1; k <= n; k++) {
        sum += (double)a[k - 1];
        double gain = sum * sum / k;
        if (gain > best) { /* the smaller k wins a tie */
            best = gain;
            scale = sum / k;
        }
    }
    return scale;
}

/* Sets the smallest of each four magnitudes to 0. */
static void drop_quarter(float *mag, int n)
{
    for (int i = 0; i + QUAD <= n; i += QUAD) {
        int least = i;
        for (int k = i + 1; k < i + QUAD; k++)
            least = mag[k] < mag[least] ? k : least;
        mag[least] = 0.0f;
    }
}

/* Makes words of the codes of w: the nearest ones under least squares, else what remains
 * without the smallest weights. */
static void make_words(int8_t *codes, const float *w, int n, float scale,
                       enum ternarise_rule rule)
{
    float t[TERNARISE_MAX_GROUP];

    if (rule != TERNARISE_LS && rule != TERNARISE_ROUND) {
        quad_drop_smallest(codes, w, n);
        return;
    }
    for (int i = 0; i < n; i++)
        t[i] = w[i] / scale;
    words_project(codes, t, NULL, n);
}

/* Mean of the magnitudes that pass the cut; 0 when none does. */
static double mean_kept(const float *mag, int n, double cut, bool equal_passes)
{
    double sum = 0.0;
    int kept = 0;

    for (int i = 0; i < n; i++) {
        double m = (double)mag[i];
        if (m > cut || (equal_passes && m == cut)) {
            sum += m;
            kept++;
        }
    }
    return kept ? sum / kept : 0.0;
}

bool ternarise_group(int8_t *codes, float *scale, const float *w, int n,
                     enum ternarise_rule rule)
{
    return ternarise_group_as(DT_PTQ1_0, codes, scale, w, n, rule);
}

bool ternarise_group_as(enum dtype t, int8_t *codes, float *scale, const float *w,
                        int n, enum ternarise_rule rule)
{
    float mag[TERNARISE_MAX_GROUP];
    double sum = 0.0, s = 0.0, cut = 0.0;
    bool equal_passes = rule == TERNARISE_THRESHOLD;
    bool words = (dtype_info(t)->flags & DTF_QUADS) != 0;

    assert(n > 0 && n <= TERNARISE_MAX_GROUP);
    for (int i = 0; i < n; i++) {
        mag[i] = fabsf(w[i]);
        sum += (double)mag[i];
    }
    double mean = sum / n;
    if (rule == TERNARISE_LS) {
        float sorted[TERNARISE_MAX_GROUP];
        memcpy(sorted, mag, (size_t)n * sizeof *mag);
        if (words)
            drop_quarter(sorted, n);
        s = scale_ls(sorted, n);
    } else if (rule == TERNARISE_ROUND) {
        s = mean;
    } else {
        cut = rule == TERNARISE_TWN ? 0.7 * mean : mean;
        s = mean_kept(mag, n, cut, equal_passes);
    }

    *scale = quant_ternary_scale(t, (float)s);
    if (isinf(*scale))
        return false;
    memset(codes, 0, (size_t)n);
    if (*scale == 0.0f)
        return true;
    if (rule == TERNARISE_LS || rule == TERNARISE_ROUND) {
        cut = 0.5 * (double)*scale;
        equal_passes = rule == TERNARISE_ROUND; /* halves round away from zero */
    }
    for (int i = 0; i < n; i++)
        if ((double)mag[i] > cut || (equal_passes && (double)mag[i] == cut))
            codes[i] = w[i] < 0.0f ? -1 : 1;
    if (words)
        make_words(codes, w, n, *scale, rule);
    return true;
}
