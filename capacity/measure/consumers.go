package measure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/capacity"
)

// scanEvery: a look at every process costs some 10 µs each, so there is one in this time at most.
const scanEvery = 2 * time.Second

// process is one row of the process table.
type process struct {
	pid   int
	start uint64 // with the pid, tells a process from the next one that gets its number
	name  func() string
	spent float64       // processor time so far, in seconds
	age   time.Duration // since it began
	rss   uint64        // bytes
	cores float64       // filled in by the scanner
	files int
}

type key struct {
	pid   int
	start uint64
}

// scanner keeps the last scan: what a process does now shows only between two of them.
type scanner struct {
	at    time.Time
	rows  []process
	spent map[key]float64
}

// Consumers names the n processes that use most of what is scarcest by the last sample, largest first. Cores are
// those used since the last scan or, for a process that was not in it, over its life. The table is read at
// most every 2 s; call it only near the limit. On failure it is empty, and Problems says why.
func (g *Gauge) Consumers(n int) []capacity.Consumer {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.scan.at.IsZero() || now.Sub(g.scan.at) >= scanEvery {
		if err := g.scan.refresh(g.context(), g.proc, now); err != nil {
			g.problems["consumers"] = err.Error()
			return nil
		}
		delete(g.problems, "consumers")
	}
	return top(g.scan.rows, n, g.binding, g.proc)
}

func (s *scanner) refresh(ctx context.Context, proc string, now time.Time) error {
	rows, err := readProcesses(ctx, proc)
	if err != nil {
		return fmt.Errorf("read processes: %w", err)
	}
	elapsed := now.Sub(s.at).Seconds()
	spent := make(map[key]float64, len(rows))
	for i, p := range rows {
		k := key{p.pid, p.start}
		spent[k] = p.spent
		if before, any := s.spent[k]; any {
			rows[i].cores = max(0, (p.spent-before)/elapsed)
		} else if p.age > 0 {
			rows[i].cores = p.spent / p.age.Seconds()
		}
	}
	*s = scanner{at: now, rows: rows, spent: spent}
	return nil
}

// top ranks by what is scarce; by memory when nothing is known, since that reading needs no history.
func top(rows []process, n int, scarce, proc string) []capacity.Consumer {
	size := func(p process) float64 { return float64(p.rss) }
	switch scarce {
	case capacity.DimCPU:
		size = func(p process) float64 { return p.cores }
	case capacity.DimFiles:
		rows = slices.Clone(rows)
		for i := range rows {
			rows[i].files = openFiles(proc, rows[i].pid)
		}
		size = func(p process) float64 { return float64(p.files) }
	}
	ranked := slices.SortedFunc(slices.Values(rows), func(a, b process) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.pid, b.pid))
	})
	out := make([]capacity.Consumer, 0, max(0, n))
	for _, p := range ranked[:max(0, min(n, len(ranked)))] {
		if size(p) > 0 {
			out = append(out, capacity.Consumer{PID: p.pid, Name: printable(p.name()), CPU: p.cores, Memory: p.rss, Files: p.files})
		}
	}
	return out
}

// printable keeps a process from writing to somebody's terminal by its name.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
