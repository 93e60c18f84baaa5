/*
 * sets.c - the layout of repacked ternary rows (sets.h), both ways. Plain C.
 */
#include "kernel/sets.h"
#include "tensor/f16.h"

#include <string.h>

enum { ROW_BYTES = KSET_LINE / KSET_ROWS, DIGITS = 5, PLANES = 4 };

/* Scales of these types are FP16, so that nothing is lost. */
bool kset_possible(enum dtype t, enum kset_form form)
{
    switch (t) {
    case DT_PTQ1_0:
    case DT_TQ1_0:
        return true;
    case DT_PQ2_0:
    case DT_Q2_0_G128:
    case DT_TQ2_0:
    case DT_Q2_0:
    case DT_I2_S:
        return form == KSET_2BITS; /* a code of 3 may occur */
    default:
        return false;
    }
}

int64_t kset_scale_bytes(int block, int64_t n)
{
    return (int64_t)align_up_u64((uint64_t)(n / block) * KSET_ROWS * sizeof(uint16_t),
                                 KSET_LINE);
}

uint64_t kset_bytes(enum kset_form form, int block, int64_t n)
{
    int64_t groups = n / KQ_GROUP;
    int64_t lines = form == KSET_TRITS
                        ? groups / KSET_UNIT * (KSET_UNIT - 1) + groups % KSET_UNIT
                        : groups;

    return (uint64_t)(kset_scale_bytes(block, n) + lines * KSET_LINE);
}

/* Four neighbouring codes plus one, each in its byte: the top bits are added apart, so
 * that nothing carries. */
static uint32_t quad_at(const int8_t *code)
{
    uint32_t v;

    memcpy(&v, code, sizeof v);
    return ((v & 0x7f7f7f7fu) + 0x01010101u) ^ (v & 0x80808080u);
}

/* Base-3 bytes by number: ceil(256 v / 243), biased. */
struct trit_table {
    uint8_t byte[243];
};

static void trit_table_make(struct trit_table *t)
{
    for (int v = 0; v < (int)sizeof t->byte; v++)
        t->byte[v] = (uint8_t)((256 * v + 242) / 243 - 128);
}

/* The next digit of a byte, which moves up. */
static uint8_t digit_of(uint8_t *byte)
{
    int v = 3 * ((*byte + 128) & 255);

    *byte = (uint8_t)((v & 255) - 128);
    return (uint8_t)(v >> 8);
}

/* One row's dword of the line of a group. */
static void put_2bits(uint8_t *dword, const int8_t *code)
{
    uint32_t v = quad_at(code) | quad_at(code + 4) << 2 | quad_at(code + 8) << 4 |
                 quad_at(code + 12) << 6;

    memcpy(dword, &v, sizeof v);
}

static void get_2bits(uint8_t *u, const uint8_t *dword)
{
    for (int i = 0; i < KQ_GROUP; i++)
        u[i] = dword[i % 4] >> 2 * (i / 4) & 3;
}

/* One row's dwords of a unit, four lines, from its five groups. Digits times powers of
 * three stay within their bytes. */
static void put_trits(uint8_t *dword, const int8_t *code, const struct trit_table *t)
{
    for (int l = 0; l < PLANES; l++) {
        const int8_t *d = code + (ptrdiff_t)KQ_GROUP * l;
        uint32_t v = 81 * quad_at(d) + 27 * quad_at(d + 4) + 9 * quad_at(d + 8) +
                     3 * quad_at(d + 12) +
                     quad_at(code + (ptrdiff_t)KQ_GROUP * PLANES + 4 * l);
        uint8_t number[ROW_BYTES];
        memcpy(number, &v, sizeof number);
        for (int b = 0; b < ROW_BYTES; b++)
            dword[l * KSET_LINE + b] = t->byte[number[b]];
    }
}

static void get_trits(uint8_t *u, const uint8_t *dword)
{
    for (int l = 0; l < PLANES; l++)
        for (int b = 0; b < ROW_BYTES; b++) {
            uint8_t v = dword[l * KSET_LINE + b];
            for (int k = 0; k < PLANES; k++)
                u[KQ_GROUP * l + 4 * k + b] = digit_of(&v);
            u[KQ_GROUP * PLANES + 4 * l + b] = digit_of(&v);
        }
}

static void pack_row(uint8_t *lines, enum kset_form form, const int8_t *code,
                     int64_t groups, const struct trit_table *t)
{
    int64_t g = 0;

    for (; form == KSET_TRITS && g + KSET_UNIT <= groups; g += KSET_UNIT) {
        put_trits(lines, code + g * KQ_GROUP, t);
        lines += (ptrdiff_t)PLANES * KSET_LINE;
    }
    for (; g < groups; g++, lines += KSET_LINE)
        put_2bits(lines, code + g * KQ_GROUP);
}

void kset_pack(uint8_t *set, enum kset_form form, const struct kq_mat *w)
{
    int64_t n = w->code_step, groups = n / KQ_GROUP,
            scales = kset_scale_bytes(w->block, n);

    struct trit_table table;

    trit_table_make(&table);
    memset(set, 0, (size_t)scales);
    for (int64_t r = 0; r < KSET_ROWS; r++) {
        const int64_t from = r < w->rows ? r : 0;
        const float *scale = w->scale + from * w->group_step;
        for (int64_t b = 0; r < w->rows && b < n / w->block; b++) {
            uint16_t h = f16_from_f32(scale[b * w->block / KQ_GROUP]);
            memcpy(set + 2 * (b * KSET_ROWS + r), &h, sizeof h);
        }
        /* A missing row has the codes of the first one; its scales are zeros. */
        pack_row(set + scales + r * ROW_BYTES, form, w->code + from * n, groups,
                 &table);
    }
}

void kset_unpack(const struct kq_mat *w, const uint8_t *set, enum kset_form form,
                 int64_t first)
{
    int64_t n = w->code_step, groups = n / KQ_GROUP,
            scales = kset_scale_bytes(w->block, n);
    float *scale = (float *)(uintptr_t)w->scale;
    int8_t *code = (int8_t *)(uintptr_t)w->code;
    uint8_t u[KSET_UNIT * KQ_GROUP];

    for (int64_t r = first; r < first + w->rows; r++) {
        const uint8_t *lines = set + scales + r * ROW_BYTES;
        for (int64_t g = 0; g < groups;) {
            bool trits = form == KSET_TRITS && g < groups / KSET_UNIT * KSET_UNIT;
            if (trits)
                get_trits(u, lines);
            else
                get_2bits(u, lines);
            for (int i = 0; i < (trits ? KSET_UNIT : 1) * KQ_GROUP; i++)
                *code++ = (int8_t)(u[i] - 1);
            lines += (ptrdiff_t)(trits ? PLANES : 1) * KSET_LINE;
            g += trits ? KSET_UNIT : 1;
        }
        for (int64_t g = 0; g < groups; g++) {
            uint16_t h;
            memcpy(&h, set + 2 * (g * KQ_GROUP / w->block * KSET_ROWS + r), sizeof h);
            *scale++ = f32_from_f16(h);
        }
    }
}
