/*
 * textout.c - hold-back of characters and of stop strings.
 */
#include "model/textout.h"

#include "text/utf8.h"

#include <string.h>

enum b2_status textout_init(struct textout *o, struct str *text,
                            const char *const *stop, int n_stop, struct b2_err *err)
{
    if (n_stop < 0 || (n_stop > 0 && !stop))
        return err_set(err, B2_EARG, "%d stop strings at no address", n_stop);
    for (int i = 0; i < n_stop; i++)
        if (!stop[i] || stop[i][0] == '\0')
            return err_set(err, B2_EARG, "stop string %d is empty", i + 1);
    *o = (struct textout){.text = text, .stop = stop, .n_stop = n_stop};
    return B2_OK;
}

/* Appends bytes as valid UTF-8. */
static void put_valid(struct str *text, const char *s, size_t n)
{
    char buf[4];

    for (size_t used; n > 0; s += used, n -= used) {
        uint32_t cp = utf8_next(s, n, &used);
        int k = utf8_put(buf, cp);
        str_putn(text, buf, (size_t)k);
    }
}

/* The first stop string that ends after byte `from`: cuts the text there. Of several,
 * the one that begins first wins. */
static void find_stop(struct textout *o, size_t from)
{
    const struct str *t = o->text;
    size_t best = t->len;

    for (int i = 0; i < o->n_stop; i++) {
        size_t n = strlen(o->stop[i]);
        size_t start = from >= n ? from - n + 1 : 0;
        for (size_t at = start; at + n <= t->len && at < best; at++) {
            if (memcmp(t->data + at, o->stop[i], n) == 0) {
                best = at;
                o->found = true;
            }
        }
    }
    if (o->found) {
        o->text->data[best] = '\0';
        o->text->len = best;
    }
}

/* Bytes at the end of the text that a stop string may begin with. */
static size_t held_for_stop(const struct textout *o)
{
    const struct str *t = o->text;
    size_t held = 0;

    for (int i = 0; i < o->n_stop; i++) {
        size_t n = strlen(o->stop[i]) - 1;
        for (n = n < t->len ? n : t->len; n > held; n--) {
            if (memcmp(t->data + t->len - n, o->stop[i], n) == 0) {
                held = n;
                break;
            }
        }
    }
    return held;
}

/* Gives out the text up to byte `to`, but no part of a character: a stop string that
 * begins inside one must not cut it. */
static void give(struct textout *o, size_t to)
{
    while (to > o->sent && to < o->text->len &&
           ((unsigned char)o->text->data[to] & 0xc0) == 0x80)
        to--;
    if (to <= o->sent)
        return;
    if (o->on_text && !o->on_text(o->ctx, o->text->data + o->sent, to - o->sent))
        o->unwanted = true;
    o->sent = to;
}

bool textout_put(struct textout *o, const char *bytes, size_t n)
{
    const size_t before = o->text->len;

    if (o->found || o->unwanted)
        return false;
    while (n > 0 && str_ok(o->text)) {
        /* The unfinished character is completed from a small buffer; the rest of a long
         * token is looked at in place on the next turn. */
        char buf[64];
        size_t take = sizeof buf - o->n_tail < n ? sizeof buf - o->n_tail : n;
        memcpy(buf, o->tail, o->n_tail);
        memcpy(buf + o->n_tail, bytes, take);
        size_t len = o->n_tail + take, whole = utf8_complete(buf, len);
        put_valid(o->text, buf, whole);
        o->n_tail = len - whole;
        memcpy(o->tail, buf + whole, o->n_tail);
        bytes += take;
        n -= take;
    }
    if (!str_ok(o->text) || o->text->len == before)
        return true;
    find_stop(o, before);
    give(o, o->found ? o->text->len : o->text->len - held_for_stop(o));
    return !o->found && !o->unwanted;
}

void textout_end(struct textout *o)
{
    const size_t before = o->text->len;

    if (o->found || o->unwanted)
        return;
    if (o->n_tail > 0) {
        str_put(o->text, "\xef\xbf\xbd");
        o->n_tail = 0;
        if (str_ok(o->text))
            find_stop(o, before);
    }
    if (str_ok(o->text) && o->text->data)
        give(o, o->text->len);
}
