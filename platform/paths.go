// Package platform holds operating-system differences that belong to no single part of the supervisor: the locations
// of its files, exclusive lock files, and the Unix socket with its peer check.
package platform

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Paths are the locations of the supervisor's own files.
type Paths struct {
	Config string // the configuration file
	State  string // the folder of incidents, memory and journal
	Socket string // the Unix socket of the running daemon
}

// Locations for the machine-wide unit, which runs as one of the machine's users (Linux).
const (
	systemConfig  = "/etc/steward/config.toml"
	systemState   = "/var/lib/steward"
	systemRuntime = "/run/steward"
	systemUnit    = "/etc/systemd/system/steward.service"
	socketName    = "steward.sock"
)

// IsMachineState reports whether dir is the state folder of the machine-wide unit. See docs/decisions.md, "The machine's unit is found by two files".
func IsMachineState(dir string) bool { return runtime.GOOS == "linux" && dir == systemState }

// MaxSocketPath is the longest usable socket path in bytes: macOS has 104 bytes in sockaddr_un, including the final
// NUL.
const MaxSocketPath = 103

// ErrSocketPath means that a socket path is too long for the kernel to bind.
var ErrSocketPath = errors.New("socket path too long")

// DefaultPaths returns the paths for one user. In order of precedence: STEWARD_CONFIG, STEWARD_STATE_DIR and
// STEWARD_SOCKET; systemd's STATE_DIRECTORY and RUNTIME_DIRECTORY (the first entry of a list); the locations of the
// machine-wide unit if it runs as this user; the XDG variables; the platform's convention. An empty home is looked up
// by uid. DefaultPaths creates nothing; it reads only the user database and the metadata of a few files.
func DefaultPaths(env func(string) string, home string, uid int) Paths {
	return place{goos: runtime.GOOS, env: env, home: home, uid: uid, lookup: homeOf, owner: ownerOf, file: isFile}.paths()
}

// MachinePaths returns the paths of the machine-wide unit that runs as the user with this home (Linux).
func MachinePaths(home string) Paths {
	p := Paths{Config: systemConfig, State: systemState, Socket: filepath.Join(systemRuntime, socketName)}
	if !isFile(systemConfig) {
		p.Config = filepath.Join(home, ".config", "steward", "config.toml")
	}
	return p
}

// place holds all inputs of the path selection.
type place struct {
	goos   string
	env    func(string) string
	home   string
	uid    int
	lookup func(uid int) string                // "" if the user database has no entry
	owner  func(dir string) (uid int, ok bool) // ok is false if the folder does not exist
	file   func(path string) bool              // reports whether a regular file exists at path
}

func (p place) paths() Paths {
	atHome := p.home != ""
	if !atHome {
		p.home = p.lookup(p.uid)
	}
	state := p.state()
	return Paths{Config: p.config(atHome), State: state, Socket: p.socket(state)}
}

func (p place) config(atHome bool) string {
	if file := p.env("STEWARD_CONFIG"); file != "" {
		return file
	}
	tail := filepath.Join("steward", "config.toml")
	switch {
	case p.isMachine() && p.file(systemConfig):
		return systemConfig
	case p.absolute("XDG_CONFIG_HOME") != "":
		return filepath.Join(p.absolute("XDG_CONFIG_HOME"), tail)
	case p.uid == 0 && !atHome, p.home == "":
		return systemConfig
	}
	return filepath.Join(p.home, ".config", tail)
}

func (p place) state() string {
	if dir := cmp.Or(p.env("STEWARD_STATE_DIR"), p.first("STATE_DIRECTORY")); dir != "" {
		return dir
	}
	switch {
	case p.isMachine():
		return systemState
	case p.absolute("XDG_STATE_HOME") != "":
		return filepath.Join(p.absolute("XDG_STATE_HOME"), "steward")
	case p.home == "" && p.uid == 0:
		return systemState
	case p.home == "":
		// A bare uid in a container. Other users can guess this name: PrivateDir must accept the folder before it is
		// used.
		return filepath.Join(os.TempDir(), "steward-"+strconv.Itoa(p.uid))
	case p.goos == "darwin":
		return filepath.Join(p.home, "Library", "Application Support", "steward")
	}
	return filepath.Join(p.home, ".local", "state", "steward")
}

func (p place) socket(state string) string {
	if file := p.env("STEWARD_SOCKET"); file != "" {
		return file
	}
	if dir := p.first("RUNTIME_DIRECTORY"); dir != "" {
		return filepath.Join(dir, socketName)
	}
	if p.isMachine() && state == systemState {
		return filepath.Join(systemRuntime, socketName)
	}
	if dir := p.runtimeDir(); dir != "" {
		return filepath.Join(dir, "steward", socketName)
	}
	return filepath.Join(state, socketName)
}

// isMachine reports whether the machine-wide unit runs as this user. Root never counts: it would create files that
// the user's steward cannot write.
func (p place) isMachine() bool {
	if p.goos != "linux" || p.uid == 0 || !p.file(systemUnit) {
		return false
	}
	uid, ok := p.owner(systemState)
	return ok && uid == p.uid
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// runtimeDir returns "" if this user has no runtime folder. `su` and `sudo -E` keep the previous user's
// XDG_RUNTIME_DIR: root would create a folder in it that the user could not enter.
func (p place) runtimeDir() string {
	if dir := p.absolute("XDG_RUNTIME_DIR"); dir != "" {
		if uid, ok := p.owner(dir); !ok || uid == p.uid {
			return dir
		}
	}
	if p.goos != "linux" {
		return ""
	}
	dir := "/run/user/" + strconv.Itoa(p.uid)
	if uid, ok := p.owner(dir); ok && uid == p.uid {
		return dir
	}
	return ""
}

// absolute reads a variable that the XDG specification requires to be absolute; other values are ignored.
func (p place) absolute(name string) string {
	if dir := p.env(name); filepath.IsAbs(dir) {
		return dir
	}
	return ""
}

// first returns the first entry of a folder list that systemd sets.
func (p place) first(name string) string {
	dir, _, _ := strings.Cut(p.env(name), ":")
	if !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

func homeOf(uid int) string {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// CheckSocketPath rejects a path that a supported kernel cannot bind; the error tells the user what to do.
func CheckSocketPath(path string) error {
	switch {
	case path == "":
		return errors.New("socket path is empty; set STEWARD_SOCKET")
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("socket path %q holds a NUL byte", path)
	case len(path) > MaxSocketPath:
		return fmt.Errorf("%w: %d bytes, at most %d are possible; set STEWARD_SOCKET to a shorter one: %s",
			ErrSocketPath, len(path), MaxSocketPath, path)
	}
	return nil
}
