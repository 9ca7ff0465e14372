package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/spf13/cobra"
)

// newCheckCommand checks files as the adapters read them, and drafts against the tables of their protocol.
// See docs/decisions.md, "One table is the check of a message and its JSON Schema".
func newCheckCommand(a *cli.App) *cobra.Command {
	var as string
	c := &cobra.Command{
		Use:   "check FILE|DIR|-...",
		Short: "Check messages and tasks as their readers would; needs no daemon",
		Long: "check looks once at the project of each file and prints what is wrong with the file: the field, the problem and what is\n" +
			"expected. For a folder it prints what is wrong in the whole project. A message that lies in no project, standard input (-),\n" +
			"and any file with --as is checked alone, as strictly as a message that steward writes. It writes nothing. Exit codes:\n" +
			"0 nothing is wrong, 1 something is wrong, 2 wrong usage, or no protocol reads the file.",
		Example: "  steward check .agents/messages/assign-7.json\n  steward check . -o json\n  steward check --as handoffs/message - <draft.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return checkFiles(c.Context(), a, args, as, c.InOrStdin())
		},
	}
	c.Flags().StringVar(&as, "as", "", "check the content as a message of this `NAME`; steward schema lists the names")
	cobra.CheckErr(c.RegisterFlagCompletionFunc("as", completeMessages))
	return c
}

// checked is the output of check: findings and faults, with the paths as the user gave them.
type checked struct {
	Findings []protocol.Finding `json:"findings"`
	Faults   []protocol.Fault   `json:"faults"`
}

func checkFiles(ctx context.Context, a *cli.App, args []string, as string, in io.Reader) error {
	if as != "" && daemon.MessageNamed(as) == nil {
		return noMessage("check: --as", as)
	}
	cfg, _, err := a.Settings()
	if err != nil {
		return err
	}
	all := checked{Findings: []protocol.Finding{}, Faults: []protocol.Fault{}}
	var protocols []string
	for _, arg := range args {
		if arg == "" { // an unset shell variable; filepath.Abs would turn it into the current folder
			return cli.Usagef("check: FILE is empty")
		}
		var ref config.ProjectRef
		file, err := "", errNoProject
		if as == "" && arg != "-" {
			ref, file, err = projectAround(arg, cfg)
		}
		if errors.Is(err, errNoProject) {
			name, err := all.addDraft(arg, as, in)
			if err != nil {
				return err
			}
			protocols = append(protocols, name)
			continue
		}
		if err != nil {
			return err
		}
		snapshots, known, err := observed(ctx, ref, cfg, file)
		if err != nil {
			return err
		}
		before := len(all.Findings) + len(all.Faults)
		for _, s := range snapshots {
			protocols = append(protocols, s.Protocol)
			for _, f := range s.Findings {
				if (file == "" || f.Path == file) && !slices.Contains(all.Findings, f) {
					all.Findings = append(all.Findings, f)
				}
			}
			for _, f := range s.Faults {
				if file == "" || f.Path == file {
					all.Faults = append(all.Faults, f)
				}
			}
		}
		if !known && file != "" && len(all.Findings)+len(all.Faults) == before {
			return cli.Usagef("check: no protocol of the project %s reads %s: it has another name or folder than the protocol's files, or its work ended long ago",
				terminal.OneWord(ref.Path), terminal.OneWord(arg))
		}
	}
	err = cli.Tell(a, all, func(p *terminal.Page, all checked) { renderChecked(p, all, protocols) })
	if err == nil && len(all.Findings)+len(all.Faults) > 0 {
		return cli.Exit(cli.ExitFailed)
	}
	return err
}

// aMoment is longer than the time for which an incomplete file counts as still being written.
const aMoment = 5 * time.Second

// observed scans a project as if a moment had passed since a first scan, and adds the findings on the file's own fields:
// a snapshot reports each flaw once per task, and omits tasks that ended long ago. known is false for a file that no
// protocol reads.
func observed(ctx context.Context, ref config.ProjectRef, cfg config.Config, file string) (list []protocol.Snapshot, known bool, err error) {
	p, now := daemon.OpenProject(ref, cfg, false), time.Now()
	since := now.Add(-cfg.Tasks.History)
	if file != "" {
		since = time.Time{} // check a named file regardless of its age
	}
	for _, name := range p.Detect() {
		s, err := p.Open(name, "")
		if err != nil {
			return nil, false, err
		}
		s.Adapter.Observe(ctx, protocol.ScanOrder{Now: now.Add(-aMoment), Since: since})
		snap := s.Adapter.Observe(ctx, protocol.ScanOrder{Now: now, Since: since})
		if fields, read := s.Adapter.(daemon.Speaker).Reads(file); read {
			snap.Findings, known = append(snap.Findings, fields...), true
		}
		s.Close()
		snap.Name(ref.Name, name, s.Mode == protocol.ModeAct)
		list = append(list, snap)
	}
	return list, known, ctx.Err()
}

func renderChecked(p *terminal.Page, c checked, protocols []string) {
	for _, f := range c.Faults {
		p.Full("fault: %s: %s", terminal.OneWord(f.Path), terminal.OneWord(f.Problem))
	}
	for _, f := range c.Findings {
		p.Full("%s", views.FindingLine(f.Severity, f.Subject.String(), f.Field, f.Path, f.Text))
	}
	if len(c.Findings)+len(c.Faults) == 0 {
		slices.Sort(protocols)
		p.Full("nothing is wrong (checked by: %s)", strings.Join(slices.Compact(protocols), ", "))
	}
}

var errNoProject = errors.New("the file lies in no project that speaks a protocol")

// projectAround finds the project of a file: the nearest parent folder that speaks a protocol. Errors: errNoProject. file is relative to that
// folder, and "" if arg is the folder itself.
func projectAround(arg string, cfg config.Config) (ref config.ProjectRef, file string, err error) {
	path, err := filepath.Abs(arg)
	if _, missing := os.Lstat(path); missing != nil {
		if _, held := os.Lstat(path + ".held"); held == nil {
			path += ".held" // steward holds the task: its sender knows the file without the suffix
		}
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	st, statErr := os.Stat(path)
	if err != nil || statErr != nil {
		return ref, "", cli.Usagef("check: %s: there is no such file", terminal.Clean(arg))
	}
	dir := path
	if !st.IsDir() {
		dir = filepath.Dir(path)
	}
	for {
		ref = config.ProjectRef{Name: filepath.Base(dir), Path: dir}
		if len(daemon.OpenProject(ref, cfg, false).Detect()) > 0 {
			switch {
			case dir == path:
				return ref, "", nil
			case st.IsDir():
				return ref, "", cli.Usagef("check: %s is a folder inside the project %s; use that folder, or a file", terminal.Clean(arg), terminal.Clean(dir))
			}
			file, err = filepath.Rel(dir, path)
			return ref, filepath.ToSlash(file), err
		}
		if dir == filepath.Dir(dir) {
			if !st.IsDir() {
				return ref, "", errNoProject
			}
			return ref, "", cli.Usagef("check: %s lies in no project that speaks a protocol", terminal.Clean(arg))
		}
		dir = filepath.Dir(dir)
	}
}
