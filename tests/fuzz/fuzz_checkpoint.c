/*
 * fuzz_checkpoint.c - the checkpoint of a training, OUT.b2distill.
 *
 * First byte: even, the rest is what follows the recipe, and the head before it and the
 * checksum behind it are made right; odd, the rest is the whole file. A file is refused
 * with a reason, or what the training relies on is there.
 */
#define _GNU_SOURCE /* memfd_create */
#include "base/mem.h"
#include "compress/distill_int.h"
#include "format/hash.h"
#include "fuzz.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NORMS = 4, BEST = 8, STEPS = 100 };

static void put(int fd, struct hash *h, const void *p, size_t n)
{
    fuzz_require(write(fd, p, n) == (ssize_t)n, "the file can be written");
    if (h)
        fuzz_require(hash_add(h, p, n, NULL) == B2_OK, "bytes are hashed");
}

static void write_file(int fd, const struct str *recipe, const uint8_t *data,
                       size_t size, bool whole)
{
    const uint64_t len = recipe->len;
    struct hash *h = NULL;
    char hex[HASH_HEX];

    fuzz_require(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0, "it is empty");
    if (whole) {
        put(fd, NULL, data, size);
        return;
    }
    fuzz_require(hash_new(&h, NULL) == B2_OK, "a hash");
    put(fd, h, "B2DISTL3", 8);
    put(fd, h, &len, sizeof len);
    put(fd, h, recipe->data, len);
    put(fd, h, data, size);
    fuzz_require(hash_hex(h, hex, NULL) == B2_OK, "its digits");
    hash_free(h);
    put(fd, NULL, hex, HASH_HEX - 1);
}

static void check(const struct distill *d)
{
    const struct distill_state *st = &d->st;

    fuzz_require(st->step >= 0 && st->step <= STEPS, "a step of the run");
    fuzz_require(st->n_points > 0, "a point of the curve");
    fuzz_touch(d->r->curve, (size_t)st->n_points * sizeof *d->r->curve);
    fuzz_require(strlen(st->core) < sizeof st->core, "a name that ends");
    fuzz_require(isfinite(st->rate_share) && st->rate_share > 0,
                 "a share of the rates");
    fuzz_require(st->n_hard >= 0, "a place among hard texts");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    float norms[4 * NORMS] = {0};
    uint8_t best[BEST];
    const struct distill_params p = {.steps = STEPS};
    struct distill_report r = {0};
    struct model m = {.hp = {.d = NORMS}};
    struct distill d = {.p = &p, .r = &r, .sm = &m, .state_path = path};
    struct b2_err err = {0};

    if (size == 0)
        return 0;
    if (fd < 0) {
        fd = memfd_create("checkpoint", 0);
        fuzz_require(fd >= 0, "a file in memory");
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    d.s.m = &m;
    d.s.norms = (struct param){
        norms, norms + NORMS, norms + 2 * NORMS, norms + 3 * NORMS, NORMS, 1.0f};
    d.best = best;
    d.best_bytes = BEST;
    str_put(&d.recipe, "{\"steps\":100}");
    write_file(fd, &d.recipe, data + 1, size - 1, data[0] % 2);
    enum b2_status rc = distill_load(&d, &err);
    fuzz_check_error(rc, &err);
    if (!rc)
        check(&d);
    mem_free(r.curve);
    str_free(&d.recipe);
    return 0;
}
