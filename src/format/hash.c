/*
 * hash.c - SHA-256 through libcrypto.
 */
#include "format/hash.h"

#include "base/mem.h"

#include <openssl/evp.h>

struct hash {
    EVP_MD_CTX *ctx;
};

static enum b2_status failed(struct b2_err *err)
{
    (void)err_set(err, B2_ENOMEM, "SHA-256: libcrypto refused (out of memory?)");
    return B2_ENOMEM;
}

enum b2_status hash_new(struct hash **out, struct b2_err *err)
{
    struct hash *h = mem_calloc(1, sizeof *h);

    if (h)
        h->ctx = EVP_MD_CTX_new();
    if (!h || !h->ctx || !EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL)) {
        hash_free(h);
        return failed(err);
    }
    *out = h;
    return B2_OK;
}

enum b2_status hash_add(struct hash *h, const void *data, size_t n, struct b2_err *err)
{
    if (n == 0)
        return B2_OK;
    return EVP_DigestUpdate(h->ctx, data, n) ? B2_OK : failed(err);
}

enum b2_status hash_hex(struct hash *h, char hex[HASH_HEX], struct b2_err *err)
{
    static const char digit[] = "0123456789abcdef";
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (!EVP_DigestFinal_ex(h->ctx, sum, &n) || n != (HASH_HEX - 1) / 2)
        return failed(err);
    for (unsigned i = 0; i < n; i++) {
        hex[2 * i] = digit[sum[i] >> 4];
        hex[2 * i + 1] = digit[sum[i] & 15];
    }
    hex[HASH_HEX - 1] = '\0';
    return B2_OK;
}

void hash_free(struct hash *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->ctx);
    mem_free(h);
}

enum b2_status hash_sha256(char hex[HASH_HEX], const void *data, size_t n,
                           struct b2_err *err)
{
    struct hash *h = NULL;
    enum b2_status rc = hash_new(&h, err);

    if (rc == B2_OK)
        rc = hash_add(h, data, n, err);
    if (rc == B2_OK)
        rc = hash_hex(h, hex, err);
    hash_free(h);
    return rc;
}
