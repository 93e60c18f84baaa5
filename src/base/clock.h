/*
 * clock.h - time.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_s(void);         /* monotonic seconds since some fixed moment */
long long clock_unix_s(void); /* wall clock, seconds since 1970 UTC */

#endif
