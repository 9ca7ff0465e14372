package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
}

// newAgents creates the keeper of the rows. It reads nothing yet.
func newAgents(o Options, s *store) *agents {
	a := &agents{reports: s.reports, options: o}
	a.keeper = keep.New(keep.Options{State: s.dir, Root: s.root, Now: time.Now, Log: s.log, Environ: os.Environ(), Deps: a.deps(),
		OpenUnits: service.OpenUnits, Managed: o.Manager == managerSystemd})
	return a
}

// Run starts and keeps the configured agents until ctx ends. The agents live on. The gate can answer only after the first
// scans, which call apply again.
func (a *agents) Run(ctx context.Context) error {
	a.apply()
	return a.keeper.Run(ctx)
}

// list returns the agents that this steward starts.
func (a *agents) list() []status.Kept {
	return a.keeper.List()
}

// restart ends the agent of an [[agent]] row and starts it again. It rejects a held agent, which would not start
// again.
func (a *agents) restart(ctx context.Context, k status.Kept, why string) (status.Kept, error) {
	subject := protocol.Subject{Project: k.Project, Protocol: agentstatus.Name, Kind: protocol.KindAgent, ID: k.Agent}
	if a.holds(keep.Row{Project: k.Project, Name: k.Agent}) {
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

// apply makes the keeper follow the configuration. Agents of projects that this run was not asked to supervise are
// neither started nor ended.
func (a *agents) apply() {
	cfg := a.settings.config()
	rows, others := keptRows(cfg, a.settings.projects())
	if len(a.options.Dirs) == 0 {
		for _, r := range others {
			a.log.Warn("the agent's project is not supervised, so it is not started; add it to the configuration", "agent", r.Name, "project", r.Dir)
		}
	}
	a.keeper.Set(KeepConfig(cfg), rows, others)
}

// keptRows resolves the [[agent]] rows into those of supervised projects and the others.
func keptRows(cfg config.Config, refs []config.ProjectRef) (rows, others []keep.Row) {
	home, _ := os.UserHomeDir()
	for _, a := range cfg.Agents {
		dir, err := config.Expand(a.Project, home, "/")
		if err != nil {
			continue // Validate has rejected it
		}
		r := keep.Row{Name: a.Name, Project: filepath.Base(dir), Dir: dir, Command: a.Command, Restart: cmp.Or(a.Restart, keep.OnFailure), Environment: a.Environment}
		if a.Directory != "" {
			r.Directory, _ = config.Expand(a.Directory, home, "/") // Validate has checked it
		}
		i := slices.IndexFunc(refs, func(ref config.ProjectRef) bool { return platform.SameFolder(ref.Path, dir) })
		if i < 0 {
			others = append(others, r)
			continue
		}
		r.Project = refs[i].Name
		rows = append(rows, r)
	}
	return rows, others
}

// deps returns the keeper's dependencies: the project's files, the gate, and the operator.
func (a *agents) deps() keep.Deps {
	me := SelfIdentity()
	client := func(row keep.Row, do func(*agentstatus.Client) error) error {
		if !RegistersIn(row.Dir, a.settings.config()) {
			return nil // only the keeper's own record names the agent
		}
		c := Connect(row.Dir)
		defer c.Close()
		return do(c)
	}
	return keep.Deps{
		Enroll: func(ctx context.Context, row keep.Row, id protocol.Identity) error {
			return client(row, func(c *agentstatus.Client) error {
				// Shared: the configuration says that this is the agent, even if others work under its name.
				return c.Enroll(ctx, agentstatus.Registration{Agent: row.Name, Process: id, Keeper: me, Kept: true, Shared: true}, time.Now())
			})
		},
		Leave: func(ctx context.Context, row keep.Row, id protocol.Identity, _ keep.Ending, failed bool, why string) error {
			err := client(row, func(c *agentstatus.Client) error {
				return c.Leave(ctx, row.Name, id, agentstatus.Leaving{Failed: failed, Told: failed && row.Restart != keep.Never, Why: why}, time.Now())
			})
			if errors.Is(err, agentstatus.ErrNotInitialized) {
				return nil // the agent ended before it was registered
			}
			return err
		},
		Admit:     a.admit,
		Held:      a.holds,
		Failed:    a.tellFailed,
		Again:     a.wantedAgain,
		Recovered: a.recovered,
	}
}

// admit asks the gate, with the load of the last sample.
func (a *agents) admit(row keep.Row) (ok bool, why string, again time.Duration) {
	v := a.admissions.Ask(supervisor.Admission{}, time.Now())
	if v == nil {
		return false, "", 0 // nothing is measured yet; the first scans call apply again
	}
	return v.Admit, v.Why, v.RetryAfter
}

// holds reports whether the operator holds the agent.
func (a *agents) holds(row keep.Row) bool {
	p := a.loop.State()
	if p == nil {
		return false
	}
	for i := range p.View.Snapshots {
		if s := &p.View.Snapshots[i]; s.Project == row.Project && s.Protocol == agentstatus.Name {
			g, known := s.Agent(row.Name)
			return known && g.Held != ""
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
