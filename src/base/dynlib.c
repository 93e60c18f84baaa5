/*
 * dynlib.c - dlopen behind three calls.
 */
#include "base/dynlib.h"

#include <dlfcn.h>
#include <string.h>

enum b2_status dynlib_open(struct dynlib **out, const char *name, struct b2_err *err)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return err_set(err, B2_ENOTFOUND, "%s cannot be loaded", name);
    *out = handle;
    return B2_OK;
}

/* C has no cast from an object pointer to a function's, POSIX promises that the bits are
 * the same. */
dynlib_fn *dynlib_find(const struct dynlib *lib, const char *symbol)
{
    union {
        const struct dynlib *lib;
        void *handle;
    } h = {.lib = lib};
    void *p = dlsym(h.handle, symbol);
    dynlib_fn *fn;

    memcpy(&fn, &p, sizeof fn);
    return p ? fn : NULL;
}

void dynlib_close(struct dynlib *lib)
{
    if (lib)
        (void)dlclose(lib);
}
