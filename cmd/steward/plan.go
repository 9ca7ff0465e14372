package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

func (a *app) planCommand() *cobra.Command {
	var dirs []string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what steward would do now and why; touch nothing",
		Long:  "plan looks at the projects as run would and prints what would be changed and told, and why. It writes nothing. Silence is\njudged from what a running steward has seen; where nobody has looked yet, it says when a verdict falls due.",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.plan(c.Context(), dirs)
		},
	}
	c.Flags().StringArrayVar(&dirs, "project", nil, "look at this `DIR` (may be repeated)")
	return c
}

// planned is the output of plan.
type planned struct {
	Changes []protocol.Change `json:"changes"`
	// Waiting are changes that steward does not make: it only observes the project, is paused, or yields to others.
	Waiting  []protocol.Change  `json:"waiting"`
	Alerts   []rules.Alert      `json:"alerts"`
	Verdicts []verdictLine      `json:"verdicts"`
	Findings []protocol.Finding `json:"findings"`
	Faults   []protocol.Fault   `json:"faults"`
	Wake     *time.Time         `json:"wake"`
}

type verdictLine struct {
	Subject string     `json:"subject"`
	State   string     `json:"state"`
	Why     string     `json:"why"`
	Due     *time.Time `json:"due,omitempty"`
}

func (a *app) plan(ctx context.Context, dirs []string) error {
	cfg, paths, err := a.settings()
	if err != nil {
		return err
	}
	refs, _, err := daemon.Projects(cfg, dirs, false)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if _, err := projectDir("plan", ref.Path); err != nil && len(dirs) > 0 {
			return err
		}
		if _, err := os.Stat(ref.Path); err != nil {
			fmt.Fprintf(a.err, "steward: project %s is left out: %v\n", ref.Name, err)
		}
	}
	refs = slices.DeleteFunc(refs, func(ref config.ProjectRef) bool { _, err := os.Stat(ref.Path); return err != nil })
	view, err := a.lookOnce(ctx, refs, cfg)
	if err != nil {
		return err
	}
	memory := decide.Memory{}
	if state, err := jsonfile.Open(paths.State); err == nil {
		defer state.Close()
		memory = daemon.Recall(state, a.err)
		if err := withPauses(&view, state, refs, memory); err != nil {
			return err
		}
	}
	view.Incidents = escalate.ReadHeads(filepath.Join(paths.State, "incidents"))
	return a.printPlan(prospectOf(view, decide.Decide(view, memory, cfg.Policies())))
}

// withPauses marks the projects that the operator paused as observed only.
func withPauses(view *decide.View, state *jsonfile.Root, refs []config.ProjectRef, memory decide.Memory) error {
	orders, err := supervisor.OpenOrders(state)
	if err != nil {
		return err
	}
	folders := map[string]supervisor.Folder{}
	for _, ref := range refs {
		if folders[ref.Name], err = daemon.FolderOf(ref.Path); err != nil {
			folders[ref.Name] = supervisor.Folder{Path: ref.Path}
		}
	}
	view.Paused = orders.Paused(folders)
	for i := range view.Snapshots {
		s := &view.Snapshots[i]
		s.Act = s.Act && view.Paused[s.Project] == ""
	}
	return nil
}

// lookOnce scans every project once without changing it.
func (a *app) lookOnce(ctx context.Context, refs []config.ProjectRef, cfg config.Config) (decide.View, error) {
	gauge := measure.New(daemon.PathsOf(refs)...)
	gauge.Sample(time.Now())
	view := decide.View{}
	for _, ref := range refs {
		p := daemon.OpenProject(ref, cfg, false)
		for _, name := range p.Detect() {
			s, err := p.Open(name)
			if err != nil {
				return view, err
			}
			snap := s.Adapter.Observe(ctx, protocol.Look{Now: time.Now(), Since: time.Now().Add(-cfg.Tasks.History)})
			s.Close()
			snap.Name(ref.Name, name, s.Act)
			view.Snapshots = append(view.Snapshots, snap)
		}
		if len(view.Snapshots) == 0 {
			fmt.Fprintf(a.err, "%s speaks no protocol yet; set one up with: steward boot livhana-layer1.1 --project %s\n", ref.Path, terminal.ShellQuote(ref.Path))
		}
	}
	view.Processes = processesOf(view.Snapshots)
	select {
	case <-ctx.Done():
		return view, ctx.Err()
	case <-time.After(200 * time.Millisecond): // CPU usage is known from the second sample on
	}
	view.Now = time.Now()
	view.Load = daemon.ByProjectName(gauge.Sample(view.Now), refs)
	return view, nil
}

// processesOf inspects the processes that the agents' files name.
func processesOf(snaps []protocol.Snapshot) []decide.Process {
	var list []decide.Process
	for _, s := range snaps {
		for _, ag := range s.Agents {
			if ag.Process.Proves() {
				list = append(list, decide.Process{Identity: ag.Process, State: daemon.ProcessState(ag.Process)})
				continue
			}
			if ag.PID == 0 {
				continue
			}
			p := decide.Process{Identity: protocol.Identity{PID: ag.PID}, State: heartbeat.ProcessGone, Claimed: true}
			if id, err := proc.Inspect(ag.PID); err == nil {
				p.Identity, p.State = protocol.Identity(id), heartbeat.ProcessAlive
			}
			list = append(list, p)
		}
	}
	return list
}

func prospectOf(v decide.View, p decide.Plan) planned {
	out := planned{Changes: p.Changes, Alerts: p.Alerts, Faults: []protocol.Fault{}, Verdicts: []verdictLine{},
		Waiting: append([]protocol.Change{}, p.Waiting...), Findings: []protocol.Finding{}}
	if out.Changes == nil {
		out.Changes = []protocol.Change{}
	}
	if out.Alerts == nil {
		out.Alerts = []rules.Alert{}
	}
	if !p.Wake.IsZero() {
		wake := p.Wake.UTC()
		out.Wake = &wake
	}
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		out.Faults = append(out.Faults, s.Faults...)
		out.Findings = append(out.Findings, s.Findings...)
		for j := range s.Agents {
			subject := s.Subject(protocol.KindAgent, s.Agents[j].Name)
			verdict := p.Agents.Of(subject)
			out.Verdicts = append(out.Verdicts, line(subject, string(verdict.State), verdict.Why, verdict.Deadline))
		}
		for j := range s.Tasks {
			subject := s.Subject(protocol.KindTask, s.Tasks[j].ID)
			verdict := p.Tasks.Of(subject)
			out.Verdicts = append(out.Verdicts, line(subject, string(verdict.State), verdict.Why, verdict.NotBefore))
		}
		for j := range s.Locks {
			subject := s.Subject(protocol.KindLock, s.Locks[j].Resource)
			verdict := p.Locks.Of(subject)
			out.Verdicts = append(out.Verdicts, line(subject, string(verdict.State), verdict.Why, verdict.Deadline))
		}
	}
	return out
}

func line(subject protocol.Subject, state, why string, due time.Time) verdictLine {
	l := verdictLine{Subject: subject.String(), State: state, Why: why}
	if !due.IsZero() {
		due = due.UTC()
		l.Due = &due
	}
	return l
}

func (a *app) printPlan(p planned) error {
	if a.output == "json" {
		return a.print(p)
	}
	for _, v := range p.Verdicts {
		due := ""
		if v.Due != nil {
			due = "  (re-evaluated at " + v.Due.Local().Format(time.TimeOnly) + ")"
		}
		fmt.Fprintf(a.out, "%-10s %s: %s%s\n", v.State, terminal.OneWord(v.Subject), terminal.OneWord(v.Why), due)
	}
	for _, f := range p.Faults {
		fmt.Fprintf(a.out, "fault      %s: %s\n", terminal.OneWord(f.Path), terminal.OneWord(f.Problem))
	}
	for _, f := range p.Findings {
		fmt.Fprintln(a.out, "finding    "+views.FindingLine(f.Severity, f.Subject.String(), f.Field, f.Path, f.Text))
	}
	if len(p.Changes)+len(p.Alerts)+len(p.Waiting) == 0 {
		fmt.Fprintln(a.out, "nothing to do")
	}
	for _, c := range p.Changes {
		fmt.Fprintf(a.out, "would %s %s: %s\n", c.Verb, terminal.OneWord(c.Subject.String()), terminal.OneWord(c.Why))
	}
	for _, c := range p.Waiting {
		fmt.Fprintf(a.out, "would, if it might, %s %s: %s\n", c.Verb, terminal.OneWord(c.Subject.String()), terminal.OneWord(c.Why))
	}
	for _, al := range p.Alerts {
		what := "tell"
		if al.Resolve {
			what = "resolve"
		}
		fmt.Fprintf(a.out, "would %s (%s): %s\n", what, al.Severity, terminal.OneWord(al.Summary))
	}
	return nil
}
