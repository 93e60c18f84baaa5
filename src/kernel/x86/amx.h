/*
 * amx.h - the few tile operations that gemm_amx.c uses.
 *
 * Tile numbers are constants. A build with B2_AMX_EMULATED takes them from emulated tiles
 * (tests/kernels/amx_emulated.c), so that the code above them runs on any machine.
 */
#ifndef KERNEL_X86_AMX_H
#define KERNEL_X86_AMX_H

#include <immintrin.h>
#include <stdint.h>

/* What LDTILECFG reads: palette 1, every tile of 16 rows of 64 bytes. */
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#ifdef B2_AMX_EMULATED
void amx_emulated_config(const void *config);
void amx_emulated_release(void);
void amx_emulated_zero(int tile);
void amx_emulated_load(int tile, const void *from, int64_t stride);
void amx_emulated_store(int tile, void *to, int64_t stride);
void amx_emulated_dot(int to, int a, int b); /* TDPBSUD */
#define AMX_CONFIG(p) amx_emulated_config(p)
#define AMX_RELEASE() amx_emulated_release()
#define AMX_ZERO(t) amx_emulated_zero(t)
#define AMX_LOAD(t, p, stride) amx_emulated_load(t, p, stride)
#define AMX_STORE(t, p, stride) amx_emulated_store(t, p, stride)
#define AMX_DOT(c, a, b) amx_emulated_dot(c, a, b)
#else
#define AMX_CONFIG(p) _tile_loadconfig(p)
#define AMX_RELEASE() _tile_release()
#define AMX_ZERO(t) _tile_zero(t)
#define AMX_LOAD(t, p, stride) _tile_loadd(t, p, stride)
#define AMX_STORE(t, p, stride) _tile_stored(t, p, stride)
#define AMX_DOT(c, a, b) _tile_dpbsud(c, a, b) /* signed a, unsigned b */
#endif

#endif
