/*
 * amx_emulated.c - the tile operations of amx.h in plain C, after the Intel SDM, volume
 * 2: LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBSUD.
 *
 * Stricter than the processor: an operation without a configuration, a wrong palette or
 * a tile beyond its shape ends the program.
 */
#include "kernels/amx_emulated.h"
#include "kernel/x86/amx.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TILES = 8, MAX_ROWS = 16, MAX_BYTES = 64 };

static struct {
    bool configured;
    uint8_t rows[N_TILES];
    uint16_t row_bytes[N_TILES];
    uint8_t data[N_TILES][MAX_ROWS][MAX_BYTES];
} amx;

static long n_products;

long amx_emulated_products(void)
{
    return n_products;
}

static void need(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "emulated AMX: %s\n", what);
    abort();
}

void amx_emulated_config(const void *config)
{
    struct amx_config c;

    memcpy(&c, config, sizeof c);
    need(sizeof c == 64, "the configuration has 64 bytes");
    need(c.palette == 1 && c.start_row == 0, "palette or start row");
    for (size_t i = 0; i < sizeof c.reserved; i++)
        need(c.reserved[i] == 0, "reserved bytes");
    for (int i = 0; i < 16; i++) {
        need(i < N_TILES || (c.rows[i] == 0 && c.row_bytes[i] == 0), "a ninth tile");
        need(c.rows[i] <= MAX_ROWS && c.row_bytes[i] <= MAX_BYTES, "shape");
        need((c.rows[i] == 0) == (c.row_bytes[i] == 0), "half a shape");
    }
    memset(&amx, 0, sizeof amx); /* loading a configuration clears the tiles */
    memcpy(amx.rows, c.rows, sizeof amx.rows);
    memcpy(amx.row_bytes, c.row_bytes, sizeof amx.row_bytes);
    amx.configured = true;
}

void amx_emulated_release(void)
{
    need(amx.configured, "released without a configuration");
    memset(&amx, 0, sizeof amx);
}

static void need_tile(int t)
{
    need(amx.configured && t >= 0 && t < N_TILES && amx.rows[t] > 0, "no such tile");
}

void amx_emulated_zero(int t)
{
    need_tile(t);
    memset(amx.data[t], 0, sizeof amx.data[t]);
}

void amx_emulated_load(int t, const void *from, int64_t stride)
{
    need_tile(t);
    memset(amx.data[t], 0, sizeof amx.data[t]);
    for (int r = 0; r < amx.rows[t]; r++)
        memcpy(amx.data[t][r], (const uint8_t *)from + r * stride, amx.row_bytes[t]);
}

void amx_emulated_store(int t, void *to, int64_t stride)
{
    need_tile(t);
    for (int r = 0; r < amx.rows[t]; r++)
        memcpy((uint8_t *)to + r * stride, amx.data[t][r], amx.row_bytes[t]);
}

/* c[m][n] += sum over k and i < 4 of a[m][4 k + i] (signed) * b[k][4 n + i] (unsigned). */
void amx_emulated_dot(int c, int a, int b)
{
    need_tile(a);
    need_tile(b);
    need_tile(c);
    need(c != a && c != b && a != b, "tiles of a product are three");
    need(amx.rows[c] == amx.rows[a] && amx.row_bytes[c] == amx.row_bytes[b] &&
             amx.row_bytes[a] == 4 * amx.rows[b],
         "shapes of a product");
    n_products++;
    for (int m = 0; m < amx.rows[c]; m++) {
        for (int n = 0; n < amx.row_bytes[c] / 4; n++) {
            uint32_t sum;
            memcpy(&sum, amx.data[c][m] + 4 * n, sizeof sum);
            for (int k = 0; k < amx.row_bytes[a]; k++)
                sum += (uint32_t)((int8_t)amx.data[a][m][k] *
                                  amx.data[b][k / 4][4 * n + k % 4]);
            memcpy(amx.data[c][m] + 4 * n, &sum, sizeof sum);
        }
    }
}
