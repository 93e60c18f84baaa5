/*
 * fuzz_safetensors.c - any bytes as a safetensors file: an explained error, or tensors
 * that cover the data exactly.
 */
#include "format/safetensors.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors s = {0};
    struct b2_err err = {0};
    uint8_t *copy = fuzz_copy(data, size);
    uint64_t sum = 0;

    if (!copy)
        return 0;
    enum b2_status rc = safetensors_parse(&s, copy, size, &err);
    fuzz_check_error(rc, &err);
    for (int64_t i = 0; rc == B2_OK && i < s.n_tensors; i++) {
        fuzz_touch(s.tensors[i].data, (size_t)s.tensors[i].n_bytes);
        sum += s.tensors[i].n_bytes;
    }
    if (rc == B2_OK)
        fuzz_require(s.data_offset + sum == size, "no byte belongs to nobody");
    safetensors_close(&s);
    free(copy);
    return 0;
}
