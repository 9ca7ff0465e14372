package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/cmd/steward/doctor"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func newInstallCommand(a *cli.App) *cobra.Command {
	var o Target
	c := &cobra.Command{
		Use:   "install",
		Short: "Install, or upgrade in place, and start the service",
		Long: "install writes the service's definition, verifies and enables it, and starts steward. A service that is there already is\n" +
			"left alone when it is the same and runs this very program; otherwise it is replaced, and what steward holds stays held\n" +
			"meanwhile. If anything fails, what was there before is put back.",
		Example: "  steward service install --project ~/LivHana-SoT\n  sudo steward service install --system",
		RunE:    func(c *cobra.Command, _ []string) error { return install(c.Context(), a, o) },
	}
	c.Flags().BoolVar(&o.linger, "linger", false, "let your services run while you are not logged in (systemd)")
	c.Flags().StringArrayVar(&o.project, "project", nil, "add this `DIR` to the configuration first (may be repeated)")
	return targetFlags(a, c, &o)
}

// installed is the output of install.
type installed struct {
	service.Outcome
	Service service.Status `json:"service"`
}

func install(ctx context.Context, a *cli.App, o Target) error {
	m, who, paths, err := find(a, o)
	if err != nil {
		return err
	}
	if err := onlyOne(ctx, a, o, who); err != nil {
		return err
	}
	undo := rememberFile(paths.Config)
	added, err := addProjects(ctx, paths, o.project, who)
	if err != nil {
		return err
	}
	spec, err := SpecOf(a, o, who, paths)
	if err != nil {
		return err
	}
	if err := makeLogDir(spec); err != nil {
		return err
	}
	if err := executable(ctx, spec, who); err != nil {
		return err
	}
	forgive(paths.State, who)
	before, _ := m.Status(ctx)
	outcome, err := m.Install(ctx, spec, func() { announceRestart(a, paths.State, who) })
	if err != nil {
		if len(added) > 0 {
			err = errors.Join(err, undo())
		}
		return wrap(fmt.Errorf("%w; what was there before is back", err))
	}
	outcome.Wrote = append(outcome.Wrote, added...)
	if len(added) > 0 && !outcome.Changed {
		outcome.Changed = true
		_ = status.NewClient(paths.Socket).Post(ctx, "/v1/reload", nil, nil)
	}
	outcome.Notes = append(outcome.Notes, enableLinger(ctx, a, o, who)...)
	if strings.HasPrefix(spec.Binary, os.TempDir()+"/") {
		outcome.Notes = append(outcome.Notes, "the program lies in "+filepath.Dir(spec.Binary)+", which is cleared now and then; put it into a folder that stays, and install again")
	}
	if len(spec.Projects) == 0 {
		outcome.Notes = append(outcome.Notes, "no project is configured yet: steward service install --project DIR")
	}
	st, err := m.Status(ctx)
	if err != nil {
		return wrap(err)
	}
	return cli.Tell(a, installed{outcome, st}, func(p *terminal.Page, _ installed) {
		renderOutcome(p, outcome, done(before, a.Version), "already installed; nothing was changed")
		p.Line("%s", doctor.ServiceWords(st))
	})
}

// done describes whether install upgraded an existing service.
func done(before service.Status, version string) string {
	// A package ships the definition of every user's service; a service that is neither enabled nor running was not in use.
	if before.Installed && (before.Enabled || before.Running()) {
		return "upgraded to " + version
	}
	return "installed"
}

// executable rejects a program that the account cannot execute although root can.
func executable(ctx context.Context, spec service.Spec, who service.Account) error {
	if os.Getuid() != 0 || who.UID == 0 {
		return nil
	}
	c := exec.CommandContext(ctx, spec.Binary, "version")
	c.Dir = "/"
	becomes(c, who)
	if out, err := c.CombinedOutput(); err != nil {
		return refuse("%s cannot start %s (%v%s); put it where everybody may read it, such as /usr/local/bin", who.User, spec.Binary, err, terminal.OneWord(string(out)))
	}
	return nil
}

func renderOutcome(p *terminal.Page, o service.Outcome, done, nothing string) {
	switch {
	case !o.Changed && o.Unit == "":
		p.Line("%s", nothing)
	case !o.Changed:
		p.Line("%s (%s)", nothing, terminal.Clean(o.Unit))
	case o.Unit == "":
		p.Line("%s", done)
	default:
		p.Line("%s: %s", done, terminal.Clean(o.Unit))
	}
	for _, path := range o.Wrote {
		p.Line("  wrote %s", terminal.Clean(path))
	}
	for _, path := range o.Removed {
		p.Line("  removed %s", terminal.Clean(path))
	}
	for _, note := range o.Notes {
		p.Line("  note: %s", terminal.Clean(note))
	}
}

// onlyOne rejects a second service for the same account: two stewards would supervise the same projects.
func onlyOne(ctx context.Context, a *cli.App, o Target, who service.Account) error {
	if !service.HasMachineFolders() {
		return nil
	}
	if o.System {
		own := filepath.Join(who.Home, ".config", "systemd", "user", "default.target.wants", "steward.service")
		if _, err := os.Lstat(own); err == nil {
			return refuse("%s has steward as a service already; as that user, first: steward service uninstall", who.User)
		}
		return nil
	}
	m, err := service.Detect(true, who)
	if err != nil {
		return nil
	}
	if st, err := m.Status(ctx); err == nil && st.Installed && platform.DefaultPaths(os.Getenv, who.Home, who.UID).State == platform.MachinePaths(who.Home).State {
		return refuse("the machine's unit runs as %s already; first: sudo steward service uninstall --system", who.User)
	}
	return nil
}

// enableLinger lets the user's services run without a session, or notes that they do not.
func enableLinger(ctx context.Context, a *cli.App, o Target, who service.Account) []string {
	lingers, known := service.Lingers(who)
	switch {
	case o.System || !known || lingers:
		return nil
	case o.linger:
		if _, err := service.Exec(ctx, "loginctl", "enable-linger", who.User); err != nil {
			return []string{"lingering could not be enabled: " + err.Error()}
		}
		return []string{"your services run now while you are not logged in, too"}
	}
	return []string{"it stops when you log out; to keep it: steward service install --linger"}
}

// rememberFile returns a function that restores a file's present content. It leaves another user's file as it is.
func rememberFile(path string) (undo func() error) {
	old, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	return func() error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return os.Remove(path)
		case err != nil || platform.OwnerOf(info) != os.Getuid():
			return nil
		}
		return service.WriteFile(path, string(old))
	}
}

// makeLogDir creates the log folder for launchd, which does not create it itself.
func makeLogDir(spec service.Spec) error {
	if service.HasMachineFolders() || spec.System {
		return nil
	}
	return platform.PrivateDir(spec.LogDir)
}

// forgive resets the count of failed starts: the user asked for this start.
func forgive(state string, who service.Account) {
	t := daemon.ReadRun(state)
	if t.FailedStarts(time.Now(), daemon.HasCrashed(state)) == 0 {
		return
	}
	t.Failed = -1 // FailedStarts adds the run that this record describes
	if data, err := json.MarshalIndent(t, "", "  "); err == nil {
		_ = writeFor(filepath.Join(state, daemon.RunFile), data, who)
	}
}

// announceRestart writes the note that keeps the holds across a restart.
func announceRestart(a *cli.App, state string, who service.Account) {
	if err := leaveNote(state, time.Now(), a.Version, who); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(a.Err, "steward: what is held is released for a moment:", err)
	}
}

// writeFor writes a file that the account must be able to read and replace. The folder belongs to the account, and root
// may be the caller: so writeFor follows no link in it, and replaces an existing file by rename.
func writeFor(path string, data []byte, who service.Account) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".steward-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if os.Getuid() == 0 && who.UID != 0 {
		err = errors.Join(err, f.Chown(who.UID, who.GID))
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func newUnitCommand(a *cli.App) *cobra.Command {
	var o Target
	c := &cobra.Command{
		Use:     "unit",
		Short:   "Print the definition that install would write",
		Long:    "unit prints the systemd unit (or launchd plist) as install would write it, for those who install it by other means.",
		Example: "  steward service unit --binary /usr/bin/steward\n  steward service unit --system --user jesse",
		RunE: func(*cobra.Command, []string) error {
			files, err := renderUnit(a, o)
			if err != nil {
				return err
			}
			return cli.Tell(a, files, func(p *terminal.Page, files []service.File) {
				for i, f := range files {
					if i > 0 {
						p.WriteByte('\n')
					}
					if len(files) > 1 {
						p.Full("# %s", f.Path)
					}
					p.WriteString(f.Text)
				}
			})
		},
	}
	c.Flags().StringVar(&o.Binary, "binary", "", "the `PATH` of the program that it is to start (default: this one)")
	return targetFlags(a, c, &o)
}

func renderUnit(a *cli.App, o Target) ([]service.File, error) {
	who, err := o.Account()
	if err != nil {
		return nil, err
	}
	spec, err := SpecOf(a, o, who, PathsOf(a, o, who))
	if err != nil {
		return nil, err
	}
	files, err := service.Renderer(o.System, who).Render(spec)
	return files, wrap(err)
}

// leaveNote announces a restart to the running steward.
func leaveNote(state string, now time.Time, version string, who service.Account) error {
	data, err := daemon.HandOverNote(now, version)
	if err != nil {
		return err
	}
	return writeFor(filepath.Join(state, daemon.HandOverFile), data, who)
}
