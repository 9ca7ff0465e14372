#!/bin/sh
# Builds linux/amd64's deb, rpm, archive and bill of materials twice, in two folders and under different settings of the
# surroundings, and compares the bytes. The second build compiles everything anew.
set -eu
cd "$(dirname "$0")/../.."
: "${VERSION:=$(sh packaging/version.sh)}" "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export VERSION SOURCE_DATE_EPOCH PLATFORMS=linux/amd64
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

# copy DIR: the sources as they lie here, without what was built from them.
copy() {
	mkdir -p "$1"
	git ls-files -z -co --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C "$1"
}

copy "$work/a/much longer path/two"
copy "$work/one"
(cd "$work/one" && OUT=$work/out1 sh packaging/build.sh >/dev/null)
(cd "$work/a/much longer path/two" && umask 077 && sleep 1 &&
	GOCACHE=$work/cache TZ=Asia/Tokyo LC_ALL=C.UTF-8 TMPDIR=$work/a OUT=$work/out2 sh packaging/build.sh >/dev/null)
if ! diff "$work/out1/SHA256SUMS" "$work/out2/SHA256SUMS"; then
	echo "not reproducible: the files above differ"
	exit 1
fi
echo "reproducible: $(wc -l <"$work/out1/SHA256SUMS") files of two builds are the same"
