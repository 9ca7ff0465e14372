package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// measureMicro runs the Go benchmarks of what the loop does all the time.
func measureMicro(b *bench) ([]row, error) {
	rows := b.perOperation("machine sample", "≤ 50 µs", "./capacity/measure", `^BenchmarkSample$`, 50*time.Microsecond)
	return append(rows, b.perOperation("decision in memory", "≤ 20 µs", "./supervisor", `^BenchmarkDecide$`, 20*time.Microsecond)...), nil
}

// benchmarkLine is what go test prints of one benchmark.
var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark\w+(/\S+?)?(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)

// perOperation judges every benchmark that the pattern finds, each size of a view for itself.
func (b *bench) perOperation(figure, target, pkg, pattern string, limit time.Duration) []row {
	out, err := b.goTest(pkg, "-run", "^$", "-bench", pattern, "-benchtime", "1s", "-count", "1")
	if err != nil {
		return []row{absent(figure, target, "not measured: "+err.Error())}
	}
	var rows []row
	for _, f := range benchmarkLine.FindAllStringSubmatch(out, -1) {
		size := strings.NewReplacer("/", ": ", "_", " ").Replace(f[1])
		rows = append(rows, judged(figure+size, target, show(nanos(f[2])), nanos(f[2]) <= limit))
	}
	if len(rows) == 0 {
		return []row{absent(figure, target, fmt.Sprintf("not measured: %s has no benchmark %s", pkg, pattern))}
	}
	return rows
}

func nanos(text string) time.Duration {
	f, _ := strconv.ParseFloat(text, 64)
	return time.Duration(f)
}

func (b *bench) goTest(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Dir = b.repo
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("go test %s: %w: %s", args[0], err, lastLine(string(out)))
	}
	return string(out), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// deathsLine is what the test of suspends prints when it is verbose.
var deathsLine = regexp.MustCompile(`\b\d+ false deaths\b[^\n]*`)

// measureSuspend runs the simulation of machines that sleep.
func measureSuspend(b *bench) ([]row, error) {
	const figure, target = "false deaths, 1,000 suspends × 8 agents", "0"
	out, err := b.goTest("./heartbeat", "-run", "Suspend", "-v", "-count", "1")
	switch said := deathsLine.FindString(out); {
	case err != nil && !strings.Contains(out, "--- FAIL"):
		return nil, err
	case !strings.Contains(out, "--- PASS"), err != nil:
		return []row{judged(figure, target, "the test fails: "+lastLine(out), false)}, nil
	case said != "":
		return []row{judged(figure, target, strings.TrimSpace(said), true)}, nil
	}
	return []row{judged(figure, target, "the test passes, which allows none", true)}, nil
}

// listUnmeasured names the figures that this program does not measure, and where they are held instead.
func listUnmeasured(*bench) ([]row, error) {
	return []row{
		absent("burst of 50 one-core tasks on 2 cores", "makespan ≤ 1.2 × ideal", "not measured: a matter of package capacity's tests, not of a run of the program"),
		absent("live locks removed, 100,000 acquisitions", "0", "not measured: a torture test (make long)"),
		absent("kill -9 at random, 2,000 times", "0 lost, 0 twice", "not measured: a torture test (make long)"),
		absent("incidents lost with notifier, bus or voice dead", "0", "not measured: a test of package escalate"),
	}, nil
}
