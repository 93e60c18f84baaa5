/*
 * fuzz_page.c - any JSON as a result: a whole page, or a refusal with a reason.
 */
#include "eval/page.h"
#include "format/json.h"
#include "fuzz.h"

#include <string.h>

enum { MAX_VALUES = 1 << 16 };

/* A page never draws numbers that are none (names cannot hold the quote), and the data,
 * which come last in a script element, never end it. */
static void look_at(const struct str *page)
{
    static const char *const bad[] = {"=\"nan", "=\"-nan", "=\"inf", "=\"-inf"};
    const char *data = strstr(page->data, "<script type=\"application/json\"");
    const char *end = data ? strstr(data, "</script>") : NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *at = strstr(page->data, bad[i]);
        fuzz_require(!at || (data && at > data), "every coordinate is a number");
    }
    fuzz_require(data && end, "a page carries its results");
    fuzz_require(strcmp(end, "</script>\n</body>\n</html>\n") == 0, "a page is whole");
    fuzz_require(!memchr(data + 1, '<', (size_t)(end - data - 1)),
                 "nothing in the results looks like markup");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct b2_err err = {0};
    struct str page = {0};
    cJSON *list = cJSON_CreateArray(), *j = NULL;

    if (json_parse_bounded(&j, (const char *)data, size, MAX_VALUES, NULL)) {
        cJSON_Delete(list);
        return 0;
    }
    enum b2_status checked = page_check(j, &err);
    cJSON_AddItemToArray(list, j);
    enum b2_status rc = page_html(&page, list, &err);
    fuzz_require((rc == B2_OK) == (checked == B2_OK), "the check tells what is shown");
    if (rc)
        fuzz_require(err.msg[0] != '\0', "a refusal says why");
    else
        look_at(&page);
    str_free(&page);
    cJSON_Delete(list);
    return 0;
}
