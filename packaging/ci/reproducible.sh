#!/bin/sh
# Builds linux/amd64's deb, rpm, archive and bill of materials twice, in two folders and under different settings of the
# surroundings, and compares the bytes. The second build compiles everything anew, unless it is told SHARED=1.
# FIRST=FOLDER takes what was built there, of the same VERSION and SOURCE_DATE_EPOCH, for the first build.
set -eu
cd "$(dirname "$0")/../.."
: "${VERSION:=$(git describe --tags --always --dirty)}" "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export VERSION SOURCE_DATE_EPOCH PLATFORMS=linux/amd64
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cache=$work/cache
if [ "${SHARED:-}" = 1 ]; then cache=$(go env GOCACHE); fi

# copy DIR: the sources as they lie here, without what was built from them.
copy() {
	mkdir -p "$1"
	git ls-files -z -co --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C "$1"
}

copy "$work/a/much longer path/two"
if [ -z "${FIRST:-}" ]; then
	FIRST=$work/out1
	copy "$work/one"
	(cd "$work/one" && OUT=$FIRST sh packaging/build.sh >/dev/null)
fi
(cd "$work/a/much longer path/two" && umask 077 && sleep 1 &&
	GOCACHE=$cache TZ=Asia/Tokyo LC_ALL=C.UTF-8 TMPDIR=$work/a OUT=$work/out2 sh packaging/build.sh >/dev/null)
if ! diff "$FIRST/SHA256SUMS" "$work/out2/SHA256SUMS"; then
	echo "not reproducible: the files above differ"
	exit 1
fi
echo "reproducible: $(wc -l <"$FIRST/SHA256SUMS") files of two builds are the same"
