#!/bin/sh
# test_export.sh BONSAI2 STORIES.gguf - exit codes, messages and JSON of bonsai2 export.
bonsai2=$1 stories=$2
failed=0
dir=$(mktemp -d "${TMPDIR:-/tmp}/b2-export-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT

# expect CODE TEXT ARGS...: exit code, and a text on stdout (code 0) or stderr.
expect() {
    code=$1 text=$2
    shift 2
    out=$("$bonsai2" export "$@" --quiet 2>"$dir/err")
    got=$?
    [ "$code" -eq 0 ] || out=$(cat "$dir/err")
    case $out in
    *"$text"*) ;;
    *) echo "export $*: no \"$text\" in: $out"; failed=1 ;;
    esac
    [ "$got" -eq "$code" ] || { echo "export $*: exit $got, want $code"; failed=1; }
}

expect 2 "--format F is missing" "$stories" -o "$dir/a.gguf"
expect 2 "-o OUT is missing" "$stories" --format gguf
expect 2 "known: gguf, gguf-TYPE" "$stories" --format gguf-q9 -o "$dir/a.gguf"
expect 1 "absent.gguf" "$dir/absent.gguf" --format gguf -o "$dir/a.gguf"
expect 0 "no value changed" "$stories" --format gguf-f32 -o "$dir/a.gguf"
expect 1 "--force" "$stories" --format gguf-f32 -o "$dir/a.gguf"
expect 0 "no value changed" "$stories" --format gguf-f32 -o "$dir/a.gguf" --force
expect 1 "--lossy allows it" "$stories" --format gguf-q8_0 --only 'blk.*.attn_q.*' \
    -o "$dir/b.gguf"
expect 0 "rounding changed 5" "$stories" --format gguf-q8_0 --only 'blk.*.attn_q.*' \
    --lossy -o "$dir/b.gguf"
expect 1 "12 remain" "$stories" --format gguf-q8_0 --lossy -o "$dir/c.gguf"
expect 0 "no value changed" "$stories" --format hf-f32 -o "$dir/folder"
expect 1 "there already" "$stories" --format hf-f32 -o "$dir/folder"
expect 0 "no value changed" "$dir/folder" --format gguf -o "$dir/d.gguf"
[ ! -e "$dir/c.gguf" ] || { echo "a refused export left a file"; failed=1; }
expect 1 "config.json" "$dir/folder/model.safetensors" --format gguf -o "$dir/c.gguf"

json=$("$bonsai2" export "$stories" --format hf-bf16 -o "$dir/bf16" --json 2>/dev/null)
for key in output output_bytes tensors tensors_changed tensors_lossy max_error rms_error; do
    echo "$json" | grep -q "\"$key\":" || { echo "no key $key in: $json"; failed=1; }
done
bytes=$(cat "$dir/bf16/"* | wc -c)
echo "$json" | grep -q "\"output_bytes\":[^0-9]*$bytes," ||
    { echo "output_bytes is not $bytes in: $json"; failed=1; }
ls "$dir" | grep -q part && { echo "part files stayed: $(ls "$dir")"; failed=1; }
exit $failed
