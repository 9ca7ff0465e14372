package service

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	kardianos "github.com/kardianos/service"
)

// Account is the account that owns the service.
type Account struct {
	User     string
	UID, GID int
	Home     string
}

// HasMachineFolders reports whether a machine-wide unit on this system has its own folders instead of its user's.
func HasMachineFolders() bool { return runtime.GOOS == "linux" }

// Detect returns the service manager of this machine, for a machine-wide service or for the account's own services.
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

// Renderer returns a Host that can render definitions, launchd's on macOS and systemd's elsewhere, even if that
// manager does not run here.
func Renderer(system bool, who Account) Host {
	if runtime.GOOS == "darwin" {
		return aqua(system, who)
	}
	return &systemd{system: system, user: who.User, uid: who.UID, home: who.Home, run: Exec}
}

// aqua returns launchd as Host. A machine-wide daemon requires the caller's uid, an agent the uid of its account.
func aqua(system bool, who Account) Host {
	if system {
		return newLaunchd(true, os.Geteuid(), who.Home, Exec)
	}
	return newLaunchd(false, who.UID, who.Home, Exec)
}

// settleUser sets the variables that systemctl needs and a login would have set: a shell started by `sudo -u` or a
// script lacks them.
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
