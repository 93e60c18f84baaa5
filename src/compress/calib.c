/*
 * calib.c - files to pieces, pieces to tokens, tokens to windows.
 */
#include "compress/calib.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/reader.h"
#include "compress/calib_text.h"
#include "compress/overlap.h"
#include "compress/recipe.h"
#include "format/hash.h"
#include "model/vocab.h"

#include <string.h>

static const uint64_t max_file = (uint64_t)1 << 30;

/* Texts that models are judged by, in the form in which they are usually passed on. */
static const struct {
    const char *sha256, *name;
} known_sets[] = {
    {"173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08",
     "WikiText-2 test (raw)"},
    {"d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
     "WikiText-2 test (tokens)"},
    {"f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
     "WikiText-2 validation (tokens)"},
    {"3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14", "GSM8K test"},
    {"de8b2db204580ba4e307ea714f0b5ae35f0352057caf0f42026a33e3ba7e809e",
     "ARC challenge test"},
    {"36d3fa08183e514271d94e6f6d054009cd041024bf06bdd32df309c8f25b9c54",
     "ARC easy test"},
    {"85035e183e0e070d20801075d37f4ad7200f8826ca73c17e4f5b40558fbd339b",
     "HellaSwag validation"},
    {"9b247a05934e84a39cf8e3bc669e2845712a96323b066904effb26a5f0d5badc",
     "OpenBookQA test"},
    {"7c2b09868c49b72f0115c043df1199f1fe7d285857a86cc32f2754faa18aab83",
     "PIQA validation"},
    {"7ae42ff82876b26f99d9c00b6629d89b592a02e91678b5a442ca30e549fb16c7", "WinoGrande"},
    {"1d49078ba3e2b196b9344535bef34a43021f038fad9561d6ee7c53450609a6a2", "HumanEval"},
};

const char *calib_known_set(const char *sha256)
{
    for (size_t i = 0; i < countof(known_sets); i++)
        if (strcmp(known_sets[i].sha256, sha256) == 0)
            return known_sets[i].name;
    return NULL;
}

struct making {
    struct calib *c;
    const struct calib_params *p;
    const struct tokenizer *tok;
    struct overlap *avoid;        /* NULL: nothing to avoid */
    struct calib_stream *streams; /* of each source, what is kept */
    bool gap;                     /* the last piece was dropped */
};

/* FILE or FILE=SHARE: a name may hold '=' as long as no number follows it. */
static void split_share(struct calib_source *s, const char *word)
{
    const char *eq = strrchr(word, '=');

    s->path = word;
    s->path_len = strlen(word);
    s->share = 1.0;
    if (eq && eq != word && opt_parse_num(&s->share, eq + 1, 1e-6, 1e6))
        s->path_len = (size_t)(eq - word);
}

enum b2_status calib_source_path(struct str *out, const char *word, struct b2_err *err)
{
    struct calib_source s;

    split_share(&s, word);
    str_putn(out, s.path, s.path_len);
    return str_ok(out) ? B2_OK : err_set(err, B2_ENOMEM, "out of memory");
}

static enum b2_status read_avoid(struct making *k, struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    if (k->p->n_avoid == 0)
        return B2_OK;
    k->avoid = overlap_new(CALIB_WORDS);
    if (!k->avoid)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int i = 0; i < k->p->n_avoid && !rc; i++) {
        char *text = NULL;
        size_t n = 0;
        rc = file_read_all(&text, &n, k->p->avoid[i], max_file, err);
        if (!rc && !overlap_add(k->avoid, text, n))
            rc = err_set(err, B2_ENOMEM, "%s: out of memory", k->p->avoid[i]);
        mem_free(text);
    }
    return rc;
}

/* Notes that a document begins with the next token. */
static bool begin_document(struct calib_stream *s)
{
    if (s->n_docs > 0 && s->doc[s->n_docs - 1] == s->ids.n)
        return true;
    if (s->n_docs == s->cap) {
        const int64_t cap = 2 * s->cap + 16;
        int64_t *more = mem_realloc(s->doc, (size_t)cap, sizeof *more);
        if (!more)
            return false;
        s->doc = more;
        s->cap = cap;
    }
    s->doc[s->n_docs++] = s->ids.n;
    return true;
}

/* Tokens of one piece, unless it overlaps. */
static enum b2_status add_piece(void *ctx, int source, const char *text, size_t n,
                                unsigned flags, struct b2_err *err)
{
    struct making *k = ctx;
    struct calib_source *s = &k->c->source[source];
    struct calib_stream *to = &k->streams[source];
    const bool begins = (flags & PIECE_BEGINS) || k->gap;
    const unsigned how = (flags & PIECE_CHAT ? TOK_SPECIAL : 0) |
                         (k->p->documents && begins ? TOK_ADD_BOS : 0);

    s->pieces++;
    k->gap = k->avoid && overlap_has(k->avoid, text, n);
    if (k->gap) {
        s->dropped++;
        return B2_OK;
    }
    if (begins && !begin_document(to))
        return err_set(err, B2_ENOMEM, "out of memory");
    const int64_t before = to->ids.n;
    enum b2_status rc = tok_encode(k->tok, text, n, how, &to->ids, err);
    s->of_kind[text_kind(text, n)] += to->ids.n - before;
    return rc;
}

static enum b2_status read_source(struct making *k, int i, struct b2_err *err)
{
    struct calib_source *s = &k->c->source[i];
    struct calib_piece_fn fn = {add_piece, k, i};
    struct str path = {0};
    char *text = NULL;
    size_t n = 0;

    k->gap = true;
    str_putn(&path, s->path, s->path_len);
    enum b2_status rc = str_ok(&path)
                            ? file_read_all(&text, &n, path.data, max_file, err)
                            : err_set(err, B2_ENOMEM, "out of memory");
    if (!rc)
        rc = hash_sha256(s->sha256, text, n, err);
    if (!rc && calib_known_set(s->sha256))
        rc = err_set(err, B2_EARG,
                     "%s is %s, a text that models are judged by: calibrating on it "
                     "would make every score on it worthless",
                     path.data, calib_known_set(s->sha256));
    if (!rc) {
        rc = calib_text_pieces(path.data, text, n, k->p->meta, &fn, err);
        s->tokens = k->streams[i].ids.n;
    }
    if (!rc && s->pieces > 0 && 2 * s->dropped >= s->pieces)
        rc = err_set(err, B2_EARG,
                     "%s: %lld of %lld pieces share %d words in a row with an "
                     "evaluation text; it is one, or holds one",
                     path.data, (long long)s->dropped, (long long)s->pieces,
                     CALIB_WORDS);
    if (!rc && s->dropped > 0)
        log_line(
            k->p->log, LOG_INFO,
            "%s: %lld of %lld pieces dropped, which share %d words in a row with an "
            "evaluation text",
            path.data, (long long)s->dropped, (long long)s->pieces, CALIB_WORDS);
    mem_free(text);
    str_free(&path);
    return rc;
}

/* How many sequences of each source: shares rounded so that the sum is want, then what
 * short sources lack is not made up for. */
static int64_t share_out(struct calib *c, int64_t want, const struct log *log)
{
    double at = 0.0;
    int64_t given = 0, total = 0;

    for (int i = 0; i < c->n_sources; i++) {
        struct calib_source *s = &c->source[i];
        at += s->share;
        int64_t upto =
            i + 1 == c->n_sources ? want : (int64_t)(at * (double)want + 0.5);
        s->seqs = upto - given;
        given = upto;
        if (s->seqs > s->tokens / c->ctx) {
            s->seqs = s->tokens / c->ctx;
            log_line(log, LOG_WARN,
                     "%.*s has %lld tokens, fewer than its share of the calibration",
                     (int)s->path_len, s->path, (long long)s->tokens);
        }
        total += s->seqs;
    }
    return total;
}

/* Windows at even distances from the first token to the last. */
static void take_windows(struct making *k, int source, int32_t *dst)
{
    const struct calib_source *s = &k->c->source[source];
    const int32_t *ids = k->streams[source].ids.id;
    int64_t ctx = k->c->ctx, span = s->tokens - ctx;

    for (int64_t i = 0; i < s->seqs; i++) {
        int64_t from = s->seqs > 1 ? span * i / (s->seqs - 1) : span / 2;
        memcpy(dst + i * ctx, ids + from, (size_t)ctx * sizeof *dst);
        if (tok_adds_bos(k->tok))
            dst[i * ctx] = tok_bos(k->tok);
    }
}

/* The middle sequence of all goes to the end, to be the probe. */
static bool move_probe(struct calib *c)
{
    size_t n = (size_t)c->ctx;
    int32_t *mid = c->ids + c->n_seqs / 2 * c->ctx,
            *keep = mem_dup(mid, n * sizeof *mid);

    if (!keep)
        return false;
    memmove(mid, mid + n,
            (size_t)((c->n_seqs - 1 - c->n_seqs / 2) * c->ctx) * sizeof *mid);
    memcpy(c->ids + (c->n_seqs - 1) * c->ctx, keep, n * sizeof *mid);
    mem_free(keep);
    return true;
}

static enum b2_status hash_ids(struct hash *h, const int32_t *ids, int64_t n,
                               struct b2_err *err)
{
    enum b2_status rc = B2_OK;

    for (int64_t i = 0; i < n && !rc; i++) {
        uint8_t le[4];
        le_put32(le, (uint32_t)ids[i]);
        rc = hash_add(h, le, sizeof le, err);
    }
    return rc;
}

/* Of the windows, or without them of all tokens. */
static enum b2_status hash_all(struct making *k, struct b2_err *err)
{
    struct calib *c = k->c;
    struct hash *h = NULL;
    enum b2_status rc = hash_new(&h, err);

    if (!rc && c->ids)
        rc = hash_ids(h, c->ids, c->n_seqs * c->ctx, err);
    for (int i = 0; i < c->n_sources && !c->ids && !rc; i++)
        rc = hash_ids(h, k->streams[i].ids.id, k->streams[i].ids.n, err);
    if (!rc)
        rc = hash_hex(h, c->sha256, err);
    hash_free(h);
    return rc;
}

static enum b2_status make_sequences(struct making *k, struct b2_err *err)
{
    struct calib *c = k->c;
    int64_t want = max_i64(1, k->p->n_tokens / c->ctx) + 1, at = 0;

    c->n_seqs = share_out(c, want, k->p->log);
    if (c->n_seqs < 2)
        return err_set(err, B2_EARG,
                       "the calibration texts have too few tokens for two sequences of "
                       "%lld: give longer texts or a smaller --calib-ctx",
                       (long long)c->ctx);
    c->ids = mem_calloc((size_t)(c->n_seqs * c->ctx), sizeof *c->ids);
    if (!c->ids)
        return err_set(err, B2_ENOMEM, "out of memory");
    for (int i = 0; i < c->n_sources; i++) {
        take_windows(k, i, c->ids + at * c->ctx);
        at += c->source[i].seqs;
    }
    if (!move_probe(c))
        return err_set(err, B2_ENOMEM, "out of memory");
    return hash_all(k, err);
}

static enum b2_status read_all(struct making *k, struct b2_err *err)
{
    const struct calib_params *p = k->p;
    struct calib *c = k->c;
    double sum = 0.0;

    *c = (struct calib){.ctx = p->ctx, .n_sources = p->n_files};
    if (p->n_files < 1 || p->n_files > CALIB_MAX_FILES) {
        c->n_sources = 0;
        return err_set(err, B2_EARG, "%d calibration files: from 1 to %d are possible",
                       p->n_files, CALIB_MAX_FILES);
    }
    enum b2_status rc = read_avoid(k, err);
    for (int i = 0; i < p->n_files && !rc; i++) {
        split_share(&c->source[i], p->files[i]);
        c->source[i].own = p->files[i] == p->own;
        sum += c->source[i].share;
        rc = read_source(k, i, err);
    }
    for (int i = 0; i < p->n_files && !rc; i++)
        c->source[i].share /= sum;
    overlap_free(k->avoid);
    return rc;
}

enum b2_status calib_read(struct calib *out, struct calib_stream *streams,
                          const struct tokenizer *tok, const struct calib_params *p,
                          struct b2_err *err)
{
    struct making k = {.c = out, .p = p, .tok = tok, .streams = streams};
    enum b2_status rc = read_all(&k, err);

    return rc ? rc : hash_all(&k, err);
}

void calib_streams_free(struct calib_stream *streams)
{
    for (int i = 0; i < CALIB_MAX_FILES; i++) {
        tok_ids_free(&streams[i].ids);
        mem_free(streams[i].doc);
        streams[i] = (struct calib_stream){0};
    }
}

enum b2_status calib_make(struct calib *out, const struct tokenizer *tok,
                          const struct calib_params *p, struct b2_err *err)
{
    struct calib_stream streams[CALIB_MAX_FILES] = {0};
    struct making k = {.c = out, .p = p, .tok = tok, .streams = streams};
    enum b2_status rc = read_all(&k, err);

    if (!rc)
        rc = make_sequences(&k, err);
    calib_streams_free(streams);
    if (rc)
        calib_free(out);
    return rc;
}

enum b2_status calib_of_model(struct calib *out, const struct meta *meta,
                              const struct calib_params *p, const struct log *log,
                              struct b2_err *err)
{
    struct calib_params own = *p;
    struct tokenizer *tok = NULL;
    enum b2_status rc = vocab_tokenizer(&tok, meta, err);

    own.meta = meta;
    own.log = log;
    if (!rc)
        rc = calib_make(out, tok, &own, err);
    tok_free(tok);
    return rc;
}

int32_t *calib_some(const struct calib *c, int64_t max_tokens, int64_t *n_seqs)
{
    const int64_t have = c->n_seqs - 1;
    const int64_t n = min_i64(have, max_i64(1, max_tokens / c->ctx));
    int32_t *ids = mem_calloc((size_t)((n + 1) * c->ctx), sizeof *ids);

    for (int64_t i = 0; ids && i <= n; i++)
        memcpy(ids + i * c->ctx, c->ids + (i == n ? have : i * have / n) * c->ctx,
               (size_t)c->ctx * sizeof *ids);
    *n_seqs = n + 1;
    return ids;
}

void calib_free(struct calib *c)
{
    mem_free(c->ids);
    *c = (struct calib){0};
}

void calib_json(const struct calib *c, struct str *out)
{
    str_printf(out, "{\"tokens\":%lld,\"ctx\":%lld,\"sha256\":\"%s\",\"files\":[",
               ((long long)c->n_seqs - 1) * (long long)c->ctx, (long long)c->ctx,
               c->sha256);
    for (int i = 0; i < c->n_sources; i++) {
        const struct calib_source *s = &c->source[i];
        struct str name = {0};
        size_t from = s->path_len;
        while (from > 0 && s->path[from - 1] != '/')
            from--;
        if (s->own) /* it may lie anywhere: results must not depend on where */
            str_put(&name, "answers.jsonl");
        else
            str_putn(&name, s->path + from, s->path_len - from);
        str_put(out, i ? ",{\"name\":" : "{\"name\":");
        recipe_json_string(out, str_ok(&name) ? name.data : "?");
        str_printf(
            out,
            ",\"sha256\":\"%s\",\"share\":%.17g,\"pieces\":%lld,\"dropped\":%lld,"
            "\"tokens\":%lld,\"sequences\":%lld,\"kinds\":{",
            s->sha256, s->share, (long long)s->pieces, (long long)s->dropped,
            (long long)s->tokens, (long long)s->seqs);
        const char *comma = "";
        for (int k = 0; k < N_TEXT_KINDS; k++) {
            if (s->of_kind[k] == 0)
                continue;
            str_printf(out, "%s\"%s\":%.4f", comma, text_kind_name((enum text_kind)k),
                       (double)s->of_kind[k] / (double)max_i64(1, s->tokens));
            comma = ",";
        }
        str_put(out, "}}");
        str_free(&name);
    }
    str_put(out, "]}");
}
