package capacity

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Cost is the cost of work of one kind, learnt from work that has ended. Zero fields are unknown.
type Cost struct {
	Cores    float64       `json:"cores,omitempty"`
	Memory   uint64        `json:"memory,omitempty"` // bytes, at the peak
	Duration time.Duration `json:"duration,omitempty"`
	Runs     int           `json:"runs"`
	At       time.Time     `json:"at"` // when the last run ended
}

// Learnt holds the costs by kind. It is immutable: with returns a modified copy.
type Learnt map[string]Cost

// mostKinds limits the number of kinds kept; the kinds not seen for longest are dropped.
const mostKinds = 500

// weight is the weight of the newest run. A cost above the learnt one is adopted at once; a lower one slowly, because
// work of one kind varies and a light run says little about the next one.
const weight = 0.1

// The expected processor use is never below half of the assumed cost, so that reservations exceed the processors at
// most twofold, whatever was learnt; the expected memory is never below a quarter. It takes enoughRuns to expect less
// than the assumed cost.
const enoughRuns = 3

// with adds one piece of work that has ended.
func (l Learnt) with(k Reserved, now time.Time) Learnt {
	lasted := now.Sub(k.Taken)
	if k.Kind == "" || lasted <= 0 {
		return l
	}
	c := l[k.Kind]
	c.Duration = mix(c.Duration, lasted)
	if seen := k.Last.Sub(k.First); seen >= time.Second && k.CPU >= k.CPUFirst {
		now := (k.CPU - k.CPUFirst).Seconds() / seen.Seconds()
		c.Cores = max(mix(c.Cores, now), now, 0.01)
	}
	if k.Peak > 0 {
		c.Memory = max(k.Peak, mix(c.Memory, k.Peak)) // adopt a higher peak at once, forget it slowly
	}
	c.Runs, c.At = c.Runs+1, now
	next := maps.Clone(l)
	if next == nil {
		next = Learnt{}
	}
	next[k.Kind] = c
	next.prune()
	return next
}

// Mark identifies one state of the learnt costs.
func (l Learnt) Mark() int64 {
	sum := int64(len(l))
	for _, c := range l {
		sum += c.At.UnixNano() + int64(c.Runs)
	}
	return sum
}

func mix[T float64 | uint64 | time.Duration](before, now T) T {
	if before == 0 {
		return now
	}
	return T(float64(before)*(1-weight) + float64(now)*weight)
}

// prune drops the kinds not seen for longest.
func (l Learnt) prune() {
	if len(l) <= mostKinds {
		return
	}
	kinds := slices.SortedFunc(maps.Keys(l), func(a, b string) int { return cmp.Or(l[a].At.Compare(l[b].At), cmp.Compare(a, b)) })
	for _, kind := range kinds[:len(kinds)-mostKinds] {
		delete(l, kind)
	}
}

// The largest plausible cost of one piece of work. A file with a larger or negative value is damaged.
const (
	mostCores  = 1024
	mostMemory = 1 << 50 // bytes
)

// Sound returns the plausible costs among those read from a file.
func (l Learnt) Sound() Learnt {
	next := maps.Clone(l)
	for kind, c := range next {
		if !(c.Cores >= 0 && c.Cores <= mostCores) || c.Memory > mostMemory || c.Duration < 0 || c.Runs < 0 || kind == "" {
			delete(next, kind)
		}
	}
	next.prune()
	return next
}

// cost returns the expected cost of work of a kind: learnt, else assumed.
func (r *readings) cost(kind string) Cost {
	c := r.next.Learnt[kind]
	cores, memory := r.cfg.ClaimCores, float64(uint64(r.cfg.ClaimMemoryMB)<<20)
	if total := float64(r.load.MemoryTotal); total > 0 { // an assumed cost must not block a small machine
		memory = min(memory, total/4)
	}
	if c.Cores > 0 && c.Runs >= enoughRuns {
		cores /= 2
	}
	if c.Memory > 0 && c.Runs >= enoughRuns {
		memory /= 4
	}
	c.Cores, c.Memory = max(c.Cores, cores), max(c.Memory, uint64(memory))
	if total := r.load.MemoryTotal; total > 0 { // shared pages are counted once per process
		c.Memory = min(c.Memory, total/2)
	}
	return c
}

func sortedSubjects[V any](m map[protocol.Subject]V) []protocol.Subject {
	return slices.SortedFunc(maps.Keys(m), compareSubjects)
}
