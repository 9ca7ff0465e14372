#!/bin/sh
# Makes one deb of a given version, quickly: deb.sh VERSION FOLDER [ARCH]. Prints the file's path.
set -eu
if [ $# -lt 2 ]; then
	echo "usage: deb.sh VERSION FOLDER [amd64|arm64]" >&2
	exit 2
fi
mkdir -p "$2"
out=$(cd "$2" && pwd)
arch=${3:-$(go env GOARCH)}
VERSION=$1 OUT=$out PLATFORMS=linux/$arch FORMATS=deb sh "$(dirname "$0")/../build.sh" >/dev/null
echo "$out/steward_${1#v}_$arch.deb"
