/*
 * scratch.h - a folder of a test's own, under TMPDIR, removed at its end.
 */
#ifndef UNIT_SCRATCH_H
#define UNIT_SCRATCH_H

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scratch {
    char dir[200];
    char path[512]; /* of the last scratch_path() */
};

/* mkdtemp is POSIX; the test defines _GNU_SOURCE. Aborts: without it nothing works. */
static inline void scratch_make(struct scratch *s)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(s->dir, sizeof s->dir, "%s/b2-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(s->dir)) {
        perror(s->dir);
        abort();
    }
}

/* dir/name; valid until the next call. */
static inline const char *scratch_path(struct scratch *s, const char *name)
{
    snprintf(s->path, sizeof s->path, "%s/%s", s->dir, name);
    return s->path;
}

static inline void scratch_remove(struct scratch *s)
{
    struct b2_err err = {0};

    if (file_remove_tree(s->dir, &err))
        fprintf(stderr, "scratch: %s\n", err.msg);
}

#endif
