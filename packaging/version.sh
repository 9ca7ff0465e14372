#!/bin/sh
# Prints the version of this checkout: that of VERSION on a commit with its tag, else followed by the commit.
set -eu
cd "$(dirname "$0")/.."
version=$(cat VERSION)
if commit=$(git rev-parse --short HEAD 2>/dev/null); then
	[ "$(git describe --tags --exact-match 2>/dev/null)" = "v$version" ] || version=$version+g$commit
	[ -z "$(git status --porcelain --untracked-files=no)" ] || version=$version.dirty
fi
echo "$version"
