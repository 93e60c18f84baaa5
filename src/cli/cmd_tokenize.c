/*
 * cmd_tokenize.c - bonsai2 tokenize: text to token ids, and back.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/folder.h"
#include "format/modelfile.h"
#include "model/vocab.h"
#include "text/utf8.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TEXT_BYTES = 256 << 20, MAX_OPERANDS = 1 << 20 };

/* What the words say, and what is made from them. */
struct tokenize {
    struct cli_common common;
    const char *model_path;
    bool from_stdin, decode, no_bos, special, no_special;

    struct modelfile *file; /* of a GGUF or safetensors file */
    struct meta *meta;      /* of a folder's tokenizer.json */
    struct tokenizer *t;
    char *input; /* standard input */
    size_t n_input;
    struct tok_ids ids;
};

static const struct cmd command = {
    .name = "tokenize",
    .summary =
        "Turn text into token ids, and back with --decode. A begin token is added "
        "where the model wants one.",
    .operands = "TEXT | IDS",
    .max_operands = MAX_OPERANDS,
    .example = "bonsai2 tokenize -m model.gguf 'Hello world'",
};

static int parse(struct tokenize *k, int argc, char **argv, int *n_operands)
{
    const struct opt opts[] = {
        {OPT_STR, 'm', "model", "FILE|DIR", &k->model_path, 0, 0,
         "Model, or a folder or GGUF that holds only a tokenizer."},
        {OPT_FLAG, 0, "stdin", NULL, &k->from_stdin, 0, 0,
         "Read the text (or the ids) from standard input."},
        {OPT_FLAG, 0, "decode", NULL, &k->decode, 0, 0,
         "The operands are ids: words, commas or a JSON list."},
        {OPT_FLAG, 0, "no-bos", NULL, &k->no_bos, 0, 0,
         "Add no begin and no end token."},
        {OPT_FLAG, 0, "special", NULL, &k->special, 0, 0,
         "Recognise control tokens written in the text, print them decoding. [on]"},
        {OPT_FLAG, 0, "no-special", NULL, &k->no_special, 0, 0,
         "Control tokens in the text are plain text; decoding leaves them out."},
        CLI_COMMON_OPTS(&k->common),
        {.kind = OPT_END},
    };

    int rc = cli_parse(&command, opts, argc, argv, n_operands);
    if (rc != OPT_RUN)
        return rc;
    if (!k->model_path)
        return cli_usage_error(&command, "which model? -m FILE");
    if (k->special && k->no_special)
        return cli_usage_error(&command, "--special or --no-special, not both");
    if (k->from_stdin && *n_operands > 0)
        return cli_usage_error(&command, "operands or --stdin, not both");
    if (!k->from_stdin && *n_operands == 0)
        return cli_usage_error(&command, "give %s, or --stdin",
                               k->decode ? "ids" : "a text");
    if (!k->decode && *n_operands > 1)
        return cli_usage_error(&command, "one text, in quotes; %d words were given",
                               *n_operands);
    return OPT_RUN;
}

/* ---- the tokenizer ---- */

static enum b2_status open_tokenizer(struct tokenize *k, struct b2_err *err)
{
    struct log log = cli_log(&k->common);
    const struct meta *meta;

    if (file_is_dir(k->model_path)) {
        enum b2_status rc = folder_tokenizer(&k->meta, k->model_path, err);
        if (rc)
            return rc;
        meta = k->meta;
    } else {
        enum b2_status rc = modelfile_open(&k->file, k->model_path, &log, err);
        if (rc)
            return rc;
        meta = modelfile_meta(k->file);
    }
    enum b2_status rc = vocab_tokenizer(&k->t, meta, err);
    if (rc)
        err_wrap(err, "%s", k->model_path);
    return rc;
}

/* ---- text to ids ---- */

/* text as valid UTF-8, for JSON and the terminal. */
static void put_valid(struct str *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        char buf[4];
        size_t used;
        uint32_t cp = utf8_next(s + i, n - i, &used);
        str_putn(out, buf, (size_t)utf8_put(buf, cp));
        i += used;
    }
}

static cJSON *ids_json(const struct tokenize *k)
{
    cJSON *list = cJSON_CreateArray();

    for (int64_t i = 0; list && i < k->ids.n; i++) {
        cJSON *id = cJSON_CreateNumber(k->ids.id[i]);
        if (!id || !cJSON_AddItemToArray(list, id)) {
            cJSON_Delete(id);
            cJSON_Delete(list);
            return NULL;
        }
    }
    return list;
}

static cJSON *pieces_json(const struct tokenize *k)
{
    cJSON *list = cJSON_CreateArray();
    struct str text = {0};
    bool ok = list != NULL;

    for (int64_t i = 0; ok && i < k->ids.n; i++) {
        size_t n;
        const char *s = tok_bytes(k->t, k->ids.id[i], true, &n);
        str_clear(&text);
        str_put(&text, "");
        put_valid(&text, s, n);
        cJSON *piece = str_ok(&text) ? cJSON_CreateString(text.data) : NULL;
        ok = piece && cJSON_AddItemToArray(list, piece);
        if (!ok)
            cJSON_Delete(piece);
    }
    str_free(&text);
    if (!ok) {
        cJSON_Delete(list);
        return NULL;
    }
    return list;
}

/* Adds item as key and takes it; on failure deletes both and sets *root to NULL. */
static void add(cJSON **root, const char *key, cJSON *item)
{
    if (*root && item && cJSON_AddItemToObject(*root, key, item))
        return;
    cJSON_Delete(item);
    cJSON_Delete(*root);
    *root = NULL;
}

/* Ids on stdout; with --verbose the pieces, one a line on stderr or as a JSON list. */
static int print_ids(const struct tokenize *k)
{
    struct str line = {0};
    bool ok;

    if (k->common.json) {
        cJSON *root = cJSON_CreateObject();
        add(&root, "ids", ids_json(k));
        if (k->common.verbose)
            add(&root, "pieces", pieces_json(k));
        return cli_print_json(root);
    }
    for (int64_t i = 0; k->common.verbose && i < k->ids.n; i++) {
        size_t n;
        const char *s = tok_bytes(k->t, k->ids.id[i], true, &n);
        str_printf(&line, "%8" PRId32 "  ", k->ids.id[i]);
        put_valid(&line, s, n);
        fprintf(stderr, "%s\n", str_ok(&line) ? line.data : "");
        str_clear(&line);
    }
    for (int64_t i = 0; i < k->ids.n; i++)
        str_printf(&line, "%s%" PRId32, i ? " " : "", k->ids.id[i]);
    str_put(&line, "\n");
    ok = str_ok(&line) && cli_write(line.data, line.len);
    str_free(&line);
    return ok ? CLI_DONE : CLI_FAILED;
}

static enum b2_status encode(struct tokenize *k, const char *text, size_t n,
                             struct b2_err *err)
{
    unsigned flags =
        (k->no_special ? 0u : TOK_SPECIAL) | (k->no_bos ? 0u : TOK_ADD_BOS);

    return tok_encode(k->t, text, n, flags, &k->ids, err);
}

/* ---- ids to text ---- */

static bool is_between(char c)
{
    return c == ' ' || c == ',' || c == '[' || c == ']' || c == '\t' || c == '\n' ||
           c == '\r';
}

/* Adds the ids written in s: numbers with spaces, commas or brackets between them. */
static enum b2_status read_ids(struct tokenize *k, const char *s, size_t n,
                               struct b2_err *err)
{
    for (size_t i = 0; i < n;) {
        char word[24];
        size_t len = 0;
        int64_t id;
        if (is_between(s[i])) {
            i++;
            continue;
        }
        while (i + len < n && len + 1 < sizeof word && !is_between(s[i + len])) {
            word[len] = s[i + len];
            len++;
        }
        word[len] = '\0';
        if (!opt_parse_int(&id, word, 0, tok_count(k->t) - 1))
            return err_set(err, B2_EARG,
                           "\"%s\" is no token id of this model (0 to %lld)", word,
                           (long long)tok_count(k->t) - 1);
        if (k->ids.n == k->ids.cap) {
            int64_t cap = k->ids.cap ? 2 * k->ids.cap : 256;
            int32_t *p = mem_realloc(k->ids.id, (size_t)cap, sizeof *p);
            if (!p)
                return err_set(err, B2_ENOMEM, "out of memory");
            k->ids.id = p;
            k->ids.cap = cap;
        }
        k->ids.id[k->ids.n++] = (int32_t)id;
        i += len;
    }
    return B2_OK;
}

/* The text and a newline on stdout; as JSON ids and text, made valid UTF-8. */
static int print_text(const struct tokenize *k, const struct str *text)
{
    struct str valid = {0};

    if (!k->common.json) {
        bool ok = cli_write(text->data ? text->data : "", text->len);
        return ok && cli_write("\n", 1) ? CLI_DONE : CLI_FAILED;
    }
    cJSON *root = cJSON_CreateObject();
    add(&root, "ids", ids_json(k));
    str_put(&valid, "");
    put_valid(&valid, text->data, text->len);
    add(&root, "text", str_ok(&valid) ? cJSON_CreateString(valid.data) : NULL);
    str_free(&valid);
    return cli_print_json(root);
}

static int decode(struct tokenize *k, int n_words, char **words)
{
    struct str text = {0};
    struct b2_err err = {0};
    enum b2_status rc = B2_OK;

    if (k->from_stdin)
        rc = read_ids(k, k->input, k->n_input, &err);
    for (int i = 0; !rc && i < n_words; i++)
        rc = read_ids(k, words[i], strlen(words[i]), &err);
    if (!rc)
        rc = tok_decode(k->t, k->ids.id, k->ids.n, !k->no_special, &text, &err);
    int code = rc ? cli_report_error(&err) : print_text(k, &text);
    str_free(&text);
    return code;
}

static int run(struct tokenize *k, int n_words, char **words)
{
    struct b2_err err = {0};
    enum b2_status rc = open_tokenizer(k, &err);

    if (!rc && k->from_stdin)
        rc = file_read_all(&k->input, &k->n_input, "-", MAX_TEXT_BYTES, &err);
    if (!rc && k->decode)
        return decode(k, n_words, words);
    if (!rc)
        rc = k->from_stdin ? encode(k, k->input, k->n_input, &err)
                           : encode(k, words[0], strlen(words[0]), &err);
    return rc ? cli_report_error(&err) : print_ids(k);
}

int cmd_tokenize(int argc, char **argv)
{
    struct tokenize k = {0};
    int n_operands = 0;
    int rc = parse(&k, argc, argv, &n_operands);

    if (rc != OPT_RUN)
        return rc;
    cli_limit_memory(&k.common);
    rc = run(&k, n_operands, argv + 1);
    tok_ids_free(&k.ids);
    tok_free(k.t);
    meta_free(k.meta);
    modelfile_close(k.file);
    mem_free(k.input);
    return rc;
}
