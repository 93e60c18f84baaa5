/*
 * fuzz_costs.c - files of measured costs: all damages finite and taken, or refused with a
 * reason.
 */
#include "compress/cost_file.h"
#include "fuzz.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char key[] = "{\"source_sha256\":\"ab\",\"recipe\":{\"refine\":1}}";
    const struct tensor t[2] = {{.name = "blk.0.attn_q.weight"},
                                {.name = "blk.0.ffn_down.weight"}};
    struct choose_item item[2];
    struct choose c = {.item = item, .n = 2};
    struct b2_err err = {0};
    char *text = fuzz_string(data, size);

    if (!text)
        return 0;
    for (int i = 0; i < 2; i++) {
        item[i] = (struct choose_item){.t = &t[i], .n_candidates = 3};
        item[i].candidate[0] =
            (struct choose_candidate){.type = DT_B2_T64, .damage = -1.0};
        item[i].candidate[1] =
            (struct choose_candidate){.type = DT_Q4_0, .damage = -1.0};
        item[i].candidate[2] =
            (struct choose_candidate){.type = DT_Q8_0, .copy = true, .damage = -1.0};
    }
    enum b2_status rc = cost_file_parse(&c, text, size, key, &err);
    fuzz_check_error(rc, &err);
    for (int i = 0; i < 2 && !rc; i++)
        for (int k = 0; k < 3; k++) {
            const double nat = item[i].candidate[k].damage;
            fuzz_require(isfinite(nat) && nat >= 0.0, "a damage is a number");
        }
    free(text);
    return 0;
}
