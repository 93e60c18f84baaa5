/*
 * sampling.c - options before the file's advice before defaults.
 */
#include "cli/sampling.h"

/* The key's number, whatever number type it has. False: absent or no number. */
static bool advice(const struct meta *m, const char *key, double *out)
{
    uint32_t u;
    float f;

    if (!meta_find(m, key))
        return false;
    if (meta_get_f32(m, key, &f, NULL) == B2_OK)
        *out = (double)f;
    else if (meta_get_u32(m, key, &u, NULL) == B2_OK)
        *out = u;
    else
        return false;
    return true;
}

static double number(double word, double low, double high, double def,
                     const struct meta *m, const char *key, bool *from_file)
{
    double v;

    if (word > SAMPLING_UNSET)
        return word;
    if (m && advice(m, key, &v) && v >= low && v <= high) {
        *from_file = true;
        return v;
    }
    return def;
}

struct sampler_params sampling_resolve(const struct sampling *s, const struct meta *m,
                                       bool chat, const struct cli_common *c)
{
    bool file = false;
    double top_k = s->top_k == INT64_MIN ? SAMPLING_UNSET : (double)s->top_k;
    double last_n = s->last_n == INT64_MIN ? SAMPLING_UNSET : (double)s->last_n;
    double temp;

    if (!chat)
        m = NULL;
    struct sampler_params p = {
        .top_k = (int64_t)number(top_k, 0, 1e6, 0, m, "general.sampling.top_k", &file),
        .top_p = (float)number(s->top_p, 0, 1, SAMPLING_UNSET, m,
                               "general.sampling.top_p", &file),
        .min_p = (float)number(s->min_p, 0, 1, 0, m, "general.sampling.min_p", &file),
        .repeat_penalty = (float)number(s->repeat, 0.1, 10, 1, m,
                                        "general.sampling.penalty_repeat", &file),
        .presence_penalty = (float)number(s->presence, 0, 0, 0, NULL, "", &file),
        .frequency_penalty = (float)number(s->frequency, 0, 0, 0, NULL, "", &file),
        .penalty_last_n = (int64_t)number(last_n, -1, 1 << 24, 64, m,
                                          "general.sampling.penalty_last_n", &file),
        .seed = (uint64_t)c->seed,
    };
    /* A file that advises on the rest but not on this means 1, as transformers does. */
    temp = number(s->temp, 0, 100, SAMPLING_UNSET, m, "general.sampling.temp", &file);
    if (temp <= SAMPLING_UNSET)
        temp = !chat ? 0.0 : file ? 1.0 : 0.7;
    if (p.top_p < 0)
        p.top_p = chat && !file ? 0.95f : 1.0f;
    p.temperature = (float)temp;
    if (chat) {
        struct log log = cli_log(c);
        log_line(
            &log, LOG_DEBUG,
            "sampling (%s): temperature %g, top-k %lld, top-p %g, min-p %g, repeat "
            "penalty %g, seed %lld",
            file ? "advice of the model, and options" : "defaults and options",
            (double)p.temperature, (long long)p.top_k, (double)p.top_p, (double)p.min_p,
            (double)p.repeat_penalty, (long long)c->seed);
    }
    return p;
}
