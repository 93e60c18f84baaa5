/*
 * fuzz_sensitivity.c - files of `bonsai2 analyze`: whole, or refused with a reason; what was
 * read can be drawn and written again.
 */
#include "compress/sensitivity.h"
#include "fuzz.h"

#include <cjson/cJSON.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *json = cJSON_ParseWithLength((const char *)data, size);
    struct sensitivity s;
    struct b2_err err = {0};

    if (json && sens_read(&s, json, &err)) {
        fuzz_require(err.msg[0] != '\0', "a refusal says why");
    } else if (json) {
        struct str out = {0};
        fuzz_require(s.n_layers > 0 && s.layer[0].neuron, "a file is whole");
        sens_text(&s, &out);
        sens_svg(&s, &out);
        cJSON *again = sens_json(&s);
        fuzz_require(str_ok(&out) && again, "it can be shown");
        cJSON_Delete(again);
        str_free(&out);
        sens_free(&s);
    }
    cJSON_Delete(json);
    return 0;
}
