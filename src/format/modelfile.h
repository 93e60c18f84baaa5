/*
 * modelfile.h - any model on disk as named tensors and keys: GGUF (whole or split),
 * one safetensors file, or a Hugging Face folder.
 *
 * A folder and its GGUF give the same tensor names, shapes, values and keys to the code
 * above. Tensor bytes are mapped; those that a container keeps in another order than
 * GGUF (the q and k rows of `llama` folders, the norms of Gemma) are rearranged into
 * memory when asked for.
 * Read-only after opening, except modelfile_load/unload: one thread for those.
 */
#ifndef FORMAT_MODELFILE_H
#define FORMAT_MODELFILE_H

#include "base/log.h"
#include "format/meta.h"
#include "tensor/tensor.h"

enum modelfile_kind { MF_GGUF, MF_SAFETENSORS, MF_FOLDER };

struct modelfile;

/* Opens and validates everything but the values themselves. A path to any part of a
 * split GGUF opens all parts. log (may be NULL) gets notes. Errors name the file, the tensor or
 * key, what was expected and the next step; see FORMATS.md §2, §3 and USERS.md T01-T09. */
enum b2_status modelfile_open(struct modelfile **out, const char *path,
                              const struct log *log, struct b2_err *err) NODISCARD;
void modelfile_close(struct modelfile *mf); /* NULL is fine */

enum modelfile_kind modelfile_kind(const struct modelfile *mf);
const char *modelfile_path(const struct modelfile *mf);
const struct meta *modelfile_meta(const struct modelfile *mf);
int modelfile_n_parts(const struct modelfile *mf); /* mapped files */
const char *modelfile_part_path(const struct modelfile *mf, int i);
uint64_t modelfile_bytes(const struct modelfile *mf); /* all files of the model */

int64_t modelfile_n_tensors(const struct modelfile *mf);
/* In file order. Pointer stays valid until close; data may be NULL before load. */
const struct tensor *modelfile_tensor(const struct modelfile *mf, int64_t i);
/* By GGUF name; -1 if absent. Hashed. */
int64_t modelfile_find(const struct modelfile *mf, const char *name);

/* Makes tensor i's data available (no-op for tensors used in place). */
enum b2_status modelfile_load(struct modelfile *mf, int64_t i,
                              struct b2_err *err) NODISCARD;
/* Gives the memory or the mapped pages of tensor i back to the system; load again
 * before the next use. */
void modelfile_unload(struct modelfile *mf, int64_t i);
/* Gives the mapped pages of n bytes from p on, which lie in the data of a tensor that is
 * used in place, back; they come again when they are read. Nothing where p is memory. */
void modelfile_drop(const struct modelfile *mf, const uint8_t *p, uint64_t n);
/* Bytes of tensor i in its file, with marks of what is left out there. */
uint64_t modelfile_stored_bytes(const struct modelfile *mf, int64_t i);
/* Groups of zeros of tensor i that the file leaves out (format/zeros.h). */
int64_t modelfile_left_out(const struct modelfile *mf, int64_t i);
/* Bytes that load would allocate for tensor i (0: used in place). */
uint64_t modelfile_load_bytes(const struct modelfile *mf, int64_t i);

/* A table of tokens in two types (format/tiers.h) becomes token_embd.weight in F32, made
 * when it is loaded, and its key goes: for those who make other files of this one. Any
 * other file stays as it is. B2_EFORMAT: key and tensors contradict each other. */
enum b2_status modelfile_join_tiers(struct modelfile *mf, struct b2_err *err) NODISCARD;

/* Reads all files into memory, as far as it holds them: file_map_warm(). */
void modelfile_warm(const struct modelfile *mf);

/* SHA-256 in hex (64 digits and a zero) of header and tensor table: the fingerprint.
 * For folders: of the config, the index and each file's header. */
enum b2_status modelfile_fingerprint(const struct modelfile *mf, char hex[65],
                                     struct b2_err *err) NODISCARD;
/* SHA-256 of a thousand pieces of the values, evenly spread over each file: tells models
 * of one header apart (another training, another rounding) without reading all of it. It
 * does not find a single changed value. */
enum b2_status modelfile_sample(const struct modelfile *mf, char hex[65],
                                struct b2_err *err) NODISCARD;
/* SHA-256 of all bytes of all files, in order. Reads everything. */
enum b2_status modelfile_sha256(const struct modelfile *mf, char hex[65],
                                struct b2_err *err) NODISCARD;

#endif
