package measure

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/capacity"
)

// Consumers names the n processes that use most of what is scarcest by the last sample, largest first. Cores are
// those used since the last scan or, for a process that was not in it, over its life. The table is read at
// most every 2 s; call it only near the limit. On failure it is empty, and Problems says why.
func (g *Gauge) Consumers(n int) []capacity.Consumer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.refresh(time.Now()) {
		return nil
	}
	return top(g.scan.alive, n, g.binding, g.proc, g.roots)
}

// Candidates is Consumers, and after them the n largest users of the processor and of memory that are not among them: a
// gate may be shut for the one while the other is scarcer. capacity.Largest chooses.
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

// root is the nearest of the roots that a process descends from; 0 when it descends from none.
func (r *row) root(roots []capacity.Identity) int {
	for a := r; a != nil; a = a.origin {
		if slices.ContainsFunc(roots, func(id capacity.Identity) bool { return id.PID == a.pid && id.Start == a.start }) {
			return a.pid
		}
	}
	return 0
}

// top ranks by what is scarce; by memory when nothing is known, since that reading needs no history.
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

// printable keeps a process from writing to somebody's terminal by its name.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
