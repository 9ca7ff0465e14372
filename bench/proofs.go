package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// proof is a figure that a test of the repository counts, in its short form; bench/long.sh runs the long one.
type proof struct {
	figure, target string
	pkg, run       string
	says           *regexp.Regexp // what the test prints of it; what it catches must be nought
}

// proofs: the last one fails when a single incident was neither shown nor spoken in the end.
var proofs = []proof{
	{"false deaths, 1,000 suspends × 8 agents", "0",
		"heartbeat", "^TestSuspends$", regexp.MustCompile(`\b(\d+) false deaths\b[^\n]*`)},
	{"live locks lost under contention and kills (long form: 100,000 acquisitions)", "0 overlaps",
		"join/lock", "^TestTorture$", regexp.MustCompile(`\d+ processes, \d+ holdings, \d+ processes killed, (\d+) overlaps`)},
	{"  locks in state.json, past their time, taken from living agents", "0",
		"test/torture", "^TestContendedLocks$", regexp.MustCompile(`(?m)^--- PASS: TestContendedLocks`)},
	{"kill -9 at random (long form: 2,000 times)", "0 over limit, 0 lost, 0 repeated alerts",
		"test/torture", "^TestTortureKill9$", regexp.MustCompile(`kills \d+, tasks \d+[^\n]*over limit (\d+), lost (\d+), repeated alerts (\d+)`)},
	{"incidents lost with daemon, notifier, bus or voice killed (long form: 1,000 rounds)", "0",
		"test/torture", "^TestTortureChannels$", regexp.MustCompile(`kills map\[[^\n]*incidents \d+`)},
}

// measureProofs runs them beside each other: they count, and measure no time.
func measureProofs(b *bench) ([]row, error) {
	built := map[string]error{}
	for _, p := range proofs {
		if _, done := built[p.pkg]; !done {
			_, built[p.pkg] = b.within(3*time.Minute, b.repo, "go", "test", "-c", "-o", b.testOf(p.pkg), "./"+p.pkg)
		}
	}
	rows := make([]row, len(proofs))
	var all sync.WaitGroup
	for i, p := range proofs {
		if err := built[p.pkg]; err != nil {
			rows[i] = absent(p.figure, p.target, fmt.Sprintf("not measured: build the test of %s: %v", p.pkg, err))
			continue
		}
		all.Go(func() { rows[i] = b.prove(p) })
	}
	all.Wait()
	return rows, nil
}

// testOf is where the built test of a package lies.
func (b *bench) testOf(pkg string) string {
	return filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// prove runs the test. One that fails, or leaves itself out, has shown nothing.
func (b *bench) prove(p proof) row {
	out, err := b.within(4*time.Minute, filepath.Join(b.repo, p.pkg), b.testOf(p.pkg), "-test.run", p.run, "-test.v")
	found := p.says.FindStringSubmatch(out)
	switch {
	case err != nil && !strings.Contains(out, "--- FAIL"):
		return absent(p.figure, p.target, fmt.Sprintf("not measured: %v: %s", err, lastLine(out)))
	case err != nil:
		return judged(p.figure, p.target, "the test fails: "+strings.TrimSpace(firstComplaint.FindString(out)), false)
	case found == nil:
		return absent(p.figure, p.target, fmt.Sprintf("not measured: %s of %s does not tell: %s", p.run, p.pkg, lastLine(out)))
	}
	none := true
	for _, n := range found[1:] {
		none = none && n == "0"
	}
	said := strings.TrimSpace(found[0])
	if len(found) == 1 {
		said = "the test passes, which allows none: " + said
	}
	return judged(p.figure, p.target, said, none)
}

// firstComplaint is the first thing that a failing test says: its file, line and words.
var firstComplaint = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: .*$`)
