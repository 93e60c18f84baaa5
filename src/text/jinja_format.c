/*
 * jinja_format.c - "%s and %5.1f" % values, and dates.
 */
#include "text/jinja_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 1000, MAX_PRECISION = 100 };

struct spec {
    bool minus, plus, space, zero, alt;
    int64_t width, prec; /* prec -1: not given */
    char conv;
};

/* Values in order, or by name. */
struct feed {
    const struct jval *at;
    int64_t n, used;
    struct jval dict; /* for names: only a JT_DICT has them */
};

static bool take(struct jx *x, struct feed *f, struct jval *out)
{
    if (f->used >= f->n)
        return jx_fail(x, "TypeError", "not enough arguments for format string");
    *out = f->at[f->used++];
    return true;
}

static void pad(struct str *s, const struct spec *p, const char *text, size_t n,
                size_t chars, bool number)
{
    int64_t left = p->width - (int64_t)chars;
    bool zeros = number && p->zero && !p->minus;

    if (zeros && n && (text[0] == '-' || text[0] == '+' || text[0] == ' ')) {
        str_putn(s, text, 1);
        text++;
        n--;
    }
    for (int64_t i = 0; !p->minus && i < left; i++)
        str_put(s, zeros ? "0" : " ");
    str_putn(s, text, n);
    for (int64_t i = 0; p->minus && i < left; i++)
        str_put(s, " ");
}

static bool put_text(struct jx *x, struct str *s, const struct spec *p, struct jval v)
{
    struct str t = {0};
    struct jval text, part[3] = {{0}, jv_int(p->prec), {0}};
    bool ok = p->conv == 's' ? jv_put_str(x, &t, v) : jv_put_repr(x, &t, v);

    ok = ok && jv_take(x, &text, &t);
    str_free(&t);
    if (!ok || (p->prec >= 0 && !jv_slice(x, text, part, &text)))
        return false;
    pad(s, p, text.v.s->data, text.v.s->n, text.v.s->chars, false);
    return true;
}

static bool put_int(struct jx *x, struct str *s, const struct spec *p, struct jval v)
{
    char buf[64],
        conv = p->conv == 'd' || p->conv == 'i' || p->conv == 'u' ? 'd' : p->conv;
    int64_t i = jv_as_int(v);
    int n;

    if (v.type == JT_FLOAT && conv == 'd' && fabs(v.v.f) < 9.2e18)
        i = (int64_t)v.v.f;
    else if (v.type != JT_INT && v.type != JT_BOOL)
        return v.type == JT_UNDEF
                   ? jv_undef_fail(x, v)
                   : jx_fail(x, "TypeError",
                             "%%%c format: a real number is required, not %s", p->conv,
                             jv_type_name(v));
    uint64_t mag = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    const char *sign = i < 0 ? "-" : p->plus ? "+" : p->space ? " " : "";
    if (conv == 'd')
        n = snprintf(buf, sizeof buf, "%s%llu", sign, (unsigned long long)mag);
    else if (conv == 'o')
        n = snprintf(buf, sizeof buf, "%s%s%llo", sign, p->alt ? "0o" : "",
                     (unsigned long long)mag);
    else
        n = snprintf(buf, sizeof buf, conv == 'x' ? "%s%s%llx" : "%s%s%llX", sign,
                     p->alt ? (conv == 'x' ? "0x" : "0X") : "",
                     (unsigned long long)mag);
    pad(s, p, buf, (size_t)n, (size_t)n, true);
    return true;
}

static bool put_double(struct jx *x, struct str *s, const struct spec *p, struct jval v)
{
    char buf[512];
    int prec = p->prec < 0 ? 6 : (int)p->prec, n;

    if (v.type == JT_UNDEF)
        return jv_undef_fail(x, v);
    if (!jv_is_num(v))
        return jx_fail(x, "TypeError", "must be real number, not %s", jv_type_name(v));
    double f = jv_num(v);
    const char *sign = p->plus && !signbit(f)    ? "+"
                       : p->space && !signbit(f) ? " "
                                                 : "";
    switch (p->conv) {
    case 'e':
        n = snprintf(buf, sizeof buf, "%s%.*e", sign, prec, f);
        break;
    case 'E':
        n = snprintf(buf, sizeof buf, "%s%.*E", sign, prec, f);
        break;
    case 'g':
        n = snprintf(buf, sizeof buf, "%s%.*g", sign, prec, f);
        break;
    case 'G':
        n = snprintf(buf, sizeof buf, "%s%.*G", sign, prec, f);
        break;
    default:
        n = snprintf(buf, sizeof buf, "%s%.*f", sign, prec, f);
        break;
    }
    if (n < 0 || (size_t)n >= sizeof buf)
        return jx_fail(x, "OverflowError", "formatted float is too long");
    pad(s, p, buf, (size_t)n, (size_t)n, true);
    return true;
}

/* Digits or '*' at *at. */
static bool number(struct jx *x, const struct jstr *f, size_t *at, struct feed *feed,
                   int64_t max, int64_t *out)
{
    struct jval v = {0};

    if (f->data[*at] == '*') {
        (*at)++;
        if (!take(x, feed, &v))
            return false;
        if (v.type != JT_INT)
            return jx_fail(x, "TypeError", "* wants int");
        *out = v.v.i;
    } else {
        while (f->data[*at] >= '0' && f->data[*at] <= '9' && *out <= max)
            *out = *out * 10 + (f->data[(*at)++] - '0');
    }
    return *out <= max || jx_limit(x, "width");
}

/* The flags, width and precision at *at, which stands behind the % and the name. */
static bool read_spec(struct jx *x, const struct jstr *f, size_t *at, struct feed *feed,
                      struct spec *p)
{
    for (;; (*at)++) {
        char c = f->data[*at];
        if (c == '-')
            p->minus = true;
        else if (c == '+')
            p->plus = true;
        else if (c == ' ')
            p->space = true;
        else if (c == '0')
            p->zero = true;
        else if (c == '#')
            p->alt = true;
        else
            break;
    }
    p->prec = -1;
    if (!number(x, f, at, feed, MAX_WIDTH, &p->width))
        return false;
    if (p->width < 0) {
        p->minus = true;
        p->width = max_i64(p->width, -MAX_WIDTH) * -1;
    }
    if (f->data[*at] == '.') {
        (*at)++;
        p->prec = 0;
        if (!number(x, f, at, feed, MAX_PRECISION, &p->prec))
            return false;
        p->prec = max_i64(p->prec, 0);
    }
    while (f->data[*at] && strchr("hlL", f->data[*at]))
        (*at)++;
    if (*at >= f->n)
        return jx_fail(x, "ValueError", "incomplete format");
    p->conv = f->data[(*at)++];
    return true;
}

static bool put_one(struct jx *x, struct str *s, const struct jstr *f, size_t *at,
                    struct feed *feed)
{
    struct spec p = {0};
    struct jval v = {0}, *found = NULL;
    bool named = f->data[*at] == '(';

    if (named) {
        const char *end = strchr(f->data + *at, ')');
        struct jval key;
        if (feed->dict.type != JT_DICT)
            return jx_fail(x, "TypeError", "format requires a mapping");
        if (!end)
            return jx_fail(x, "ValueError", "incomplete format key");
        size_t n = (size_t)(end - f->data) - *at - 1;
        if (!jv_str(x, &key, f->data + *at + 1, n) ||
            !jdict_find(x, feed->dict.v.d, key, &found))
            return false;
        if (!found)
            return jx_fail(x, "KeyError", "'%s'", key.v.s->data);
        *at += n + 2;
    }
    if (!read_spec(x, f, at, feed, &p))
        return false;
    if (p.conv == '%') {
        str_put(s, "%");
        return true;
    }
    if (!strchr("srdiufFeEgGxXoc", p.conv))
        return jx_fail(x, "ValueError",
                       "unsupported format character '%c' (0x%x) at index %zu", p.conv,
                       (unsigned)(unsigned char)p.conv, *at - 1);
    if (named)
        v = *found;
    else if (!take(x, feed, &v))
        return false;
    if (p.conv == 's' || p.conv == 'r')
        return put_text(x, s, &p, v);
    if (strchr("diuxXo", p.conv))
        return put_int(x, s, &p, v);
    if (p.conv != 'c')
        return put_double(x, s, &p, v);
    if (v.type != JT_STR || v.v.s->chars != 1)
        return jx_fail(x, "TypeError", "%%c requires int or char");
    pad(s, &p, v.v.s->data, v.v.s->n, 1, false);
    return true;
}

bool jstr_percent(struct jx *x, struct jval fmt, const struct jval *args, int64_t n,
                  struct jval dict, struct jval *out)
{
    struct feed feed = {.at = args, .n = n, .dict = dict};
    const struct jstr *f = fmt.v.s;
    struct str s = {0};
    bool ok = true;

    for (size_t at = 0; ok && at < f->n;) {
        size_t text = strcspn(f->data + at, "%");
        str_putn(&s, f->data + at, text);
        at += text;
        if (at >= f->n)
            break;
        at++;
        ok = put_one(x, &s, f, &at, &feed) && jx_charge(x, 0);
        if (ok && s.len > x->max_output)
            ok = jx_limit(x, "output");
    }
    if (ok && feed.used < n && dict.type == JT_NONE)
        ok = jx_fail(x, "TypeError",
                     "not all arguments converted during string formatting");
    if (ok)
        return jv_take(x, out, &s);
    str_free(&s);
    return false;
}

/* ---- dates ---- */

struct date {
    int64_t year;
    int month, day, hour, minute, second, week_day, year_day; /* month 1, Sunday 0 */
};

/* Civil date of seconds since 1970 (Howard Hinnant's days_from_civil, inverted). */
static struct date to_date(int64_t t)
{
    int64_t days = t / 86400, rest = t % 86400;
    struct date d = {0};

    if (rest < 0) {
        rest += 86400;
        days--;
    }
    d.hour = (int)(rest / 3600);
    d.minute = (int)(rest / 60 % 60);
    d.second = (int)(rest % 60);
    d.week_day = (int)(((days + 4) % 7 + 7) % 7);
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    d.day = (int)(doy - (153 * mp + 2) / 5 + 1);
    d.month = (int)(mp < 10 ? mp + 3 : mp - 9);
    d.year = yoe + era * 400 + (d.month <= 2);
    bool leap = (d.year % 4 == 0 && d.year % 100 != 0) || d.year % 400 == 0;
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    d.year_day = before[d.month - 1] + d.day + (leap && d.month > 2);
    return d;
}

static const char *const day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
static const char *const month_names[] = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

/* The letters that are numbers: value, digits and what fills them. */
static bool put_date_number(struct str *s, const struct date *d, char c)
{
    const struct {
        char c;
        int value, digits;
    } rows[] = {
        {'y', (int)(d->year % 100), 2},
        {'m', d->month, 2},
        {'d', d->day, 2},
        {'H', d->hour, 2},
        {'I', d->hour % 12 ? d->hour % 12 : 12, 2},
        {'M', d->minute, 2},
        {'S', d->second, 2},
        {'f', 0, 6}, /* datetime's microseconds */
        {'j', d->year_day, 3},
        {'w', d->week_day, 1},
        {'u', d->week_day ? d->week_day : 7, 1},
    };

    for (size_t i = 0; i < countof(rows); i++)
        if (rows[i].c == c) {
            str_printf(s, "%0*d", rows[i].digits, rows[i].value);
            return true;
        }
    return false;
}

/* One letter of the C locale's strftime; unknown ones stay as they are. */
static void put_date(struct str *s, const struct date *d, char c)
{
    if (put_date_number(s, d, c))
        return;
    switch (c) {
    case 'Y':
        str_printf(s, "%lld", (long long)d->year);
        break;
    case 'e':
        str_printf(s, "%2d", d->day);
        break;
    case 'p':
        str_put(s, d->hour < 12 ? "AM" : "PM");
        break;
    case 'A':
        str_put(s, day_names[d->week_day]);
        break;
    case 'a':
        str_printf(s, "%.3s", day_names[d->week_day]);
        break;
    case 'B':
        str_put(s, month_names[d->month - 1]);
        break;
    case 'b':
    case 'h':
        str_printf(s, "%.3s", month_names[d->month - 1]);
        break;
    case 'n':
    case 't':
        str_put(s, c == 'n' ? "\n" : "\t");
        break;
    case 'z':
    case 'Z': /* datetime.now() knows no zone */
        break;
    case '%':
        str_put(s, "%");
        break;
    default:
        str_printf(s, "%%%c", c);
        break;
    }
}

bool jinja_strftime(struct jx *x, const struct jstr *f, int64_t t, struct jval *out)
{
    static const struct {
        char c;
        const char *means;
    } groups[] = {{'F', "Y-m-d"}, {'T', "H:M:S"}, {'R', "H:M"},          {'D', "m/d/y"},
                  {'X', "H:M:S"}, {'x', "m/d/y"}, {'c', "a b e H:M:S Y"}};
    struct date d = to_date(t);
    struct str s = {0};

    for (const char *p = f->data; p < f->data + f->n; p++) {
        const char *group = NULL;
        if (*p != '%' || p + 1 == f->data + f->n) {
            str_putn(&s, p, 1);
            continue;
        }
        p++;
        for (size_t i = 0; i < countof(groups); i++)
            if (groups[i].c == *p)
                group = groups[i].means;
        if (*p == '-' && p + 1 < f->data + f->n) { /* glibc: no leading zeros */
            struct str part = {0};
            put_date(&part, &d, *++p);
            size_t skip = part.data ? strspn(part.data, "0 ") : 0;
            if (skip && skip == part.len)
                skip--;
            str_putn(&s, part.data ? part.data + skip : "", part.len - skip);
            str_free(&part);
        } else if (!group) {
            put_date(&s, &d, *p);
        }
        for (; group && *group; group++) {
            if ((*group >= 'a' && *group <= 'z') || (*group >= 'A' && *group <= 'Z'))
                put_date(&s, &d, *group);
            else
                str_putn(&s, group, 1);
        }
    }
    return jv_take(x, out, &s);
}
