#!/bin/sh
# The tortures at full length; what they print is kept beside the figures.
set -eu
cd "$(dirname "$0")/.."
out=bench/results/$(date -u +%Y-%m-%d)-long.txt

# play runs the tests of that name in one package, so that each verdict is seen when it falls.
play() {
	go test -timeout 180m -count=1 -v -run "$@" 2>&1 |
		grep --line-buffered -E '^(--- |ok|FAIL|PASS|[[:space:]]+[a-z_]+_test.go:)' || true
}

{
	echo "$(date -u +%FT%TZ), $(go version), $(nproc) cores, $(uname -sr), $(git rev-parse --short HEAD)"
	# The whole brain at work for years and in a month of traffic; a failing seed replays.
	STEWARD_LONG=1 play 'TestSimulation$|TestSimulatedMonth' ./supervisor
	# Chance from another start each day; a failure prints the seed that replays it.
	# See docs/decisions.md, "Random tests start with a fixed seed in CI".
	play TestDecideProperties ./supervisor -rapid.checks=20000 -rapid.seed="$(date +%s)"
	for room in ./test/e2e ./test/torture ./heartbeat ./join/lock ./join/keep $(go list ./protocol/...); do
		STEWARD_LONG=1 play 'TestTorture|TestChannels|TestSuspend|TestFault|TestResultInTheMoment|TestContended|TestLock|TestFlock|TestKanban|TestLate|TestWorker|TestKeepers|TestKill|TestHerd|TestScale|TestNoIncrementIsLost|TestDesktopComesBack' "$room"
	done
	sh packaging/ci/fuzz.sh 20s
	sh packaging/ci/reproducible.sh || echo "reproducible: failed"
} | tee "$out"
! grep -q '^--- FAIL\|^FAIL\|: failed$' "$out"
