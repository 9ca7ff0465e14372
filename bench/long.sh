#!/bin/sh
# The tortures at full length; what they print is kept beside the figures.
set -eu
cd "$(dirname "$0")/.."
out=bench/results/$(date -u +%Y-%m-%d)-long.txt
{
	echo "$(date -u +%FT%TZ), $(go version), $(nproc) cores, $(uname -sr)"
	STEWARD_LONG=1 go test -timeout 60m -count=1 -v -run 'TestTorture|TestChannels|TestSuspend|TestFault|TestResultInTheMoment|TestContended|TestLock|TestFlock|TestKanban|TestLate|TestWorker|TestKeepers|TestKill|TestHerd|TestScale' \
		./cmd/steward ./heartbeat ./join/lock ./join/keep ./protocol/... 2>&1 |
		grep -E '^(--- |ok|FAIL|PASS|[[:space:]]+[a-z_]+_test.go:)' || true
	# The whole brain at work for years and in a month of traffic; a failing seed replays.
	STEWARD_LONG=1 go test -timeout 60m -count=1 -v -run 'TestSimulation$|TestSimulatedMonth' ./supervisor 2>&1 |
		grep -E '^(--- |ok|FAIL|PASS|[[:space:]]+[a-z_]+_test.go:)' || true
	# Chance from another start each day; a failure prints the seed that replays it.
	go test -timeout 60m -count=1 -v -run TestDecideProperties ./supervisor -rapid.checks=20000 -rapid.seed="$(date +%s)" 2>&1 |
		grep -E '^(--- |ok|FAIL|PASS|[[:space:]]+[a-z_]+_test.go:)' || true
} | tee "$out"
! grep -q '^--- FAIL\|^FAIL' "$out"
