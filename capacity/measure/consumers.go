package measure

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/capacity"
)

// Consumers returns the n processes that use most of the scarcest dimension by the last sample, largest first. Cores
// are those used since the last scan or, for a process not in that scan, over its life. The process table is read at
// most every 2 s; call Consumers only near the limit. On failure it returns none, and Problems states the reason.
func (g *Gauge) Consumers(n int) []capacity.Consumer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.refresh(time.Now()) {
		return nil
	}
	return top(g.scan.alive, n, g.binding, g.proc, g.roots)
}

// Candidates returns Consumers, followed by the n largest users of the processor and of memory that are not among them:
// a gate may be shut for one dimension while another is scarcer. capacity.Largest selects from the list.
func (g *Gauge) Candidates(n int) []capacity.Consumer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.refresh(time.Now()) {
		return nil
	}
	list := top(g.scan.alive, n, g.binding, g.proc, g.roots)
	for _, dimension := range []string{capacity.DimCPU, capacity.DimMemory} {
		if dimension == g.binding {
			continue
		}
		for _, c := range top(g.scan.alive, n, dimension, g.proc, g.roots) {
			if !slices.ContainsFunc(list, func(k capacity.Consumer) bool { return k.PID == c.PID }) {
				list = append(list, c)
			}
		}
	}
	return list
}

// root returns the nearest root that the process descends from; 0 if none exists.
func (r *row) root(roots []capacity.Identity) int {
	for a := r; a != nil; a = a.origin {
		if slices.ContainsFunc(roots, func(id capacity.Identity) bool { return id.PID == a.pid && id.Start == a.start }) {
			return a.pid
		}
	}
	return 0
}

// top ranks by the scarce dimension, or by memory if none is known, because the memory reading needs no history.
func top(rows []*row, n int, scarce, proc string, roots []capacity.Identity) []capacity.Consumer {
	type sized struct {
		*row
		size  float64
		files int
	}
	ranked := make([]sized, 0, len(rows))
	for _, r := range rows {
		s := sized{row: r, size: float64(r.rss)}
		switch scarce {
		case capacity.DimCPU:
			s.size = r.cores
		case capacity.DimFiles:
			s.files, _ = openFiles(proc, r.pid)
			s.size = float64(s.files)
		}
		if s.size > 0 {
			ranked = append(ranked, s)
		}
	}
	slices.SortFunc(ranked, func(a, b sized) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.pid, b.pid)) })
	out := make([]capacity.Consumer, 0, max(0, n))
	for _, r := range ranked[:max(0, min(n, len(ranked)))] {
		out = append(out, capacity.Consumer{PID: r.pid, Name: printable(r.name()), CPU: r.cores, Memory: r.rss, Files: r.files, Root: r.root(roots)})
	}
	return out
}

// printable replaces unprintable characters, so that a process name cannot send control sequences to a user's terminal.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
