/*
 * test_gguf_refuse.c - hostile files: each is refused with the right status and words
 * (USERS.md T01 to T07).
 */
#include "unit/gguf_build.h"

struct refusal {
    const char *what;
    void (*build)(struct gb *b);
    enum b2_status want;
    const char *words[4]; /* all must be in the message */
    const char *not_word; /* must not */
};

/* ---- T01: counts, versions, magic ---- */

static void huge_tensors(struct gb *b)
{
    gb_header(b, 3, (uint64_t)1 << 63, 0);
}

static void huge_keys(struct gb *b)
{
    gb_header(b, 3, 0, (uint64_t)1 << 63);
}

static void many_tensors(struct gb *b)
{
    gb_header(b, 3, (uint64_t)1 << 40, 0);
}

static void million_tensors(struct gb *b)
{
    gb_header(b, 3, 1000000, 0);
}

static void version_0(struct gb *b)
{
    gb_header(b, 0, 0, 0);
}

static void version_1(struct gb *b)
{
    gb_header(b, 1, 0, 0);
}

static void version_4(struct gb *b)
{
    gb_header(b, 4, 0, 0);
}

static void version_swapped(struct gb *b)
{
    gb_header(b, 0x03000000, 0, 0);
}

static void magic_ggml(struct gb *b)
{
    gb_bytes(b, "GGML\3\0\0\0", 8);
    gb_zeros(b, 16);
}

static void empty(struct gb *b)
{
    (void)b;
}

static void three_bytes(struct gb *b)
{
    gb_bytes(b, "GGU", 3);
}

static void lfs_pointer(struct gb *b)
{
    static const char text[] = "version https://git-lfs.github.com/spec/v1\n"
                               "oid sha256:0123\nsize 98362432\n";

    gb_bytes(b, text, sizeof text - 1);
}

static void web_page(struct gb *b)
{
    static const char text[] = "\n <!DOCTYPE html><html><body>401</body></html>";

    gb_bytes(b, text, sizeof text - 1);
}

static void zip_file(struct gb *b)
{
    gb_bytes(b, "PK\3\4aaaa", 8);
}

/* ---- keys ---- */

static void align_0(struct gb *b)
{
    gb_align_with(b, 0);
}

static void align_3(struct gb *b)
{
    gb_align_with(b, 3);
}

static void align_4(struct gb *b)
{
    gb_align_with(b, 4);
}

static void align_24(struct gb *b)
{
    gb_align_with(b, 24);
}

static void align_2g(struct gb *b)
{
    gb_align_with(b, 0x80000000);
}

static void align_i32(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_key(b, "general.alignment", 5);
    gb_u32(b, 32);
}

static void align_str(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_key_str(b, "general.alignment", "32");
}

static void key_twice(struct gb *b)
{
    gb_header(b, 3, 0, 2);
    gb_key_u32(b, "a.b", 1);
    gb_key_u32(b, "a.b", 2);
}

static void key_type_13(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_key_u32(b, "a.b", 1);
    b->b[8 + 16 + 8 + 3] = 13;
}

static void nested_array(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_key(b, "a.b", 9);
    gb_u32(b, 9);
    gb_u64(b, 1);
    gb_zeros(b, 16);
}

static void array_too_long(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_key(b, "a.b", 9);
    gb_u32(b, 4);
    gb_u64(b, (uint64_t)1 << 62); /* times four bytes wraps */
    gb_zeros(b, 16);
}

static void strings_too_many(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_key(b, "a.b", 9);
    gb_u32(b, 8);
    gb_u64(b, 3);
    gb_zeros(b, 16);
}

static void string_too_long(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_key(b, "a.b", 8);
    gb_u64(b, UINT64_MAX);
    gb_zeros(b, 16);
}

static void key_name_long(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_u64(b, 65536);
    gb_zeros(b, 100);
}

static void key_name_zero(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_u64(b, 3);
    gb_bytes(b, "a\0b", 3);
    gb_u32(b, 4);
    gb_u32(b, 1);
}

static void bad_bool(struct gb *b)
{
    gb_header(b, 3, 0, 1);
    gb_key(b, "a.b", 7);
    gb_u8(b, 2);
}

/* ---- tensors ---- */

static void one_tensor(struct gb *b, uint64_t ne0, uint64_t ne1, uint32_t type,
                       size_t data)
{
    gb_header(b, 3, 1, 0);
    gb_tensor(b, "t.weight", ne0, ne1, type, 0);
    gb_pad(b, 32);
    gb_zeros(b, data);
}

static void zero_dims_cut(struct gb *b) /* T02: 65 bytes */
{
    gb_header(b, 3, 1, 0);
    gb_tensor(b, "t", 0, 0, 0, 0);
    assert_int_equal(b->n, 65);
}

static void count_wraps(struct gb *b) /* T04 a */
{
    one_tensor(b, (uint64_t)1 << 31, (uint64_t)1 << 33, 0, 64);
}

static void bytes_wrap(struct gb *b) /* T04 b */
{
    one_tensor(b, (uint64_t)1 << 62, GB_RANK1, 0, 64);
}

static void zero_hides_wrap(struct gb *b)
{
    gb_header(b, 3, 1, 0);
    gb_str(b, "t");
    gb_u32(b, 4);
    gb_u64(b, 0);
    gb_u64(b, (uint64_t)1 << 62);
    gb_u64(b, (uint64_t)1 << 62);
    gb_u64(b, 4);
    gb_u32(b, 0);
    gb_u64(b, 0);
    gb_pad(b, 32);
}

static void cut_data(struct gb *b) /* T04 c */
{
    one_tensor(b, 128, 1, 142, 10);
}

static void dim_2_63(struct gb *b)
{
    one_tensor(b, (uint64_t)1 << 63, GB_RANK1, 0, 64);
}

static void two_tensors(struct gb *b, const char *second, uint64_t offset)
{
    gb_header(b, 3, 2, 0);
    gb_tensor(b, "t.weight", 16, GB_RANK1, 0, 0);
    gb_tensor(b, second, 16, GB_RANK1, 0, offset);
    gb_pad(b, 32);
    gb_zeros(b, 256);
}

static void same_name(struct gb *b) /* T04 d */
{
    two_tensors(b, "t.weight", 64);
}

static void overlapping(struct gb *b) /* T04 e */
{
    two_tensors(b, "u.weight", 32);
}

static void unaligned(struct gb *b) /* T04 f */
{
    two_tensors(b, "u.weight", 68);
}

static void offset_wraps(struct gb *b)
{
    two_tensors(b, "u.weight", UINT64_MAX - 31);
}

static void row_of_200(struct gb *b) /* T04 g */
{
    one_tensor(b, 200, 1, 142, 256);
}

static void rank_5(struct gb *b)
{
    gb_header(b, 3, 1, 0);
    gb_str(b, "t");
    gb_u32(b, 5);
    gb_zeros(b, 100);
}

static void name_64(struct gb *b)
{
    char name[65];

    memset(name, 'n', 64);
    name[64] = '\0';
    gb_header(b, 3, 1, 0);
    gb_tensor(b, name, 1, GB_RANK1, 0, 0);
    gb_pad(b, 32);
    gb_zeros(b, 4);
}

static void type_999(struct gb *b) /* T07 a */
{
    one_tensor(b, 128, 1, 999, 256);
}

static void type_max(struct gb *b)
{
    one_tensor(b, 128, 1, UINT32_MAX, 256);
}

/* ---- T06: the two meanings of 42 ---- */

static void broken_42(struct gb *b)
{
    gb_type_42(b, 1100, 1484);
}

static void between_42(struct gb *b)
{
    gb_type_42(b, 1120, 1504);
}

static const struct refusal refusals[] = {
    {"T01 2^63 tensors", huge_tensors, B2_EFORMAT, {"tensor count"}, NULL},
    {"T01 2^63 keys", huge_keys, B2_EFORMAT, {"key count"}, NULL},
    {"T01 2^40 tensors", many_tensors, B2_EFORMAT, {"tensor count"}, NULL},
    {"10^6 tensors", million_tensors, B2_ETRUNC, {"tensor count", "24000000"}, NULL},
    {"T01 version 0", version_0, B2_EFORMAT, {"version 0"}, NULL},
    {"T01 version 1", version_1, B2_EUNSUP, {"version 1", "2 and 3"}, NULL},
    {"T01 version 4", version_4, B2_EUNSUP, {"version 4", "2 and 3"}, NULL},
    {"T01 swapped", version_swapped, B2_EUNSUP, {"other byte order"}, NULL},
    {"T01 GGML", magic_ggml, B2_EUNSUP, {"GGML"}, NULL},
    {"T01 empty", empty, B2_ETRUNC, {"empty"}, NULL},
    {"T01 3 bytes", three_bytes, B2_ETRUNC, {"3 bytes"}, NULL},
    {"LFS pointer", lfs_pointer, B2_EFORMAT, {"Git LFS pointer"}, NULL},
    {"web page", web_page, B2_EFORMAT, {"looks like a web page"}, NULL},
    {"zip", zip_file, B2_EFORMAT, {"zip archive"}, NULL},
    {"T03 0", align_0, B2_EFORMAT, {"general.alignment", "0"}, NULL},
    {"T03 3", align_3, B2_EFORMAT, {"general.alignment", "3"}, NULL},
    {"4", align_4, B2_EFORMAT, {"general.alignment", "4"}, NULL},
    {"T03 24", align_24, B2_EFORMAT, {"general.alignment", "24"}, NULL},
    {"T03 2^31", align_2g, B2_EFORMAT, {"general.alignment", "2147483648"}, NULL},
    {"T03 i32", align_i32, B2_EFORMAT, {"general.alignment", "i32", "u32"}, NULL},
    {"T03 string", align_str, B2_EFORMAT, {"general.alignment", "string"}, NULL},
    {"key twice", key_twice, B2_EFORMAT, {"key a.b", "twice"}, NULL},
    {"key type 13", key_type_13, B2_EUNSUP, {"key a.b", "type 13"}, NULL},
    {"array in array", nested_array, B2_EUNSUP, {"key a.b", "arrays"}, NULL},
    {"array 2^62", array_too_long, B2_EFORMAT, {"key a.b"}, NULL},
    {"3 strings in 16 bytes", strings_too_many, B2_ETRUNC, {"key a.b", "24"}, NULL},
    {"string 2^64-1", string_too_long, B2_EFORMAT, {"key a.b"}, NULL},
    {"key name 65536", key_name_long, B2_EFORMAT, {"65536", "65535"}, NULL},
    {"zero in key name", key_name_zero, B2_EFORMAT, {"zero byte"}, NULL},
    {"bool 2", bad_bool, B2_EFORMAT, {"key a.b", "bool"}, NULL},
    {"T02 cut", zero_dims_cut, B2_ETRUNC, {"tensor t", "96", "65"}, NULL},
    {"T04 a", count_wraps, B2_EFORMAT, {"tensor t.weight", "elements"}, NULL},
    {"T04 b", bytes_wrap, B2_EFORMAT, {"tensor t.weight"}, NULL},
    {"zero hides a wrap", zero_hides_wrap, B2_EFORMAT, {"tensor t", "elements"}, NULL},
    {"T04 c",
     cut_data,
     B2_ETRUNC,
     {"tensor t.weight", "needed 34", "present 10"},
     NULL},
    {"dimension 2^63", dim_2_63, B2_EFORMAT, {"tensor t.weight", "dimension 0"}, NULL},
    {"T04 d", same_name, B2_EFORMAT, {"tensor t.weight", "twice"}, NULL},
    {"T04 e", overlapping, B2_EFORMAT, {"tensor u.weight", "inside another"}, NULL},
    {"T04 f", unaligned, B2_EFORMAT, {"tensor u.weight", "68", "alignment 32"}, NULL},
    {"offset 2^64-32", offset_wraps, B2_ETRUNC, {"tensor u.weight", "present 0"}, NULL},
    {"T04 g", row_of_200, B2_EFORMAT, {"tensor t.weight", "200", "128", "72"}, NULL},
    {"rank 5", rank_5, B2_EFORMAT, {"tensor t", "5 dimensions"}, NULL},
    {"name of 64", name_64, B2_EFORMAT, {"64", "63"}, NULL},
    {"T07 999", type_999, B2_EUNSUP, {"t.weight", "type id 999", "PTQ1_0"}, "orrupt"},
    {"T07 max", type_max, B2_EUNSUP, {"t.weight", "4294967295", "F32"}, "verflow"},
    {"T06 1100", broken_42, B2_EFORMAT, {"a.weight", "corrupt"}, NULL},
    {"T06 1120", between_42, B2_EFORMAT, {"a.weight", "corrupt", "1088", "1152"}, NULL},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(refusals); i++) {
        const struct refusal *r = &refusals[i];
        struct gb b = {0};
        struct gguf g;
        struct b2_err err = {0};
        uint8_t *copy;
        r->build(&b);
        enum b2_status rc = gb_parse(&g, &b, &copy, &err);
        if (rc != r->want || err.status != rc)
            fail_msg("%s: status %d, want %d: %s", r->what, rc, r->want, err.msg);
        for (size_t k = 0; k < countof(r->words) && r->words[k]; k++) {
            if (!strstr(err.msg, r->words[k]))
                fail_msg("%s: no \"%s\" in: %s", r->what, r->words[k], err.msg);
        }
        if (r->not_word && strstr(err.msg, r->not_word))
            fail_msg("%s: \"%s\" in: %s", r->what, r->not_word, err.msg);
        if (strchr(err.msg, '\n'))
            fail_msg("%s: more than one line: %s", r->what, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
