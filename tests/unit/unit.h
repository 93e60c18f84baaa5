/*
 * unit.h - cmocka with the headers it needs, for the tests of base/ and cli/.
 */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

/* Fails with the number of the table's row, so that the row can be found. */
#define ROW_CHECK(row, cond)                                                           \
    do {                                                                               \
        if (!(cond))                                                                   \
            fail_msg("row %d: %s", (int)(row), #cond);                                 \
    } while (0)

#endif
