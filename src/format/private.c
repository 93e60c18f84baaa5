/*
 * private.c - the bonsai2.types.* keys: written, and checked against the tensors.
 */
#include "format/private.h"

#include "format/modelfile_int.h"

#include <string.h>

#define PREFIX "bonsai2.types."

enum { MAX_TYPES = 16 };

static const char *const known_keys[] = {"names", "ids", "groups", "bytes"};

bool private_is_key(const char *key)
{
    return strncmp(key, PREFIX, sizeof PREFIX - 1) == 0;
}

static bool is_private(enum dtype t)
{
    return (dtype_info(t)->flags & DTF_PRIVATE) != 0;
}

enum b2_status private_set_keys(struct meta *m, const bool *used, struct b2_err *err)
{
    struct meta_str names[MAX_TYPES];
    uint32_t ids[MAX_TYPES], groups[MAX_TYPES], bytes[MAX_TYPES];
    uint64_t n = 0;

    for (int t = 0; t < N_DTYPES && n < MAX_TYPES; t++) {
        const struct dtype_info *info = dtype_info((enum dtype)t);
        if (!used[t] || !is_private((enum dtype)t))
            continue;
        names[n] = (struct meta_str){info->name, strlen(info->name)};
        ids[n] = (uint32_t)info->gguf_id;
        groups[n] = (uint32_t)info->block;
        bytes[n++] = (uint32_t)info->bytes;
    }
    if (n == 0)
        return B2_OK;
    enum b2_status rc = meta_set_strs(m, PREFIX "names", names, n, err);
    if (!rc)
        rc = meta_set_arr(m, PREFIX "ids", MT_U32, ids, n, err);
    if (!rc)
        rc = meta_set_arr(m, PREFIX "groups", MT_U32, groups, n, err);
    return rc ? rc : meta_set_arr(m, PREFIX "bytes", MT_U32, bytes, n, err);
}

/* Every declared type must be ours, with our numbers: another block under the same name
 * or id is another type. */
static enum b2_status check_declared(const struct meta *m, bool *declared,
                                     struct b2_err *err)
{
    const struct meta_str *names;
    const int32_t *ids, *groups, *bytes;
    uint64_t n, n_ids, n_groups, n_bytes;
    enum b2_status rc = meta_get_strs(m, PREFIX "names", &names, &n, err);

    if (!rc) /* unsigned, and below 2^31 */
        rc = meta_get_i32s(m, PREFIX "ids", &ids, &n_ids, err);
    if (!rc)
        rc = meta_get_i32s(m, PREFIX "groups", &groups, &n_groups, err);
    if (!rc)
        rc = meta_get_i32s(m, PREFIX "bytes", &bytes, &n_bytes, err);
    if (rc)
        return rc;
    if (n_ids != n || n_groups != n || n_bytes != n)
        return err_set(err, B2_EFORMAT,
                       "keys " PREFIX "*: %llu names, %llu ids, %llu groups and %llu "
                       "sizes",
                       (unsigned long long)n, (unsigned long long)n_ids,
                       (unsigned long long)n_groups, (unsigned long long)n_bytes);
    for (uint64_t i = 0; i < n; i++) {
        char show[NAMES_SHOW_MAX];
        enum dtype t;
        names_show(show, names[i].data, names[i].len);
        if (!dtype_from_gguf(&t, (uint32_t)ids[i]) || !is_private(t) ||
            strlen(dtype_info(t)->name) != names[i].len ||
            memcmp(dtype_info(t)->name, names[i].data, names[i].len) != 0 ||
            dtype_info(t)->block != groups[i] || dtype_info(t)->bytes != bytes[i])
            return err_set(err, B2_EUNSUP,
                           "key " PREFIX "names: %s (id %u, %d weights in %d bytes) is "
                           "not a type known here; a newer version may know it",
                           show, (unsigned)ids[i], groups[i], bytes[i]);
        declared[t] = true;
    }
    return B2_OK;
}

enum b2_status mf_check_private(struct modelfile *mf, struct b2_err *err)
{
    bool declared[N_DTYPES] = {false};
    int n_keys;
    enum b2_status rc = meta_check_group(
        mf->meta, PREFIX, known_keys, countof(known_keys), "the types", &n_keys, err);

    if (!rc && n_keys > 0)
        rc = check_declared(mf->meta, declared, err);
    for (int64_t i = 0; !rc && i < modelfile_n_tensors(mf); i++) {
        const struct tensor *t = modelfile_tensor(mf, i);
        if (is_private(t->type) && !declared[t->type])
            rc = err_set(err, B2_EFORMAT,
                         "tensor %s: type %s, but the file does not declare it "
                         "(" PREFIX "names)",
                         t->name, dtype_info(t->type)->name);
    }
    return rc;
}
