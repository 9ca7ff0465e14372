#!/bin/sh
# Runs every fuzz target of the module for a moment each.
set -eu
cd "$(dirname "$0")/../.."
time=${1:-2s}
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do
	dir=$(dirname "$file")
	sed -nE 's/^func (Fuzz[A-Za-z0-9_]+)\(.*/\1/p' "$file" | while read -r target; do
		printf 'fuzz %s %s: ' "$dir" "$target"
		if out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 5x "$dir" 2>&1); then
			echo ok
		elif echo "$out" | grep -q 'context deadline exceeded' && ! echo "$out" | grep -q 'Failing input'; then
			# The fuzzer's own clock ran out while a worker was busy: no finding.
			echo "ok (out of time)"
		else
			echo failed
			echo "$out"
			exit 1
		fi
	done
done
