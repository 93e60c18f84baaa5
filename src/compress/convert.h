/*
 * convert.h - a model into other types or another container: no value changes, or the
 * report says so.
 *
 *   gguf        the same types in one GGUF file (from a folder, a split file, version 2)
 *   gguf-TYPE   weights as TYPE. F32, F16, BF16: all of them. A ternary type: the
 *               tensors that are ternary already, or all matrices when none is. Others:
 *               all matrices. Vectors (norms, biases) become F32, as every reader wants.
 *   hf-TYPE     a Hugging Face folder in F32, F16 or BF16 (`llama` only)
 *
 * Tensors stream through a row at a time; the output appears whole or not at all,
 * also when it is split, a folder with config.json as its last file.
 */
#ifndef COMPRESS_CONVERT_H
#define COMPRESS_CONVERT_H

#include "base/progress.h"
#include "format/modelfile.h"

struct convert_params {
    const char *format; /* one of the words above, any case */
    const char *only;   /* glob over tensor names: others keep their type; NULL: all */
    bool lossy;         /* allow a quantised type to change values */
    bool force;         /* replace an existing output */
    bool unrotate;      /* take rotations off in a GGUF too */
    uint64_t split;     /* bytes of tensors in a file, above which there are several, as
                       format/parts_out names them; 0: one file */
    uint32_t gguf_version;     /* 2 or 3; 0: 3 */
    const struct log *log;     /* may be NULL */
    struct progress *progress; /* counts output bytes; may be NULL */
    bool (*cancelled)(void);   /* may be NULL */
};

struct str;

struct convert_report {
    uint64_t output_bytes;
    int n_files;                  /* with tensors */
    int64_t n_tensors, n_changed; /* written; of them with another type than before */
    int64_t n_lossy;              /* of them with other values than before */
    int64_t n_unrotated; /* of them rotated back, in F32 before the type is applied */
    double max_error,
        rms_error;  /* over all values; the rms counts unchanged ones too */
    char worst[64]; /* the tensor of max_error; "" when that is 0 */
};

/* B2_EARG: an unknown word; the message lists the known ones. */
enum b2_status convert_check_format(const char *word, struct b2_err *err) NODISCARD;

/* Bytes that the tensors of the output will take, for progress; 0 when unknown. */
uint64_t convert_total(struct modelfile *mf, const struct convert_params *p);

/* The file or folder by which the output is opened, appended to s: the first part of a
 * GGUF that was split. */
void convert_output(struct str *s, const char *out, const struct convert_params *p,
                    const struct convert_report *r);

/* Writes out. Without p->lossy a quantised type that would change a value is refused
 * (B2_EUNSUP, naming the first such tensor and its largest error); rounding to F16 or
 * BF16 is what the word asks for and is reported only. A value that F16 turns into
 * infinity counts as lossy. Rotation keys are kept in a GGUF, without p->unrotate; a folder
 * has no place for them, so that rotated weights are rotated back. */
enum b2_status convert_model(struct modelfile *mf, const char *out,
                             const struct convert_params *p,
                             struct convert_report *report,
                             struct b2_err *err) NODISCARD;

#endif
