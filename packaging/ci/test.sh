#!/bin/sh
# Runs all tests and lists the slowest. The tests of the whole program, and after them those that boot machines, mostly wait, so they run beside the
# other packages. No package has a time limit: a slow or busy machine takes longer, and that is no failure. A test that failed beside others runs
# once more alone, and the output shows both runs; more than five failures are never repeated.
set -eu
cd "$(dirname "$0")/../.."
export STEWARD_HEADLESS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -C packaging/tools -o "$work/gotestsum" gotest.tools/gotestsum

# run NAME PACKAGES ARGS…: go test of these packages with these arguments.
run() {
	name=$1 packages=$2
	shift 2
	"$work/gotestsum" --format pkgname --format-hide-empty-pkg --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=5 \
		--jsonfile "$work/$name.json" --packages "$packages" -- -timeout 0 "$@"
}

failed=0
{
	failed=0
	run program "./test/e2e ./test/torture" -p 1 -parallel 6 || failed=1
	run machines ./packaging -count=1 || failed=1
	exit "$failed"
} >"$work/program.log" 2>&1 &
program=$!
run packages "$(go list ./... | grep -v -e '/packaging$' -e '/test/e2e$' -e '/test/torture$' | tr '\n' ' ')" -p 2 || failed=1
wait "$program" || failed=1
cat "$work/program.log"
cat "$work"/*.json | "$work/gotestsum" tool slowest --threshold 1s --num 20 >"${SLOWEST:=$work/slowest}"
[ -n "${CI:-}" ] || { echo "the slowest tests:" && cat "$SLOWEST"; } # .ci/run prints them at its end
exit "$failed"
