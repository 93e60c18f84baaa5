/*
 * mf_safetensors.c - opens one safetensors file under its own names.
 */
#include "format/modelfile_int.h"
#include "format/safetensors.h"

#include <stdio.h>
#include <string.h>

enum mf_how mf_place(const struct tensor *t)
{
    /* Whoever reads floats in place reads them through pointers of their type. */
    size_t width = (size_t)dtype_info(t->type)->bytes;

    return (uintptr_t)t->data % width == 0 ? MF_IN_PLACE : MF_COPY;
}

/* The file's own remarks become string keys, so that inspect can show them. */
static enum b2_status copy_metadata(struct meta *to, const struct meta *from,
                                    struct b2_err *err)
{
    enum b2_status rc = B2_OK;
    char key[256];

    for (int64_t i = 0; rc == B2_OK && i < meta_count(from); i++) {
        struct meta_kv kv = *meta_at(from, i);
        (void)snprintf(key, sizeof key, "safetensors.%.200s", kv.key);
        kv.key = key;
        rc = meta_copy(to, &kv, err);
    }
    return rc;
}

enum b2_status mf_open_safetensors(struct modelfile *mf, struct b2_err *err)
{
    struct mf_part *p = &mf->parts[0];
    struct safetensors s = {0};
    enum b2_status rc = safetensors_parse(&s, p->map.data, p->map.size, err);

    if (rc)
        return rc;
    p->head = s.data_offset;
    mf->meta = meta_new(SIZE_MAX / 2);
    mf->owns_meta = true;
    if (!mf->meta)
        rc = err_set(err, B2_ENOMEM, "out of memory");
    else
        rc = copy_metadata(mf->meta, s.meta, err);
    for (int64_t i = 0; rc == B2_OK && i < s.n_tensors; i++) {
        struct mf_entry e = {.t = s.tensors[i],
                             .how = mf_place(&s.tensors[i]),
                             .offset = s.offsets[i],
                             .src = s.tensors[i].data};
        e.t.name = arena_strdup(mf->arena, s.tensors[i].name);
        if (e.how != MF_IN_PLACE)
            e.t.data = NULL;
        rc = e.t.name ? mf_add_entry(mf, &e, err)
                      : err_set(err, B2_ENOMEM, "out of memory");
    }
    safetensors_close(&s);
    return rc;
}
