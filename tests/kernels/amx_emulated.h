/*
 * amx_emulated.h - what the emulated tiles were asked for.
 */
#ifndef TESTS_AMX_EMULATED_H
#define TESTS_AMX_EMULATED_H

/* Products of tiles so far. */
long amx_emulated_products(void);

#endif
