#!/bin/sh
# run.sh SCRIPT - runs an oracle test in the environment of tools/fetch_oracle.sh, or skips.
here=$(dirname "$0")
python=$here/../../build/venv/bin/python
if ! [ -x "$python" ]; then
    echo "skipped: no oracle environment in build/venv: run tools/fetch_oracle.sh"
    exit 77
fi
exec "$python" -B "$here/$1"
