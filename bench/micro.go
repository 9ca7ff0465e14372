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
	rows = append(rows, b.perOperation("scan of 200 processes", "≤ 1 ms", "./capacity/measure", `^BenchmarkUsage$`, time.Millisecond)...)
	return append(rows, b.perOperation("cold decision", "≤ 0.5 ms", "./supervisor", `^BenchmarkDecide$`, 500*time.Microsecond)...), nil
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
	out, err := b.within(3*time.Minute, b.repo, "go", append([]string{"test"}, args...)...)
	if err != nil {
		return out, fmt.Errorf("go test %s: %w: %s", args[0], err, lastLine(out))
	}
	return out, nil
}

// within runs a tool in a folder, for so long at the most.
func (b *bench) within(limit time.Duration, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
