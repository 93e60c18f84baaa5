/*
 * calib_text.h - a calibration file cut into pieces of text.
 */
#ifndef COMPRESS_CALIB_TEXT_H
#define COMPRESS_CALIB_TEXT_H

#include "base/error.h"
#include "format/meta.h"

enum {
    PIECE_CHAT = 1 << 0,  /* has the control tokens of a template */
    PIECE_BEGINS = 1 << 1 /* begins a document */
};

/* What each piece is given to. A document is a line of a .jsonl; of a text file all that
 * lies between lines of "<|endoftext|>" or of a form feed alone. */
struct calib_piece_fn {
    enum b2_status (*fn)(void *ctx, int source, const char *text, size_t n,
                         unsigned flags, struct b2_err *err);
    void *ctx;
    int source;
};

bool calib_text_is_jsonl(const char *path);

/* path tells by its end what the text is; meta (may be NULL) has the chat template that
 * turns questions and answers into a conversation. B2_EFORMAT: a line of a .jsonl that is
 * no JSON object or has none of the known keys (line named). */
enum b2_status calib_text_pieces(const char *path, const char *text, size_t n,
                                 const struct meta *meta,
                                 const struct calib_piece_fn *fn,
                                 struct b2_err *err) NODISCARD;

#endif
