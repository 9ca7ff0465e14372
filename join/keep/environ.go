package keep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/platform/proc"
)

// The variables that identify an agent's processes, also to themselves.
const (
	envHouse   = "STEWARD_KEEPER" // the same for all agents of one state folder
	envKept    = "STEWARD_KEPT"   // the same for all lives of one agent
	envAgent   = "STEWARD_AGENT"
	envProject = "STEWARD_PROJECT"
)

// private are the variables for the daemon's communication with the service manager. An agent that inherited them would
// act as the daemon.
var private = []string{"NOTIFY_SOCKET", "JOURNAL_STREAM", "INVOCATION_ID", "SYSTEMD_EXEC_PID", "STEWARD_SERVICE", "STEWARD_TRIAL"}

// marks identify the life that a process belongs to. A daemon started by hand from within an agent has that agent's
// marks.
var marks = []string{proc.MarkName, envKept, envHouse}

// situation describes the agent, task or lock in which the daemon was started by hand. It does not apply to the agents
// that the daemon starts.
var situation = []string{envAgent, envProject, "STEWARD_TASK_ID", "STEWARD_TASK_TYPE", "STEWARD_REQUEST", "STEWARD_DRY_RUN", "STEWARD_LOCK", "STEWARD_LOCK_FENCE"}

// privatePrefixes are the prefixes of further private variables.
var privatePrefixes = []string{"WATCHDOG_", "LISTEN_", "MEMORY_PRESSURE_"}

// Unmarked returns an environment without the marks of a kept agent's life, so that a process started with it does not
// belong to that life.
func Unmarked(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(marks, name)
	})
}

// environ is an agent's environment except for the life's mark: the daemon's own, without private and situation, then
// the row's, then steward's.
func environ(own []string, row Row, mark, house string) []string {
	var env []string
	set := func(entry string) {
		name, _, _ := strings.Cut(entry, "=")
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		env = append(env, entry)
	}
	for _, entry := range Unmarked(own) {
		name, _, _ := strings.Cut(entry, "=")
		hasPrefix := func(p string) bool { return strings.HasPrefix(name, p) }
		if !slices.Contains(private, name) && !slices.Contains(situation, name) && !slices.ContainsFunc(privatePrefixes, hasPrefix) {
			env = append(env, entry)
		}
	}
	for _, entry := range row.Environment {
		set(entry)
	}
	for _, entry := range []string{"PWD=" + row.folder(), envAgent + "=" + row.Name, envProject + "=" + row.Dir, envKept + "=" + mark, envHouse + "=" + house} {
		set(entry)
	}
	return env
}

// fault is a problem of a program. Its text already names the kind.
type fault struct {
	text string
	kind error
}

func (f fault) Error() string { return f.text }
func (f fault) Unwrap() error { return f.kind }

// Find returns the path of a program: the name itself if it contains a folder, else the file found in env's PATH. dir
// is the folder where it will be started. The error is worded for the operator, and wraps fs.ErrNotExist or
// fs.ErrPermission.
func Find(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", fault{"no command is named", fs.ErrNotExist}
	}
	if strings.ContainsRune(name, os.PathSeparator) {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, runnable(path)
	}
	var refused error
	for _, folder := range filepath.SplitList(lookup(env, "PATH")) {
		if !filepath.IsAbs(folder) {
			continue // it would depend on the current folder
		}
		path := filepath.Join(folder, name)
		err := runnable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, fs.ErrPermission) && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", fault{name + ": not found in the PATH", fs.ErrNotExist}
}

func lookup(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

func runnable(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault{path + ": there is no such program", fs.ErrNotExist}
	case err != nil:
		return err
	case st.IsDir():
		return fault{path + ": it is a folder", fs.ErrPermission}
	}
	return mayRun(path, st)
}
