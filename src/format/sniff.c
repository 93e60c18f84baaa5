/*
 * sniff.c - recognises the usual wrong downloads by their first bytes.
 */
#include "format/sniff.h"

#include <string.h>

static bool starts_with(const unsigned char *p, size_t size, const char *word,
                        bool any_case)
{
    size_t n = strlen(word);

    if (size < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned c = p[i];
        if (any_case && c >= 'A' && c <= 'Z')
            c += 'a' - 'A';
        if (c != (unsigned char)word[i])
            return false;
    }
    return true;
}

const char *sniff_mistake(const void *data, size_t size)
{
    const unsigned char *p = data;

    if (size == 0)
        return NULL;
    if (starts_with(p, size, "version https://git-lfs", false))
        return "this is a Git LFS pointer, not the file itself; fetch it with "
               "\"git lfs pull\"";
    if (starts_with(p, size, "\xef\xbb\xbf", false)) { /* byte order mark */
        p += 3;
        size -= 3;
    }
    while (size > 0 && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) {
        p++;
        size--;
    }
    if (starts_with(p, size, "<!doctype", true) ||
        starts_with(p, size, "<html", true) || starts_with(p, size, "<head", true) ||
        starts_with(p, size, "<?xml", true))
        return "this looks like a web page, not a model; the download probably got an "
               "error or log-in page";
    return NULL;
}

const char *sniff_other_format(const void *data, size_t size)
{
    if (size == 0)
        return NULL;
    if (starts_with(data, size, "PK\x03\x04", false))
        return "this is a zip archive, perhaps a PyTorch checkpoint; convert it to "
               "safetensors first";
    if (starts_with(data, size, "\x80\x02", false))
        return "this looks like a Python pickle; convert it to safetensors first";
    if (starts_with(data, size, "\x1f\x8b", false))
        return "this is a gzip archive; unpack it first";
    return NULL;
}
