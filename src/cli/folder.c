/*
 * folder.c - the files of a folder that say how text becomes tokens.
 */
#include "cli/folder.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/hf.h"
#include "format/hf_tokenizer.h"

enum { MAX_JSON_BYTES = 256 << 20 };
static const size_t max_meta_bytes = (size_t)1 << 30;

static enum b2_status read_in(char **out, size_t *n, const char *folder,
                              const char *name, struct b2_err *err)
{
    struct str path = {0};

    str_printf(&path, "%s/%s", folder, name);
    enum b2_status rc = str_ok(&path)
                            ? file_read_all(out, n, path.data, MAX_JSON_BYTES, err)
                            : err_set(err, B2_ENOMEM, "out of memory");
    str_free(&path);
    return rc;
}

/* chat_template.jinja wins over tokenizer_config.json, as in transformers. */
static enum b2_status read_template(struct meta *m, const char *folder,
                                    struct b2_err *err)
{
    char *text = NULL;
    size_t n = 0;
    enum b2_status rc = read_in(&text, &n, folder, "chat_template.jinja", err);

    if (rc == B2_ENOTFOUND)
        rc = B2_OK;
    else if (rc == B2_OK)
        rc = meta_set_str(m, "tokenizer.chat_template", text, err);
    mem_free(text);
    return rc;
}

enum b2_status folder_tokenizer(struct meta **out, const char *path, struct b2_err *err)
{
    char *json = NULL, *config = NULL;
    size_t n = 0, n_config = 0;
    struct meta *m = meta_new(max_meta_bytes);
    enum b2_status rc = m ? read_in(&json, &n, path, "tokenizer.json", err)
                          : err_set(err, B2_ENOMEM, "out of memory");

    if (rc == B2_OK) {
        rc = read_in(&config, &n_config, path, "tokenizer_config.json", err);
        if (rc == B2_ENOTFOUND)
            rc = B2_OK; /* then the post-processor alone decides on begin tokens */
    }
    if (rc == B2_OK)
        rc = hf_tokenizer_meta(m, json, n, config, n_config, 0, err);
    if (rc == B2_OK)
        rc = read_template(m, path, err);
    mem_free(json);
    mem_free(config);
    if (rc) {
        err_wrap(err, "%s", path);
        meta_free(m);
        return rc;
    }
    *out = m;
    return B2_OK;
}
