package worker

import (
	"slices"
	"strings"

	"github.com/livhana/steward/join/run"
)

// usualPath is the PATH for commands of a worker that was started without one.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// stewardVariables are the variables through which a steward inside a task finds the same configuration and daemon.
var stewardVariables = []string{"STEWARD_CONFIG", "STEWARD_SOCKET", "STEWARD_STATE_DIR"}

// tempVariables are the variables that name the temporary folder: each run has its own folder.
var tempVariables = []string{"TMPDIR", "TMP", "TEMP"}

// reachesSession reports variables through which a confined command would find the services of the user's session. Those
// write files and start programs on request, unconfined.
func reachesSession(name string) bool {
	return name == "XDG_RUNTIME_DIR" || name == "DBUS_SESSION_BUS_ADDRESS"
}

// environment is the environment of a command: the worker's own variables that are allowed by name (a trailing *
// matches anything), and the variables of the task.
func environment(own, allowed, task []string, confined bool) []string {
	var list []string
	path := false
	for _, entry := range own {
		name, _, ok := strings.Cut(entry, "=")
		passes := slices.Contains(stewardVariables, name) || !strings.HasPrefix(name, "STEWARD_") && allows(allowed, name)
		if !ok || name == "" || run.IsManagerVariable(name) || slices.Contains(tempVariables, name) || confined && reachesSession(name) || !passes {
			continue
		}
		path = path || name == "PATH"
		list = append(list, entry)
	}
	if !path {
		list = append(list, "PATH="+usualPath)
	}
	return append(list, task...)
}

func allows(allowed []string, name string) bool {
	return slices.ContainsFunc(allowed, func(pattern string) bool {
		if prefix, open := strings.CutSuffix(pattern, "*"); open {
			return strings.HasPrefix(name, prefix)
		}
		return name == pattern
	})
}
