package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// agents starts and keeps the agents of the [[agent]] rows.
type agents struct {
	*reports
	keeper     *keep.Keeper
	loop       *supervisor.Supervisor
	admissions *supervisor.Admissions
	options    Options
	paths      platform.Paths
	roles      roles
	decided    wakeup // the loop has decided
}

// newAgents creates the keeper of the rows. It reads nothing yet.
func newAgents(o Options, s *store, paths platform.Paths) *agents {
	a := &agents{reports: s.reports, options: o, paths: paths, decided: newWakeup()}
	a.keeper = keep.New(keep.Options{State: s.dir, Root: s.root, Now: time.Now, Log: s.log, Environ: os.Environ(), Deps: a.deps(),
		OpenUnits: service.OpenUnits, Managed: o.Manager == managerSystemd})
	return a
}

// Run starts and keeps the configured agents until ctx ends. The agents live on. The gate can answer only after the first
// scans, which call apply again.
func (a *agents) Run(ctx context.Context) error {
	a.apply()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		a.watchWork(ctx)
	}()
	defer func() { <-watching }()
	return a.keeper.Run(ctx)
}

// watchWork starts the agents of roles when a decision shows work for them.
func (a *agents) watchWork(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.decided:
			if a.roles.judge(a.loop.State()) {
				a.keeper.Wake()
			}
		}
	}
}

// list returns the agents that this steward starts.
func (a *agents) list() []status.Kept {
	list := a.keeper.List()
	for i := range list {
		a.roles.describe(&list[i])
	}
	return list
}

// restart ends the agent of an [[agent]] row and starts it again. It rejects a held agent, which would not start
// again.
func (a *agents) restart(ctx context.Context, k status.Kept, why string) (status.Kept, error) {
	subject := protocol.Subject{Project: k.Project, Protocol: agentstatus.Name, Kind: protocol.KindAgent, ID: k.Agent}
	if a.keeper.Held(k.Project, k.Agent) {
		return k, fmt.Errorf("%w: %s is held, and would not start again; first: steward release %s:agent/%s", supervisor.ErrRefused, k.Agent, k.Project, k.Agent)
	}
	now, err := a.keeper.Restart(ctx, k.Project, k.Agent)
	note := supervisor.Entry{At: time.Now(), Kind: "change", Subject: subject, Verb: "restart", Text: why}
	if err != nil {
		note.Error = terminal.ErrorText(err)
	}
	a.note(note)
	return now, err
}

// hold holds or releases an agent that protocol 000 does not list: its hold is a file of the keeper.
func (a *agents) hold(k status.Kept, hold bool, why string) (handled bool, err error) {
	if p := a.loop.State(); p != nil {
		for i := range p.View.Snapshots {
			s := &p.View.Snapshots[i]
			if _, listed := s.Agent(k.Agent); listed && s.Project == k.Project && s.Protocol == agentstatus.Name {
				return false, nil
			}
		}
	}
	note := supervisor.Entry{At: time.Now(), Kind: "change", Verb: "release", Text: why,
		Subject: protocol.Subject{Project: k.Project, Protocol: k.Protocol, Kind: protocol.KindAgent, ID: k.Agent}}
	if hold {
		note.Verb = "hold"
		err = a.keeper.Hold(k.Project, k.Agent, why)
	} else {
		err = a.keeper.Release(k.Project, k.Agent)
	}
	if err != nil {
		note.Error = terminal.ErrorText(err)
	}
	a.note(note)
	return true, err
}

// apply makes the keeper follow the configuration. Agents of projects that this run was not asked to supervise are
// neither started nor ended.
func (a *agents) apply() {
	cfg := a.settings.config()
	program, _ := os.Executable() // an error shows when the first agent is started
	rows, others, played := keptRows(cfg, a.settings.projects(), []string{program, "--config", a.paths.Config, "--socket", a.paths.Socket})
	a.roles.set(played)
	a.decided.wake()
	if len(a.options.Dirs) == 0 {
		for _, r := range others {
			a.log.Warn("the agent's project is not supervised, so it is not started; add it to the configuration", "agent", r.Name, "project", r.Dir)
		}
	}
	a.keeper.Set(KeepConfig(cfg), rows, others)
}

// deps returns the keeper's dependencies: the project's files, the gate, and the operator.
func (a *agents) deps() keep.Deps {
	me := SelfIdentity()
	return keep.Deps{
		Enroll: func(ctx context.Context, row keep.Row, id protocol.Identity) error {
			return a.register(row, func(c *agentstatus.Client) error {
				// Shared: the configuration says that this is the agent, even if others work under its name.
				return c.Enroll(ctx, agentstatus.Registration{Agent: row.Name, Process: id, Keeper: me, Kept: true, Shared: true}, time.Now())
			}, func(p protocol.Participant) error {
				return p.Join(ctx, protocol.AgentRun{Agent: row.Name, Process: id}, time.Now())
			})
		},
		Leave: func(ctx context.Context, row keep.Row, id protocol.Identity, _ keep.Ending, failed bool, why string) error {
			err := a.register(row, func(c *agentstatus.Client) error {
				return c.Leave(ctx, row.Name, id, agentstatus.Leaving{Failed: failed, Told: failed && row.Restart != keep.Never, Why: why}, time.Now())
			}, func(p protocol.Participant) error {
				return p.Leave(ctx, protocol.AgentRun{Agent: row.Name, Process: id}, time.Now())
			})
			if errors.Is(err, agentstatus.ErrNotInitialized) {
				return nil // the agent ended before it was registered
			}
			return err
		},
		Unfinished: a.unfinished,
		Admit:      a.admit,
		Held:       a.holds,
		Failed:     a.tellFailed,
		Again:      a.wantedAgain,
		Recovered:  a.recovered,
	}
}

// register calls do for an agent that protocol 000 lists, else join with the protocol of its row.
func (a *agents) register(row keep.Row, do func(*agentstatus.Client) error, join func(protocol.Participant) error) error {
	cfg := a.settings.config()
	name := row.Protocol
	switch spoken := Spoken(row.Dir, cfg); {
	case row.Restart == keep.WhenDue && (name == agentstatus.Name || name == "" && len(spoken) == 1 && spoken[0] == agentstatus.Name):
		name = agentstatus.Name // its worker is one of the agent's processes; this one knows its keeper
	case row.Restart == keep.WhenDue:
		return nil // the run registers itself
	case name == "" && (len(spoken) == 0 || slices.Contains(spoken, agentstatus.Name)):
		name = agentstatus.Name
	}
	if name == agentstatus.Name {
		c := Connect(row.Dir)
		defer c.Close()
		return do(c)
	}
	p, ok := Participate(row.Dir, name, cfg)
	if !ok {
		return nil // only the keeper's own record names the agent
	}
	defer p.Close()
	err := join(p)
	if errors.Is(err, protocol.ErrAbsent) {
		return nil // the program may create the folder later
	}
	return err
}

// admit asks whether work waits for a role, and for another agent the gate, with the load of the last sample.
func (a *agents) admit(row keep.Row, last *keep.Ending) (ok bool, why string) {
	if row.Restart == keep.WhenDue {
		if why := a.stops(row.Project, ""); why != "" {
			return false, why
		}
		return a.admitRole(row, last)
	}
	v := a.admissions.Ask(supervisor.Admission{}, time.Now())
	if v == nil {
		return false, "" // nothing is measured yet; the first scans call apply again
	}
	return v.Admit, v.Why
}

// stops says why no agent may be started for a role now; "" if it may.
func (a *agents) stops(project, role string) (why string) {
	if role != "" && a.keeper.Held(project, role) {
		return role + " is held"
	}
	if p := a.loop.State(); p != nil {
		for _, d := range p.Projects {
			if d.Name == project && d.Paused != "" {
				return "the project is paused (" + d.Paused + ")"
			}
		}
	}
	return ""
}

// holds reports whether the operator holds the agent in the project's files.
func (a *agents) holds(row keep.Row) bool {
	p := a.loop.State()
	if p == nil {
		return false
	}
	for i := range p.View.Snapshots {
		if s := &p.View.Snapshots[i]; s.Project == row.Project {
			if g, known := s.Agent(row.Name); known && g.Held != "" {
				return true
			}
		}
	}
	return false
}

// The incident about an agent that is not started any more, and the option that starts it again.
const (
	kindAgentFailed  = "agent_failed"
	optionStartAgain = "start_again"
)

func agentAlert(row keep.Row) rules.Alert {
	// The subject is steward's own keeper: nothing in the project's files waits for the answer.
	about := protocol.Subject{Project: row.Project, Kind: protocol.KindMachine, ID: "agent " + row.Name}
	return rules.Alert{Key: rules.Key(row.Project, "", about.ID, row.Name, kindAgentFailed, ""), Kind: kindAgentFailed,
		Severity: protocol.High, Foreign: true, Agent: row.Name, Subject: about}
}

// tellFailed raises an incident. If the next run reports the same failure, it is the same incident.
func (a *agents) tellFailed(row keep.Row, why string, life int) error {
	alert := agentAlert(row)
	alert.Blocking, alert.Lasting, alert.Occurrence = true, true, fmt.Sprintf("life %d", life)
	alert.Summary = "Agent " + row.Name + " fails again and again, and is not started any more"
	alert.Detail = why
	alert.Options = []rules.Option{{ID: optionStartAgain, Label: "Start it again"}, {ID: decide.OptionLeave, Label: "Leave it"}}
	return a.tell(alert)
}

// wantedAgain reports whether the operator has answered that incident with a new start.
func (a *agents) wantedAgain(row keep.Row, since time.Time) bool {
	i, err := a.ledger.Find(agentAlert(row).Key)
	return err == nil && i.Answer != nil && i.Answer.Option == optionStartAgain && i.Answer.At.After(since)
}

func (a *agents) recovered(row keep.Row) {
	a.resolve(agentAlert(row), "it is started again, or not wanted any more")
}

// RegistersIn reports whether an agent of this folder is entered in the registry of protocol 000: that protocol is in
// use there, or no protocol is. If only another protocol is in use, its own files name its agents, and only boot sets
// up 000.
func RegistersIn(dir string, cfg config.Config) bool {
	return agentstatus.Detect(dir) || len(OpenProject(config.ProjectRef{Path: dir}, cfg, false).Detect()) == 0
}

// KeepConfig converts [keep] to the keeper's configuration.
func KeepConfig(cfg config.Config) keep.Config {
	k := cfg.Keep
	// The daemon writes a heartbeat for an agent that has lived for a second: that is the agent's first sign of life.
	return keep.Config{Place: k.Place, Backoff: k.Backoff, MaxBackoff: k.MaxBackoff, Burst: k.Burst, Within: k.Within, Stop: k.Stop, Ready: time.Second}
}

// SelfIdentity returns the identity of this process.
func SelfIdentity() protocol.Identity {
	id, _ := proc.Inspect(os.Getpid())
	return protocol.Identity(id)
}
