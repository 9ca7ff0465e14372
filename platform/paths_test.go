package platform

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPaths(t *testing.T) {
	tests := []struct {
		name string
		in   place
		vars map[string]string
		want Paths
	}{{
		name: "plain user",
		in:   place{goos: "linux", home: "/home/j", uid: 1000},
		want: Paths{"/home/j/.config/steward/config.toml", "/home/j/.local/state/steward", "/home/j/.local/state/steward/steward.sock"},
	}, {
		name: "plain user on a mac",
		in:   place{goos: "darwin", home: "/Users/j", uid: 501},
		want: Paths{"/Users/j/.config/steward/config.toml", "/Users/j/Library/Application Support/steward", "/Users/j/Library/Application Support/steward/steward.sock"},
	}, {
		name: "XDG variables",
		in:   place{goos: "linux", home: "/home/j", uid: 1000},
		vars: map[string]string{"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"},
		want: Paths{"/c/steward/config.toml", "/s/steward", "/r/steward/steward.sock"},
	}, {
		name: "relative XDG variables are ignored",
		in:   place{goos: "linux", home: "/home/j", uid: 1000},
		vars: map[string]string{"XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r"},
		want: Paths{"/home/j/.config/steward/config.toml", "/home/j/.local/state/steward", "/home/j/.local/state/steward/steward.sock"},
	}, {
		name: "runtime folder of ours without its variable",
		in:   place{goos: "linux", home: "/home/k", uid: 1001},
		want: Paths{"/home/k/.config/steward/config.toml", "/home/k/.local/state/steward", "/run/user/1001/steward/steward.sock"},
	}, {
		name: "runtime folder left behind by another user",
		in:   place{goos: "linux", home: "/root", uid: 0},
		vars: map[string]string{"XDG_RUNTIME_DIR": "/run/user/1001"},
		want: Paths{"/root/.config/steward/config.toml", "/root/.local/state/steward", "/root/.local/state/steward/steward.sock"},
	}, {
		name: "systemd",
		in:   place{goos: "linux", home: "/home/j", uid: 1000},
		vars: map[string]string{"STATE_DIRECTORY": "/var/lib/steward:/var/lib/more", "RUNTIME_DIRECTORY": "/run/steward:/run/more", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"},
		want: Paths{"/home/j/.config/steward/config.toml", "/var/lib/steward", "/run/steward/steward.sock"},
	}, {
		name: "overrides win",
		in:   place{goos: "linux", home: "/home/j", uid: 1000},
		vars: map[string]string{"STEWARD_CONFIG": "/x.toml", "STEWARD_STATE_DIR": "/y", "STEWARD_SOCKET": "/z.sock", "STATE_DIRECTORY": "/no", "RUNTIME_DIRECTORY": "/no", "XDG_CONFIG_HOME": "/no"},
		want: Paths{"/x.toml", "/y", "/z.sock"},
	}, {
		name: "no HOME, known to the user database",
		in:   place{goos: "linux", uid: 1000},
		want: Paths{"/home/db/.config/steward/config.toml", "/home/db/.local/state/steward", "/home/db/.local/state/steward/steward.sock"},
	}, {
		name: "root without HOME reads the system's configuration",
		in:   place{goos: "linux", uid: 0},
		want: Paths{"/etc/steward/config.toml", "/var/lib/steward", "/var/lib/steward/steward.sock"},
	}, {
		name: "bare uid in a container",
		in:   place{goos: "linux", uid: 4711},
		want: Paths{"/etc/steward/config.toml", filepath.Join(os.TempDir(), "steward-4711"), filepath.Join(os.TempDir(), "steward-4711", "steward.sock")},
	}, {
		name: "the machine's unit runs as this user",
		in:   place{goos: "linux", home: "/home/m", uid: 1002, file: onlyUnit},
		vars: map[string]string{"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"},
		want: Paths{"/home/m/.config/steward/config.toml", "/var/lib/steward", "/run/steward/steward.sock"},
	}, {
		name: "the machine's unit runs as this user, and the machine has a configuration",
		in:   place{goos: "linux", home: "/home/m", uid: 1002, file: func(string) bool { return true }},
		want: Paths{"/etc/steward/config.toml", "/var/lib/steward", "/run/steward/steward.sock"},
	}, {
		name: "the machine's unit runs as somebody else",
		in:   place{goos: "linux", home: "/home/j", uid: 1000, file: onlyUnit},
		want: Paths{"/home/j/.config/steward/config.toml", "/home/j/.local/state/steward", "/home/j/.local/state/steward/steward.sock"},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.in
			if p.file == nil {
				p.file = func(string) bool { return false }
			}
			p.env = func(k string) string { return tt.vars[k] }
			p.lookup = func(uid int) string { return map[int]string{1000: "/home/db"}[uid] }
			p.owner = func(dir string) (int, bool) {
				uid, ok := map[string]int{"/run/user/1001": 1001, "/var/lib/steward": 1002}[dir]
				return uid, ok
			}
			if got := p.paths(); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func onlyUnit(path string) bool { return path == "/etc/systemd/system/steward.service" }

func TestDefaultPathsWithoutAnyEnvironment(t *testing.T) {
	got := DefaultPaths(func(string) string { return "" }, "", os.Getuid())
	for _, path := range []string{got.Config, got.State, got.Socket} {
		if !filepath.IsAbs(path) {
			t.Errorf("want absolute paths, got %+v", got)
		}
	}
}

func TestCheckSocketPath(t *testing.T) {
	fits := "/" + strings.Repeat("x", MaxSocketPath-1)
	if err := CheckSocketPath(fits); err != nil {
		t.Errorf("%d bytes: %v", len(fits), err)
	}
	if err := CheckSocketPath(fits + "x"); !errors.Is(err, ErrSocketPath) || !strings.Contains(err.Error(), "STEWARD_SOCKET") {
		t.Errorf("%d bytes: got %v, want ErrSocketPath with a hint", len(fits)+1, err)
	}
	if CheckSocketPath("") == nil || CheckSocketPath("/a\x00b") == nil {
		t.Error("an empty path or one with a NUL byte must be refused")
	}
}
