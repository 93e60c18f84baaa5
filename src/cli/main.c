/*
 * main.c - finds the command and runs it.
 */
#include "base/opt_int.h"
#include "cli/cli.h"
#include "cli/terminal.h"

#include <errno.h>
#include <string.h>

struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

/* A row without a function is the heading of the rows below it. */
static const struct command commands[] = {
    {"Look", NULL, NULL},
    {"inspect", "Show what is in a model file or folder.", cmd_inspect},
    {"plan", "Show the memory that running a model takes, and what fits.", cmd_plan},
    {"tokenize", "Turn text into token ids, and back.", cmd_tokenize},
    {"template", "Show the prompt that a conversation becomes.", cmd_template},
    {"Run", NULL, NULL},
    {"run", "Complete a prompt.", cmd_run},
    {"chat", "Hold a conversation in the terminal.", cmd_chat},
    {"Make", NULL, NULL},
    {"analyze", "Measure which layers and tensors of a model matter.", cmd_analyze},
    {"compress", "Compress a model to ternary weights under a byte budget.",
     cmd_compress},
    {"prune", "Take away what a model can do without.", cmd_prune},
    {"distill", "Train a ternary model to say what its original says.", cmd_distill},
    {"export", "Convert between containers and weight types.", cmd_export},
    {"synth", "Write a random file with a named model's shapes.", cmd_synth},
    {"Measure", NULL, NULL},
    {"eval", "Measure quality, and what compression cost.", cmd_eval},
    {"bench", "Measure speed and memory of a model on this machine.", cmd_bench},
    {"selftest", "Check every kernel of this machine against the reference.",
     cmd_selftest},
};

static void print_help(FILE *f)
{
    fputs("bonsai2 compresses language models to ternary weights and runs them.\n\n"
          "Usage: bonsai2 COMMAND [options]\n",
          f);
    for (size_t i = 0; i < countof(commands); i++) {
        const struct command *c = &commands[i];
        if (!c->summary)
            fprintf(f, "\n%s:\n", c->name);
        else if (c->run)
            fprintf(f, "  %-10s %s\n", c->name, c->summary);
    }
    fputs("\n'bonsai2 COMMAND --help' lists a command's options and ends with an "
          "example.\n"
          "'bonsai2 --version' prints the version.\n",
          f);
}

/* The command of that name, or NULL. */
static const struct command *find(const char *name)
{
    for (size_t i = 0; i < countof(commands); i++)
        if (commands[i].run && strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *word)
{
    const char *best = NULL;
    int best_distance = 0;

    for (size_t i = 0; i < countof(commands); i++) {
        const char *name = commands[i].name;
        int d = opt_distance(word, name);
        if (commands[i].run && opt_is_near(word, name, d) &&
            (!best || d < best_distance)) {
            best = name;
            best_distance = d;
        }
    }
    fprintf(stderr, "bonsai2: unknown %s '%s'", word[0] == '-' ? "option" : "command",
            word);
    if (best)
        fprintf(stderr, "; did you mean '%s'?", best);
    fputs("\nTry 'bonsai2 --help'.\n", stderr);
    return CLI_USAGE;
}

static int dispatch(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";

    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
        (strcmp(word, "help") == 0 && argc == 2)) {
        print_help(stdout);
        return CLI_DONE;
    }
    if (strcmp(word, "--version") == 0) {
        puts("bonsai2 " B2_VERSION);
        return CLI_DONE;
    }
    if (strcmp(word, "help") == 0) { /* "help run" means "run --help" */
        char help[] = "--help";
        char *args[] = {argv[2], help, NULL};
        const struct command *c = find(argv[2]);
        return c ? c->run(2, args) : unknown_command(argv[2]);
    }
    const struct command *c = find(word);
    return c ? c->run(argc - 1, argv + 1) : unknown_command(word);
}

int main(int argc, char **argv)
{
    terminal_fill_closed_streams();
    terminal_ignore_closed_pipes();
    terminal_explain_bus_errors();
    int rc = dispatch(argc, argv);

    /* A result that nobody could store is no result. */
    bool bad = ferror(stdout) != 0;
    if (fflush(stdout) != 0 || bad) {
        fprintf(stderr, "bonsai2: cannot write to standard output: %s\n",
                strerror(errno));
        if (rc == CLI_DONE)
            rc = CLI_FAILED;
    }
    return rc;
}
