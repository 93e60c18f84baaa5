/*
 * calib.h - calibration texts as sequences of tokens, free of what models are judged by.
 *
 * A source is a text file, or a .jsonl file whose lines have "text", or "question" and
 * "answer" (or "prompt" and "completion"), with an optional weight: FILE=SHARE. Texts are
 * cut into pieces of some 2,000 bytes at ends of lines (one line of a .jsonl is one
 * piece). A piece that has 13 words in a row with an evaluation text is dropped and
 * counted. A source that is an evaluation set, by its hash or because half of its pieces
 * overlap with one, is refused.
 *
 * What is left is tokenised, and windows of ctx tokens are taken at even distances, as
 * many from each source as its share says.
 */
#ifndef COMPRESS_CALIB_H
#define COMPRESS_CALIB_H

#include "base/log.h"
#include "base/str.h"
#include "compress/textkind.h"
#include "format/meta.h"
#include "text/tokenizer.h"

enum { CALIB_MAX_FILES = 32, CALIB_WORDS = 13 };

struct calib_source {
    const char *path; /* borrowed from the parameters, without the share */
    size_t path_len;
    bool own; /* the model's own answers */
    char sha256[65];
    double share; /* of all sources, sums to 1 */
    int64_t pieces, dropped;
    int64_t tokens, seqs;          /* there are; sequences taken */
    int64_t of_kind[N_TEXT_KINDS]; /* tokens, by what their pieces are */
};

struct calib {
    int32_t *ids; /* [n_seqs, ctx] */
    int64_t n_seqs, ctx;
    struct calib_source source[CALIB_MAX_FILES];
    int n_sources;
    char sha256[65]; /* of ids, as 32-bit little-endian numbers */
};

struct calib_params {
    const char *const *files; /* FILE or FILE=SHARE */
    int n_files;
    const char *own; /* the one of files with the model's own answers; NULL: none */
    const char *const *avoid; /* evaluation texts */
    int n_avoid;
    int64_t n_tokens, ctx;
    bool
        documents; /* each one begins with the begin token, if the vocabulary has one */
    const struct meta *meta; /* of the model, for its chat template; may be NULL */
    const struct log *log;
};

/* A source's tokens, and where its documents begin in them (the first one at 0; also
 * behind pieces that were dropped). */
struct calib_stream {
    struct tok_ids ids;
    int64_t *doc; /* [n_docs], rising */
    int64_t n_docs, cap;
};

/* Everything but the windows: out has the sources with their shares and tokens, the hash
 * of all tokens and no ids; streams [CALIB_MAX_FILES], owned, calib_streams_free() in
 * every case. Errors of calib_make(). */
enum b2_status calib_read(struct calib *out, struct calib_stream *streams,
                          const struct tokenizer *tok, const struct calib_params *p,
                          struct b2_err *err) NODISCARD;
void calib_streams_free(struct calib_stream *streams);

/* One sequence more than n_tokens / ctx: the last one is for probing. B2_EARG: no text,
 * too little of it, an evaluation set; B2_EFORMAT: a bad line of a .jsonl. Errors of
 * files. */
enum b2_status calib_make(struct calib *out, const struct tokenizer *tok,
                          const struct calib_params *p, struct b2_err *err) NODISCARD;
/* The same with the tokenizer and the chat template in a model's keys; log for p's. */
enum b2_status calib_of_model(struct calib *out, const struct meta *meta,
                              const struct calib_params *p, const struct log *log,
                              struct b2_err *err) NODISCARD;
/* The tokens of at most max_tokens in whole sequences at even distances, at least one, and
 * behind them the last sequence, which is the probe: *n_seqs * ctx; mem_free(). NULL: out
 * of memory. */
int32_t *calib_some(const struct calib *c, int64_t max_tokens, int64_t *n_seqs);
void calib_free(struct calib *c); /* zeroed is fine */

/* The path of a word FILE or FILE=SHARE. B2_ENOMEM. */
enum b2_status calib_source_path(struct str *out, const char *word,
                                 struct b2_err *err) NODISCARD;

/* Appends what was used as one JSON object: names without folders (of the model's own
 * answers the same one everywhere), hashes, counts. */
void calib_json(const struct calib *c, struct str *out);

/* The known evaluation set with this SHA-256, or NULL. */
const char *calib_known_set(const char *sha256);

#endif
