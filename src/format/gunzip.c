/*
 * gunzip.c - zlib's inflate with an end to its output.
 */
#include "format/gunzip.h"

#include "base/mem.h"

#include <string.h>
#include <zlib.h>

enum { FIRST_BYTES = 1 << 16, GZIP_WINDOW = 15 + 16 /* zlib: 32 KiB, gzip wrapper */ };

bool gunzip_is(const void *data, size_t n)
{
    return n >= 18 && memcmp(data, "\x1f\x8b\x08", 3) == 0;
}

/* Room for more output; one byte is kept for the terminating zero. */
static enum b2_status grow(z_stream *z, char **buf, size_t *cap, size_t used,
                           size_t max_bytes, struct b2_err *err)
{
    size_t more = *cap ? *cap * 2 : FIRST_BYTES;
    char *p;

    if (used >= max_bytes)
        return err_set(err, B2_EUNSUP, "unpacks to more than %zu bytes", max_bytes);
    if (more > max_bytes)
        more = max_bytes;
    p = mem_realloc(*buf, more + 1, 1);
    if (!p)
        return err_set(err, B2_ENOMEM, "out of memory");
    *buf = p;
    *cap = more;
    z->next_out = (Bytef *)p + used;
    z->avail_out = (uInt)(more - used);
    return B2_OK;
}

static enum b2_status unpack(z_stream *z, char **buf, size_t *size, size_t max_bytes,
                             struct b2_err *err)
{
    size_t cap = 0, used = 0;
    enum b2_status rc = B2_OK;

    while (!rc) {
        int code;
        if (z->avail_out == 0 &&
            (rc = grow(z, buf, &cap, used, max_bytes, err)) != B2_OK)
            break;
        code = inflate(z, Z_NO_FLUSH);
        used = (size_t)((char *)z->next_out - *buf);
        if (code == Z_STREAM_END) {
            if (z->avail_in == 0)
                break;
            if (inflateReset(z) != Z_OK) /* the next member */
                return err_set(err, B2_EFORMAT, "gzip: cannot go on");
        } else if (code == Z_BUF_ERROR && z->avail_out > 0) {
            rc = err_set(err, B2_ETRUNC, "gzip: the file is cut short");
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            rc = err_set(err, B2_EFORMAT, "gzip: corrupt: %s", z->msg ? z->msg : "?");
        }
    }
    *size = used;
    return rc;
}

enum b2_status gunzip(char **out, size_t *size, const void *data, size_t n,
                      size_t max_bytes, struct b2_err *err)
{
    char *buf = NULL;
    z_stream z = {0};
    enum b2_status rc;
    union {
        const void *in;
        Bytef *out;
    } bytes = {.in = data}; /* zlib reads only, but older headers do not say so */

    if (n > UINT32_MAX || max_bytes > UINT32_MAX)
        return err_set(err, B2_EUNSUP, "gzip: larger than 4 GiB");
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return err_set(err, B2_ENOMEM, "out of memory");
    z.next_in = bytes.out;
    z.avail_in = (uInt)n;
    rc = unpack(&z, &buf, size, max_bytes, err);
    (void)inflateEnd(&z);
    if (rc || !buf) {
        mem_free(buf);
        return rc;
    }
    buf[*size] = '\0';
    *out = buf;
    return B2_OK;
}
