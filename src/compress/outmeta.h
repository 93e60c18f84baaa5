/*
 * outmeta.h - the keys of the output, and how long its file will be.
 *
 * Everything the source says (tokenizer, chat template, licence, names) is kept. What
 * describes its storage is replaced, and where the file comes from is added:
 *
 *   bonsai2.version            the program that wrote it
 *   bonsai2.source.name        file or folder name of the source
 *   bonsai2.source.sha256      of all its bytes; of a source that `prune` made, the key
 *                              bonsai2.prune names the one before
 *   bonsai2.source.recipe      the recipe that the source itself was made with, if any
 *   bonsai2.fold.*             how its columns were changed before (fold.h), if they were
 *   bonsai2.recipe             JSON (recipe.h)
 *   bonsai2.seed
 *   bonsai2.ternary.rule       "ls", "round", "threshold", "twn"
 *   bonsai2.ternary.scale      how that rule's scale is chosen, in words
 */
#ifndef COMPRESS_OUTMETA_H
#define COMPRESS_OUTMETA_H

#include "compress/choose.h"

/* What fold.h writes; says nothing any more once columns go or move again. */
#define OUTMETA_FOLD "bonsai2.fold."

bool outmeta_is_fold(const char *key);
/* Whether both say the same of it, or nothing. */
bool outmeta_same_fold(const struct meta *a, const struct meta *b);

struct outmeta_source {
    const char *path; /* by which it is named */
    const char *sha256;
};

/* Makes the keys for the picks of c. *out is owned: meta_free(). */
enum b2_status outmeta_make(struct meta **out, const struct choose *c,
                            const struct modelfile *mf,
                            const struct outmeta_source *source,
                            struct b2_err *err) NODISCARD;

/* The exact size of a GGUF with these keys and the picked tensors. */
uint64_t outmeta_file_bytes(const struct meta *m, const struct choose *c);

#endif
