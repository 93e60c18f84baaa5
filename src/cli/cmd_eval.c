/*
 * cmd_eval.c - bonsai2 eval: finds the measure that was asked for.
 */
#include "base/opt_int.h"
#include "cli/eval_cmd.h"

#include <string.h>

struct measure {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

static const struct measure measures[] = {
    {"ppl", "Perplexity of a model on a text.", cmd_eval_ppl},
    {"kld", "Divergence from a baseline, by region, with intervals.", cmd_eval_kld},
    {"task", "What a model can do: questions, written answers, code.", cmd_eval_task},
    {"retention", "What share of the baseline's ability is left, task by task.",
     cmd_eval_retention},
    {"loops", "How many answers repeat themselves or never end.", cmd_eval_loops},
    {"rollback", "Which layer or tensor, restored, buys back most per byte.",
     cmd_eval_rollback},
    {"speed", "Loading, first token, prompt, generation, memory.", cmd_eval_speed},
    {"blind", "A person compares answers without knowing whose they are.",
     cmd_eval_blind},
    {"report", "One page from the results of the other measures.", cmd_eval_report},
};

static const char words[] = "ppl|kld|task|retention|loops|rollback|speed|blind|report";

static void print_help(FILE *f)
{
    fprintf(f,
            "Say what a model can do, and what compression cost.\n\n"
            "Usage: bonsai2 eval %s [options]\n\n",
            words);
    for (size_t i = 0; i < countof(measures); i++)
        fprintf(f, "  %-10s %s\n", measures[i].name, measures[i].summary);
    fputs("\n'bonsai2 eval MEASURE --help' lists its options.\n"
          "Example:\n"
          "  bonsai2 eval kld -m small.gguf --baseline model.gguf --text book.txt "
          "--ctx 512 --chunks 16\n",
          f);
}

static int no_measure(const char *word)
{
    const char *best = NULL;
    int best_distance = 0;

    for (size_t i = 0; i < countof(measures); i++) {
        int d = opt_distance(word, measures[i].name);
        if (opt_is_near(word, measures[i].name, d) && (!best || d < best_distance)) {
            best = measures[i].name;
            best_distance = d;
        }
    }
    if (word[0] == '-' || word[0] == '\0')
        fprintf(stderr, "bonsai2 eval: the measure is missing: %s", words);
    else
        fprintf(stderr, "bonsai2 eval: unknown measure '%s': %s are known", word,
                words);
    if (best)
        fprintf(stderr, "; did you mean '%s'?", best);
    fputs("\nTry 'bonsai2 eval --help'.\n", stderr);
    return CLI_USAGE;
}

/* A shell completes a folder's name with a slash; results name it without. */
static void drop_slash(char *word)
{
    for (size_t n = strlen(word); n > 1 && word[n - 1] == '/'; n--)
        word[n - 1] = '\0';
}

int cmd_eval(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";

    for (int i = 2; i < argc; i++)
        drop_slash(argv[i]);

    for (size_t i = 0; i < countof(measures); i++)
        if (strcmp(word, measures[i].name) == 0)
            return measures[i].run(argc - 1, argv + 1);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            print_help(stdout);
            return CLI_DONE;
        }
    }
    return no_measure(word);
}
