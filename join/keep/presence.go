package keep

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// presence writes into the projects' files which process acts for which agent. These writes wait for disks and locks,
// so they run in the background, and only for the latest notice of each agent.
type presence struct {
	deps Deps
	log  *slog.Logger

	mu     sync.Mutex
	latest map[string]notice // by Row.id: what is not written yet
	wake   trigger
}

// notice is the latest state of one agent.
type notice struct {
	row    Row
	id     protocol.Identity
	ended  *Ending // nil: it runs
	failed bool
	why    string
}

func newPresence(doors Deps, log *slog.Logger) *presence {
	return &presence{deps: doors, log: log, latest: map[string]notice{}, wake: newTrigger()}
}

// started reports that a process acts for the agent from now on.
func (p *presence) started(row Row, id proc.Identity) {
	p.enqueue(notice{row: row, id: protocol.Identity(id)})
}

// ended reports that the agent's process has ended.
func (p *presence) ended(row Row, id proc.Identity, e Ending, failed bool, why string) {
	p.enqueue(notice{row: row, id: protocol.Identity(id), ended: &e, failed: failed, why: why})
}

func (p *presence) enqueue(n notice) {
	p.mu.Lock()
	p.latest[n.row.id()] = n
	p.mu.Unlock()
	p.wake.set()
}

func (p *presence) takeAll() map[string]notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.latest
	p.latest = map[string]notice{}
	return all
}

// requeue keeps a notice that could not be written, unless there is a later notice for that agent.
func (p *presence) requeue(id string, n notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, later := p.latest[id]; !later {
		p.latest[id] = n
	}
}

// The shortest and the longest delay between retries of failed writes.
const (
	againSoon = time.Second
	againLate = time.Minute
)

func (p *presence) run(ctx context.Context) {
	pause := againSoon
	for {
		clean := true
		for id, n := range p.takeAll() {
			if err := p.write(ctx, n); err != nil && ctx.Err() == nil {
				if pause == againSoon {
					p.log.Warn("the agent's presence cannot be written yet", "agent", n.row.label(), "error", err)
				}
				clean = false
				p.requeue(id, n)
			}
		}
		var again <-chan time.Time
		if clean {
			pause = againSoon
		} else {
			again = time.After(pause)
			pause = min(2*pause, againLate)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-again:
		}
	}
}

func (p *presence) write(ctx context.Context, n notice) error {
	if n.ended == nil {
		return p.deps.Enroll(ctx, n.row, n.id)
	}
	return p.deps.Leave(ctx, n.row, n.id, *n.ended, n.failed, n.why)
}
