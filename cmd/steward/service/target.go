package service

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

// Target select the service: the user's own, or the machine's service that runs as a user.
type Target struct {
	System  bool
	User    string
	linger  bool
	purge   bool
	Binary  string
	project []string
}

func targetFlags(a *cli.App, c *cobra.Command, o *Target) *cobra.Command {
	c.Flags().BoolVar(&o.System, "system", false, "the machine's unit, which needs root to change")
	c.Flags().StringVar(&o.User, "user", "", "with --system: the account `NAME` that it runs as (default: who asks, through sudo)")
	return c
}

// isUnclaimed reports whether root asks about a machine's unit that was never installed.
func (o Target) isUnclaimed() bool {
	return o.System && o.User == "" && os.Getuid() == 0 && service.MachineUser() == ""
}

// Account returns the account of the selected service.
func (o Target) Account() (service.Account, error) {
	me, sudoer := os.Getuid(), os.Getenv("SUDO_USER")
	name := o.User
	switch {
	case o.User != "" && !o.System:
		return service.Account{}, cli.Usagef("--user goes with --system")
	case o.User != "":
	case o.System && me == 0:
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
	if o.System && uid == 0 {
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

// PathsOf returns the paths of the selected service.
func PathsOf(a *cli.App, o Target, who service.Account) platform.Paths {
	var p platform.Paths
	switch {
	case o.System && service.HasMachineFolders():
		p = platform.MachinePaths(who.Home)
	case who.UID == os.Getuid():
		return a.Paths()
	default:
		p = platform.DefaultPaths(func(string) string { return "" }, who.Home, who.UID)
	}
	if a.ConfigFile != "" {
		p.Config = a.ConfigFile
	}
	if a.Socket != "" {
		p.Socket = a.Socket
	}
	return p
}

// SpecOf returns the desired service definition.
func SpecOf(a *cli.App, o Target, who service.Account, paths platform.Paths) (service.Spec, error) {
	s := service.Spec{Binary: o.Binary, System: o.System, User: who.User, UID: who.UID, Home: who.Home}
	if s.Binary == "" {
		var err error
		if s.Binary, err = OwnBinary(); err != nil {
			return s, err
		}
	}
	for _, given := range []struct{ flag, path string }{
		{"--config", cmp.Or(a.ConfigFile, os.Getenv("STEWARD_CONFIG"))}, {"--socket", cmp.Or(a.Socket, os.Getenv("STEWARD_SOCKET"))},
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
	if !o.System && who.UID == os.Getuid() {
		for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
			if value := os.Getenv(name); filepath.IsAbs(value) {
				s.Env = append(s.Env, name+"="+value)
			}
		}
	}
	if dir := os.Getenv("STEWARD_STATE_DIR"); dir != "" {
		return s, refuse("STEWARD_STATE_DIR is set, which the service would not see; set state_dir under [supervisor] in %s, and unset it", paths.Config)
	}
	cfg, err := configOf(a, paths)
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

func configOf(a *cli.App, paths platform.Paths) (config.Config, error) {
	if a.ConfigFile != "" || os.Getenv("STEWARD_CONFIG") != "" {
		return config.Load(paths.Config, daemon.CheckPrograms)
	}
	return config.LoadOptional(paths.Config, daemon.CheckPrograms)
}

// OwnBinary is the path of this program that survives an upgrade: a link in the PATH rather than the folder of one
// version.
func OwnBinary() (string, error) {
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

// find returns the service manager, the account and the paths that a service command needs.
func find(a *cli.App, o Target) (service.Host, service.Account, platform.Paths, error) {
	who, err := o.Account()
	if err != nil {
		return nil, who, platform.Paths{}, err
	}
	m, err := service.Detect(o.System, who)
	if err != nil {
		return nil, who, platform.Paths{}, wrap(err)
	}
	return m, who, PathsOf(a, o, who), nil
}

// wrap maps a missing prerequisite to the exit code for a forbidden operation.
func wrap(err error) error {
	var l *service.Lack
	if errors.As(err, &l) || errors.Is(err, service.ErrNotInstalled) {
		return terminal.Report(supervisor.ErrRefused, "service: %v", err)
	}
	if err != nil {
		return fmt.Errorf("service: %w", err)
	}
	return nil
}
