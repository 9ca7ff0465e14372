#!/bin/sh
# Lists the packages whose code starts goroutines.
set -eu
cd "$(dirname "$0")/../.."
git ls-files '*.go' | grep -v '_test\.go$' | xargs grep -lE '^[[:space:]]+go |\.Go\(' | xargs -n 1 dirname | sort -u | sed 's|^|./|'
