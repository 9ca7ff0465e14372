#!/bin/sh
# Measures the figures with the built ./steward; `make bench` builds it first.
# BENCH_ONLY=held,idle measures a part; the names are those of `go -C bench run . -list`.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${GO:-go}" build -C bench -o "$work/bench" .
"$work/bench" -steward "${STEWARD:-./steward}" -results bench/results ${BENCH_ONLY:+-only "$BENCH_ONLY"}
