/*
 * page.h - one page from the results of several measures.
 *
 * The page is a single HTML file: no network, no fonts, no scripts; charts are SVG drawn
 * here, in coordinates of per cent, so that text keeps its size on a phone. It follows
 * the reader's light or dark setting and prints in black on white. It carries the results
 * themselves, as JSON, for whoever wants to go on from them.
 */
#ifndef EVAL_PAGE_H
#define EVAL_PAGE_H

#include "base/error.h"
#include "base/str.h"

#include <cjson/cJSON.h>

enum { PAGE_MAX_CANDIDATES = 6 };

/* Appends the page. results: an array of what --json of eval's measures and of bench
 * printed; each names its model, and those of one model are shown as one candidate. A
 * sensitivity file (docs/EVAL.md) is a heat map of layers, whatever model it is of.
 * B2_EARG: a result that is none, or more candidates than a page shows. B2_ENOMEM. */
enum b2_status page_html(struct str *out, const cJSON *results,
                         struct b2_err *err) NODISCARD;

/* Is it a result that a page can show? B2_EARG: it is none. */
enum b2_status page_check(const cJSON *result, struct b2_err *err) NODISCARD;

#endif
