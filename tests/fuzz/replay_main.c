/*
 * replay_main.c - gives every file of the named folders to a fuzz target.
 *
 * The stand-in for libFuzzer's main(): needs no clang, runs the corpus as an ordinary
 * test, and repeats a crash: replay_gguf FILE. Each input is also tried cut short at
 * every length up to CUT_MAX (then at some lengths), since truncation is the commonest
 * damage of a file. Prints the input's name when it dies.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CUT_MAX = 512, CUTS = 64 };

static char now_path[4096];

/* Only calls that a signal handler may make. */
static void tell_and_die(int sig)
{
    const char *part[] = {"replay: died on ", now_path, "\n"};

    for (int i = 0; i < 3; i++)
        if (write(STDERR_FILENO, part[i], strlen(part[i])) < 0)
            break;
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Gives a copy of exactly size bytes, as libFuzzer does: over-reads are noticed. */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *copy = fuzz_copy(data, size);

    if (copy)
        LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Whole and cut short. */
static void feed_all(const uint8_t *data, size_t size)
{
    size_t step = size / CUTS + 1;

    feed(data, size);
    for (size_t n = 0; n < size; n += n < CUT_MAX ? 1 : step)
        feed(data, n);
}

/* Number of files fed, -1 on an error. */
static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    uint8_t *data = NULL;
    int n = -1;

    snprintf(now_path, sizeof now_path, "%s", path);
    if (f && fstat(fileno(f), &st) == 0) {
        size_t size = (size_t)st.st_size;
        data = malloc(size ? size : 1);
        if (data && fread(data, 1, size, f) == size) {
            feed_all(data, size);
            n = 1;
        }
    }
    if (n < 0)
        perror(path);
    free(data);
    if (f)
        fclose(f);
    return n;
}

static int replay(const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return replay_file(path);
    DIR *dir = opendir(path);
    if (!dir) {
        perror(path);
        return -1;
    }
    int n = 0;
    for (struct dirent *e; n >= 0 && (e = readdir(dir));) {
        char name[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        int k = replay_file(name);
        n = k < 0 ? -1 : n + k;
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    int total = 0;

    signal(SIGABRT, tell_and_die);
    signal(SIGSEGV, tell_and_die);
    for (int i = 1; i < argc; i++) {
        int n = replay(argv[i]);
        if (n < 0)
            return 1;
        total += n;
    }
    if (total == 0)
        fprintf(stderr, "replay: no inputs\n");
    return total == 0;
}
