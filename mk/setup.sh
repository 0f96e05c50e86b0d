#!/bin/sh
# setup.sh FOLDER: a virtual environment with what builds the project. Brings what a bare Debian or Ubuntu lacks for that, as root or by
# sudo, and says what to install where it may do neither.
set -eu
folder=$1
python=${PYTHON:-python3}

fail() {
    echo "setup: $*" >&2
    exit 1
}

command -v "$python" >/dev/null || fail "there is no $python: install Python 3.11 or newer"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$($python --version) is too old: 3.11 or newer is wanted"

missing=
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
"$python" -c 'import os, sysconfig; open(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null || missing="$missing python3-dev"
command -v "${CC:-cc}" >/dev/null || missing="$missing gcc libc6-dev"
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root='sudo -n'
    else
        fail "missing:$missing. As root: apt-get install$missing"
    fi
    command -v apt-get >/dev/null || fail "missing (by their Debian names):$missing"
    echo "setup: installing$missing" >&2
    $as_root apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi

[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
"$folder/bin/python" -m pip install -q 'meson-python>=0.18' 'meson>=1.5' 'ninja>=1.11'
