/*
 * sampler.c - processor time of one draw from a large vocabulary, by filter.
 *
 * usage: bench_sampler [VOCABULARY]
 * Logits are random: "peaked" as a model's are where it knows what comes next, "flat" as
 * they are where it does not (a hundred thousand candidates share the mass: the worst case
 * of top-p). Prints a line per filter: median milliseconds a token.
 */
#include "model/sampler.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { VOCABULARY = 151936, RUNS = 51 };

static const struct filter {
    const char *name;
    struct sampler_params p;
} filters[] = {
    {"greedy", {.top_p = 1.0f, .repeat_penalty = 1.0f}},
    {"temperature", {.temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f}},
    {"top-k 40",
     {.temperature = 1.0f, .top_k = 40, .top_p = 1.0f, .repeat_penalty = 1.0f}},
    {"top-p .9", {.temperature = 1.0f, .top_p = 0.9f, .repeat_penalty = 1.0f}},
    {"top-p .99", {.temperature = 1.0f, .top_p = 0.99f, .repeat_penalty = 1.0f}},
    {"min-p .05",
     {.temperature = 1.0f, .top_p = 1.0f, .min_p = 0.05f, .repeat_penalty = 1.0f}},
};

static double cpu_ms(void)
{
    return 1e3 * (double)clock() / CLOCKS_PER_SEC;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Median time of a draw; below 0: it failed. */
static double time_filter(const struct filter *f, const float *logits, int64_t vocab)
{
    struct sampler *s = NULL;
    double time[RUNS];
    int32_t id;
    bool ok = sampler_new(&s, &f->p, vocab, NULL) == B2_OK;

    for (int i = 0; i < RUNS && ok; i++) {
        double begin = cpu_ms();
        ok = sampler_pick(s, logits, &id, NULL) == B2_OK;
        time[i] = cpu_ms() - begin;
        sampler_accept(s, id);
    }
    sampler_free(s);
    qsort(time, RUNS, sizeof *time, compare);
    return ok ? time[RUNS / 2] : -1;
}

int main(int argc, char **argv)
{
    int64_t vocab = argc > 1 ? strtoll(argv[1], NULL, 10) : VOCABULARY;
    float *logits = vocab > 0 ? mem_calloc((size_t)vocab, sizeof *logits) : NULL;
    struct rng rng = rng_make(1);

    if (!logits) {
        fprintf(stderr, "usage: bench_sampler [VOCABULARY]\n");
        return EXIT_FAILURE;
    }
    printf("logits,vocabulary,filter,ms\n");
    for (int flat = 0; flat < 2; flat++) {
        for (int64_t i = 0; i < vocab; i++)
            logits[i] = (flat ? 0.5f : 3.0f) * (float)rng_normal(&rng);
        for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
            printf("%s,%lld,%s,%.3f\n", flat ? "flat" : "peaked", (long long)vocab,
                   filters[i].name, time_filter(&filters[i], logits, vocab));
    }
    mem_free(logits);
    return EXIT_SUCCESS;
}
