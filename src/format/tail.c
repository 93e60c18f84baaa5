/*
 * tail.c - the bonsai2.tail.* keys: read, checked against the tensors, written.
 */
#include "format/tail.h"

#include "format/modelfile_int.h"

#include <string.h>

#define PREFIX "bonsai2.tail."

static const char *const known_keys[] = {"names", "widths"};

bool tail_is_key(const char *key)
{
    return strncmp(key, PREFIX, sizeof PREFIX - 1) == 0;
}

enum b2_status tail_apply(struct tensor *t, uint32_t width, struct b2_err *err)
{
    const struct dtype_info *info = dtype_info(t->type);
    int64_t pad = t->ne[0] - (int64_t)width;

    if (t->rank < 2)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: is declared padded, but is no matrix", t->name);
    if (width == 0 || pad <= 0)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: declared width %lld of rows stored with %lld: it "
                       "must be above 0 and below them",
                       t->name, (long long)width, (long long)t->ne[0]);
    if (pad >= info->block)
        return err_set(err, B2_EFORMAT,
                       "tensor %s: rows of %lld stored with %lld: padding of %lld is a "
                       "group of %s (%d) or more",
                       t->name, (long long)width, (long long)t->ne[0], (long long)pad,
                       info->name, info->block);
    t->pad = pad;
    return B2_OK;
}

static enum b2_status apply_name(struct modelfile *mf, const struct meta_str *name,
                                 int32_t width, struct b2_err *err)
{
    char show[NAMES_SHOW_MAX];
    int64_t i = 0;
    enum b2_status rc = mf_find_named(mf, PREFIX "names", name, &i, show, err);

    if (rc)
        return rc;
    if (mf->entry[i].t.pad != 0)
        return err_set(err, B2_EFORMAT, "key " PREFIX "names has %s twice", show);
    return tail_apply(&mf->entry[i].t, (uint32_t)width, err);
}

enum b2_status mf_apply_tail(struct modelfile *mf, struct b2_err *err)
{
    const struct meta_str *names;
    const int32_t *widths;
    uint64_t n_names, n_widths;
    int n_keys;
    enum b2_status rc = meta_check_group(
        mf->meta, PREFIX, known_keys, countof(known_keys), "padded rows", &n_keys, err);

    if (rc || n_keys == 0)
        return rc;
    rc = meta_get_strs(mf->meta, PREFIX "names", &names, &n_names, err);
    if (!rc) /* unsigned, as long as they are below 2^31 */
        rc = meta_get_i32s(mf->meta, PREFIX "widths", &widths, &n_widths, err);
    if (!rc && n_names != n_widths)
        rc = err_set(err, B2_EFORMAT,
                     "key " PREFIX
                     "widths has %llu widths for the %llu names of " PREFIX "names",
                     (unsigned long long)n_widths, (unsigned long long)n_names);
    for (uint64_t i = 0; !rc && i < n_names; i++)
        rc = apply_name(mf, &names[i], widths[i], err);
    return rc;
}

enum b2_status tail_set_keys(struct meta *m, const struct meta_str *names,
                             const uint32_t *widths, uint64_t n, struct b2_err *err)
{
    if (n == 0)
        return B2_OK;
    enum b2_status rc = meta_set_strs(m, PREFIX "names", names, n, err);
    return rc ? rc : meta_set_arr(m, PREFIX "widths", MT_U32, widths, n, err);
}
