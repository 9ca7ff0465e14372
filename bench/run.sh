#!/bin/sh
# Measures the figures with the built ./steward; `make bench` builds it first.
# BENCH_ONLY=held,idle measures a part; the names are those of `go run ./bench -list`.
set -eu
cd "$(dirname "$0")/.."
exec "${GO:-go}" run ./bench -steward "${STEWARD:-./steward}" -results bench/results ${BENCH_ONLY:+-only "$BENCH_ONLY"}
