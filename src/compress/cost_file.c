/*
 * cost_file.c - costs to JSON and back.
 */
#include "compress/cost_file.h"

#include "base/file.h"
#include "base/mem.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20, VERSION = 2 };

/* The recipe without its budget and without what comes after the choice. */
void cost_file_key(const struct recipe *r, const char *source_sha256, struct str *out)
{
    struct recipe without = *r;

    without.budget = RECIPE_NO_BUDGET;
    without.mismatch = 0.0;
    without.refine = r->refine > 0;
    str_printf(out, "{\"source_sha256\":\"%s\",\"recipe\":", source_sha256);
    recipe_json(&without, out);
    str_put(out, "}");
}

static bool is_undecided(const struct choose_item *it)
{
    return it->n_candidates > 1;
}

/* ---- reading ---- */

/* The damage that types (an array of pairs) has for a name; NaN: none that is usable. */
static double find_damage(const cJSON *types, const char *name)
{
    const cJSON *pair;

    cJSON_ArrayForEach(pair, types)
    {
        const cJSON *type = cJSON_IsArray(pair) ? pair->child : NULL;
        const cJSON *nat = type ? type->next : NULL;
        if (type && nat && cJSON_IsString(type) && type->valuestring &&
            cJSON_IsNumber(nat) && strcmp(type->valuestring, name) == 0)
            return nat->valuedouble >= 0.0 ? nat->valuedouble : (double)NAN;
    }
    return (double)NAN;
}

static const cJSON *find_tensor(const cJSON *tensors, const cJSON **hint,
                                const char *name)
{
    const cJSON *from = *hint ? *hint : tensors->child;

    for (int turn = 0; turn < 2; turn++) {
        for (const cJSON *t = turn ? tensors->child : from; t; t = t->next) {
            const cJSON *id = cJSON_IsArray(t) ? t->child : NULL;
            if (id && cJSON_IsString(id) && id->valuestring &&
                cJSON_IsArray(id->next) && strcmp(id->valuestring, name) == 0) {
                *hint = t->next;
                return id->next;
            }
        }
    }
    return NULL;
}

static enum b2_status take(struct choose *c, const cJSON *tensors, struct b2_err *err)
{
    const cJSON *hint = NULL;

    for (int64_t i = 0; i < c->n; i++) {
        struct choose_item *it = &c->item[i];
        if (!is_undecided(it))
            continue;
        const cJSON *types = find_tensor(tensors, &hint, it->t->name);
        for (int k = 0; k < it->n_candidates; k++) {
            struct choose_candidate *cand = &it->candidate[k];
            char name[CHOOSE_NAME_MAX];
            double nat = find_damage(types, choose_name(name, cand));
            if (cand->copy)
                nat = 0.0;
            if (!isfinite(nat))
                return err_set(err, B2_EFORMAT,
                               "no cost of tensor %s as %s; remove the file to measure "
                               "again",
                               it->t->name, choose_name(name, cand));
            cand->damage = nat;
        }
    }
    return B2_OK;
}

enum b2_status cost_file_parse(struct choose *c, const char *text, size_t n,
                               const char *key, struct b2_err *err)
{
    cJSON *json = cJSON_ParseWithLength(text, n), *want = cJSON_Parse(key);
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(json, "bonsai2_costs");
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(json, "of");
    const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(json, "tensors");
    enum b2_status rc;

    if (!cJSON_IsNumber(version) || version->valueint != VERSION ||
        !cJSON_IsObject(of) || !cJSON_IsArray(tensors))
        rc = err_set(err, B2_EFORMAT,
                     "is no file of measured costs (version %d); name another, "
                     "or remove it to measure again",
                     VERSION);
    else if (!want || !cJSON_Compare(of, want, true))
        rc = err_set(err, B2_EARG,
                     "has costs of another source, calibration or recipe: name another "
                     "file, or remove it to measure again");
    else
        rc = take(c, tensors, err);
    cJSON_Delete(json);
    cJSON_Delete(want);
    return rc;
}

enum b2_status cost_file_read(struct choose *c, const char *path, const char *key,
                              bool *found, struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;

    *found = file_exists(path);
    if (!*found)
        return B2_OK;
    enum b2_status rc = file_read_all(&text, &n, path, MAX_BYTES, err);
    if (!rc)
        rc = cost_file_parse(c, text, n, key, err);
    if (rc)
        err_wrap(err, "--costs %s", path);
    mem_free(text);
    return rc;
}

/* ---- writing ---- */

enum b2_status cost_file_write(const struct choose *c, const char *path,
                               const char *key, struct b2_err *err)
{
    struct str s = {0};
    const char *comma = "\n";

    str_printf(&s, "{\"bonsai2_costs\":%d,\n\"of\":%s,\n\"tensors\":[", VERSION, key);
    for (int64_t i = 0; i < c->n; i++) {
        const struct choose_item *it = &c->item[i];
        if (!is_undecided(it))
            continue;
        str_printf(&s, "%s[", comma);
        recipe_json_string(&s, it->t->name);
        str_put(&s, ",[");
        for (int k = 0; k < it->n_candidates; k++) {
            char name[CHOOSE_NAME_MAX];
            str_printf(&s, "%s[\"%s\",%.17g]", k ? "," : "",
                       choose_name(name, &it->candidate[k]), it->candidate[k].damage);
        }
        str_put(&s, "]]");
        comma = ",\n";
    }
    str_put(&s, "\n]}\n");
    enum b2_status rc = str_ok(&s) ? file_write_all(path, s.data, s.len, true, err)
                                   : err_set(err, B2_ENOMEM, "costs: out of memory");
    str_free(&s);
    if (rc)
        err_wrap(err, "--costs");
    return rc;
}
