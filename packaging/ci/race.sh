#!/bin/sh
# Runs the short tests of the packages that start goroutines under the race detector, which makes them about ten times slower.
# The tests named below are left out here and run in "make test" alone. A new test runs here unless it is added.
set -eu
cd "$(dirname "$0")/../.."

# Tests of decisions, tables and files: one goroutine calls the code under test, so there is nothing to detect.
alone="TestTranscripts TestSituations TestSimulation TestSimulationAgain TestSimulatedMonth TestCrashAnywhere TestDecideProperties TestStarving TestSuite TestNoIncrementIsLost
TestRecordIsTrimmed TestRecordOfAnswersIsBounded TestEventLogIsReadAsItGrows TestErrorsAreBounded"

# Tests of the program (the binary under test is built with the detector) that repeat for minutes what shorter ones start: TestStoppedDaemon,
# TestDesktopCallsTheHumanOnce, TestChannelsPresses, TestChannelsRestartedWall, TestWorkerChain, TestWorkerFloods, TestPush and TestReach run here.
long="TestTortureChannels TestTortureKill9 TestHumanAtTheDesk TestChannelsHundredDifferent TestStateIsReadBack TestPushRestart
TestFoldersThatAreRemovedStayGone TestRemovedSocketComesBack TestUnreadablePauseStands TestWorkerTorture TestWorkerTortureAlone
TestWorkerLeavesNothingBehind TestWorkerFolderGoesAndComes TestReadOnlyProject
TestFullProjectDisk TestWorkerStopsWhatIgnoresIt TestChannelsRestartedWallOfMany TestChannelsFrozenBus TestDoctorWhereEverythingHangs"

export GORACE=atexit_sleep_ms=0 # else every child process of a test waits for a second before it ends
# shellcheck disable=SC2086 # the lists are words
skip=$(printf '%s|' $alone $long)
packages=$(git ls-files '*.go' | grep -v -e '_test\.go$' -e '^bench/' -e '^test/' | xargs grep -lE '^[[:space:]]+go |\.Go\(' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
# shellcheck disable=SC2086
exec "${GO:-go}" test -race -short -parallel 6 -timeout 0 -skip "^(${skip%|})\$" "$@" $packages ./test/e2e ./test/torture
