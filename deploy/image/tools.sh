#!/bin/sh
# Install what the build stage needs, locked, into /tools, and tell deploy/cross where its compiler is. Does nothing in a
# builder that has all this already: deploy/base/builder.sh runs the same script.
set -eu
here=$(dirname "$0")
lock=$(sha256sum <"$here/build.lock")
[ "$lock" != "$(cat /tools/lock 2>/dev/null)" ] || exit 0
rm -rf /tools
PIP_ROOT_USER_ACTION=ignore sh "$here/with-ca.sh" pip3 install --quiet --no-cache-dir --no-compile --require-hashes \
    --target /tools -r "$here/build.lock"
SEALANE_CACHE=/cache PYTHONDONTWRITEBYTECODE=1 python3 - "$here/../cross" <<'PYTHON'
import sys

sys.path.insert(0, sys.argv[1])
import provision

provision.CACHE.mkdir(parents=True, exist_ok=True)
provision.cached("zig", provision.ZIG, lambda folder: (folder / "ziglang").symlink_to("/tools/ziglang"))
PYTHON
echo "$lock" >/tools/lock
