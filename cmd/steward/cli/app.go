// Package cli is what all commands share: streams, configuration, the daemon's client, pages, errors and exit codes.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// App holds the state shared by all commands: the global flags and the outputs.
type App struct {
	Out, Err   io.Writer
	ConfigFile string
	Socket     string
	Output     string
	NoColor    bool
	Version    string
	warned     bool // the user was warned that the configuration is unusable
}

// Paths returns the paths of this user's steward, with flags and environment applied.
func (a *App) Paths() platform.Paths {
	home, _ := os.UserHomeDir()
	p := platform.DefaultPaths(os.Getenv, home, os.Getuid())
	if a.ConfigFile != "" {
		p.Config = a.ConfigFile
	}
	if a.Socket != "" {
		p.Socket = a.Socket
	}
	return p
}

// Settings reads the configuration. A file named by the user must exist; the default file need not.
func (a *App) Settings() (config.Config, platform.Paths, error) {
	p := a.Paths()
	load := config.LoadOptional
	if a.ConfigFile != "" || os.Getenv("STEWARD_CONFIG") != "" {
		load = config.Load
	}
	cfg, err := load(p.Config, daemon.CheckPrograms)
	if err != nil {
		return cfg, p, err
	}
	if cfg.Human.Name == "" {
		cfg.Human.Name = platform.Person("Jesse") // the person of protocol 000
	}
	home, _ := os.UserHomeDir()
	if dir := cfg.Supervisor.StateDir; dir != "" && os.Getenv("STEWARD_STATE_DIR") == "" {
		if p.State, err = config.Expand(dir, home, "/"); err != nil {
			return cfg, p, fmt.Errorf("supervisor.state_dir: %w", err)
		}
	}
	if path := cfg.Status.Socket; path != "" && a.Socket == "" && os.Getenv("STEWARD_SOCKET") == "" {
		if p.Socket, err = config.Expand(path, home, "/"); err != nil {
			return cfg, p, fmt.Errorf("status.socket: %w", err)
		}
	}
	return cfg, p, nil
}

func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// KnownProjects are the folders that a steward of this user supervises: the folders of the configuration or else the
// current folder, and the folders of the last run, which may have come from its flags.
func (a *App) KnownProjects(cfg config.Config, paths platform.Paths) []config.ProjectRef {
	refs, _, _ := daemon.Projects(cfg, nil, false) // with two rows for one folder, use only the projects of the last run
	return WithLast(refs, cfg, paths)
}

// WithLast adds the projects of the last run.
func WithLast(refs []config.ProjectRef, cfg config.Config, paths platform.Paths) []config.ProjectRef {
	var last status.Document
	if _, err := status.ReadSnapshot(filepath.Join(paths.State, "status.json"), &last); err != nil {
		return refs
	}
	cfg.Projects = nil
	for _, r := range last.Projects {
		if !filepath.IsAbs(r.Path) || slices.ContainsFunc(refs, func(ref config.ProjectRef) bool { return platform.SameFolder(ref.Path, r.Path) }) {
			continue
		}
		row := config.Project{Path: r.Path, Name: r.Name, Mode: map[string]string{}}
		for name, mode := range r.Mode {
			if _, spoken := daemon.AdapterNamed(name); spoken {
				row.Mode[name] = mode
			}
		}
		cfg.Projects = append(cfg.Projects, row)
	}
	more, _ := cfg.ProjectList("", "")
	return append(refs, more...)
}

// ProjectDir makes the folder of --project absolute; "" is the current folder. A path that is not a folder is wrong usage.
func ProjectDir(doing, project string) (string, error) {
	dir, err := filepath.Abs(cmp.Or(project, "."))
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if dir == "/" && cmp.Or(project, ".") == "." {
		return "", Usagef("%s: the current folder is /; name the project with --project DIR", doing)
	}
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !st.IsDir():
		return "", Usagef("%s: --project %s: there is no such folder", doing, terminal.Clean(project))
	case err != nil:
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	return dir, nil
}

// ProcessOf returns the process of --pid. A pid without a living process is wrong usage.
func ProcessOf(doing string, pid int) (protocol.Identity, error) {
	id, err := proc.Inspect(pid)
	switch {
	case errors.Is(err, proc.ErrGone), pid <= 0:
		return protocol.Identity{}, Usagef("%s: --pid %d: there is no such process", doing, pid)
	case err != nil:
		return protocol.Identity{}, fmt.Errorf("%s: --pid %d: %w", doing, pid, err)
	}
	return protocol.Identity(id), nil
}
