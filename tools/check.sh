#!/usr/bin/env bash
# check.sh - the house rules: include arrows, formatting, sizes; --tidy adds clang-tidy.
#   --fix-format rewrites files instead of judging them. Exit 1 when a rule is broken.
set -uo pipefail
cd "$(dirname "$0")/.."
rc=0
mapfile -t files < <(git ls-files -co --exclude-standard 'src/*.[ch]' 'include/*.h' \
    'tests/*.[ch]' 'examples/*.c' 'bench/*.c' | sort)

case "${1:-}" in
--fix-format)
    clang-format -i "${files[@]}"
    exit
    ;;
--tidy)
    cmake --preset clang >/dev/null || exit 1
    printf '%s\n' "${files[@]}" | grep -E '^(src|examples)/.*\.c$' | grep -v '/arm/' |
        xargs -P "$(nproc)" -n 1 clang-tidy -p build/clang --quiet 2>/dev/null || rc=1
    [ $rc -eq 0 ] && echo "clang-tidy: clean"
    exit $rc
    ;;
esac

python3 tools/check_layers.py || rc=1
if clang-format --dry-run -Werror "${files[@]}"; then
    echo "format: ${#files[@]} files follow .clang-format"
else
    echo "format: run 'make format'" && rc=1
fi
if grep -rnE '/(home|root|work)/[a-z]' --include='*.[ch]' --include='*.md' --include='*.sh' \
    --include='*.txt' src include tests docs tools README.md; then
    echo "paths: a path of somebody's machine stands above" && rc=1
fi
python3 tools/check_size.py
exit $rc
