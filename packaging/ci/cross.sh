#!/bin/sh
# Builds steward for every platform it supports, and prints the sizes.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p dist
for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
	os=${target%/*} arch=${target#*/}
	out=dist/steward-$os-$arch
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -tags nethttpomithttp2 -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o "$out" ./cmd/steward
	printf '%-16s %5.1f MB\n' "$target" "$(wc -c <"$out" | awk '{print $1 / 1e6}')"
done
