package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

// viewCommands are the commands that only look.
func (a *app) viewCommands() []*cobra.Command {
	var watch bool
	statusCmd := &cobra.Command{
		Use:   "status",
		Short: "Show the whole picture",
		Long: "status shows load, projects, agents, open tasks, locks, incidents and what was done last. When no steward is\n" +
			"running, its first line says so; it shows what the last one saw, and exits with 3.",
		Example: "  steward status\n  steward status --watch\n  steward status -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if watch {
				return a.watchStatus(c.Context())
			}
			return a.status(c.Context())
		},
	}
	statusCmd.Flags().BoolVar(&watch, "watch", false, "draw it again every two seconds until Ctrl-C")
	return append([]*cobra.Command{statusCmd, a.explainCommand(), a.logCommand(), a.logsCommand(), a.capacityCommand()}, a.listCommands()...)
}

// reach finds the files and the socket of this user's steward. A configuration that is refused is no reason to keep
// the operator from the daemon, which goes on with the former one.
func (a *app) reach() (platform.Paths, error) {
	if p := a.place(); a.configFile == "" && os.Getenv("STEWARD_CONFIG") == "" {
		// The defaults name no places, and to read them is a good part of what a short command costs.
		if _, err := os.Lstat(p.Config); errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
	}
	_, paths, err := a.settings()
	if err == nil || a.configFile != "" {
		return paths, err
	}
	paths = a.place()
	if !a.warned {
		fmt.Fprintf(a.err, "steward: the configuration cannot be used (see: steward config); the daemon is asked at %s\n", paths.Socket)
		a.warned = true
	}
	return paths, nil
}

// ask calls the daemon.
func (a *app) ask(ctx context.Context, doing string, call func(*status.Client) error) error {
	paths, err := a.reach()
	if err != nil {
		return err
	}
	return failed(call(status.NewClient(paths.Socket)), doing)
}

// failed says what was being done, unless the daemon's own words begin with that.
func failed(err error, doing string) error {
	if err == nil {
		return nil
	}
	verb, _, _ := strings.Cut(doing, " ")
	if strings.HasPrefix(err.Error(), verb+" ") {
		return terminal.Report(err, "%v", err)
	}
	return terminal.Report(err, "%s: %v", doing, err)
}

// show asks the daemon for a document and prints it: as it came, or as text.
func show[T any](ctx context.Context, a *app, doing, path string, render func(*page, T)) error {
	var raw json.RawMessage
	err := a.ask(ctx, doing, func(c *status.Client) error { return c.Get(ctx, path, &raw) })
	if err != nil {
		return err
	}
	return present(a, raw, render)
}

func present[T any](a *app, raw json.RawMessage, render func(*page, T)) error {
	if a.output == "json" {
		return a.print(raw)
	}
	var doc T
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("read steward's answer: %w; is it another version than this command?", err)
	}
	p := a.page()
	render(p, doc)
	return a.write(p.String())
}

// status shows the picture, or the last one when there is no daemon.
func (a *app) status(ctx context.Context) error {
	err := show(ctx, a, "show the status", "/v1/status", renderStatus)
	if !errors.Is(err, status.ErrNoDaemon) {
		return err
	}
	return a.lastStatus(ctx, err)
}

// watchStatus draws the picture on a terminal again and again.
func (a *app) watchStatus(ctx context.Context) error {
	if a.output == "json" || !terminal.IsTerminal(a.out) {
		return usageError{errors.New("status --watch draws on a terminal; elsewhere use: steward status -o json")}
	}
	last, err := a.live(ctx, 2*time.Second, func(ctx context.Context) (string, string, error) {
		doc, err := a.watchedStatus(ctx)
		if err != nil {
			return "", "", err
		}
		p := a.page()
		renderStatus(p, doc)
		return p.String(), p.String(), nil
	})
	if err == nil {
		err = a.write(last)
	}
	return err
}

// watchedStatus is the picture of the daemon. While none runs it is the last one's: the daemon may be restarting.
func (a *app) watchedStatus(ctx context.Context) (doc status.Document, err error) {
	err = a.ask(ctx, "show the status", func(c *status.Client) error { return c.Get(ctx, "/v1/status", &doc) })
	if errors.Is(err, status.ErrNoDaemon) {
		_, paths, _ := a.settings() // ask has said what is wrong with them
		if written, unread := status.ReadSnapshot(filepath.Join(paths.State, daemon.SnapshotFile), &doc); unread == nil {
			doc.Daemon, err = &status.Daemon{Since: &written}, nil
		}
	}
	return doc, err
}

// printStatus shows the picture of the daemon on that socket.
func (a *app) printStatus(ctx context.Context, socket string) error {
	var raw json.RawMessage
	if err := status.NewClient(socket).Get(ctx, "/v1/status", &raw); err != nil {
		return err
	}
	return present(a, raw, renderStatus)
}

// renderStatus writes the status document on one screen.
func renderStatus(p *page, doc status.Document) {
	if d := doc.Daemon; d != nil && !d.Running && d.Since != nil {
		p.Styled(terminal.Red, "no steward is running: this is what the last one%s saw %s", ofUser(), p.Ago(d.Since))
		p.Styled(terminal.Bold, "steward %s had run for %s then, %s", terminal.Clean(doc.Version), terminal.Short(d.Since.Sub(doc.Started)), terminal.Plural(doc.Looks, "look"))
	} else {
		p.Styled(terminal.Bold, "steward %s, up %s, %s, the last %s", terminal.Clean(doc.Version), terminal.Short(p.Now.Sub(doc.Started)), terminal.Plural(doc.Looks, "look"), p.Ago(&doc.LastLook))
	}
	if doc.LastEnd != nil && daemon.EndedBadly(doc.LastEnd) {
		p.Line("the run before this one: %s", daemon.EndWords(&p.Page, doc.LastEnd))
	}
	p.Line("%s", loadLine(doc.Load))
	for _, c := range doc.Channels {
		if !c.OK && !c.At.IsZero() {
			p.Styled(terminal.Yellow, "%s does not reach you: %s", terminal.Clean(c.Name), terminal.Clean(c.Problem))
		}
	}
	projectsPart(p, doc.Projects)
	several := len(doc.Projects) > 1
	p.Wraps = true
	p.part("Agents", "no agents", agentRows(p, doc.Agents, spreadOf(doc.Agents, whereAgent).among(several), false))
	p.part("Started by steward", "", keptLines(p, doc.Kept, several))
	p.part("Waiting at the gate", "", waitingRows(p, doc.Waiting))
	tasksPart(p, doc.Tasks, several)
	p.part("Locks", "", lockRows(p, doc.Locks, spreadOf(doc.Locks, whereLock).among(several)))
	p.part("Incidents", "no incidents", incidentRows(p, doc.Incidents, several))
	donePart(p, doc.Done)
}

// ofUser says whose steward is meant where that is not plain: root's picture is not that of a user's service.
func ofUser() string {
	if os.Getuid() != 0 {
		return ""
	}
	return " of " + nameOfUser(0)
}

func nameOfUser(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid " + strconv.Itoa(uid)
}

// part prints a titled table, or one quiet line when it has no rows.
func (p *page) part(title, none string, rows [][]terminal.Cell) {
	switch {
	case len(rows) > 0:
		p.Title(title)
		p.Table("  ", nil, rows...)
	case none != "":
		p.Styled(terminal.Dim, "%s", none)
	}
}

func loadLine(l supervisor.LoadReport) string {
	line := "load " + terminal.Share(l.Used)
	if l.Binding != "" {
		line += " (" + terminal.Clean(l.Binding) + ")"
	}
	for _, d := range []struct {
		name string
		used protocol.Share
	}{{"cpu", l.CPU}, {"memory", l.Memory}, {"files", l.Files}, {"disk", l.Disk}} {
		line += "   " + d.name + " " + terminal.Share(d.used)
	}
	if len(l.Disks) > 1 {
		project, _ := fullestDisk(l.Disks)
		line += " (" + terminal.Clean(project) + ")"
	}
	return line
}

// shownFindings and shownDone bound what a project's files may take of the screen.
const (
	shownFindings = 3
	shownDone     = 5
)

func projectsPart(p *page, projects []supervisor.ProjectReport) {
	if len(projects) == 0 {
		p.Styled(terminal.Dim, "no projects")
		return
	}
	p.Title("Projects")
	var rows [][]terminal.Cell
	for _, r := range projects {
		rows = append(rows, []terminal.Cell{terminal.Text(r.Name), terminal.Text(spokenBy(r)), terminal.Colored(troubles(r), terminal.Yellow), terminal.Colored(r.Path, terminal.Dim)})
	}
	widths := terminal.Measured(rows)
	for i, r := range projects {
		p.Row("  ", rows[i], widths)
		for _, note := range r.Notes {
			p.Styled(terminal.Dim, "    %s", terminal.Clean(note))
		}
		for _, f := range r.Faults[:min(len(r.Faults), daemon.ShownFaults)] {
			p.Styled(terminal.Red, "    %s: %s", terminal.Clean(f.Path), terminal.Clean(f.Problem))
		}
		for _, f := range r.Findings[:min(len(r.Findings), shownFindings)] {
			p.Styled(terminal.Dim, "    %s", findingLine(f.Severity, f.Subject, f.Field, f.Path, f.Text))
		}
		repairLines(p, r.Repairs)
		if rest := max(len(r.Faults)-daemon.ShownFaults, 0) + max(len(r.Findings)-shownFindings, 0); rest > 0 {
			p.Styled(terminal.Dim, "    and %d more; see: steward status -o json", rest)
		}
	}
}

// findingLine is a finding on a line: its severity, its task or file, and the problem.
func findingLine(severity protocol.Severity, subject, field, file, text string) string {
	return fmt.Sprintf("%s: %s: %s%s", terminal.Clean(string(severity)), subjectWords(subject), problemWords(field, text), inFile(file, subject+text))
}

// inFile names the file of a finding, unless its text does so already.
func inFile(file, text string) string {
	if file == "" || strings.Contains(text, file) {
		return ""
	}
	return " (" + terminal.Clean(file) + ")"
}

// repairLines say what would be done if it might, and what it waits for.
func repairLines(p *page, repairs []supervisor.RepairReport) {
	for _, r := range repairs[:min(len(repairs), daemon.ShownRepairs)] {
		p.Styled(terminal.Yellow, "    would %s %s: %s; waits for: %s", terminal.Clean(string(r.Verb)), terminal.Clean(r.Subject), terminal.Clean(r.Why), terminal.Clean(r.WaitsFor))
	}
	if rest := len(repairs) - daemon.ShownRepairs; rest > 0 {
		p.Styled(terminal.Dim, "    and %s more; see: steward status -o json", terminal.Plural(rest, "repair"))
	}
}

func spokenBy(r supervisor.ProjectReport) string {
	switch {
	case daemon.Unusable(r):
		return "not usable now"
	case len(r.Protocols) == 0:
		return "no protocol yet"
	}
	line := ""
	for i, name := range r.Protocols {
		if i > 0 {
			line += ", "
		}
		line += name + " (" + r.Mode[name] + ")"
	}
	return line
}

func troubles(r supervisor.ProjectReport) string {
	switch {
	case len(r.Faults) > 0 && len(r.Findings) > 0:
		return terminal.Plural(len(r.Faults), "fault") + ", " + terminal.Plural(len(r.Findings), "finding")
	case len(r.Faults) > 0:
		return terminal.Plural(len(r.Faults), "fault")
	case len(r.Findings) > 0:
		return terminal.Plural(len(r.Findings), "finding")
	}
	return ""
}

// tasksPart shows the open tasks, and counts the others: what they need of a human stands among the incidents.
func tasksPart(p *page, tasks []supervisor.TaskReport, several bool) {
	var open []supervisor.TaskReport
	ended := map[protocol.TaskState]int{}
	for _, t := range tasks {
		if t.State.Open() {
			open = append(open, t)
		} else {
			ended[t.State]++
		}
	}
	p.part("Tasks", "no open tasks", taskRows(p, open, spreadOf(open, whereTask).among(several)))
	line := ""
	for _, state := range []protocol.TaskState{protocol.TaskDone, protocol.TaskFailed, protocol.TaskDead} {
		if n := ended[state]; n > 0 {
			line += fmt.Sprintf(", %d %s", n, state)
		}
	}
	if line != "" {
		p.Styled(terminal.Dim, "  ended lately: %s", line[2:])
	}
}

// donePart shows what was done last, the newest first.
func donePart(p *page, done []supervisor.Done) {
	var rows [][]terminal.Cell
	for _, d := range done[:min(len(done), shownDone)] {
		rows = append(rows, []terminal.Cell{terminal.Colored(p.Ago(&d.At), terminal.Dim), terminal.Text(d.Verb), terminal.Text(d.Subject), terminal.Colored(terminal.LocalTimes(d.Why, p.Now), terminal.Dim)})
	}
	p.part("Done last", "", rows)
}

// query is a path with one parameter for each pair that has a value.
func query(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}
