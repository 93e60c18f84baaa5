/*
 * table.h - rows of data: JSON lines, a JSON array, CSV or TSV, each also as .gz.
 *
 * Every row becomes a JSON object. CSV follows RFC 4180: quotes, doubled quotes, line
 * ends inside quotes; the first row names the columns. A byte-order mark is skipped.
 */
#ifndef EVAL_TABLE_H
#define EVAL_TABLE_H

#include "format/json.h"

enum { TABLE_MAX_BYTES = 1 << 28, TABLE_MAX_COLUMNS = 256 };

struct table {
    cJSON **row; /* [n] objects, owned */
    int64_t n;
};

/* The kind is told by the name: .jsonl, .json, .csv, .tsv, and .gz behind it. B2_EARG:
 * another name. B2_EFORMAT names the line. */
enum b2_status table_read(struct table *out, const char *path,
                          struct b2_err *err) NODISCARD;

enum table_kind { TABLE_JSONL, TABLE_JSON, TABLE_CSV, TABLE_TSV };
enum b2_status table_parse(struct table *out, enum table_kind kind, const char *text,
                           size_t n, struct b2_err *err) NODISCARD;
void table_free(struct table *t); /* zeroed is fine */

#endif
