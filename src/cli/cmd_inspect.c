/*
 * cmd_inspect.c - bonsai2 inspect: what is in a model file or folder.
 *
 * Everything printed comes from the file, so names are cleaned before they reach a
 * terminal. The hash of all bytes is computed last, since it reads all of them.
 */
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "format/modelfile.h"
#include "format/names.h"
#include "format/tiers.h"
#include "model/rotation.h"
#include "tensor/quant.h"
#include "text/utf8.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_ROWS = 16, FAULTS_SHOWN = 20 };

/* A block that no encoder writes. */
struct fault {
    int64_t tensor, row, block;
    const char *what; /* static */
};

struct inspect {
    struct cli_common common;
    bool verify;
    struct log log;
    struct modelfile *mf;
    struct rotation_decl rotation;
    uint64_t n_params, tensor_bytes;
    int64_t n_padded;
    uint64_t type_count[N_DTYPES], type_params[N_DTYPES], type_bytes[N_DTYPES];
    struct fault fault[FAULTS_SHOWN];
    int64_t n_faults;
    char sha256[65], fingerprint[65];
};

static double bits_per_weight(uint64_t bytes, uint64_t params)
{
    return params ? (double)bytes * 8.0 / (double)params : 0.0;
}

/* A text key for people: "" when it is absent or no text. */
static const char *shown_key(const struct inspect *in, const char *key,
                             char buf[NAMES_SHOW_MAX])
{
    const struct meta_kv *kv = meta_find(modelfile_meta(in->mf), key);

    if (!kv || kv->type != MT_STR)
        return "";
    return names_show(buf, kv->v.strs->data, kv->v.strs->len);
}

/* What a tensor takes of the file where groups of zeros are left out; of others, which a
 * folder may store in another type, what they are here. */
static uint64_t bytes_of(const struct inspect *in, int64_t i)
{
    return modelfile_left_out(in->mf, i) > 0 ? modelfile_stored_bytes(in->mf, i)
                                             : modelfile_tensor(in->mf, i)->n_bytes;
}

static void count(struct inspect *in)
{
    for (int64_t i = 0; i < modelfile_n_tensors(in->mf); i++) {
        const struct tensor *t = modelfile_tensor(in->mf, i);
        uint64_t n = (uint64_t)tensor_count(t);
        in->n_params += n;
        in->tensor_bytes += bytes_of(in, i);
        in->n_padded += t->pad > 0;
        in->type_count[t->type]++;
        in->type_params[t->type] += n;
        in->type_bytes[t->type] += bytes_of(in, i);
    }
}

/* Looks at every block of tensor i; notes the first bad one of each row. */
static void verify_tensor(struct inspect *in, int64_t i)
{
    const struct tensor *t = modelfile_tensor(in->mf, i);
    int64_t rows = t->n_bytes ? tensor_rows(t) : 0;
    size_t row_bytes = rows ? (size_t)(t->n_bytes / (uint64_t)rows) : 0;
    const char *what;

    for (int64_t r = 0; r < rows; r++) {
        int64_t block =
            quant_verify_row(t->type, t->data + (size_t)r * row_bytes, t->ne[0], &what);
        if (block < 0)
            continue;
        if (in->n_faults < FAULTS_SHOWN)
            in->fault[in->n_faults] = (struct fault){i, r, block, what};
        in->n_faults++;
    }
}

static enum b2_status verify(struct inspect *in, struct b2_err *err)
{
    struct progress p = cli_progress(&in->common, "verify", NULL,
                                     in->tensor_bytes ? in->tensor_bytes : 1);
    uint64_t done = 0;

    for (int64_t i = 0; i < modelfile_n_tensors(in->mf); i++) {
        enum b2_status rc = modelfile_load(in->mf, i, err);
        if (rc)
            return rc;
        verify_tensor(in, i);
        done += modelfile_tensor(in->mf, i)->n_bytes;
        modelfile_unload(in->mf, i);
        progress_update(&p, done, 0.0);
    }
    return B2_OK;
}

/* ---- for people ---- */

static const char *const kind_names[] = {
    [MF_GGUF] = "GGUF",
    [MF_SAFETENSORS] = "safetensors file",
    [MF_FOLDER] = "Hugging Face folder",
};

static void put_model(struct str *s, const struct inspect *in)
{
    char a[NAMES_SHOW_MAX], b[NAMES_SHOW_MAX];
    uint64_t bytes = modelfile_bytes(in->mf);
    const char *arch = shown_key(in, "general.architecture", a);

    names_show(b, modelfile_path(in->mf), strlen(modelfile_path(in->mf)));
    str_printf(s, "%s\n", b);
    str_printf(s, "  kind          %s, ", kind_names[modelfile_kind(in->mf)]);
    str_put_bytes(s, bytes);
    str_printf(s, " (%" PRIu64 " bytes)\n", bytes);
    str_printf(s, "  architecture  %s\n", *arch ? arch : "not stated");
    if (*shown_key(in, "general.name", b))
        str_printf(s, "  name          %s\n", b);
    if (*shown_key(in, "general.license", b))
        str_printf(s, "  licence       %s\n", b);
    str_printf(s, "  parameters    %" PRIu64 " in %" PRId64 " tensors\n", in->n_params,
               modelfile_n_tensors(in->mf));
    str_printf(s, "  bits/weight   %.3f over all tensors\n",
               bits_per_weight(in->tensor_bytes, in->n_params));
}

static void put_sizes(struct str *s, const struct inspect *in)
{
    static const char *const rows[][2] = {
        {"block_count", "layers"},
        {"embedding_length", "width"},
        {"feed_forward_length", "ffn"},
        {"attention.head_count", "heads"},
        {"attention.head_count_kv", "kv heads"},
        {"context_length", "context"},
    };
    const struct meta *m = modelfile_meta(in->mf);
    const char *arch;
    char key[256];
    int n = 0;

    if (!meta_find(m, "general.architecture") ||
        meta_get_str(m, "general.architecture", &arch, NULL))
        return;
    for (size_t i = 0; i < countof(rows); i++) {
        uint64_t v;
        (void)snprintf(key, sizeof key, "%.100s.%s", arch, rows[i][0]);
        if (meta_get_u64(m, key, &v, NULL) == B2_OK)
            str_printf(s, "%s%" PRIu64 " %s", n++ ? ", " : "  sizes         ", v,
                       rows[i][1]);
    }
    str_put(s, n ? "\n" : "");
}

static int64_t smallest_block(const struct rotation_decl *r)
{
    int64_t block = r->block;

    for (uint64_t i = 0; r->blocks && i < r->n_widths; i++)
        block = i == 0 || r->blocks[i] < block ? r->blocks[i] : block;
    return block;
}

static void put_rotation(struct str *s, const struct inspect *in)
{
    const struct rotation_decl *r = &in->rotation;
    uint64_t prism = in->type_count[DT_PQ2_0] + in->type_count[DT_PTQ1_0];

    if (r->version == 0) {
        str_printf(s, "  rotation      none declared%s\n",
                   prism ? " (PQ2_0/PTQ1_0 weights are taken as they stand)" : "");
        return;
    }
    str_printf(s,
               "  rotation      Hadamard, version %" PRIu32 ", %s %" PRId64
               ", %s signs; %" PRIu64 " weights forward, %" PRIu64 " inverse",
               r->version, r->blocks ? "smallest block" : "blocks of",
               smallest_block(r), r->explicit_signs ? "explicit" : "identity",
               r->n_forward, r->n_inverse);
    for (uint64_t i = 0; i < r->n_widths; i++) {
        str_printf(s, "%s%" PRId32, i ? ", " : "; widths ", r->widths[i]);
        if (r->blocks)
            str_printf(s, " in blocks of %" PRId32, r->blocks[i]);
    }
    str_put(s, r->gdn_v_grouped ? "; grouped V heads\n" : "\n");
}

static void put_padding(struct str *s, const struct inspect *in)
{
    uint64_t bytes = 0;

    if (in->n_padded == 0)
        return;
    for (int64_t i = 0; i < modelfile_n_tensors(in->mf); i++) {
        const struct tensor *t = modelfile_tensor(in->mf, i);
        if (t->pad)
            bytes += (uint64_t)((double)t->n_bytes * (double)t->pad / (double)t->ne[0]);
    }
    str_printf(s,
               "  padding       rows of %" PRId64 " tensors are stored wider than they "
               "count, about %" PRIu64 " bytes\n",
               in->n_padded, bytes);
}

/* A table of tokens in two tensors. */
static void put_tiers(struct str *s, const struct inspect *in)
{
    const int64_t i = modelfile_find(in->mf, TIERS_HOT),
                  k = modelfile_find(in->mf, TIERS_RARE);

    if (i < 0 || k < 0 || !tiers_declared(modelfile_meta(in->mf)))
        return;
    const struct tensor *hot = modelfile_tensor(in->mf, i),
                        *rare = modelfile_tensor(in->mf, k);
    str_printf(s,
               "  token table   two tensors: %" PRId64
               " frequent tokens in %s, %" PRId64 " others in %s\n",
               tensor_rows(hot), dtype_info(hot->type)->name, tensor_rows(rare),
               dtype_info(rare->type)->name);
}

static void put_left_out(struct str *s, const struct inspect *in)
{
    int64_t groups = 0, bytes = 0;

    for (int64_t i = 0; i < modelfile_n_tensors(in->mf); i++) {
        const int64_t n = modelfile_left_out(in->mf, i);
        groups += n;
        bytes += n * dtype_info(modelfile_tensor(in->mf, i)->type)->bytes;
    }
    if (groups > 0)
        str_printf(s,
                   "  left out      %" PRId64 " groups of zeros, %" PRId64
                   " bytes, are made when the file is read\n",
                   groups, bytes);
}

static void put_tokenizer(struct str *s, const struct inspect *in)
{
    const struct meta *m = modelfile_meta(in->mf);
    const struct meta_kv *tokens = meta_find(m, "tokenizer.ggml.tokens");
    const struct meta_kv *merges = meta_find(m, "tokenizer.ggml.merges");
    char a[NAMES_SHOW_MAX], b[NAMES_SHOW_MAX];

    if (!tokens || tokens->type != MT_ARR) {
        str_put(s, "  tokenizer     none\n");
        return;
    }
    const char *model = shown_key(in, "tokenizer.ggml.model", a);
    const char *pre = shown_key(in, "tokenizer.ggml.pre", b);
    str_printf(s, "  tokenizer     %s%s%s, %" PRIu64 " tokens", *model ? model : "?",
               *pre ? " / " : "", pre, tokens->n);
    if (merges && merges->type == MT_ARR)
        str_printf(s, ", %" PRIu64 " merges", merges->n);
    str_printf(s, "; %s chat template\n",
               meta_find(m, "tokenizer.chat_template") ? "with a" : "no");
}

static void put_types(struct str *s, const struct inspect *in)
{
    str_put(s, "\n  type       tensors        weights          bytes   share\n");
    for (int t = 0; t < N_DTYPES; t++) {
        if (in->type_count[t] == 0)
            continue;
        double share = in->tensor_bytes ? 100.0 * (double)in->type_bytes[t] /
                                              (double)in->tensor_bytes
                                        : 0.0;
        str_printf(s, "  %-9s %8" PRIu64 " %14" PRIu64 " %14" PRIu64 "  %5.1f%%\n",
                   dtype_info((enum dtype)t)->name, in->type_count[t],
                   in->type_params[t], in->type_bytes[t], share);
    }
    if (in->type_count[DT_Q2_0_G128])
        str_put(
            s,
            "  Q2_0_G128 is type id 42 in the group-128 legacy layout: convert it to "
            "type 142 with\n  bonsai2 export --format gguf-pq2_0 before running it.\n");
}

static void put_shape(struct str *s, const struct tensor *t)
{
    for (int d = 0; d < t->rank; d++)
        str_printf(s, "%s%" PRId64, d ? " x " : "", t->ne[d]);
    if (t->rank == 0)
        str_put(s, "one value");
    if (t->pad)
        str_printf(s, " (%" PRId64 " of %" PRId64 " count)", tensor_width(t), t->ne[0]);
}

static void put_tensors(struct str *s, const struct inspect *in)
{
    int64_t n = modelfile_n_tensors(in->mf);
    int64_t shown = in->common.verbose || n <= TABLE_ROWS + 4 ? n : TABLE_ROWS;

    if (n == 0)
        return;
    str_put(s,
            "\n  tensor                             type              bytes  shape\n");
    for (int64_t i = 0; i < shown; i++) {
        const struct tensor *t = modelfile_tensor(in->mf, i);
        char name[NAMES_SHOW_MAX];
        str_printf(s, "  %-34s %-9s %13" PRIu64 "  ",
                   names_show(name, t->name, strlen(t->name)),
                   dtype_info(t->type)->name, bytes_of(in, i));
        put_shape(s, t);
        str_put(s, "\n");
    }
    if (shown < n)
        str_printf(s, "  and %" PRId64 " more (--verbose shows all)\n", n - shown);
}

static void put_faults(struct str *s, const struct inspect *in)
{
    char name[NAMES_SHOW_MAX];

    if (in->n_faults == 0) {
        str_put(s, "\n  verify        every block is one that an encoder writes\n");
        return;
    }
    str_printf(s, "\n  verify        %" PRId64 " rows hold what no encoder writes:\n",
               in->n_faults);
    for (int64_t i = 0; i < min_i64(in->n_faults, FAULTS_SHOWN); i++) {
        const struct fault *f = &in->fault[i];
        const struct tensor *t = modelfile_tensor(in->mf, f->tensor);
        str_printf(s, "    tensor %s, row %" PRId64 ", block %" PRId64 ": %s\n",
                   names_show(name, t->name, strlen(t->name)), f->row, f->block,
                   f->what);
    }
    if (in->n_faults > FAULTS_SHOWN)
        str_printf(s, "    and %" PRId64 " more\n", in->n_faults - FAULTS_SHOWN);
}

static int print_text(const struct inspect *in)
{
    struct str s = {0};
    int rc = CLI_DONE;

    put_model(&s, in);
    put_sizes(&s, in);
    put_rotation(&s, in);
    put_padding(&s, in);
    put_tiers(&s, in);
    put_left_out(&s, in);
    put_tokenizer(&s, in);
    put_types(&s, in);
    put_tensors(&s, in);
    if (in->verify)
        put_faults(&s, in);
    str_printf(&s, "\n  fingerprint   %s (header and tensor table)\n", in->fingerprint);
    str_printf(&s, "  sha256        %s (all bytes)\n", in->sha256);
    if (!str_ok(&s)) {
        struct b2_err err = {0};
        (void)err_set(&err, B2_ENOMEM, "out of memory");
        rc = cli_report_error(&err);
    } else if (!cli_write(s.data, s.len)) {
        rc = CLI_FAILED;
    }
    str_free(&s);
    return rc;
}

/* ---- for programs ---- */

/* Text as JSON may hold it: what is not UTF-8 is cleaned. */
static void add_text(cJSON *o, const char *key, const char *text, size_t n)
{
    char buf[NAMES_SHOW_MAX];

    if (!utf8_valid(text, n) || strlen(text) != n)
        text = names_show(buf, text, n);
    cJSON_AddStringToObject(o, key, text);
}

static void add_key(cJSON *o, const struct inspect *in, const char *name,
                    const char *key)
{
    const struct meta_kv *kv = meta_find(modelfile_meta(in->mf), key);

    if (kv && kv->type == MT_STR)
        add_text(o, name, kv->v.strs->data, kv->v.strs->len);
    else
        cJSON_AddNullToObject(o, name);
}

static void add_tensors(cJSON *root, const struct inspect *in)
{
    cJSON *list = cJSON_AddArrayToObject(root, "tensors");

    for (int64_t i = 0; i < modelfile_n_tensors(in->mf); i++) {
        const struct tensor *t = modelfile_tensor(in->mf, i);
        cJSON *o = cJSON_CreateObject();
        cJSON *shape = cJSON_CreateArray();
        add_text(o, "name", t->name, strlen(t->name));
        cJSON_AddStringToObject(o, "type", dtype_info(t->type)->name);
        for (int d = 0; d < t->rank; d++)
            cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->ne[d]));
        cJSON_AddItemToObject(o, "shape", shape);
        cJSON_AddNumberToObject(o, "bytes", (double)bytes_of(in, i));
        cJSON_AddNumberToObject(o, "padding", (double)t->pad);
        if (modelfile_left_out(in->mf, i) > 0)
            cJSON_AddNumberToObject(o, "groups_left_out",
                                    (double)modelfile_left_out(in->mf, i));
        cJSON_AddItemToArray(list, o);
    }
}

static void add_rotation(cJSON *root, const struct inspect *in)
{
    const struct rotation_decl *r = &in->rotation;

    if (r->version == 0) {
        cJSON_AddNullToObject(root, "rotation");
        return;
    }
    cJSON *o = cJSON_AddObjectToObject(root, "rotation");
    cJSON_AddNumberToObject(o, "version", r->version);
    cJSON_AddNumberToObject(o, "block_size", (double)smallest_block(r));
    cJSON_AddStringToObject(o, "sign_mode",
                            r->explicit_signs ? "explicit" : "identity");
    cJSON_AddBoolToObject(o, "tied_output", r->tied_output);
    cJSON_AddBoolToObject(o, "gdn_v_grouped", r->gdn_v_grouped);
    cJSON *widths = cJSON_AddArrayToObject(o, "sign_widths");
    for (uint64_t i = 0; i < r->n_widths; i++)
        cJSON_AddItemToArray(widths, cJSON_CreateNumber(r->widths[i]));
    cJSON *blocks = r->blocks ? cJSON_AddArrayToObject(o, "blocks") : NULL;
    for (uint64_t i = 0; blocks && i < r->n_widths; i++)
        cJSON_AddItemToArray(blocks, cJSON_CreateNumber(r->blocks[i]));
    cJSON_AddNumberToObject(o, "n_forward", (double)r->n_forward);
    cJSON_AddNumberToObject(o, "n_inverse", (double)r->n_inverse);
}

static void add_types(cJSON *root, const struct inspect *in)
{
    cJSON *list = cJSON_AddObjectToObject(root, "types");

    for (int t = 0; t < N_DTYPES; t++) {
        if (in->type_count[t] == 0)
            continue;
        cJSON *o = cJSON_AddObjectToObject(list, dtype_info((enum dtype)t)->name);
        cJSON_AddNumberToObject(o, "tensors", (double)in->type_count[t]);
        cJSON_AddNumberToObject(o, "weights", (double)in->type_params[t]);
        cJSON_AddNumberToObject(o, "bytes", (double)in->type_bytes[t]);
    }
}

static void add_verify(cJSON *root, const struct inspect *in)
{
    cJSON *o = cJSON_AddObjectToObject(root, "verify");
    cJSON *list = cJSON_AddArrayToObject(o, "faults");

    cJSON_AddNumberToObject(o, "n_faults", (double)in->n_faults);
    for (int64_t i = 0; i < min_i64(in->n_faults, FAULTS_SHOWN); i++) {
        const struct fault *f = &in->fault[i];
        const struct tensor *t = modelfile_tensor(in->mf, f->tensor);
        cJSON *e = cJSON_CreateObject();
        add_text(e, "tensor", t->name, strlen(t->name));
        cJSON_AddNumberToObject(e, "row", (double)f->row);
        cJSON_AddNumberToObject(e, "block", (double)f->block);
        cJSON_AddStringToObject(e, "what", f->what);
        cJSON_AddItemToArray(list, e);
    }
}

static int print_json(const struct inspect *in)
{
    cJSON *root = cJSON_CreateObject();

    cJSON_AddStringToObject(root, "kind", kind_names[modelfile_kind(in->mf)]);
    add_key(root, in, "arch", "general.architecture");
    add_key(root, in, "name", "general.name");
    add_key(root, in, "license", "general.license");
    cJSON_AddNumberToObject(root, "n_params", (double)in->n_params);
    cJSON_AddNumberToObject(root, "file_bytes", (double)modelfile_bytes(in->mf));
    cJSON_AddNumberToObject(root, "bits_per_weight",
                            bits_per_weight(in->tensor_bytes, in->n_params));
    add_types(root, in);
    add_tensors(root, in);
    add_rotation(root, in);
    cJSON_AddNumberToObject(root, "padded_tensors", (double)in->n_padded);
    if (in->verify)
        add_verify(root, in);
    cJSON_AddStringToObject(root, "fingerprint", in->fingerprint);
    cJSON_AddStringToObject(root, "sha256", in->sha256);
    return cli_print_json(root);
}

static enum b2_status look(struct inspect *in, const char *path, struct b2_err *err)
{
    enum b2_status rc = modelfile_open(&in->mf, path, &in->log, err);

    if (rc)
        return rc;
    rc = rotation_read(&in->rotation, modelfile_meta(in->mf), err);
    if (rc) {
        err_wrap(err, "%s", path);
        return rc;
    }
    count(in);
    if (in->verify)
        rc = verify(in, err);
    if (rc == B2_OK)
        rc = modelfile_fingerprint(in->mf, in->fingerprint, err);
    if (rc == B2_OK)
        rc = modelfile_sha256(in->mf, in->sha256, err);
    return rc;
}

int cmd_inspect(int argc, char **argv)
{
    static const struct cmd cmd = {
        "inspect", "Show what is in a model file or folder.", "FILE|DIR", 1,
        1,         "bonsai2 inspect model.gguf --verify"};
    struct inspect in = {0};
    struct b2_err err = {0};
    int n_operands = 0;
    const struct opt opts[] = {
        {OPT_FLAG, 0, "verify", NULL, &in.verify, 0, 0,
         "Read every block; exit 1 if one holds what no encoder writes."},
        CLI_COMMON_OPTS(&in.common),
        {.kind = OPT_END},
    };

    int rc = cli_parse(&cmd, opts, argc, argv, &n_operands);
    if (rc != OPT_RUN)
        return rc;
    cli_limit_memory(&in.common);
    in.log = cli_log(&in.common);
    if (look(&in, argv[1], &err))
        rc = cli_report_error(&err);
    else
        rc = in.common.json ? print_json(&in) : print_text(&in);
    if (rc == CLI_DONE && in.n_faults > 0)
        rc = CLI_FAILED;
    modelfile_close(in.mf);
    return rc;
}
