/*
 * budget.c - Lagrangian allocation on convex hulls.
 *
 * For a price p per byte every unit would take the choice with the least damage +
 * p * bytes. As p falls from infinity the units climb the lower convex hull of their
 * choices, one edge at a time, the steepest edge of all units first. Walking the edges
 * in that order until one does not fit gives, at each point, the optimum for exactly
 * the bytes then spent (Everett 1963); the bytes that are left over are then filled
 * with any single step that still fits.
 */
#include "compress/budget.h"

#include "base/mem.h"

#include <stdlib.h>

/* One edge of a hull: taking it replaces the unit's choice from by to. */
struct edge {
    int64_t unit;
    int from, to, order; /* order: which edge of its unit, from the cheap end */
    double slope;        /* damage saved per byte, > 0 */
};

/* Cheapest choice; of equals the one with less damage. */
static int cheapest(const struct budget_unit *u)
{
    int best = 0;

    for (int c = 1; c < u->n_choices; c++)
        if (u->choice[c].bytes < u->choice[best].bytes ||
            (u->choice[c].bytes == u->choice[best].bytes &&
             u->choice[c].damage < u->choice[best].damage))
            best = c;
    return best;
}

static double slope(const struct budget_choice *from, const struct budget_choice *to)
{
    return (from->damage - to->damage) / (double)(to->bytes - from->bytes);
}

/* The next point of the hull after from: the steepest way down; the farthest of equals.
 * -1: no choice with more bytes has less damage. */
static int hull_next(const struct budget_unit *u, int from)
{
    int best = -1;
    double best_slope = 0.0;

    for (int c = 0; c < u->n_choices; c++) {
        if (u->choice[c].bytes <= u->choice[from].bytes)
            continue;
        double s = slope(&u->choice[from], &u->choice[c]);
        bool farther =
            best >= 0 && s == best_slope && u->choice[c].bytes > u->choice[best].bytes;
        if (s > best_slope || farther) {
            best = c;
            best_slope = s;
        }
    }
    return best;
}

static int compare_edges(const void *pa, const void *pb)
{
    const struct edge *a = pa, *b = pb;

    if (a->slope != b->slope)
        return a->slope > b->slope ? -1 : 1;
    if (a->unit != b->unit)
        return a->unit < b->unit ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

uint64_t budget_min_bytes(const struct budget_unit *units, int64_t n)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += units[i].choice[cheapest(&units[i])].bytes;
    return sum;
}

/* Spends what is left: the single step that saves the most damage, again and again. */
static void fill_rest(struct budget_unit *units, int64_t n, uint64_t left)
{
    for (;;) {
        int64_t best_unit = -1;
        int best_choice = 0;
        double best_gain = 0.0;
        for (int64_t i = 0; i < n; i++) {
            const struct budget_choice *now = &units[i].choice[units[i].pick];
            for (int c = 0; c < units[i].n_choices; c++) {
                const struct budget_choice *to = &units[i].choice[c];
                double gain = now->damage - to->damage;
                bool fits = to->bytes <= now->bytes || to->bytes - now->bytes <= left;
                if (fits && gain > best_gain) {
                    best_gain = gain;
                    best_unit = i;
                    best_choice = c;
                }
            }
        }
        if (best_unit < 0)
            return;
        struct budget_unit *u = &units[best_unit];
        left += u->choice[u->pick].bytes;
        left -= u->choice[best_choice].bytes;
        u->pick = best_choice;
    }
}

enum b2_status budget_allocate(struct budget_unit *units, int64_t n, uint64_t max_bytes,
                               struct b2_err *err)
{
    uint64_t spent = budget_min_bytes(units, n);
    int64_t n_edges = 0;

    if (spent > max_bytes)
        return err_set(err, B2_EARG,
                       "the smallest choices take %llu bytes, %llu are allowed",
                       (unsigned long long)spent, (unsigned long long)max_bytes);
    struct edge *edges = mem_calloc((size_t)n * BUDGET_MAX_CHOICES, sizeof *edges);
    if (!edges)
        return err_set(err, B2_ENOMEM, "budget: out of memory");
    for (int64_t i = 0; i < n; i++) {
        int from = cheapest(&units[i]), order = 0;
        units[i].pick = from;
        for (int to; (to = hull_next(&units[i], from)) >= 0; from = to)
            edges[n_edges++] =
                (struct edge){i, from, to, order++,
                              slope(&units[i].choice[from], &units[i].choice[to])};
    }
    qsort(edges, (size_t)n_edges, sizeof *edges, compare_edges);

    /* Slopes fall along each hull, so a unit's edges come in their own order. */
    for (int64_t e = 0; e < n_edges; e++) {
        struct budget_unit *u = &units[edges[e].unit];
        uint64_t more = u->choice[edges[e].to].bytes - u->choice[edges[e].from].bytes;
        if (more > max_bytes - spent)
            break;
        spent += more;
        u->pick = edges[e].to;
    }
    mem_free(edges);
    fill_rest(units, n, max_bytes - spent);
    return B2_OK;
}
