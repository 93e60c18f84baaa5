/*
 * fuzz_task_desc.c - descriptions of tasks: whole, or refused with a reason.
 */
#include "eval/task_int.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int chat = 0; chat < 2; chat++) {
        struct task_desc d = {0};
        struct b2_err err = {0};
        if (task_desc_parse(&d, "fuzz", (const char *)data, size, chat, &err)) {
            fuzz_require(err.msg[0] != '\0', "a refusal says why");
            continue;
        }
        fuzz_require(d.prompt && d.n_metrics > 0, "a description is whole");
        task_desc_free(&d);
    }
    return 0;
}
