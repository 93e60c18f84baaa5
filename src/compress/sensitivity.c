/*
 * sensitivity.c - an analysis in memory and as JSON.
 */
#include "compress/sensitivity.h"

#include "base/file.h"
#include "base/mem.h"
#include "format/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_FILE = 256 << 20,
    MAX_LAYERS = 4096,
    MAX_COUNT = 1 << 20,
    MAX_VALUES = 1 << 24
};

static const char format_name[] = "bonsai2.sensitivity";

const double sens_share[SENS_SHARES] = {0.05, 0.1, 0.2, 0.3, 0.5};

static const char *const input_name[N_INPUTS] = {"attn", "attn_output", "ffn",
                                                 "ffn_down"};

/* ---- memory ---- */

static void unknown(double *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (double)NAN;
}

static void clear_layer(struct sens_layer *l)
{
    l->influence = l->skip = l->no_attn = l->no_ffn = l->damage = l->tolerable =
        (double)NAN;
    unknown(l->prune_kld, SENS_SHARES);
    for (int i = 0; i < N_INPUTS; i++)
        l->input[i] =
            (struct sens_input){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    for (int i = 0; i < N_PARTS; i++) {
        struct sens_tensor *t = &l->tensor[i];
        t->rms = t->cosine = t->error = t->damage = t->restore = t->fisher =
            t->fisher_damage = (double)NAN;
    }
}

enum b2_status sens_new(struct sensitivity *s, int64_t n_layers, struct b2_err *err)
{
    *s = (struct sensitivity){.n_layers = n_layers, .kld_all = (double)NAN};
    s->layer = mem_calloc((size_t)n_layers, sizeof *s->layer);
    if (!s->layer) {
        s->n_layers = 0;
        return err_set(err, B2_ENOMEM, "out of memory");
    }
    for (int64_t i = 0; i < n_layers; i++)
        clear_layer(&s->layer[i]);
    return B2_OK;
}

bool sens_layer_new(struct sens_layer *l, int64_t f, int64_t heads, int64_t kv_heads)
{
    l->f = f;
    l->heads = heads;
    l->kv_heads = kv_heads;
    l->neuron = mem_calloc((size_t)f, sizeof *l->neuron);
    l->head = mem_calloc((size_t)heads, sizeof *l->head);
    l->head_fisher = mem_calloc((size_t)heads, sizeof *l->head_fisher);
    if (!l->neuron || !l->head || !l->head_fisher)
        return false;
    for (int64_t i = 0; i < f; i++)
        l->neuron[i] = NAN;
    unknown(l->head, (size_t)heads);
    unknown(l->head_fisher, (size_t)heads);
    return true;
}

void sens_free(struct sensitivity *s)
{
    for (int64_t i = 0; s->layer && i < s->n_layers; i++) {
        mem_free(s->layer[i].neuron);
        mem_free(s->layer[i].head);
        mem_free(s->layer[i].head_fisher);
    }
    mem_free(s->layer);
    mem_free(s->source);
    mem_free(s->source_sha256);
    mem_free(s->arch);
    mem_free(s->calibration);
    mem_free(s->type);
    *s = (struct sensitivity){0};
}

double sens_tolerable(const double kld[SENS_SHARES], double tolerance)
{
    double share = 0.0, at = 0.0;

    if (!isfinite(kld[0]))
        return (double)NAN;
    for (int i = 0; i < SENS_SHARES && isfinite(kld[i]); i++) {
        if (kld[i] > tolerance) {
            const double rise = kld[i] - at;
            return rise > 0.0
                       ? share + (sens_share[i] - share) * (tolerance - at) / rise
                       : share;
        }
        share = sens_share[i];
        at = fmax(at, kld[i]);
    }
    return share;
}

/* ---- to JSON ---- */

/* A number with as many digits as it means. */
static cJSON *number(double v)
{
    char word[32];

    if (!isfinite(v))
        return cJSON_CreateNull();
    snprintf(word, sizeof word, "%.5g", v);
    return cJSON_CreateRaw(word);
}

static void put(cJSON *o, const char *key, double v)
{
    cJSON_AddItemToObject(o, key, number(v));
}

static cJSON *array(const double *v, int64_t n)
{
    cJSON *list = cJSON_CreateArray();

    for (int64_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, number(v[i]));
    return list;
}

static cJSON *inputs_json(const struct sens_layer *l)
{
    cJSON *list = cJSON_CreateArray();

    for (int i = 0; i < N_INPUTS; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", input_name[i]);
        put(o, "rms", l->input[i].rms);
        put(o, "max", l->input[i].max);
        put(o, "outlier_share", l->input[i].outliers);
        put(o, "top_column", l->input[i].top_column);
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

static cJSON *tensors_json(const struct sens_layer *l)
{
    cJSON *list = cJSON_CreateArray();

    for (int i = 0; i < N_PARTS; i++) {
        const struct sens_tensor *t = &l->tensor[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", t->name);
        put(o, "rms", t->rms);
        put(o, "output_cosine", t->cosine);
        put(o, "output_error", t->error);
        put(o, "damage_kld", t->damage);
        put(o, "restore_gain", t->restore);
        put(o, "fisher_mean", t->fisher);
        put(o, "fisher_damage", t->fisher_damage);
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

static cJSON *neurons_json(const struct sens_layer *l)
{
    cJSON *o = cJSON_CreateObject(), *list = cJSON_CreateArray();

    cJSON_AddNumberToObject(o, "n", (double)l->f);
    cJSON_AddNumberToObject(o, "dead", (double)l->dead);
    cJSON_AddNumberToObject(o, "off", (double)l->off);
    cJSON_AddNumberToObject(o, "saturated", (double)l->saturated);
    cJSON_AddItemToObject(o, "prune_kld", array(l->prune_kld, SENS_SHARES));
    put(o, "tolerable_share", l->tolerable);
    for (int64_t i = 0; i < l->f; i++)
        cJSON_AddItemToArray(list, number((double)l->neuron[i]));
    cJSON_AddItemToObject(o, "cost", list);
    return o;
}

static cJSON *layer_json(const struct sens_layer *l, int64_t at)
{
    cJSON *o = cJSON_CreateObject(), *heads = cJSON_CreateObject();

    cJSON_AddNumberToObject(o, "layer", (double)at);
    put(o, "block_influence", l->influence);
    put(o, "skip_kld", l->skip);
    put(o, "no_attn_kld", l->no_attn);
    put(o, "no_ffn_kld", l->no_ffn);
    put(o, "damage_kld", l->damage);
    cJSON_AddItemToObject(o, "inputs", inputs_json(l));
    cJSON_AddItemToObject(o, "tensors", tensors_json(l));
    cJSON_AddItemToObject(o, "neurons", neurons_json(l));
    cJSON_AddNumberToObject(heads, "n", (double)l->heads);
    cJSON_AddNumberToObject(heads, "n_kv", (double)l->kv_heads);
    cJSON_AddItemToObject(heads, "kld", array(l->head, l->heads));
    cJSON_AddItemToObject(heads, "fisher", array(l->head_fisher, l->heads));
    cJSON_AddItemToObject(o, "heads", heads);
    return o;
}

static void put_word(cJSON *o, const char *key, const char *word)
{
    cJSON_AddStringToObject(o, key, word ? word : "");
}

struct cJSON *sens_json(const struct sensitivity *s)
{
    cJSON *o = cJSON_CreateObject(), *list = cJSON_CreateArray();
    cJSON *calib = s->calibration ? cJSON_Parse(s->calibration) : NULL;

    put_word(o, "format", format_name);
    cJSON_AddNumberToObject(o, "version", 1);
    put_word(o, "model", s->source);
    put_word(o, "source_sha256", s->source_sha256);
    put_word(o, "arch", s->arch);
    cJSON_AddItemToObject(o, "calibration", calib ? calib : cJSON_CreateNull());
    put_word(o, "type", s->type);
    cJSON_AddNumberToObject(o, "tokens", (double)s->tokens);
    cJSON_AddNumberToObject(o, "probe_tokens", (double)s->probe_tokens);
    cJSON_AddNumberToObject(o, "fisher_tokens", (double)s->fisher_tokens);
    put(o, "tolerance_kld", s->tolerance);
    put(o, "kld_all", s->kld_all);
    cJSON_AddItemToObject(o, "shares", array(sens_share, SENS_SHARES));
    for (int64_t i = 0; i < s->n_layers; i++)
        cJSON_AddItemToArray(list, layer_json(&s->layer[i], i));
    cJSON_AddItemToObject(o, "layers", list);
    return o;
}

/* ---- from JSON ---- */

static double get(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

    return cJSON_IsNumber(v) && isfinite(v->valuedouble) ? v->valuedouble : (double)NAN;
}

static enum b2_status count(int64_t *out, const cJSON *o, const char *key, int64_t most,
                            struct b2_err *err)
{
    const double v = get(o, key);

    if (!(v >= 0.0 && v <= (double)most) || v != floor(v))
        return err_set(err, B2_EFORMAT, "%s is not a number in 0..%lld", key,
                       (long long)most);
    *out = (int64_t)v;
    return B2_OK;
}

/* n numbers (or nulls) of a list; a missing list leaves what is there. */
static enum b2_status numbers(double *to, float *to32, int64_t n, const cJSON *o,
                              const char *key, struct b2_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, key), *v;
    int64_t i = 0;

    if (!list)
        return B2_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
        return err_set(err, B2_EFORMAT, "%s is not a list of %lld numbers", key,
                       (long long)n);
    cJSON_ArrayForEach(v, list)
    {
        const double x = cJSON_IsNumber(v) ? v->valuedouble : (double)NAN;
        if (to)
            to[i] = x;
        if (to32)
            to32[i] = (float)x;
        i++;
    }
    return B2_OK;
}

static void read_inputs(struct sens_layer *l, const cJSON *o)
{
    const cJSON *v;

    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(o, "inputs"))
    {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(v, "name");
        for (int i = 0; i < N_INPUTS && cJSON_IsString(name); i++)
            if (strcmp(name->valuestring, input_name[i]) == 0)
                l->input[i] =
                    (struct sens_input){get(v, "rms"), get(v, "max"),
                                        get(v, "outlier_share"), get(v, "top_column")};
    }
}

static void read_tensors(struct sens_layer *l, const cJSON *o)
{
    const cJSON *v;
    int i = 0;

    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(o, "tensors"))
    {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(v, "name");
        struct sens_tensor *t = &l->tensor[i];
        if (!cJSON_IsString(name))
            continue;
        snprintf(t->name, sizeof t->name, "%s", name->valuestring);
        t->rms = get(v, "rms");
        t->cosine = get(v, "output_cosine");
        t->error = get(v, "output_error");
        t->damage = get(v, "damage_kld");
        t->restore = get(v, "restore_gain");
        t->fisher = get(v, "fisher_mean");
        t->fisher_damage = get(v, "fisher_damage");
        if (++i == N_PARTS)
            break;
    }
}

static enum b2_status read_layer(struct sens_layer *l, const cJSON *o,
                                 struct b2_err *err)
{
    const cJSON *neurons = cJSON_GetObjectItemCaseSensitive(o, "neurons");
    const cJSON *heads = cJSON_GetObjectItemCaseSensitive(o, "heads");
    int64_t f = 0, n = 0, kv = 0;
    enum b2_status rc = count(&f, neurons, "n", MAX_COUNT, err);

    if (!rc)
        rc = count(&n, heads, "n", MAX_COUNT, err);
    if (!rc)
        rc = count(&kv, heads, "n_kv", MAX_COUNT, err);
    if (!rc && !sens_layer_new(l, f, n, kv))
        rc = err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = count(&l->dead, neurons, "dead", f, err);
    if (!rc)
        rc = count(&l->off, neurons, "off", f, err);
    if (!rc)
        rc = count(&l->saturated, neurons, "saturated", f, err);
    if (!rc)
        rc = numbers(l->prune_kld, NULL, SENS_SHARES, neurons, "prune_kld", err);
    if (!rc)
        rc = numbers(NULL, l->neuron, f, neurons, "cost", err);
    if (!rc)
        rc = numbers(l->head, NULL, n, heads, "kld", err);
    if (!rc)
        rc = numbers(l->head_fisher, NULL, n, heads, "fisher", err);
    l->tolerable = get(neurons, "tolerable_share");
    l->influence = get(o, "block_influence");
    l->skip = get(o, "skip_kld");
    l->no_attn = get(o, "no_attn_kld");
    l->no_ffn = get(o, "no_ffn_kld");
    l->damage = get(o, "damage_kld");
    read_inputs(l, o);
    read_tensors(l, o);
    return rc;
}

static char *word_of(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

    return mem_strdup(cJSON_IsString(v) ? v->valuestring : "");
}

static enum b2_status read_words(struct sensitivity *s, const cJSON *json,
                                 struct b2_err *err)
{
    s->source = word_of(json, "model");
    s->source_sha256 = word_of(json, "source_sha256");
    s->arch = word_of(json, "arch");
    s->type = word_of(json, "type");
    s->tolerance = get(json, "tolerance_kld");
    s->kld_all = get(json, "kld_all");
    s->tokens = s->probe_tokens = s->fisher_tokens = 0;
    if (get(json, "tokens") >= 0.0 && get(json, "tokens") < 1e15)
        s->tokens = (int64_t)get(json, "tokens");
    if (!s->source || !s->source_sha256 || !s->arch || !s->type)
        return err_set(err, B2_ENOMEM, "out of memory");
    return B2_OK;
}

enum b2_status sens_read(struct sensitivity *s, const struct cJSON *json,
                         struct b2_err *err)
{
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(json, "format");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(json, "layers"), *l;
    int64_t n = cJSON_IsArray(layers) ? cJSON_GetArraySize(layers) : 0, i = 0;

    *s = (struct sensitivity){0};
    if (!cJSON_IsObject(json) || !cJSON_IsString(format) ||
        strcmp(format->valuestring, format_name) != 0)
        return err_set(err, B2_EFORMAT, "is no file of `bonsai2 analyze`");
    if (get(json, "version") != 1.0)
        return err_set(err, B2_EUNSUP, "version %g is not known here (1 is)",
                       get(json, "version"));
    if (n < 1 || n > MAX_LAYERS)
        return err_set(err, B2_EFORMAT, "layers is not a list of 1 to %d", MAX_LAYERS);
    enum b2_status rc = sens_new(s, n, err);
    if (!rc)
        rc = read_words(s, json, err);
    cJSON_ArrayForEach(l, layers)
    {
        if (rc)
            break;
        rc = read_layer(&s->layer[i], l, err);
        if (rc)
            err_wrap(err, "layer %lld", (long long)i);
        i++;
    }
    if (rc)
        sens_free(s);
    return rc;
}

enum b2_status sens_open(struct sensitivity *s, const char *path, struct b2_err *err)
{
    char *text = NULL;
    size_t size = 0;
    cJSON *json = NULL;
    enum b2_status rc = file_read_all(&text, &size, path, MAX_FILE, err);

    if (rc)
        return rc;
    rc = json_parse_bounded(&json, text, size, MAX_VALUES, err);
    if (!rc)
        rc = sens_read(s, json, err);
    if (rc)
        err_wrap(err, "%s", path);
    cJSON_Delete(json);
    mem_free(text);
    return rc;
}
