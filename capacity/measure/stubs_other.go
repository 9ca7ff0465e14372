//go:build !linux

package measure

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/livhana/steward/capacity"
)

// opened is empty: other systems answer by calls, not by files.
type opened struct{}

const roomy = 0

// groups is empty: only Linux has control groups.
type groups struct{}

func (g *Gauge) addGroups(load *capacity.Load, m memory, _ time.Time) {
	load.Cores, load.MemoryTotal = float64(runtime.NumCPU()), m.total
}

func (g *Gauge) addPressure(*capacity.Load, *memory, time.Time) {}

func sinceBoot() time.Duration { return bootCalm }

// Run waits for the context to end: only Linux has pressure events.
func (g *Gauge) Run(ctx context.Context) error {
	g.mu.Lock()
	g.problems["pressure"] = "this system gives no word when programs wait"
	g.mu.Unlock()
	<-ctx.Done()
	return nil
}

func countInotify(string) inotifyUse {
	return inotifyUse{err: errors.New("inotify is Linux's")}
}

// ownFiles is not ok: only Linux cheaply tells a process how many files it has open.
func ownFiles(string) (files, bool) { return files{}, false }
