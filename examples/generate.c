/*
 * generate.c - continues a text with a model, word by word.
 *
 *   cc generate.c $(pkg-config --cflags --libs bonsai2) -o generate
 *   ./generate model.gguf "The capital of France is"
 */
#include <bonsai2.h>

#include <stdio.h>
#include <string.h>

enum { MAX_PROMPT = 4096 };

static bool print_text(void *ctx, const char *text, size_t n)
{
    (void)ctx;
    return fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0;
}

static int run(const char *path, const char *prompt, struct b2_err *err)
{
    static int32_t ids[MAX_PROMPT];
    const struct b2_generate_params params = {.max_tokens = 64, .on_text = print_text};
    struct b2_generate_result result = {0};
    struct b2_model *model = NULL;
    struct b2_session *session = NULL;
    int64_t n = 0;

    enum b2_status rc = b2_model_open(&model, path, NULL, err);
    if (rc == B2_OK)
        rc = b2_tokenize(model, prompt, strlen(prompt), ids, MAX_PROMPT, &n, err);
    if (rc == B2_OK)
        rc = b2_session_new(&session, model, NULL, err);
    if (rc == B2_OK)
        rc = b2_generate(session, ids, n, &params, &result, err);
    if (rc == B2_OK)
        printf("\n[%lld tokens, %.1f per second]\n", (long long)result.n_ids,
               (double)(result.n_ids - 1) / result.decode_s);
    b2_generate_result_free(&result);
    b2_session_free(session);
    b2_model_close(model);
    return rc;
}

int main(int argc, char **argv)
{
    struct b2_err err = {0};

    if (argc != 3) {
        fprintf(stderr, "usage: generate MODEL.gguf PROMPT\n");
        return 2;
    }
    if (run(argv[1], argv[2], &err) == B2_OK)
        return 0;
    fprintf(stderr, "generate: %s\n", err.msg);
    return 1;
}
