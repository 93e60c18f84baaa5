/*
 * work.h - the state of a compression on disk, from which it can go on.
 *
 * OUT.b2work/ lies beside the output:
 *
 *   lock        held while a process works on it
 *   state.json  recipe, source and the type of every tensor: whose pieces these are
 *   00007.piece the finished bytes of one layer (one group of tensors), with what the
 *               report needs to know of them and a SHA-256 over it all
 *   tmp/        files being written; emptied at every start
 *
 * A piece appears whole or not at all, so a process may be killed at any moment. What a
 * piece holds depends on the state alone, so that the run that goes on gives the bytes
 * of one that was never stopped.
 */
#ifndef COMPRESS_WORK_H
#define COMPRESS_WORK_H

#include "base/file.h"
#include "base/log.h"
#include "compress/fit.h"

struct work;

/* Opens or makes the state of out. force: state of another recipe, source or version is
 * thrown away; else it is B2_EEXIST with the folder named, and nothing is touched. (A
 * state without a first piece holds no work and always gives way.)
 * B2_EEXIST also when another process holds the lock. */
enum b2_status work_open(struct work **out, const char *path, const char *state,
                         bool force, const struct log *log,
                         struct b2_err *err) NODISCARD;

/* Whether piece i is there, whole and ours; its statistics then fill stat [n_stat]. A
 * damaged piece is removed and counts as absent. */
bool work_have_piece(struct work *w, int64_t i, struct fit_stat *stat, int64_t n_stat,
                     uint64_t payload);

/* One piece at a time is written; bytes come in any number of calls. On an error the
 * piece is abandoned. */
enum b2_status work_piece_begin(struct work *w, int64_t i,
                                struct b2_err *err) NODISCARD;
enum b2_status work_piece_data(struct work *w, const void *data, size_t n,
                               struct b2_err *err) NODISCARD;
enum b2_status work_piece_end(struct work *w, const struct fit_stat *stat,
                              int64_t n_stat, struct b2_err *err) NODISCARD;

/* Maps a finished piece, whose payload is its first bytes. file_unmap() ends it. B2_ETRUNC:
 * another program cut it short since. */
enum b2_status work_piece_map(const struct work *w, int64_t i, uint64_t payload,
                              struct file_map *m, struct b2_err *err) NODISCARD;

/* Where the output may be written before it gets its name. Valid until work_close. */
const char *work_output_path(const struct work *w);
const char *work_dir(const struct work *w);

/* Moves the output to its place and removes the state (through OUT.b2work.old, so that a
 * kill in between leaves either a whole state or none). w is freed in every case. */
enum b2_status work_finish(struct work *w, struct b2_err *err) NODISCARD;

/* Lets go, leaving the state for another run; NULL is fine. */
void work_close(struct work *w);

#endif
