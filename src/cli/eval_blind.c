/*
 * eval_blind.c - the page is one file with a few lines of script of its own; nothing in
 * it says who is who.
 */
#include "cli/eval_blind.h"

#include "base/mem.h"
#include "base/rng.h"
#include "eval/bootstrap.h"
#include "eval/page_int.h"

#include <cjson/cJSON.h>
#include <string.h>

void blind_free(struct blind *b)
{
    for (int64_t i = 0; i < b->n; i++) {
        mem_free(b->pair[i].model);
        mem_free(b->pair[i].baseline);
    }
    mem_free(b->pair);
    *b = (struct blind){0};
}

enum b2_status blind_seal(struct blind *b, uint64_t seed, struct b2_err *err)
{
    struct rng rng = rng_make(seed);
    struct hash *h = NULL;
    enum b2_status rc = hash_new(&h, err);

    for (int64_t i = 0; i < b->n && !rc; i++) {
        struct blind_pair *p = &b->pair[i];
        p->model_left = rng_below(&rng, 2) == 0;
        rc = hash_add(h, p->model, strlen(p->model) + 1, err);
        if (!rc)
            rc = hash_add(h, p->baseline, strlen(p->baseline) + 1, err);
    }
    if (!rc)
        rc = hash_hex(h, b->id, err);
    hash_free(h);
    return rc;
}

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" "
    "href=\"data:,\">\n<title>Which answer is better?</title>\n<style>"
    ":root{--bg:#fcfcfa;--fg:#1c1e21;--dim:#5f656d;--line:#d9dbdf;--on:#1f6feb;"
    "--ink:#fff}@media(prefers-color-scheme:dark){:root{--bg:#15171a;--fg:#e6e8eb;"
    "--dim:#a1a8b1;--line:#343940;--on:#6ea8ff;--ink:#111}}"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:70rem;padding:1rem;"
    "background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}"
    ".pair{border-top:1px solid var(--line);padding:1rem 0}.two{display:grid;"
    "grid-template-columns:1fr 1fr;gap:1rem}pre{white-space:pre-wrap;overflow-wrap:"
    "anywhere;border:1px solid "
    "var(--line);border-radius:.4rem;padding:.7rem;margin:.4rem "
    "0;font:inherit;max-height:28rem;overflow:auto}button{font:inherit;padding:.4rem "
    ".8rem;border:1px solid var(--line);border-radius:.4rem;background:none;color:"
    "inherit;cursor:pointer}button[aria-pressed=true]{background:var(--on);color:"
    "var(--ink)}.dim{color:var(--dim)}.bar{position:sticky;bottom:0;background:"
    "var(--bg);border-top:1px solid var(--line);padding:.6rem 0}"
    "@media(max-width:40rem){.two{grid-template-columns:1fr}}</style>\n</"
    "head>\n<body>\n"
    "<h1>Which answer is better?</h1>\n<p class=\"dim\">Two models answered each "
    "prompt; "
    "which is which is not told here. Choose, then save the votes.</p>\n";

static const char page_script[] =
    "<div class=\"bar\"><span id=\"count\"></span> <button id=\"save\">Save the "
    "votes</button></div>\n<script>\n"
    "const pairs=[...document.querySelectorAll('.pair')];\n"
    "const votes=pairs.map(()=>null);\n"
    "function show(){document.getElementById('count').textContent="
    "votes.filter(v=>v).length+' of '+votes.length+' voted';}\n"
    "pairs.forEach((p,i)=>p.querySelectorAll('button').forEach(b=>"
    "b.addEventListener('click',()=>{votes[i]=b.dataset.vote;\n"
    "p.querySelectorAll('button').forEach(o=>o.setAttribute('aria-pressed',o===b));"
    "show();})));\n"
    "document.getElementById('save').addEventListener('click',()=>{\n"
    "const a=document.createElement('a');\n"
    "a.href=URL.createObjectURL(new Blob([JSON.stringify({id:document.body.dataset.id,"
    "votes:votes})],{type:'application/json'}));\n"
    "a.download='votes.json';a.click();});\n"
    "show();\n</script>\n</body>\n</html>\n";

static void put_answer(struct str *out, const char *side, const char *text)
{
    str_printf(out, "<div><b>%s</b><pre>", side);
    page_text(out, text);
    str_put(out, "</pre></div>\n");
}

void blind_page(struct str *out, const struct blind *b)
{
    static const char *const buttons[][2] = {{"left", "Left is better"},
                                             {"same", "No difference"},
                                             {"right", "Right is better"}};
    const char *body = strstr(page_head, "<body>");

    str_putn(out, page_head, (size_t)(body - page_head));
    str_printf(out, "<body data-id=\"%s\">", b->id);
    str_put(out, body + strlen("<body>"));
    for (int64_t i = 0; i < b->n; i++) {
        const struct blind_pair *p = &b->pair[i];
        str_printf(out, "<section class=\"pair\">\n<p><b>%lld.</b> ", (long long)i + 1);
        page_text(out, p->prompt);
        str_put(out, "</p>\n<div class=\"two\">\n");
        put_answer(out, "Left", p->model_left ? p->model : p->baseline);
        put_answer(out, "Right", p->model_left ? p->baseline : p->model);
        str_put(out, "</div>\n<p>");
        for (size_t k = 0; k < countof(buttons); k++)
            str_printf(out,
                       "<button data-vote=\"%s\" aria-pressed=\"false\">%s</button> ",
                       buttons[k][0], buttons[k][1]);
        str_put(out, "</p>\n</section>\n");
    }
    str_put(out, page_script);
}

cJSON *blind_sides(const struct blind *b)
{
    cJSON *list = cJSON_CreateArray();

    for (int64_t i = 0; i < b->n; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToArray(list, o);
        cJSON_AddStringToObject(o, "slice", b->pair[i].slice);
        cJSON_AddStringToObject(o, "prompt", b->pair[i].prompt);
        cJSON_AddStringToObject(o, "left",
                                b->pair[i].model_left ? "model" : "baseline");
    }
    return list;
}

struct blind_result blind_count(const char *votes, const bool *model_left, int64_t n)
{
    struct blind_result r = {.preference = 0.5, .high = 1.0};

    for (int64_t i = 0; i < n; i++) {
        r.n += votes[i] != '-';
        r.ties += votes[i] == 's';
        if (votes[i] == 'l' || votes[i] == 'r') {
            bool won = (votes[i] == 'l') == model_left[i];
            r.wins += won;
            r.losses += !won;
        }
    }
    int64_t decided = r.wins + r.losses;
    if (decided > 0) {
        struct interval ci = bootstrap_share(r.wins, decided);
        r.preference = (double)r.wins / (double)decided;
        r.low = ci.low;
        r.high = ci.high;
    }
    r.p = bootstrap_mcnemar(r.wins, r.losses);
    return r;
}

static const char *word(const cJSON *o, const char *key)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));

    return s ? s : "";
}

/* The letter of a vote; 0: none that is known. */
static char vote_of(const cJSON *v)
{
    const char *s = cJSON_GetStringValue(v);

    if (cJSON_IsNull(v))
        return '-';
    if (!s)
        return 0;
    return strcmp(s, "left") == 0    ? 'l'
           : strcmp(s, "right") == 0 ? 'r'
           : strcmp(s, "same") == 0  ? 's'
                                     : 0;
}

enum b2_status blind_read(char **votes, bool **model_left, int64_t *n,
                          const cJSON *vote_file, const cJSON *key, struct b2_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(vote_file, "votes");
    const cJSON *pairs = cJSON_GetObjectItemCaseSensitive(key, "pairs");
    int count = cJSON_GetArraySize(list);
    enum b2_status rc = B2_OK;

    if (!cJSON_IsArray(list) || !cJSON_IsArray(pairs) || !*word(key, "id"))
        return err_set(err, B2_EFORMAT,
                       "a votes file and the key file of its page are needed");
    if (strcmp(word(key, "id"), word(vote_file, "id")) != 0 ||
        count != cJSON_GetArraySize(pairs))
        return err_set(err, B2_EARG,
                       "the votes are not of the page that this key belongs to");
    *votes = mem_calloc((size_t)count + 1, 1);
    *model_left = mem_calloc((size_t)count + 1, sizeof **model_left);
    if (!*votes || !*model_left) {
        err_set(err, B2_ENOMEM, "out of memory");
        rc = B2_ENOMEM;
    }
    for (int i = 0; i < count && !rc; i++) {
        const char *left = word(cJSON_GetArrayItem(pairs, i), "left");
        (*votes)[i] = vote_of(cJSON_GetArrayItem(list, i));
        (*model_left)[i] = strcmp(left, "model") == 0;
        if (!(*votes)[i] || (!(*model_left)[i] && strcmp(left, "baseline") != 0))
            rc = err_set(err, B2_EFORMAT, "vote %d is none of left, right, same, null",
                         i + 1);
    }
    *n = count;
    if (rc) {
        mem_free(*votes);
        mem_free(*model_left);
        *votes = NULL;
        *model_left = NULL;
    }
    return rc;
}
