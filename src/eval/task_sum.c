/*
 * task_sum.c - figures from items.
 *
 * Wilson, "Probable inference, the law of succession, and statistical inference", 1927:
 *     (p + z²/2n ± z sqrt(p (1-p) / n + z²/4n²)) / (1 + z²/n)
 */
#include "eval/task_sum.h"

#include "eval/stats.h"
#include "format/json.h"

#include <math.h>
#include <string.h>

static const double z95 = 1.959963984540054;

void task_sum_wilson(double *low, double *high, double k, double n, double z)
{
    double p = k / n, z2 = z * z;
    double mid = p + z2 / (2.0 * n);
    double half = z * sqrt(p * (1.0 - p) / n + z2 / (4.0 * n * n));

    *low = fmax((mid - half) / (1.0 + z2 / n), 0.0);
    *high = fmin((mid + half) / (1.0 + z2 / n), 1.0);
}

static bool is_true(const cJSON *o, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static int64_t count_length(const cJSON *finish)
{
    const cJSON *e;
    int64_t n = 0;

    if (cJSON_IsString(finish))
        return strcmp(finish->valuestring, "length") == 0;
    cJSON_ArrayForEach(e, finish)
    {
        n += cJSON_IsString(e) && strcmp(e->valuestring, "length") == 0;
    }
    return n;
}

/* Adds what the line of an item tells beside its scores. *loglik: of the right choice. */
static bool read_line(struct task_sum *out, double *loglik, const struct item *it)
{
    cJSON *o = cJSON_Parse(it->rest);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "loglik"), *right;
    const cJSON *gold = cJSON_GetObjectItemCaseSensitive(o, "gold");
    bool known;

    out->n_cut += is_true(o, "truncated");
    out->n_unfinished += count_length(cJSON_GetObjectItemCaseSensitive(o, "finish"));
    right = cJSON_GetArrayItem(list, cJSON_IsNumber(gold) ? gold->valueint : 0);
    known = cJSON_IsNumber(right);
    if (known)
        *loglik += right->valuedouble;
    cJSON_Delete(o);
    return known;
}

void task_sum_make(struct task_sum *out, const struct item_set *s)
{
    struct stats st = {0};
    double loglik = 0.0, hits = 0.0;
    int64_t known = 0;
    bool binary = true;

    *out = (struct task_sum){0};
    for (int64_t i = 0; i < s->n; i++) {
        double x = s->item[i].score;
        stats_add(&st, x);
        hits += x;
        binary = binary && (x == 0.0 || x == 1.0);
        known += read_line(out, &loglik, &s->item[i]);
    }
    if (s->n == 0)
        return;
    out->mean = hits / (double)s->n;
    if (known == s->n)
        out->ppl = exp(-loglik / (double)s->n);
    if (binary) {
        task_sum_wilson(&out->low, &out->high, hits, (double)s->n, z95);
    } else {
        double half = z95 * stats_stderr(&st);
        out->low = fmax(out->mean - half, 0.0);
        out->high = fmin(out->mean + half, 1.0);
    }
}
