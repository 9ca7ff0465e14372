package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/cmd/steward/gate"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// participant acts in one of the protocols 001 to 004, for a command.
// See docs/decisions.md, "One set of task verbs, and two ways behind it".
type participant struct {
	protocol.Participant
	app       *cli.App
	dir, name string
}

// participate opens a protocol other than 000, which the project must speak.
func participate(a *cli.App, dir, name, doing string) (*participant, error) {
	cfg := settings(a)
	if !slices.Contains(daemon.Spoken(dir, cfg), name) {
		return nil, terminal.Report(protocol.ErrAbsent, "%s: %s does not speak %s yet; first run: steward boot AGENT --protocol %[3]s --project %s", doing, dir, name, terminal.ShellQuote(dir))
	}
	p, ok := daemon.Participate(dir, name, cfg)
	if !ok {
		return nil, terminal.Report(supervisor.ErrRefused, "%s: this version cannot take part in protocol %s", doing, name)
	}
	return &participant{p, a, dir, name}, nil
}

// adapter opens the protocol's adapter, which knows all tasks and the folders of their files.
func (p *participant) adapter() daemon.Speaker {
	ad, _ := daemon.AdapterNamed(p.name)
	return ad.Open(p.dir, settings(p.app), daemon.GuardLock)
}

// minPrefix is the minimum length of an abbreviated id.
const minPrefix = 4

// find returns a task by its id or by a unique prefix of at least four characters.
func (p *participant) find(ctx context.Context, id string) (protocol.Assignment, error) {
	t, err := p.Show(ctx, id, time.Now())
	switch {
	case !errors.Is(err, protocol.ErrNoTask):
		return t, err
	case len(id) < minPrefix:
		return t, protocol.ErrNoTask
	}
	ad := p.adapter()
	defer ad.Close()
	var ids []string
	for _, t := range ad.Observe(ctx, protocol.ScanOrder{Now: time.Now()}).Tasks {
		if strings.HasPrefix(t.ID, id) {
			ids = append(ids, t.ID)
		}
	}
	switch len(ids) {
	case 0:
		return t, protocol.ErrNoTask
	case 1:
		return p.Show(ctx, ids[0], time.Now())
	}
	return t, &agentstatus.AmbiguousError{Prefix: id, IDs: ids[:min(len(ids), 10)]}
}

// receipt prints what an action has written.
func (p *participant) receipt(r protocol.Receipt) error {
	text := fmt.Sprintf("task %s: %s", terminal.Clean(r.ID), r.State)
	if r.Note != "" {
		text += "; " + terminal.Clean(r.Note)
	}
	return p.app.Report(r, "%s", text)
}

// report carries out a report on a task.
func (p *participant) report(ctx context.Context, t protocol.Assignment, r protocol.Report, doing string) error {
	judges := r.Kind == protocol.ReportApproved || r.Kind == protocol.ReportRejected || r.Kind == protocol.ReportCancel
	if r.Agent == "" && !judges {
		r.Agent = t.Agent
	}
	done, err := p.Report(ctx, t.ID, r, time.Now())
	if err != nil {
		return taskError(err, doing)
	}
	return p.receipt(done)
}

// next accepts the best task that waits for an agent and that there is room for.
func (p *participant) next(ctx context.Context, k protocol.Acceptance, patience time.Duration) error {
	hints, stop := p.hints()
	defer stop()
	whom := k.Agent
	if whom == "" {
		whom = "any agent"
	}
	for end, told := time.Now().Add(patience), ""; ; {
		t, why, err := p.take(ctx, k)
		switch {
		case ctx.Err() != nil:
			return cli.Exit(task.ExitCancelled)
		case err != nil:
			return taskError(err, taking)
		case t.ID != "":
			return p.show(t)
		case over(patience, end):
			return terminal.Report(supervisor.ErrNoSubject, "%s: no task for %s now: %s", taking, terminal.Clean(whom), why)
		case why != told:
			told = why
			fmt.Fprintln(p.app.Err, "steward: waiting: "+terminal.Clean(why))
		}
		select {
		case <-hints:
		case <-time.After(scanAgain): // for room, and for holds that end
		case <-ctx.Done():
		}
	}
}

// scanAgain is the time between two scans without a hint.
const scanAgain = 5 * time.Second

// take accepts the first task that may be started. Without one it says why the others may not.
func (p *participant) take(ctx context.Context, k protocol.Acceptance) (t protocol.Assignment, why string, err error) {
	list, err := p.Pending(ctx, k.Agent, time.Now())
	if err != nil {
		return t, "", err
	}
	why = "nothing waits"
	for _, t := range list {
		if t.Waits != "" {
			why = "task " + t.ID + ": " + t.Waits
			continue
		}
		if ok, full, _ := gate.Ask(ctx, p.app, status.AdmitOrder{Project: p.dir, Task: t.ID}); !ok {
			why = "no room for task " + t.ID + ": " + full
			continue
		}
		mine := k
		if mine.Agent == "" {
			mine.Agent = t.Agent
		}
		switch _, err := p.Accept(ctx, t.ID, mine, time.Now()); {
		case err == nil:
			t, err = p.Show(ctx, t.ID, time.Now())
			return t, "", err
		case !errors.Is(err, protocol.ErrTaken):
			return t, "", err
		}
	}
	return protocol.Assignment{}, why, nil
}

// hints sends a hint when files of the protocol change.
func (p *participant) hints() (<-chan struct{}, func()) {
	ad := p.adapter()
	defer ad.Close()
	var folders []string
	for _, dir := range ad.Dirs() {
		folders = append(folders, filepath.Join(p.dir, filepath.FromSlash(dir)))
	}
	hints, stop, _ := task.Hints(folders)
	return hints, stop
}

// await waits for a task's end and prints it. Its error sets the exit code.
func (p *participant) await(ctx context.Context, id string, limit time.Duration) error {
	hints, stop := p.hints()
	defer stop()
	var timeout <-chan time.Time
	if limit > 0 {
		timeout = time.After(limit)
	}
	for told := ""; ; {
		t, err := p.Show(ctx, id, time.Now())
		if err != nil && ctx.Err() == nil {
			return taskError(err, "wait for task "+id)
		}
		if err == nil && !t.State.Open() {
			if err := p.show(t); err != nil {
				return err
			}
			if code := task.AssignmentCode(t); code != 0 {
				return cli.Exit(code)
			}
			return nil
		}
		if text := task.Stage(t); err == nil && text != told {
			told = text
			fmt.Fprintln(p.app.Err, text)
		}
		select {
		case <-hints:
		case <-time.After(scanAgain):
		case <-timeout:
			return cli.OutOfTime("wait for task %s: the time limit of the wait is over; the task continues (%s)", terminal.Clean(id), told)
		case <-ctx.Done():
			return cli.Interrupted("no longer waiting; task %s continues", terminal.Clean(id))
		}
	}
}

// shown is the JSON document of a task.
type shown struct {
	protocol.Assignment
	Project  string `json:"project"`
	Protocol string `json:"protocol"`
}

// show prints a task: what is known of it, and the protocol's own document.
func (p *participant) show(t protocol.Assignment) error {
	if p.app.Output == "json" {
		return p.app.Print(shown{t, p.dir, p.name})
	}
	page := p.app.Page()
	look := terminal.Plain
	switch t.State {
	case protocol.TaskDone:
		look = terminal.Green
	case protocol.TaskFailed, protocol.TaskDead:
		look = terminal.Red
	}
	page.Full("%s %s", terminal.Clean(t.ID), page.Dye(task.Stage(t), look))
	for _, f := range task.AssignmentFacts(t, page.Now) {
		page.Full("  %-10s %s", f.Name, f.Text)
	}
	section := func(title string, message json.RawMessage) {
		if lines, err := json.MarshalIndent(message, "", "  "); err == nil && len(message) > 0 {
			page.Title(title)
			page.Full("%s", terminal.Guarded(string(lines)))
		}
	}
	section("Message", t.Message)
	for _, later := range t.Feedback {
		section("To heed", later)
	}
	return p.app.Write(page.String())
}
