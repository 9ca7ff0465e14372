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
	latest map[string]presenceNotice // by Row.id: what is not written yet
	wake   trigger
}

// presenceNotice is the latest state of one agent.
type presenceNotice struct {
	row   Row
	write func(context.Context) error
}

// started reports that a process acts for the agent from now on.
func (p *presence) started(row Row, id proc.Identity) {
	p.enqueue(presenceNotice{row, func(ctx context.Context) error { return p.deps.Enroll(ctx, row, protocol.Identity(id)) }}, true)
}

// ended reports that the agent's process has ended.
func (p *presence) ended(row Row, id proc.Identity, e Ending, failed bool, why string) {
	p.enqueue(presenceNotice{row, func(ctx context.Context) error { return p.deps.Leave(ctx, row, protocol.Identity(id), e, failed, why) }}, true)
}

// enqueue keeps a notice until it is written. A notice that is not newer gives way to one that came meanwhile.
func (p *presence) enqueue(n presenceNotice, newer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.latest[n.row.id()]; newer || !there {
		p.latest[n.row.id()] = n
	}
	if newer {
		p.wake.set()
	}
}

func (p *presence) takeAll() map[string]presenceNotice {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.latest
	p.latest = map[string]presenceNotice{}
	return all
}

// writeAgain is the delay before a failed write is tried again.
const writeAgain = 5 * time.Second

func (p *presence) run(ctx context.Context) {
	failing := false
	for {
		var again <-chan time.Time
		for _, n := range p.takeAll() {
			err := n.write(ctx)
			if err == nil || ctx.Err() != nil {
				continue
			}
			if !failing {
				p.log.Warn("the agent's presence cannot be written yet", "agent", n.row.label(), "error", err)
			}
			again = time.After(writeAgain)
			p.enqueue(n, false)
		}
		failing = again != nil
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-again:
		}
	}
}
