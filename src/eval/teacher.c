/*
 * teacher.c - rows, blocks and the head of a teacher file.
 *
 * The divergence with a tail is
 *   sum_i p_i (log p_i - log q_i) + P (log P - log Q),   P = 1 - sum p_i, Q = 1 - sum q_i
 * over the k stored tokens: by the log-sum inequality a lower bound of the full one.
 */
#include "eval/teacher.h"

#include "base/reader.h"
#include "base/str.h"
#include "format/hash.h"

#include <math.h>
#include <string.h>

enum { ROW_HEAD = 8, BLOCK_HEAD = 4, SUM_HEX = HASH_HEX - 1, MAX_HEAD = 16 << 20 };

static const char magic[] = "B2TEACH1";

static void put_f32(uint8_t *p, double v)
{
    float f = (float)v;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    le_put32(p, bits);
}

static double get_f32(const uint8_t *p)
{
    uint32_t bits = le_get32(p);
    float f;

    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

uint32_t teacher_token(const struct teacher_row *r, int64_t i)
{
    return le_get32(r->data + ROW_HEAD + 4 * i);
}

double teacher_logp(const struct teacher_row *r, int64_t i)
{
    return get_f32(r->data + ROW_HEAD + 4 * r->k + 4 * i);
}

size_t teacher_row_bytes(int64_t k)
{
    return ROW_HEAD + 8 * (size_t)k;
}

size_t teacher_block_bytes(int64_t k, int64_t n_rows)
{
    return BLOCK_HEAD + (size_t)n_rows * teacher_row_bytes(k) + SUM_HEX;
}

/* Is token a less likely than b? Of equal logits the smaller id counts as likelier. */
static bool below(const float *x, int32_t a, int32_t b)
{
    return x[a] < x[b] || (x[a] == x[b] && a > b);
}

/* Restores the heap heap[0..n), least likely first, after its entry `at` grew. */
static void sift(int32_t *heap, int64_t n, int64_t at, const float *x)
{
    for (;;) {
        int64_t least = at, l = 2 * at + 1, r = l + 1;
        if (l < n && below(x, heap[l], heap[least]))
            least = l;
        if (r < n && below(x, heap[r], heap[least]))
            least = r;
        if (least == at)
            return;
        int32_t t = heap[at];
        heap[at] = heap[least];
        heap[least] = t;
        at = least;
    }
}

/* The k most likely tokens, most likely first. */
static void top_k(int32_t *top, int64_t k, const float *x, int64_t vocab)
{
    for (int64_t i = 0; i < k; i++)
        top[i] = (int32_t)i;
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift(top, k, i, x);
    for (int64_t v = k; v < vocab; v++) {
        if (x[v] <= x[top[0]])
            continue;
        top[0] = (int32_t)v;
        sift(top, k, 0, x);
    }
    for (int64_t n = k - 1; n > 0; n--) { /* the least likely goes to the end */
        int32_t t = top[0];
        top[0] = top[n];
        top[n] = t;
        sift(top, n, 0, x);
    }
}

uint8_t *teacher_block_row(uint8_t *block, int64_t k, int64_t i)
{
    return block + BLOCK_HEAD + (size_t)i * teacher_row_bytes(k);
}

void teacher_put_row(uint8_t *out, const float *x, int64_t vocab,
                     const struct logprob *b, int32_t target, int64_t k,
                     int32_t *scratch)
{
    double tail = 0.0;

    top_k(scratch, k, x, vocab);
    int32_t last = scratch[k - 1];
    for (int64_t v = 0; v < vocab; v++)
        if (below(x, (int32_t)v, last))
            tail += exp((double)x[v] - b->max);
    put_f32(out, (double)x[target] - b->lse);
    put_f32(out + 4, tail > 0.0 ? b->max + log(tail) - b->lse : -(double)INFINITY);
    for (int64_t i = 0; i < k; i++) {
        le_put32(out + ROW_HEAD + 4 * i, (uint32_t)scratch[i]);
        put_f32(out + ROW_HEAD + 4 * k + 4 * i, (double)x[scratch[i]] - b->lse);
    }
}

enum b2_status teacher_seal(uint8_t *block, int64_t k, int64_t n_rows,
                            struct b2_err *err)
{
    char hex[HASH_HEX];
    size_t n = teacher_block_bytes(k, n_rows) - SUM_HEX;

    le_put32(block, (uint32_t)n_rows);
    enum b2_status rc = hash_sha256(hex, block, n, err);
    if (!rc)
        memcpy(block + n, hex, SUM_HEX);
    return rc;
}

enum b2_status teacher_check(const uint8_t *block, int64_t k, int64_t n_rows,
                             struct b2_err *err)
{
    char hex[HASH_HEX];
    size_t n = teacher_block_bytes(k, n_rows) - SUM_HEX;

    if (le_get32(block) != (uint32_t)n_rows)
        return err_set(err, B2_EFORMAT, "a block has %u rows where %lld are due",
                       le_get32(block), (long long)n_rows);
    enum b2_status rc = hash_sha256(hex, block, n, err);
    if (!rc && memcmp(block + n, hex, SUM_HEX) != 0)
        rc = err_set(err, B2_EFORMAT, "a block's checksum is wrong");
    return rc;
}

enum b2_status teacher_get_row(struct teacher_row *out, const uint8_t *block, int64_t k,
                               int64_t i, int64_t vocab, struct b2_err *err)
{
    const uint8_t *data = block + BLOCK_HEAD + (size_t)i * teacher_row_bytes(k);
    struct teacher_row r = {
        .data = data, .k = k, .target = get_f32(data), .tail = get_f32(data + 4)};
    bool ok = r.target <= 0.0 && isfinite(r.target) && r.tail <= 0.0;

    for (int64_t j = 0; j < k && ok; j++) {
        double logp = teacher_logp(&r, j);
        ok = (int64_t)teacher_token(&r, j) < vocab && isfinite(logp) && logp <= 0.0;
    }
    if (!ok)
        return err_set(
            err, B2_EFORMAT,
            "row %lld holds a token outside the vocabulary of %lld or what is "
            "no log-probability",
            (long long)i, (long long)vocab);
    *out = r;
    return B2_OK;
}

double teacher_kld(const struct teacher_row *r, const struct logprob *c,
                   const float *xc)
{
    double sum = 0.0, q_top = 0.0;

    for (int64_t i = 0; i < r->k; i++) {
        double logp = teacher_logp(r, i);
        double logq = (double)xc[teacher_token(r, i)] - c->lse;
        sum += exp(logp) * (logp - logq);
        q_top += exp(logq);
    }
    if (isfinite(r->tail)) {
        /* What rounding leaves of 1 - q_top is no smaller than a double's last place. */
        double q_tail = q_top < 1.0 ? 1.0 - q_top : 0x1p-53;
        sum += exp(r->tail) * (r->tail - log(q_tail));
    }
    return sum > 0.0 ? sum : 0.0;
}

void teacher_put_head(struct str *out, const char *text)
{
    size_t n = strlen(text);
    uint8_t length[4];

    le_put32(length, (uint32_t)n);
    str_putn(out, magic, sizeof magic - 1);
    str_putn(out, length, sizeof length);
    str_putn(out, text, n);
}

enum b2_status teacher_get_head(struct teacher_head *out, const uint8_t *data,
                                size_t size, struct b2_err *err)
{
    const size_t start = sizeof magic - 1 + 4;

    if (size < start || memcmp(data, magic, sizeof magic - 1) != 0)
        return err_set(err, B2_EFORMAT,
                       "is no teacher file: make one with 'eval kld --baseline FILE "
                       "--save-teacher FILE'");
    uint32_t n = le_get32(data + start - 4);
    if (n > MAX_HEAD)
        return err_set(err, B2_EFORMAT, "a head of %u bytes is not possible", n);
    if (n > size - start)
        return err_set(err, B2_ETRUNC,
                       "is cut short: its head has %u bytes, %zu are there", n,
                       size - start);
    *out = (struct teacher_head){(const char *)data + start, n, start + n};
    return B2_OK;
}
