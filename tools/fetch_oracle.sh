#!/usr/bin/env bash
# fetch_oracle.sh - the Python environment of the oracle tests, in build/venv.
#
# Installs tests/oracle/requirements.txt (llama.cpp as a wheel, its declarations, NumPy,
# gguf) once; when the same requirements are installed already, does nothing and needs
# no network. An interrupted run is repeated cleanly.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/venv
need=tests/oracle/requirements.txt
done=$venv/installed.sha256

say() { printf '%s\n' "$*" >&2; }

if [ -f $done ] && sha256sum --status -c $done 2>/dev/null; then
    say "oracle: $venv is there"
    exit 0
fi
if ! [ -x $venv/bin/python ] || ! $venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "oracle: making a Python environment in $venv"
    rm -rf $venv
    python3 -m venv $venv || {
        say "fetch_oracle: python3 -m venv failed; on Debian install python3-venv"
        exit 1
    }
fi
say "oracle: installing $need from PyPI (about 60 MB)"
# --no-deps: the list is complete, and one package names more than is used of it.
$venv/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
    --only-binary :all: --progress-bar off --retries 5 -r $need || {
    say "fetch_oracle: installing failed; is the network there? Run this again to go on"
    exit 1
}
$venv/bin/python -c 'import sys; sys.path.insert(0, "tests/oracle"); import llama, gguf' || {
    say "fetch_oracle: the installed packages do not work together on this machine"
    exit 1
}
sha256sum $need >$done.part
mv $done.part $done
say "oracle: installed"
