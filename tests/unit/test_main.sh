#!/bin/sh
# test_main.sh BONSAI2 - the words that the program itself understands, and what happens
# when nobody can take its output.
bonsai2=$1
failed=0

# expect CODE STREAM TEXT ARGS...: exit code, and a text on stdout (1) or stderr (2),
# while the other one stays empty.
expect() {
    code=$1 stream=$2 text=$3
    shift 3
    out=$("$bonsai2" "$@" 2>/dev/null)
    got=$?
    err=$("$bonsai2" "$@" 2>&1 >/dev/null)
    if [ "$stream" -eq 1 ]; then shown=$out other=$err; else shown=$err other=$out; fi
    case $shown in
    *"$text"*) ;;
    *) echo "bonsai2 $*: no \"$text\" in: $shown"; failed=1 ;;
    esac
    [ "$got" -eq "$code" ] || { echo "bonsai2 $*: exit $got, want $code"; failed=1; }
    [ -z "$other" ] || { echo "bonsai2 $*: on the other stream: $other"; failed=1; }
}

expect 0 1 "Usage: bonsai2 COMMAND" --help
expect 0 1 "Usage: bonsai2 COMMAND" -h
expect 0 1 "Usage: bonsai2 COMMAND" help
expect 2 2 "Usage: bonsai2 COMMAND"
expect 0 1 "bonsai2 0." --version
expect 2 2 "unknown command 'inspct'; did you mean 'inspect'?" inspct
expect 2 2 "unknown command 'zzz'" zzz
expect 2 2 "unknown option '--zzz'" --zzz model.gguf
expect 2 2 "unknown command 'Run'" Run
expect 2 2 "unknown command 'rum'; did you mean 'run'?" help rum

# Every command that the help names explains itself, with a working example at the end.
for command in $("$bonsai2" --help | sed -n 's/^  \([a-z]*\)  *[A-Z].*/\1/p'); do
    expect 0 1 "Usage: bonsai2 $command" "$command" --help
    expect 0 1 "Usage: bonsai2 $command" help "$command"
    expect 2 2 "Try 'bonsai2 $command --help'" "$command" --no-such-option
    "$bonsai2" "$command" -h | tail -2 | grep -q "^Example:" ||
        { echo "bonsai2 $command --help does not end with an example"; failed=1; }
done

# A full disk and a reader that went away are failures that are told.
if [ -w /dev/full ]; then
    "$bonsai2" --help >/dev/full 2>/dev/null
    [ $? -eq 1 ] || { echo "a full disk goes unnoticed"; failed=1; }
fi
code=$({ { sleep 0.3; "$bonsai2" --help 2>/dev/null; echo $? >&3; } | :; } 3>&1)
[ "$code" = 1 ] || { echo "a closed pipe: exit $code, want 1"; failed=1; }
exit $failed
