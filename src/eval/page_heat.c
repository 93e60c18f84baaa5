/*
 * page_heat.c - a table of a model's layers from a sensitivity file, coloured by value.
 *
 * What is read of the file: "format", "model", "type" and of each of "layers" the numbers
 * "damage_kld", "no_attn_kld", "no_ffn_kld" and of its "tensors" "name", "damage_kld",
 * "output_error". All may be missing: a number that was not measured is a dash.
 */
#include "eval/page_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TENSORS = 16, MAX_LAYERS = 1024, N_WHOLE = 3, NAME = 48 };

static const char heat_format[] = "bonsai2.sensitivity";

/* Of whole layers; each column has a scale of its own. */
static const struct {
    const char *key, *name;
} whole[N_WHOLE] = {
    {"damage_kld", "whole layer"},
    {"no_attn_kld", "no attention"},
    {"no_ffn_kld", "no feed-forward"},
};

struct heat {
    const cJSON *layers;
    const char *key;                /* of a tensor: damage_kld, or output_error */
    char tensor[MAX_TENSORS][NAME]; /* names without layer and ".weight" */
    int n_tensors;
    double most, most_whole[N_WHOLE]; /* ends of the scales */
};

bool page_is_heat(const cJSON *result)
{
    return strcmp(page_word(result, "format"), heat_format) == 0;
}

enum b2_status page_heat_check(const cJSON *result, struct b2_err *err)
{
    const cJSON *layers = page_list(result, "layers"), *l;
    int n = cJSON_GetArraySize(layers);

    cJSON_ArrayForEach(l, layers)
    {
        if (!cJSON_IsObject(l))
            n = 0;
    }
    if (n < 1 || n > MAX_LAYERS)
        return err_set(err, B2_EFORMAT,
                       "a sensitivity file needs \"layers\", a list of 1 to %d objects",
                       MAX_LAYERS);
    return B2_OK;
}

/* "attn_q" of "blk.3.attn_q.weight". */
static void short_name(char *out, const char *name)
{
    static const char end[] = ".weight";
    size_t n;

    if (strncmp(name, "blk.", 4) == 0 && strchr(name + 4, '.'))
        name = strchr(name + 4, '.') + 1;
    (void)snprintf(out, NAME, "%s", name);
    n = strlen(out);
    if (n > strlen(end) && strcmp(out + n - strlen(end), end) == 0)
        out[n - strlen(end)] = '\0';
}

static int find_tensor(const struct heat *h, const char *name)
{
    int i = 0;

    while (i < h->n_tensors && strcmp(h->tensor[i], name) != 0)
        i++;
    return i;
}

/* The number of tensor i in a layer, PAGE_NONE: not there. */
static double tensor_value(const struct heat *h, const cJSON *layer, int i)
{
    const cJSON *t;
    char name[NAME];

    cJSON_ArrayForEach(t, page_list(layer, "tensors"))
    {
        short_name(name, page_word(t, "name"));
        if (strcmp(name, h->tensor[i]) == 0)
            return page_num(t, h->key);
    }
    return PAGE_NONE;
}

static bool any_number(const cJSON *layers, const char *key)
{
    const cJSON *l, *t;

    cJSON_ArrayForEach(l, layers)
    {
        cJSON_ArrayForEach(t, page_list(l, "tensors"))
        {
            if (isfinite(page_num(t, key)))
                return true;
        }
    }
    return false;
}

static struct heat gather(const cJSON *file)
{
    struct heat h = {.layers = page_list(file, "layers"), .key = "damage_kld"};
    const cJSON *l, *t;

    if (!any_number(h.layers, h.key))
        h.key = "output_error";
    cJSON_ArrayForEach(l, h.layers)
    {
        cJSON_ArrayForEach(t, page_list(l, "tensors"))
        {
            char name[NAME];
            short_name(name, page_word(t, "name"));
            int i = find_tensor(&h, name);
            if (i == MAX_TENSORS)
                continue;
            if (i == h.n_tensors)
                memcpy(h.tensor[h.n_tensors++], name, NAME);
            h.most = fmax(h.most, page_num(t, h.key)); /* fmax passes over a NaN */
        }
        for (int i = 0; i < N_WHOLE; i++)
            h.most_whole[i] = fmax(h.most_whole[i], page_num(l, whole[i].key));
    }
    return h;
}

/* Three digits of the largest value of the scale; the rest of the column likewise. */
static void put_cell(struct str *out, double v, double most)
{
    int digits = most > 0.0 ? 2 - (int)floor(log10(most)) : 0;

    if (!isfinite(v)) {
        str_put(out, "<td>–</td>");
        return;
    }
    digits = digits < 0 ? 0 : digits > 6 ? 6 : digits;
    double dark = most > 0.0 && v > 0.0 ? sqrt(fmin(v / most, 1.0)) : 0.0;
    str_printf(out, "<td><i style=\"opacity:%.2f\"></i><span>%.*f</span></td>",
               0.75 * dark, digits, fabs(v) < 0.5 * pow(10, -digits) ? 0.0 : v);
}

static void put_table(struct str *out, const struct heat *h)
{
    const cJSON *l;
    int row = 0;

    str_put(out, "<div class=\"scroll\"><table class=\"heat\"><tr><th>layer</th>");
    for (int i = 0; i < h->n_tensors; i++) {
        str_put(out, "<th>");
        page_name(out, h->tensor[i]);
        str_put(out, "</th>");
    }
    for (int i = 0; i < N_WHOLE; i++)
        if (h->most_whole[i] > 0.0)
            str_printf(out, "<th>%s</th>", whole[i].name);
    str_put(out, "</tr>\n");
    cJSON_ArrayForEach(l, h->layers)
    {
        double number = page_num(l, "layer");
        str_printf(out, "<tr><td>%.0f</td>", isfinite(number) ? number : row);
        for (int i = 0; i < h->n_tensors; i++)
            put_cell(out, tensor_value(h, l, i), h->most);
        for (int i = 0; i < N_WHOLE; i++)
            if (h->most_whole[i] > 0.0)
                put_cell(out, page_num(l, whole[i].key), h->most_whole[i]);
        str_put(out, "</tr>\n");
        row++;
    }
    str_put(out, "</table></div>\n");
}

void page_heat(struct str *out, const struct page *r)
{
    if (r->n_heat == 0)
        return;
    str_put(out, "<h2>Layers</h2>\n");
    for (int i = 0; i < r->n_heat; i++) {
        const cJSON *f = r->heat[i];
        struct heat h = gather(f);
        const char *type = page_word(f, "type");
        bool kld = strcmp(h.key, "damage_kld") == 0;
        str_put(out, "<p class=\"dim\">Sensitivity of ");
        page_text(out, *page_word(f, "model") ? page_short(page_word(f, "model"))
                                              : "a model");
        str_put(out, kld ? ": divergence (nat) with this matrix alone made "
                         : ": relative squared error of a matrix's outputs, made ");
        page_text(out, *type ? type : "smaller");
        str_put(out,
                kld ? "; at the right with the whole layer made so, or left out in "
                      "part. The stronger the colour, the more; all matrices have "
                      "one scale, each "
                      "column at the right its own.</p>\n"
                    : ". The stronger the colour, the more.</p>\n");
        put_table(out, &h);
    }
}
