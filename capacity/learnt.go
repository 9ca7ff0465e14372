package capacity

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Cost is what work of one kind takes, learnt from work that has ended. Zero fields are unknown.
type Cost struct {
	Cores    float64       `json:"cores,omitempty"`
	Memory   uint64        `json:"memory,omitempty"` // bytes, at the peak
	Duration time.Duration `json:"duration,omitempty"`
	Runs     int           `json:"runs"`
	At       time.Time     `json:"at"` // of the last of them
}

// Learnt holds the costs by kind. It is never written to: with gives another one.
type Learnt map[string]Cost

// mostKinds bounds what is kept; the kinds that were not seen for longest go.
const mostKinds = 500

// weight is how much the newest run counts for. What took more than was known is believed at once, for work of one kind need
// not be alike: a light run says little about the next one.
const weight = 0.1

// Nothing less than half of what is assumed is ever expected of the processor, so that whatever was learnt no more than
// twice the processors are promised; of memory a quarter. And it takes enoughRuns to believe less than is assumed.
const enoughRuns = 3

// with learns from one piece of work that has ended.
func (l Learnt) with(k Claimed, now time.Time) Learnt {
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
		c.Memory = max(k.Peak, mix(c.Memory, k.Peak)) // a peak is forgotten slowly, and believed at once
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

// Mark tells one state of the lessons from another.
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

// prune drops the kinds that were not seen for longest.
func (l Learnt) prune() {
	if len(l) <= mostKinds {
		return
	}
	kinds := slices.SortedFunc(maps.Keys(l), func(a, b string) int { return cmp.Or(l[a].At.Compare(l[b].At), cmp.Compare(a, b)) })
	for _, kind := range kinds[:len(kinds)-mostKinds] {
		delete(l, kind)
	}
}

// The most that is believed of one piece of work; a file that says more, or less than nothing, is damaged.
const (
	mostCores  = 1024
	mostMemory = 1 << 50 // bytes
)

// Sound gives what can be believed of costs that were read from a file.
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

// cost is what work of a kind is expected to take: learnt, else assumed.
func (r *round) cost(kind string) Cost {
	c := r.next.Learnt[kind]
	cores, memory := r.cfg.ClaimCores, float64(uint64(r.cfg.ClaimMemoryMB)<<20)
	if total := float64(r.load.MemoryTotal); total > 0 { // what nobody knows must not make a small machine useless
		memory = min(memory, total/4)
	}
	if c.Cores > 0 && c.Runs >= enoughRuns {
		cores /= 2
	}
	if c.Memory > 0 && c.Runs >= enoughRuns {
		memory /= 4
	}
	c.Cores, c.Memory = max(c.Cores, cores), max(c.Memory, uint64(memory))
	if total := r.load.MemoryTotal; total > 0 { // pages that processes share are measured once for each process
		c.Memory = min(c.Memory, total/2)
	}
	return c
}

func sortedSubjects[V any](m map[protocol.Subject]V) []protocol.Subject {
	return slices.SortedFunc(maps.Keys(m), compareSubjects)
}
