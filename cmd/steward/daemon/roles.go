package daemon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
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
	// last is work.sum of the last start, and same how many starts in a row had it.
	last string
	same int
	told bool // the operator was asked
}

// mostSame is how many runs may leave the same work before the operator is asked.
const mostSame = 3

// work is what waits for a role.
type work struct {
	tasks int
	due   bool   // something besides its tasks is due
	sum   string // fingerprint; "" if nothing waits
}

// askAgain is when the same work is a reason for another start: the last run ended and did not take it.
// See docs/decisions.md, "The same waiting work does not start a role again at once".
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
		return false, "its last run did not take " + g.work.String()
	}
	if g.last != g.work.sum {
		g.last, g.same = g.work.sum, 0
	}
	ended := last == nil || last.Well()
	if g.same >= mostSame && ended {
		return false, fmt.Sprintf("%d runs in a row left %s", g.same, g.work)
	}
	if ended { // how often a run may be killed is the keeper's concern
		g.same++
	}
	g.took, g.at = g.work.sum, now
	return true, ""
}

// repeated returns how long a role is not started any more because its runs leave the work as it is; zero: it is started.
func (r *roles) repeated(key roleKey) (since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.all[key]; g != nil && g.same >= mostSame && g.last == g.work.sum {
		return g.at
	}
	return since
}

// setTold records whether the operator is asked about a role, and reports whether that changed.
func (r *roles) setTold(key roleKey, told bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.all[key]
	if g == nil || g.told == told {
		return false
	}
	if g.told = told; !told {
		g.same = 0
	}
	return true
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

// admitRole asks whether work waits for a role. Runs that leave the same work again and again are a question to the operator.
func (a *agents) admitRole(row keep.Row, last *keep.Ending) (ok bool, why string) {
	key := roleKey{row.Project, row.Name}
	since := a.roles.repeated(key)
	again := !since.IsZero() && a.wantedAgain(row, since)
	if again && a.roles.setTold(key, false) {
		a.recovered(row)
	}
	ok, why = a.roles.admit(key, last, time.Now())
	switch {
	case !ok && !since.IsZero() && !again && a.roles.setTold(key, true):
		if err := a.tellFailed(row, why, since.Nanosecond()); err != nil {
			a.log.Error("tell of the role", "agent", row.Name, "error", err)
		}
	case ok && a.roles.setTold(key, false):
		a.recovered(row)
	}
	return ok, why
}

// unfinished says which tasks an orchestrator that exited with code 0 left in progress: the npm orchestrator of protocol 003
// leaves its task so when one of its agents has crashed. See docs/decisions.md, "Exit code 0 is no success while work is lost".
func (a *agents) unfinished(row keep.Row) string {
	ad, found := AdapterNamed(row.Protocol)
	if !found || row.Protocol == agentstatus.Name {
		return ""
	}
	s := ad.Open(row.Dir, a.settings.config(), GuardLock)
	defer s.Close()
	snap := s.Observe(context.Background(), protocol.ScanOrder{Now: time.Now()})
	if o, known := snap.Agent("orchestrator"); !known || o.Presence != protocol.PresenceGone || o.Left != "" {
		return ""
	}
	lost := 0
	for i := range snap.Tasks {
		if snap.Tasks[i].Lost != "" {
			lost++
		}
	}
	if lost == 0 {
		return ""
	}
	return "it left " + terminal.Plural(lost, "task") + " in progress"
}

// offerStart adds the option to start it again to the incident about the dead orchestrator of a row.
func (a *agents) offerStart(alert rules.Alert) rules.Alert {
	if alert.Kind == "agent_dead" && !alert.Resolve {
		if _, kept := a.orchestrates(alert.Subject); kept {
			alert.Options = append([]rules.Option{{ID: optionStartAgain, Label: "Start it again"}}, alert.Options...)
		}
	}
	return alert
}

// orchestrates finds the agent of a row whose program is the orchestrator that the subject names.
func (a *agents) orchestrates(s protocol.Subject) (status.Kept, bool) {
	if s.Kind == protocol.KindAgent && s.Protocol != agentstatus.Name {
		for _, k := range a.list() {
			if k.Project == s.Project && k.Protocol == s.Protocol && !k.Role && (s.ID == "orchestrator" || s.ID == k.Agent) {
				return k, true
			}
		}
	}
	return status.Kept{}, false
}

// startAgain starts the program of a dead orchestrator. try: only check whether it can be started.
func (a *agents) startAgain(ctx context.Context, s protocol.Subject, try bool) error {
	k, kept := a.orchestrates(s)
	if !kept {
		return fmt.Errorf("start %s again: %w: no [[agent]] row starts this agent any more", s.ID, supervisor.ErrRefused)
	}
	if try || k.State == "running" {
		return nil
	}
	_, err := a.restart(ctx, k, "the operator chose to start it again")
	return err
}
