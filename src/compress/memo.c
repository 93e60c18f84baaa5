/*
 * memo.c - a key and a number, a line each.
 */
#include "compress/memo.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMO_MAX = 1 << 20 };

double memo_get(const char *path, const char *key)
{
    double value = (double)NAN;
    char *text = NULL;
    size_t n = 0;

    if (!file_exists(path) || file_read_all(&text, &n, path, MEMO_MAX, NULL))
        return value;
    const size_t len = strlen(key);
    if (n > len && memcmp(text, key, len) == 0 && text[len] == '\n')
        value = strtod(text + len + 1, NULL); /* file_read_all() ends it with a zero */
    mem_free(text);
    return value;
}

enum b2_status memo_put(const char *path, const char *key, double value,
                        struct b2_err *err)
{
    struct str text = {0};

    str_printf(&text, "%s\n%.17g\n", key, value);
    enum b2_status rc = str_ok(&text)
                            ? file_write_all(path, text.data, text.len, true, err)
                            : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&text);
    return rc;
}
