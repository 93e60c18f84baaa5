/*
 * format_dump.h - keys and tensors as the lines of tests/golden/format/NAME.dump.
 */
#ifndef UNIT_FORMAT_DUMP_H
#define UNIT_FORMAT_DUMP_H

#include "base/file.h"
#include "base/mem.h"
#include "base/reader.h"
#include "base/str.h"
#include "format/hash.h"
#include "format/meta.h"
#include "tensor/tensor.h"
#include "unit/unit.h"

#include <inttypes.h>

static inline void dump_key(struct str *s, const struct meta_kv *kv)
{
    enum meta_type type = kv->type == MT_ARR ? kv->elem : kv->type;
    struct str bytes = {0};
    char hex[HASH_HEX];
    struct b2_err err = {0};

    for (uint64_t i = 0; type == MT_STR && i < kv->n; i++) {
        uint8_t len[8];
        le_put64(len, kv->v.strs[i].len);
        str_putn(&bytes, len, sizeof len);
        str_putn(&bytes, kv->v.strs[i].data, kv->v.strs[i].len);
    }
    if (type != MT_STR)
        str_putn(&bytes, kv->v.raw, (size_t)kv->n * meta_type_bytes(type));
    assert_int_equal(hash_sha256(hex, bytes.data, bytes.len, &err), B2_OK);
    str_printf(s, "K %s %s%s %" PRIu64 " %s\n", kv->key,
               kv->type == MT_ARR ? "array:" : "", meta_type_name(type), kv->n, hex);
    str_free(&bytes);
}

static inline void dump_tensor(struct str *s, const struct tensor *t)
{
    char hex[HASH_HEX];
    struct b2_err err = {0};

    assert_int_equal(hash_sha256(hex, t->data, (size_t)t->n_bytes, &err), B2_OK);
    str_printf(s, "T %s %s ", t->name, dtype_info(t->type)->name);
    for (int d = 0; d < t->rank; d++)
        str_printf(s, "%" PRId64 " ", t->ne[d]);
    str_printf(s, "%" PRIu64 " %s\n", t->n_bytes, hex);
}

/* Compares with a file of tests/golden/format; names the first line that differs. */
static inline void dump_check(struct str *s, const char *name)
{
    char path[512];
    char *want = NULL;
    size_t size = 0, line = 1;
    struct b2_err err = {0};

    snprintf(path, sizeof path, "%s/format/%s", B2_GOLDEN_DIR, name);
    if (file_read_all(&want, &size, path, 1 << 20, &err))
        fail_msg("%s", err.msg);
    assert_true(str_ok(s));
    const char *a = s->data ? s->data : "", *b = want;
    while (*a && *a == *b) {
        line += *a == '\n';
        a++;
        b++;
    }
    bool same = *a == *b;
    mem_free(want);
    str_free(s);
    if (!same)
        fail_msg("%s: line %zu differs", name, line);
}

#endif
