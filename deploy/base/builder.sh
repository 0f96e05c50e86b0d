#!/bin/sh
# Make the images that the Dockerfile's build stages run in, of this machine's architecture, from the Debian archive that
# this machine itself uses:  builder.sh NAME, which gets a tag per target, unless they are there already.
# For where no registry can be reached; needs root, mmdebstrap and buildah.
set -eu
name=$1
here=$(dirname "$0")
archive=$(python3 -c "import sys; sys.path.insert(0, '$here/../cross'); import provision; print('\t'.join(provision.debian_source()))")
address=$(printf '%s' "$archive" | cut -f1)
keyring=$(printf '%s' "$archive" | cut -f2)
suite=$(python3 -c "import sys; sys.path.insert(0, '$here/../cross'); import provision; print(provision.ROOT_SUITE)")
cache=${SEALANE_CACHE:-$HOME/.cache/sealane}
root=$cache/builder-$suite-$(dpkg --print-architecture).tar
recipe=$(cat "$0" "$here/../image/build.lock" "$here/../image/tools.sh" | sha256sum | cut -c1-12)
made=$(buildah inspect --type image --format '{{index .OCIv1.Config.Labels "recipe"}}' "$name:loong64" 2>/dev/null || true)
[ "$made" != "$recipe" ] || exit 0
mkdir -p "$cache"
if [ ! -s "$root" ]; then
    mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' \
        --aptopt='Acquire::Retries "3"' --include=ca-certificates,python3,python3-pip ${keyring:+--keyring="$keyring"} \
        "$suite" "$root.part" "deb ${keyring:+[signed-by=$keyring]} $address $suite main"
    mv "$root.part" "$root"
fi
# Older buildahs look for every stage's image by the target's architecture, whatever FROM --platform says: the same image
# goes by all four names, and its programs are of this machine all the same.
container=$(buildah from scratch)
buildah add --quiet "$container" "$root" / >/dev/null
buildah config --cmd /bin/sh --label "recipe=$recipe" "$container"
# The Dockerfile's first steps, once for all four.
buildah add --quiet "$container" "$here/../cross" /src/deploy/cross >/dev/null
buildah add --quiet "$container" "$here/../image" /src/deploy/image >/dev/null
ca=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
buildah run --isolation chroot --volume "$ca:/run/secrets/ca:ro" "$container" -- sh /src/deploy/image/tools.sh
buildah run --isolation chroot "$container" -- rm -rf /src
for architecture in amd64 arm64 s390x loong64; do
    buildah config --arch "$architecture" "$container"
    buildah commit --quiet "$container" "$name:$architecture" >/dev/null
done
buildah rm "$container" >/dev/null
