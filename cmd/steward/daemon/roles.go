package daemon

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

// roles knows for which [[role]] rows work waits. Its methods may be called from several goroutines.
type roles struct {
	mu    sync.Mutex
	all   map[roleKey]*role
	state *supervisor.State
}

type roleKey struct{ project, name string }

// role is what is known about one [[role]] row.
type role struct {
	row  config.Role
	work work   // at the last decision
	took string // work.sum of the last start; "" once other work was seen since
	at   time.Time
}

// work is what waits for a role.
type work struct {
	tasks int
	due   bool   // something besides its tasks is due
	sum   string // fingerprint; "" if nothing waits
}

// askAgain is when the same work is a reason for another start: the last run ended and did not take it.
// See docs/decisions.md, "Work that was left is no reason to start again at once".
const askAgain = 30 * time.Second

// set replaces the rows.
func (r *roles) set(rows map[roleKey]config.Role) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.all
	r.all, r.state = map[roleKey]*role{}, nil
	for key, row := range rows {
		r.all[key] = &role{}
		if old[key] != nil {
			*r.all[key] = *old[key]
		}
		r.all[key].row = row
	}
}

// judge finds the work in a new state. It reports whether work may wait for a role that has none in hand.
func (r *roles) judge(p *supervisor.State) (wake bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == nil || p == r.state {
		return false
	}
	r.state = p
	for key, g := range r.all {
		g.work = g.workIn(p, key.project)
		if g.took != "" && g.took != g.work.sum {
			g.took = ""
		}
		wake = wake || g.work.sum != ""
	}
	return wake
}

// workIn finds the work of a role in the snapshots of its project.
func (g *role) workIn(p *supervisor.State, project string) (w work) {
	h := sha256.New()
	for i := range p.View.Snapshots {
		s := &p.View.Snapshots[i]
		if s.Project != project || g.row.Protocol != "" && g.row.Protocol != s.Protocol || s.Yield != "" {
			continue
		}
		due := slices.Contains(s.Due, g.row.Name)
		w.due = w.due || due
		for j := range s.Tasks {
			t := &s.Tasks[j]
			state := p.Plan.Tasks.Of(s.Subject(protocol.KindTask, t.ID)).State
			mine := t.Agent == g.row.Name && t.Visible && t.Hold == nil && state == protocol.TaskPending
			if mine {
				w.tasks++
			}
			if mine || due { // what is due follows from the other tasks
				fmt.Fprintln(h, t.ID, t.Attempt(), state)
			}
		}
	}
	if w.tasks > 0 || w.due {
		w.sum = fmt.Sprintf("%x", h.Sum(nil)[:8])
	}
	return w
}

// admit reports whether an agent may start for its role now.
func (r *roles) admit(key roleKey, last *keep.Ending, now time.Time) (ok bool, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.all[key]
	switch {
	case g == nil || r.state == nil:
		return false, "the project's files are not scanned yet"
	case g.work.sum == "":
		return false, "no work waits for it"
	case g.took == g.work.sum && (last == nil || last.Well()) && now.Sub(g.at) < askAgain:
		return false, "its last run left " + g.work.String()
	}
	g.took, g.at = g.work.sum, now
	return true, ""
}

func (w work) String() string {
	switch w.tasks {
	case 0:
		return "a step that is due"
	case 1:
		return "a task that waits"
	}
	return fmt.Sprintf("%d tasks that wait", w.tasks)
}

// describe completes what is shown of a role.
func (r *roles) describe(k *status.Kept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.all[roleKey{k.Project, k.Agent}]; g != nil {
		k.Role, k.Protocol, k.Tasks = true, g.row.Protocol, g.work.tasks
	}
}
