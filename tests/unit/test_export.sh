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

# Several files: the same model comes back, by whichever part; none replaces another.
expect 0 "s-00001-of-00004.gguf: 1.05 MB in 4 files" "$stories" --format gguf \
    --split 300KB -o "$dir/s.gguf"
expect 1 "s-00001-of-00004.gguf: exists" "$stories" --format gguf --split 300KB \
    -o "$dir/s.gguf"
expect 1 "is the source itself" "$dir/s-00003-of-00004.gguf" --format gguf \
    --split 300KB --force -o "$dir/s.gguf"
expect 0 "no value changed" "$dir/s-00002-of-00004.gguf" --format gguf -o "$dir/e.gguf"
expect 0 "no value changed" "$stories" --format gguf -o "$dir/whole.gguf"
cmp "$dir/e.gguf" "$dir/whole.gguf" || failed=1
expect 0 "in 4 files" "$stories" --format hf-f32 --split 300KB -o "$dir/shards/folder"
expect 0 "no value changed" "$dir/shards/folder" --format gguf -o "$dir/f.gguf"
cmp "$dir/d.gguf" "$dir/f.gguf" || failed=1
expect 1 "--lossy allows it" "$stories" --format gguf-q8_0 --only 'blk.4.attn_q.*' \
    --split 300KB -o "$dir/q.gguf"
[ -z "$(ls "$dir" | grep '^q')" ] || { echo "a refused split left files"; failed=1; }
expect 0 "no value changed" "$stories" --format gguf --gguf-version 2 -o "$dir/v2.gguf"
[ "$(cmp -l "$dir/whole.gguf" "$dir/v2.gguf" | tr -s ' ' | sed 's/^ //')" = "5 3 2" ] ||
    { echo "version 2 differs in more than its version"; failed=1; }
expect 2 "gguf-version" "$stories" --format gguf --gguf-version 4 -o "$dir/v4.gguf"

json=$("$bonsai2" export "$stories" --format hf-bf16 -o "$dir/bf16" --json 2>/dev/null)
for key in output output_bytes output_files tensors tensors_changed tensors_lossy max_error rms_error; do
    echo "$json" | grep -q "\"$key\":" || { echo "no key $key in: $json"; failed=1; }
done
bytes=$(cat "$dir/bf16/"* | wc -c)
echo "$json" | grep -q "\"output_bytes\":[^0-9]*$bytes," ||
    { echo "output_bytes is not $bytes in: $json"; failed=1; }
ls "$dir" | grep -q part && { echo "part files stayed: $(ls "$dir")"; failed=1; }
exit $failed
