//go:build !linux

package measure

import (
	"context"
	"time"

	"github.com/livhana/steward/capacity"
)

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
