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

// presence writes into the projects' files which process acts for which agent. These writes wait for disks and locks,
// so they run in the background, and only for the latest notice of each agent.
type presence struct {
	doors Deps
	log   *slog.Logger

	mu    sync.Mutex
	queue []notice
	wake  chan struct{}
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
	return &presence{doors: doors, log: log, wake: make(chan struct{}, 1)}
}

// speaks reports that a process acts for the agent from now on.
func (p *presence) speaks(row Row, id proc.Identity) {
	p.put(notice{row: row, id: protocol.Identity(id)})
}

// left reports that the agent's process has ended.
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

// putBack requeues a notice that could not be written, unless a later notice for that agent is queued.
func (p *presence) putBack(n notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.queue, func(o notice) bool { return o.row.id() == n.row.id() }) {
		p.queue = append(p.queue, n)
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
