package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/cmd/steward/doctor"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// serviceOptions select the service: the user's own, or the machine's service that runs as a user.
type serviceOptions struct {
	system  bool
	user    string
	linger  bool
	purge   bool
	binary  string
	project []string
}

func (a *app) serviceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "service",
		Short: "Install steward as a background service, and look after it",
		Long: "service installs steward with the machine's service manager (systemd, launchd, or what else there is). By default it is\n" +
			"your own service, which reaches your desktop and needs no root; --system installs a unit of the machine that is there\n" +
			"before anybody logs in, and runs as you, never as root.",
	}
	c.AddCommand(a.installCommand(), a.uninstallCommand(), a.unitCommand(),
		a.turnCommand("start", "Start the service, also after it was given up"),
		a.turnCommand("stop", "Stop the service; what steward holds is released"),
		a.turnCommand("restart", "Restart the service; what steward holds stays held"),
		a.serviceStatusCommand(), a.endedCommand(), a.failedCommand(), a.addCommand())
	return c
}

func (a *app) serviceFlags(c *cobra.Command, o *serviceOptions) *cobra.Command {
	c.Flags().BoolVar(&o.system, "system", false, "the machine's unit, which needs root to change")
	c.Flags().StringVar(&o.user, "user", "", "with --system: the account `NAME` that it runs as (default: who asks, through sudo)")
	return c
}

// nobody reports whether root asks about a machine's unit that was never installed.
func (o serviceOptions) nobody() bool {
	return o.system && o.user == "" && os.Getuid() == 0 && service.MachineUser() == ""
}

// account returns the account of the selected service.
func (o serviceOptions) account() (service.Account, error) {
	me, sudoer := os.Getuid(), os.Getenv("SUDO_USER")
	name := o.user
	switch {
	case o.user != "" && !o.system:
		return service.Account{}, usageError{errors.New("--user goes with --system")}
	case o.user != "":
	case o.system && me == 0:
		if name = cmp.Or(service.MachineUser(), sudoer); name == "" || name == "root" {
			return service.Account{}, refuse("the machine's unit runs as a user, never as root; name one: --system --user NAME")
		}
	case me == 0 && sudoer != "" && sudoer != "root":
		return service.Account{}, refuse("this would be root's own service; leave out sudo, or ask for the machine's unit: sudo steward service … --system")
	}
	u, err := lookUpAccount(name)
	if err != nil {
		return service.Account{}, fmt.Errorf("find the account: %w", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if o.system && uid == 0 {
		return service.Account{}, refuse("the machine's unit runs as a user, never as root; name another: --user NAME")
	}
	return service.Account{User: u.Username, UID: uid, GID: gid, Home: cmp.Or(ownHome(uid), u.HomeDir)}, nil
}

func lookUpAccount(name string) (*user.User, error) {
	if name == "" {
		return user.LookupId(strconv.Itoa(os.Getuid()))
	}
	return user.Lookup(name)
}

// ownHome returns $HOME, but only for the caller's own account: the user database may be less accurate.
func ownHome(uid int) string {
	if uid != os.Getuid() {
		return ""
	}
	return os.Getenv("HOME")
}

// refuse returns an error with the exit code for a forbidden operation.
func refuse(format string, args ...any) error {
	return terminal.Report(supervisor.ErrRefused, "service: "+format, args...)
}

// placeOf returns the paths of the selected service.
func (a *app) placeOf(o serviceOptions, who service.Account) platform.Paths {
	var p platform.Paths
	switch {
	case o.system && service.HasMachineFolders():
		p = platform.MachinePaths(who.Home)
	case who.UID == os.Getuid():
		return a.place()
	default:
		p = platform.DefaultPaths(func(string) string { return "" }, who.Home, who.UID)
	}
	if a.configFile != "" {
		p.Config = a.configFile
	}
	if a.socket != "" {
		p.Socket = a.socket
	}
	return p
}

// spec returns the desired service definition.
func (a *app) spec(o serviceOptions, who service.Account, paths platform.Paths) (service.Spec, error) {
	s := service.Spec{Binary: o.binary, System: o.system, User: who.User, UID: who.UID, Home: who.Home}
	if s.Binary == "" {
		var err error
		if s.Binary, err = ownBinary(); err != nil {
			return s, err
		}
	}
	for _, given := range []struct{ flag, path string }{
		{"--config", cmp.Or(a.configFile, os.Getenv("STEWARD_CONFIG"))}, {"--socket", cmp.Or(a.socket, os.Getenv("STEWARD_SOCKET"))},
	} {
		if given.path == "" {
			continue
		}
		full, err := filepath.Abs(given.path)
		if err != nil {
			return s, fmt.Errorf("service: %w", err)
		}
		s.Args = append(s.Args, given.flag, full)
	}
	if !o.system && who.UID == os.Getuid() {
		for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
			if value := os.Getenv(name); filepath.IsAbs(value) {
				s.Env = append(s.Env, name+"="+value)
			}
		}
	}
	if dir := os.Getenv("STEWARD_STATE_DIR"); dir != "" {
		return s, refuse("STEWARD_STATE_DIR is set, which the service would not see; set state_dir under [supervisor] in %s, and unset it", paths.Config)
	}
	cfg, err := a.configOf(paths)
	if err != nil {
		return s, err
	}
	refs, err := cfg.ProjectList(who.Home, who.Home)
	if err != nil {
		return s, err
	}
	s.Projects = daemon.PathsOf(refs)
	if dir := cfg.Supervisor.StateDir; dir != "" {
		if dir, err = config.Expand(dir, who.Home, "/"); err != nil {
			return s, fmt.Errorf("supervisor.state_dir: %w", err)
		}
		s.Projects = append(s.Projects, dir)
	}
	s.LogDir = paths.State
	return s, nil
}

func (a *app) configOf(paths platform.Paths) (config.Config, error) {
	if a.configFile != "" || os.Getenv("STEWARD_CONFIG") != "" {
		return config.Load(paths.Config, daemon.CheckPrograms)
	}
	return config.LoadOptional(paths.Config, daemon.CheckPrograms)
}

// ownBinary is the path of this program that survives an upgrade: a link in the PATH rather than the folder of one
// version.
func ownBinary() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("service: find this program: %w", err)
	}
	found, err := exec.LookPath("steward")
	if err != nil || !filepath.IsAbs(found) {
		return self, nil
	}
	mine, err1 := os.Stat(self)
	its, err2 := os.Stat(found)
	if err1 == nil && err2 == nil && os.SameFile(mine, its) {
		return found, nil
	}
	return self, nil
}

// meant returns the service manager, the account and the paths that a service command needs.
func (a *app) meant(o serviceOptions) (service.Host, service.Account, platform.Paths, error) {
	who, err := o.account()
	if err != nil {
		return nil, who, platform.Paths{}, err
	}
	m, err := service.Detect(o.system, who)
	if err != nil {
		return nil, who, platform.Paths{}, lacking(err)
	}
	return m, who, a.placeOf(o, who), nil
}

// lacking maps a missing prerequisite to the exit code for a forbidden operation.
func lacking(err error) error {
	var l *service.Lack
	if errors.As(err, &l) || errors.Is(err, service.ErrNotInstalled) {
		return terminal.Report(supervisor.ErrRefused, "service: %v", err)
	}
	if err != nil {
		return fmt.Errorf("service: %w", err)
	}
	return nil
}

func (a *app) turnCommand(verb, short string) *cobra.Command {
	var o serviceOptions
	c := &cobra.Command{Use: verb, Short: short, Example: "  steward service " + verb, RunE: func(c *cobra.Command, _ []string) error {
		return a.turn(c.Context(), verb, o)
	}}
	return a.serviceFlags(c, &o)
}

func (a *app) turn(ctx context.Context, verb string, o serviceOptions) error {
	m, who, paths, err := a.meant(o)
	if err != nil {
		return err
	}
	if _, err := a.configOf(paths); err != nil && verb != "stop" {
		return terminal.Report(supervisor.ErrRefused, "service %s: the configuration is refused, so steward would not come up: %v", verb, err)
	}
	switch verb {
	case "start":
		forgive(paths.State, who)
		err = m.Start(ctx)
	case "stop":
		if err = m.Stop(ctx); err == nil {
			a.freeAs(ctx, who, paths) // the daemon may have been dead already
		}
	case "restart":
		forgive(paths.State, who)
		a.announceRestart(paths.State, who)
		err = m.Restart(ctx)
	}
	if err != nil {
		return lacking(err)
	}
	st, err := m.Status(ctx)
	if err != nil {
		return lacking(err)
	}
	if a.output == "json" {
		return a.print(st)
	}
	return a.write(fmt.Sprintf("%s: %s\n", verb, doctor.ServiceWords(st)))
}
