#!/bin/sh
# Write both lock files anew: requirements.lock is what the images hold, build.lock what makes them. With arguments as
# uv takes them, for instance --upgrade, or --upgrade-package msgspec; without, what is locked stays as it is.
set -eu
cd "$(dirname "$0")/../.."
tools=${SEALANE_CACHE:-$HOME/.cache/sealane}/uv
[ -x "$tools/bin/uv" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet uv; }
lock() {
    out=$1
    shift
    "$tools/bin/uv" pip compile --quiet --universal --python-version 3.14 --generate-hashes --no-header --no-annotate \
        -o "deploy/image/$out" "$@"
}
lock requirements.lock pyproject.toml deploy/image/lock.in --extra postgres --override deploy/image/lock.override "$@"
lock build.lock deploy/image/build.in "$@"
