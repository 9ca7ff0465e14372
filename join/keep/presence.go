package keep

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// presence writes into the projects' files who speaks for which agent. That waits for disks and for locks, so it is done
// beside the keeping, the latest news of each agent only.
type presence struct {
	doors Deps
	log   *slog.Logger

	mu    sync.Mutex
	queue []notice
	wake  chan struct{}
}

// notice is the news of one agent.
type notice struct {
	row    Row
	id     protocol.Identity
	ended  *Ending // nil: it lives
	failed bool
	why    string
}

func newPresence(doors Deps, log *slog.Logger) *presence {
	return &presence{doors: doors, log: log, wake: make(chan struct{}, 1)}
}

// speaks says that a process speaks for the agent from now on.
func (p *presence) speaks(row Row, id proc.Identity) {
	p.put(notice{row: row, id: protocol.Identity(id)})
}

// left says that it is over.
func (p *presence) left(row Row, id proc.Identity, e Ending, failed bool, why string) {
	p.put(notice{row: row, id: protocol.Identity(id), ended: &e, failed: failed, why: why})
}

func (p *presence) put(n notice) {
	p.mu.Lock()
	p.queue = append(slices.DeleteFunc(p.queue, func(o notice) bool { return o.row.id() == n.row.id() }), n)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *presence) take() []notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.queue
	p.queue = nil
	return all
}

// putBack keeps what could not be written, unless there is later news of that agent.
func (p *presence) putBack(n notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.queue, func(o notice) bool { return o.row.id() == n.row.id() }) {
		p.queue = append(p.queue, n)
	}
}

// How often what could not be written is tried again: soon, then more and more seldom.
const (
	againSoon = time.Second
	againLate = time.Minute
)

func (p *presence) run(ctx context.Context) {
	pause := againSoon
	for {
		clean := true
		for _, n := range p.take() {
			if err := p.write(ctx, n); err != nil && ctx.Err() == nil {
				if pause == againSoon {
					p.log.Warn("the agent's presence cannot be written yet", "agent", n.row.label(), "error", err)
				}
				clean = false
				p.putBack(n)
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
		return p.doors.Enroll(ctx, n.row, n.id)
	}
	return p.doors.Leave(ctx, n.row, n.id, *n.ended, n.failed, n.why)
}
