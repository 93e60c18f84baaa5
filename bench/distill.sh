#!/usr/bin/env bash
# distill.sh MODEL TEXT [OPTIONS of distill.py] - `distill` against a plain PyTorch loop of
# the same loss and updates, rows to distill.csv.
#
# Makes a ternary student of MODEL (rotated, all linear layers, by fitted rounding: seconds)
# and runs distill.py with the Python of B2_TORCH (default: python3), which needs torch.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bonsai2=${B2_PROGRAM:-$here/../build/release/bonsai2}
model=${1:?usage: distill.sh MODEL TEXT [OPTIONS]}
text=${2:?usage: distill.sh MODEL TEXT [OPTIONS]}
shift 2
tmp=$(mktemp -d "${TMPDIR:-/tmp}/b2-distill-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
"$bonsai2" compress "$model" --rule '*=B2_T64' --rule 'token_embd*=keep' --rotate each \
    -o "$tmp/student.gguf" --quiet >/dev/null
"${B2_TORCH:-python3}" "$here/distill.py" "$here/distill.csv" "$model" "$tmp/student.gguf" "$text" "$@"
tail -n 4 "$here/distill.csv"
