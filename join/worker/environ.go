package worker

import (
	"slices"
	"strings"
)

// usualPath is the PATH for commands of a worker that was started without one.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// ours are the variables through which a steward inside a task finds the same configuration and daemon.
var ours = []string{"STEWARD_CONFIG", "STEWARD_SOCKET", "STEWARD_STATE_DIR"}

// temporaries are the variables that name the temporary folder: each run has its own folder.
var temporaries = []string{"TMPDIR", "TMP", "TEMP"}

// neverOurs reports variables that a command must not inherit. Some would let it talk to the service manager as the
// worker.
func neverOurs(name string) bool {
	return name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "WATCHDOG_") || strings.HasPrefix(name, "LISTEN_") || slices.Contains(temporaries, name)
}

// leadsOut reports variables through which a confined command would find the services of the user's session. Those
// write files and start programs on request, unconfined.
func leadsOut(name string) bool {
	return name == "XDG_RUNTIME_DIR" || name == "DBUS_SESSION_BUS_ADDRESS"
}

// environment is the environment of a command: the worker's own variables that are allowed by name (a trailing *
// matches anything), and the variables of the task.
func environment(own, allowed, task []string, confined bool) []string {
	var list []string
	path := false
	for _, entry := range own {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || neverOurs(name) || confined && leadsOut(name) || !slices.Contains(ours, name) && (strings.HasPrefix(name, "STEWARD_") || !allows(allowed, name)) {
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
