package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a line of the table.
type row struct {
	figure, target, measured, verdict string
}

// judged is a row whose figure was measured.
func judged(figure, target, measured string, ok bool) row {
	verdict := "misses"
	if ok {
		verdict = "ok"
	}
	return row{figure, target, measured, verdict}
}

// told is a row beside a figure, which no target judges.
func told(figure, measured string) row { return row{figure, "", measured, ""} }

// beside is a row for comparison with one that is judged.
func beside(figure, measured string) row { return row{figure, "for comparison", measured, ""} }

// absent is a row of a figure that could not be measured.
func absent(figure, target, why string) row { return row{figure, target, why, "-"} }

func formatTable(rows []row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\ttarget\tmeasured\tverdict")
	fmt.Fprintln(w, "------\t------\t--------\t-------")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.figure, r.target, r.measured, r.verdict)
	}
	w.Flush()
	return b.String()
}

// sample is a set of measured times.
type sample []time.Duration

// at gives the q-quantile by nearest rank: the 99th percentile of fewer than a hundred is the largest.
func (s sample) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

func (s sample) p50() time.Duration  { return s.at(0.5) }
func (s sample) p99() time.Duration  { return s.at(0.99) }
func (s sample) most() time.Duration { return s.at(1) }

// String shows the middle, the 99th percentile, the largest and how many there are.
func (s sample) String() string {
	return fmt.Sprintf("p50 %s, p99 %s, max %s (n=%d)", show(s.p50()), show(s.p99()), show(s.most()), len(s))
}

// within judges the 99th percentile.
func (s sample) within(figure, target string, limit time.Duration) row {
	if len(s) == 0 {
		return absent(figure, target, "not measured: no sample came")
	}
	return judged(figure, target, s.String(), s.p99() <= limit)
}

// show writes a duration with three digits that mean something.
func show(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g µs", float64(d)/1e3)
}
