/*
 * sens_text.c - an analysis as a table and as a picture.
 */
#include "base/mem.h"
#include "compress/sensitivity.h"

#include <math.h>

/* A cell of width w; an en dash for what is not known. */
static void cell(struct str *out, int w, int digits, double v)
{
    if (isfinite(v))
        str_printf(out, " %*.*f", w, digits, v);
    else
        str_printf(out, " %*s", w, "-");
}

static double smallest(const double *v, int64_t n, int64_t *at)
{
    double least = (double)NAN;

    *at = -1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(v[i]) && !(v[i] >= least)) {
            least = v[i];
            *at = i;
        }
    return least;
}

static void blocks(const struct sensitivity *s, struct str *out)
{
    str_put(out, "layer  influence  skip kld  no attn   no ffn     dead  off   sat  "
                 "prunable  cheapest head    max/rms\n");
    for (int64_t i = 0; i < s->n_layers; i++) {
        const struct sens_layer *l = &s->layer[i];
        int64_t head;
        const double least = smallest(l->head, l->heads, &head);
        str_printf(out, "%5lld", (long long)i);
        cell(out, 10, 4, l->influence);
        cell(out, 9, 4, l->skip);
        cell(out, 8, 4, l->no_attn);
        cell(out, 8, 4, l->no_ffn);
        str_printf(out, " %8lld %4lld %5lld", (long long)l->dead, (long long)l->off,
                   (long long)l->saturated);
        if (isfinite(l->tolerable))
            str_printf(out, "    %4.1f %%", 100.0 * l->tolerable);
        else
            str_printf(out, "    %6s", "-");
        if (head >= 0)
            str_printf(out, "   %3lld: %8.5f", (long long)head, least);
        else
            str_printf(out, "   %13s", "-");
        cell(out, 10, 0, l->input[INPUT_DOWN].max / l->input[INPUT_DOWN].rms);
        str_put(out, "\n");
    }
}

static void tensors(const struct sensitivity *s, struct str *out,
                    double (*value)(const struct sens_tensor *t), int digits)
{
    str_put(out,
            "layer         q         k         v         o      gate        up      "
            "down\n");
    for (int64_t i = 0; i < s->n_layers; i++) {
        str_printf(out, "%5lld", (long long)i);
        for (int k = 0; k < N_PARTS; k++)
            cell(out, 9, digits, value(&s->layer[i].tensor[k]));
        str_put(out, "\n");
    }
}

static double damage_of(const struct sens_tensor *t)
{
    return t->damage;
}

static double restore_of(const struct sens_tensor *t)
{
    return t->restore;
}

static double cosine_of(const struct sens_tensor *t)
{
    return t->cosine;
}

static bool any(const struct sensitivity *s,
                double (*value)(const struct sens_tensor *t))
{
    for (int64_t i = 0; i < s->n_layers; i++)
        for (int k = 0; k < N_PARTS; k++)
            if (isfinite(value(&s->layer[i].tensor[k])))
                return true;
    return false;
}

void sens_text(const struct sensitivity *s, struct str *out)
{
    str_printf(out, "%s (%s), %lld calibration tokens, kld in nat on %lld tokens\n\n",
               s->source ? s->source : "", s->arch ? s->arch : "", (long long)s->tokens,
               (long long)s->probe_tokens);
    blocks(s, out);
    if (any(s, cosine_of)) {
        str_printf(out, "\noutput cosine, each tensor as %s\n", s->type ? s->type : "");
        tensors(s, out, cosine_of, 5);
    }
    if (any(s, damage_of)) {
        str_printf(out, "\ndamage one: kld with this tensor alone as %s\n",
                   s->type ? s->type : "");
        tensors(s, out, damage_of, 5);
    }
    if (any(s, restore_of)) {
        str_printf(
            out,
            "\nrestore one: what kld %.4f (all tensors as %s) falls by when this "
            "one is not\n",
            s->kld_all, s->type ? s->type : "");
        tensors(s, out, restore_of, 5);
    }
}

/* ---- picture ---- */

enum { COLUMNS = 12 };

static void row_values(double *v, const struct sens_layer *l)
{
    int64_t at;

    v[0] = l->influence;
    v[1] = l->skip;
    v[2] = l->no_attn;
    v[3] = l->no_ffn;
    for (int k = 0; k < N_PARTS; k++)
        v[4 + k] = l->tensor[k].damage;
    v[11] = smallest(l->head, l->heads, &at);
}

void sens_svg(const struct sensitivity *s, struct str *out)
{
    static const char *const names[COLUMNS] = {"influence",
                                               "without layer",
                                               "without attn",
                                               "without ffn",
                                               "q",
                                               "k",
                                               "v",
                                               "o",
                                               "gate",
                                               "up",
                                               "down",
                                               "cheapest head"};
    double *v = mem_calloc((size_t)(s->n_layers * COLUMNS), sizeof *v);
    struct str title = {0};

    str_printf(&title, "%s: what each part of a layer is worth (kld, nat)",
               s->source ? s->source : "");
    if (!v || !str_ok(&title)) {
        out->bad = true;
    } else {
        for (int64_t i = 0; i < s->n_layers; i++)
            row_values(v + i * COLUMNS, &s->layer[i]);
        const struct heatmap h = {title.data, (int)s->n_layers, COLUMNS, "layer", names,
                                  v};
        heatmap_svg(out, &h, true);
    }
    str_free(&title);
    mem_free(v);
}
