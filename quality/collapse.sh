#!/usr/bin/env bash
# collapse.sh MODEL [WORD...] - a planted collapse on a real model: is it named?
#
# Makes a copy of MODEL whose head confuses a few capitals (damage_head.py; words of one token)
# and compares both on the six question files in collapse/: the mean looks fine, one task does not.
# Writes what `eval retention` prints to collapse.txt. Fails where the damaged task
# is not the worst one, or the warning is missing. The file there:
#   quality/collapse.sh ~/.cache/bonsai2/SmolLM2-135M-Instruct.Q4_1.gguf
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
model=$(realpath "${1:?usage: collapse.sh MODEL [WORD...]}")
shift
words=("$@")
[ ${#words[@]} -gt 0 ] || words=(Vienna Athens Dublin Stockholm Baghdad)
work=$here/../build/collapse
mkdir -p "$work"

ids=()
for word in "${words[@]}"; do
    read -ra one <<<"$("$bonsai2" tokenize -m "$model" --no-bos --json " $word" |
        python3 -c 'import json, sys; print(*json.load(sys.stdin)["ids"])')"
    [ ${#one[@]} -eq 1 ] || { echo "collapse.sh: '$word' is ${#one[@]} tokens, one is needed" >&2; exit 1; }
    ids+=("${one[0]}")
done
python3 "$here/damage_head.py" "$model" "$work/whole.gguf"
python3 "$here/damage_head.py" "$model" "$work/confused.gguf" "${ids[@]}"
cd "$here/collapse"
{
    echo "# quality/collapse.sh $(basename "$model") ${words[*]}: rows of the head that changed places"
    "$bonsai2" eval retention --baseline "$work/whole.gguf" -m "$work/confused.gguf" \
        --tasks capitals.csv,continents.csv,languages.csv,opposites.csv,past.csv,plurals.csv \
        --shots 4 --max-tokens 6 --scores "$work/scores-$(IFS=-; echo "${ids[*]}")" --report "$work/collapse.html" --force --quiet
} | sed "s|$work/||" >"$work/collapse.txt"
mv "$work/collapse.txt" "$here/collapse.txt"
cat "$here/collapse.txt"
grep -q '^worst  *capitals:' "$here/collapse.txt"
grep -q '^WARNING: The mean of .* hides a collapse: on capitals' "$here/collapse.txt"
