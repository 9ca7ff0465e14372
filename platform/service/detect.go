package service

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	kardianos "github.com/kardianos/service"
)

// Account is whose service it is.
type Account struct {
	User     string
	UID, GID int
	Home     string
}

// HasMachineFolders reports whether a unit of the machine has folders of its own here, rather than its user's.
func HasMachineFolders() bool { return runtime.GOOS == "linux" }

// Detect finds the manager of this machine, for the machine or for the account's own services.
func Detect(system bool, who Account) (Host, error) {
	switch {
	case runtime.GOOS == "darwin":
		return aqua(system, who), nil
	case runtime.GOOS == "linux" && exists("/run/systemd/system"):
		settleUser(who)
		return &systemd{system: system, user: who.User, uid: who.UID, home: who.Home, run: Exec}, nil
	}
	if kardianos.ChosenSystem() == nil {
		return nil, &Lack{"there is no service manager here that steward knows", "start it yourself: steward run --service"}
	}
	if !system {
		return nil, &Lack{fmt.Sprintf("neither systemd nor launchd runs here, and %s has no services of users", kardianos.Platform()),
			"run steward yourself (steward run), or install it for the machine: sudo steward service install --system"}
	}
	return &other{user: who.User}, nil
}

// Renderer shows definitions: launchd's on a Mac, systemd's elsewhere, whether or not that manager runs here.
func Renderer(system bool, who Account) Host {
	if runtime.GOOS == "darwin" {
		return aqua(system, who)
	}
	return &systemd{system: system, user: who.User, uid: who.UID, home: who.Home, run: Exec}
}

// aqua is launchd; a daemon of the machine is a matter of who asks, an agent of whose it is.
func aqua(system bool, who Account) Host {
	if system {
		return newLaunchd(true, os.Geteuid(), who.Home, Exec)
	}
	return newLaunchd(false, who.UID, who.Home, Exec)
}

// settleUser gives systemctl what a login would have set: a shell by `sudo -u` or from a script lacks it.
func settleUser(who Account) {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir == "" || !exists(dir) {
		if dir = filepath.Join("/run/user", strconv.Itoa(who.UID)); exists(dir) {
			_ = os.Setenv("XDG_RUNTIME_DIR", dir)
		}
	}
	if os.Getenv("HOME") == "" {
		_ = os.Setenv("HOME", who.Home)
	}
}
