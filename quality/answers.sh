#!/usr/bin/env bash
# answers.sh TEACHER STUDENT TRAINED - ten questions, three answers each, into answers.md.
#
# What the figures of distill.csv mean for a user: what a model says as it came, with every
# linear layer ternary after error compensation, and after training. Greedy, through the
# model's own chat template, at most 64 tokens, written as they are.
#   quality/answers.sh MODEL build/quality/distill-NAME-student.gguf \
#       build/quality/distill-NAME-ours-300000.gguf       (of distill.sh)
# B2_OUT: another file than answers.md. B2_THREADS: how many threads (default: all).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
usage="usage: answers.sh TEACHER STUDENT TRAINED"
files=("${1:?$usage}" "${2:?$usage}" "${3:?$usage}")
names=('as it came' 'ternary, compensated' 'ternary, trained')
out=${B2_OUT:-$here/answers.md}
tokens=64
questions=(
    'What is the capital of France?'
    'Name three animals that live in the sea.'
    'What is 7 plus 5?'
    'A farmer has 12 eggs and sells 4 of them. How many eggs does he have left?'
    'Why is the sky blue? Answer in one sentence.'
    'Write a Python function that returns the square of a number.'
    'Translate to French: Good morning, my friend.'
    'Write a short poem about the autumn rain.'
    'What should I do when I have a cold?'
    'Finish the sentence: Once upon a time, in a small village,'
)

for file in "${files[@]}"; do
    [ -r "$file" ] || { echo "answers.sh: $file cannot be read" >&2; exit 1; }
done
new=$(mktemp "$out.XXXXXX")
trap 'rm -f "$new"' EXIT
{
    printf '# Ten questions, three answers\n\nWhat `quality/answers.sh` printed on %s, as it is: greedy, the model'"'"'s chat template, at\n' "$(date +%F)"
    printf 'most %s tokens; "…" where an answer was cut there.\n\n| | file | bytes | SHA-256 begins |\n|---|---|---|---|\n' $tokens
    for i in 0 1 2; do
        printf '| %s | %s | %s | `%s` |\n' "${names[i]}" "$(basename "${files[i]}")" \
            "$(stat -L -c %s "${files[i]}")" "$(sha256sum "${files[i]}" | cut -c1-16)"
    done
    n=0
    for question in "${questions[@]}"; do
        n=$((n + 1))
        printf '\n## %s. %s\n' $n "$question"
        for i in 0 1 2; do
            printf '\n%s:\n\n' "${names[i]^}"
            "$bonsai2" run -m "${files[i]}" --chat -p "$question" -n $tokens --temp 0 \
                --threads "${B2_THREADS:-0}" --json --quiet |
                python3 -c '
import json, sys
j = json.load(sys.stdin)
text = j["text"].strip("\n") + ("…" if j["finish_reason"] == "length" else "")
for line in text.split("\n") if text.strip() else ["(nothing)"]:
    print(("    " + line).rstrip())'
        done
        echo "answers.sh: $n of ${#questions[@]}" >&2
    done
} >"$new"
chmod 644 "$new"
mv "$new" "$out"
