/*
 * task_data.c - the rows of a task: files, groups, examples, the subset.
 *
 * The same seed draws the same items, whatever the model: that is what makes results
 * comparable in pairs. Items stay in the data's order, so that neighbours share their
 * examples and a session reads those once.
 */
#include "eval/task_int.h"

#include "base/file.h"
#include "base/file_append.h"
#include "base/mem.h"
#include "base/rng.h"
#include "text/utf8.h"

#include <string.h>

enum { PASSAGE_MIN_WORDS = 50, PASSAGE_TEXT_MAX = 1 << 28 };

static enum b2_status no_memory(struct b2_err *err)
{
    return err_set(err, B2_ENOMEM, "out of memory for a task");
}

/* Appends folder/path; a NULL folder: path alone. */
static void put_path(struct str *out, const char *folder, const char *path, size_t n)
{
    if (folder)
        str_printf(out, "%s/", folder);
    str_putn(out, path, n);
}

/* Reads the example file of a group: fewshot with what '*' stood for. */
static enum b2_status read_examples(struct task_group *g, const char *folder,
                                    const char *fewshot, struct b2_err *err)
{
    const char *star = strchr(fewshot, '*');
    struct str path = {0};
    enum b2_status rc;

    put_path(&path, folder, fewshot, star ? (size_t)(star - fewshot) : strlen(fewshot));
    if (star)
        str_printf(&path, "%s%s", g->name, star + 1);
    rc = str_ok(&path) ? table_read(&g->more, path.data, err) : no_memory(err);
    str_free(&path);
    return rc;
}

static enum b2_status add_group(struct task *t, const char *name, size_t n,
                                struct task_group **out, struct b2_err *err)
{
    struct task_group *more =
        mem_realloc(t->group, (size_t)t->n_groups + 1, sizeof *more);

    if (!more)
        return no_memory(err);
    t->group = more;
    more[t->n_groups] = (struct task_group){.name = mem_calloc(n + 1, 1)};
    if (!more[t->n_groups].name)
        return no_memory(err);
    if (n > 0)
        memcpy(more[t->n_groups].name, name, n);
    *out = &more[t->n_groups++];
    return B2_OK;
}

/* Reads one data file as a group. */
static enum b2_status read_group(struct task *t, const char *folder, const char *path,
                                 const char *name, size_t n_name, struct b2_err *err)
{
    struct task_group *g = NULL;
    enum b2_status rc = add_group(t, name, n_name, &g, err);

    if (rc || !g)
        return rc;
    rc = table_read(&g->rows, path, err);
    if (!rc && t->d.fewshot && t->o.shots > 0)
        rc = read_examples(g, folder, t->d.fewshot, err);
    return rc;
}

/* All files of a pattern with a '*' in its last part. */
static enum b2_status read_matching(struct task *t, const char *folder,
                                    struct b2_err *err)
{
    const char *slash = strrchr(t->d.data, '/');
    const char *pattern = slash ? slash + 1 : t->d.data, *star = strchr(pattern, '*');
    size_t head = (size_t)(star - pattern), tail = strlen(star + 1);
    struct str dir = {0}, path = {0};
    char **names = NULL;
    int64_t n = 0;
    enum b2_status rc;

    put_path(&dir, folder, t->d.data, slash ? (size_t)(slash - t->d.data) : 0);
    rc = str_ok(&dir) ? file_match(&names, &n, dir.data, pattern, err) : no_memory(err);
    if (!rc && n == 0)
        rc = err_set(err, B2_ENOTFOUND, "%s: no file %s", dir.data, pattern);
    for (int64_t i = 0; i < n && !rc; i++) {
        str_clear(&path);
        str_printf(&path, "%s/%s", dir.data, names[i]);
        rc = str_ok(&path) ? read_group(t, folder, path.data, names[i] + head,
                                        strlen(names[i]) - head - tail, err)
                           : no_memory(err);
    }
    file_match_free(names, n);
    str_free(&dir);
    str_free(&path);
    return rc;
}

enum b2_status task_groups_read(struct task *t, const char *folder, struct b2_err *err)
{
    struct str path = {0};
    enum b2_status rc;

    if (!t->d.data)
        return err_set(err, B2_EFORMAT, "%s: \"data\" is missing", t->d.name);
    if (strchr(t->d.data, '*'))
        return read_matching(t, folder, err);
    put_path(&path, folder, t->d.data, strlen(t->d.data));
    rc = str_ok(&path) ? read_group(t, folder, path.data, "", 0, err) : no_memory(err);
    str_free(&path);
    return rc;
}

/* Adds the words [from, to) of a text, joined by single spaces, as a row. */
static enum b2_status add_passage(struct task_group *g, const char *text, size_t n,
                                  struct b2_err *err)
{
    struct str line = {0}, json = {0};
    enum b2_status rc;
    struct table one = {0};
    cJSON **more;

    for (size_t i = 0; i < n; i++) {
        bool space = strchr(" \t\r\n", text[i]) != NULL;
        if (!space)
            str_putn(&line, text + i, 1);
        else if (line.len > 0 && line.data[line.len - 1] != ' ')
            str_put(&line, " ");
    }
    str_put(&json, "{\"text\":");
    json_put_string(&json, line.data ? line.data : "");
    str_put(&json, "}");
    rc = str_ok(&line) && str_ok(&json)
             ? table_parse(&one, TABLE_JSONL, json.data, json.len, err)
             : no_memory(err);
    str_free(&line);
    str_free(&json);
    if (rc)
        return rc;
    if (!one.row)
        return no_memory(err);
    more = mem_realloc(g->rows.row, (size_t)g->rows.n + 1, sizeof(void *));
    if (!more) {
        table_free(&one);
        return no_memory(err);
    }
    g->rows.row = more;
    more[g->rows.n++] = one.row[0];
    mem_free(one.row);
    return B2_OK;
}

/* A passage is whole sentences of at least PASSAGE_MIN_WORDS words; its last word, a
 * word of letters, is what the model has to say. The sentence's end is left off, as in
 * LAMBADA. */
static enum b2_status cut_passages(struct task_group *g, const char *text, size_t size,
                                   struct b2_err *err)
{
    int64_t words = 0;
    enum b2_status rc = B2_OK;

    for (size_t at = 0, from = 0; at < size && !rc; at++) {
        bool space = strchr(" \t\r\n", text[at]) != NULL;
        bool end = strchr(".!?", text[at]) != NULL &&
                   (at + 1 == size || strchr(" \t\r\n\"'", text[at + 1]));
        if (space && at > from && !strchr(" \t\r\n", text[at - 1]))
            words++;
        if (!end || words + 1 < PASSAGE_MIN_WORDS) /* the last word counts too */
            continue;
        char last = at > from ? text[at - 1] : '.';
        if ((last >= 'a' && last <= 'z') || (unsigned char)last >= 0x80)
            rc = add_passage(g, text + from, at - from, err);
        from = at + 1;
        while (from < size && strchr("\"' \t\r\n", text[from]))
            from++;
        at = from - 1;
        words = 0;
    }
    return rc;
}

enum b2_status task_groups_from_text(struct task *t, const char *path,
                                     struct b2_err *err)
{
    struct task_group *g = NULL;
    char *text = NULL;
    size_t size = 0;
    enum b2_status rc = file_read_all(&text, &size, path, PASSAGE_TEXT_MAX, err);

    if (!rc && (!utf8_valid(text, size) || memchr(text, '\0', size)))
        rc = err_set(err, B2_EFORMAT, "%s: not UTF-8 text", path);
    if (!rc)
        rc = add_group(t, "", 0, &g, err);
    if (!rc && g)
        rc = cut_passages(g, text, size, err);
    if (!rc && g && g->rows.n == 0)
        rc = err_set(err, B2_EARG, "%s: no passage of %d words that ends a sentence",
                     path, PASSAGE_MIN_WORDS);
    mem_free(text);
    return rc;
}

/* Chooses n of [0, total), ascending: mark[i] says whether i is one. */
static void draw(bool *mark, int64_t total, int64_t n, struct rng *r)
{
    int64_t left = n;

    /* Knuth's selection sampling: each subset of n is equally likely. */
    for (int64_t i = 0; i < total && left > 0; i++) {
        mark[i] = rng_below(r, (uint64_t)(total - i)) < (uint64_t)left;
        left -= mark[i];
    }
}

/* Takes the examples of a group; used marks rows of the data that became examples. */
static enum b2_status draw_examples(const struct task *t, struct task_group *g,
                                    bool *used, struct b2_err *err)
{
    const struct table *from = t->d.fewshot ? &g->more : &g->rows;
    struct rng r = rng_make(t->o.seed ^ 0x5eed5407);
    bool *mark = mem_calloc((size_t)from->n + 1, sizeof *mark);
    int64_t n = t->o.shots;

    g->shot = mem_calloc((size_t)n + 1, sizeof(void *));
    if (!mark || !g->shot) {
        mem_free(mark);
        return no_memory(err);
    }
    if (n > from->n || (!t->d.fewshot && n == from->n)) {
        mem_free(mark);
        return err_set(err, B2_EARG, "--shots %lld: there are %lld examples%s%s",
                       (long long)n, (long long)from->n, g->name[0] ? " for " : "",
                       g->name);
    }
    if (t->d.fewshot_first)
        for (int64_t i = 0; i < n; i++)
            mark[i] = true;
    else
        draw(mark, from->n, n, &r);
    for (int64_t i = 0; i < from->n; i++)
        if (mark[i]) {
            g->shot[g->n_shots++] = from->row[i];
            if (!t->d.fewshot)
                used[i] = true;
        }
    mem_free(mark);
    return B2_OK;
}

static enum b2_status item_name(struct task_place_item *it, const struct task *t,
                                struct b2_err *err)
{
    const struct task_group *g = &t->group[it->group];
    struct str id = {0};
    enum b2_status rc = B2_OK;

    if (t->d.id)
        rc = task_render(&id, t->d.id, g->rows.row[it->row], g->name, NULL, 0, err);
    else if (g->name[0])
        str_printf(&id, "%s/%lld", g->name, (long long)it->row);
    else
        str_printf(&id, "%lld", (long long)it->row);
    if (!rc && (!str_ok(&id) || !(it->id = mem_strdup(id.data ? id.data : ""))))
        rc = no_memory(err);
    str_free(&id);
    return rc;
}

/* Makes items of the rows that are drawn out of all that are no examples. */
static enum b2_status draw_items(struct task *t, bool *const *used, struct b2_err *err)
{
    struct rng r = rng_make(t->o.seed);
    int64_t n = t->o.limit > 0 ? min_i64(t->o.limit, t->n_total) : t->n_total;
    bool *mark = mem_calloc((size_t)t->n_total + 1, sizeof *mark);
    int64_t at = 0;
    enum b2_status rc = B2_OK;

    t->item = mem_calloc((size_t)n + 1, sizeof *t->item);
    if (!mark || !t->item) {
        mem_free(mark);
        return no_memory(err);
    }
    draw(mark, t->n_total, n, &r);
    for (int64_t g = 0; g < t->n_groups && !rc; g++)
        for (int64_t i = 0; used[g] && i < t->group[g].rows.n && !rc; i++) {
            if (used[g][i] || !mark[at++])
                continue;
            struct task_place_item *it = &t->item[t->n_items++];
            *it = (struct task_place_item){.group = g, .row = i};
            rc = item_name(it, t, err);
        }
    mem_free(mark);
    return rc;
}

enum b2_status task_draw(struct task *t, struct b2_err *err)
{
    bool **used = mem_calloc((size_t)t->n_groups + 1, sizeof *used);
    enum b2_status rc = used ? B2_OK : no_memory(err);

    for (int64_t g = 0; used && g < t->n_groups && !rc; g++) {
        struct task_group *group = &t->group[g];
        bool *mine = mem_calloc((size_t)group->rows.n + 1, sizeof *mine);
        used[g] = mine;
        if (!mine)
            rc = no_memory(err);
        else if (t->o.shots > 0)
            rc = draw_examples(t, group, mine, err);
        for (int64_t i = 0; mine && i < group->rows.n && !rc; i++)
            t->n_total += !mine[i];
    }
    if (!rc && t->n_total == 0)
        rc = err_set(err, B2_EARG, "the data have no rows");
    if (!rc && used)
        rc = draw_items(t, used, err);
    for (int64_t g = 0; used && g < t->n_groups; g++)
        mem_free(used[g]);
    mem_free(used);
    return rc;
}
