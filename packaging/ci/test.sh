#!/bin/sh
# Runs all tests and lists the slowest. The tests of the whole program mostly wait, so they run beside the other packages; the tests that boot machines
# run last and alone. No package has a time limit: a slow or busy machine takes longer, and that is no failure.
set -eu
cd "$(dirname "$0")/../.."
export STEWARD_HEADLESS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -C packaging/tools -o "$work/gotestsum" gotest.tools/gotestsum

# run NAME ARGS…: go test with these arguments.
run() {
	name=$1
	shift
	"$work/gotestsum" --format pkgname --format-hide-empty-pkg --hide-summary skipped --jsonfile "$work/$name.json" -- -timeout 0 "$@"
}

failed=0
run program -parallel 6 ./cmd/steward >"$work/program.log" 2>&1 &
program=$!
# shellcheck disable=SC2046 # the list is meant to be split
run packages -p 1 $(go list ./... | grep -v -e '/packaging$' -e '/cmd/steward$') || failed=1
wait "$program" || failed=1
cat "$work/program.log"
run machines -count=1 ./packaging || failed=1
echo "the slowest tests:"
cat "$work"/*.json | "$work/gotestsum" tool slowest --threshold 1s --num 20
exit "$failed"
