package worker

import (
	"slices"
	"strings"
)

// usualPath serves a worker that was started without a PATH.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// ours are the variables by which a steward inside a task finds the same configuration and daemon.
var ours = []string{"STEWARD_CONFIG", "STEWARD_SOCKET", "STEWARD_STATE_DIR"}

// temporaries are the variables for the folder of temporary files: each run has its own.
var temporaries = []string{"TMPDIR", "TMP", "TEMP"}

// neverOurs would let a command speak to the service manager in our name.
func neverOurs(name string) bool {
	return name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "WATCHDOG_") || strings.HasPrefix(name, "LISTEN_") || slices.Contains(temporaries, name)
}

// leadsOut would show a confined command the way to the services of the user's session, which write and start what they
// are asked to, unconfined.
func leadsOut(name string) bool {
	return name == "XDG_RUNTIME_DIR" || name == "DBUS_SESSION_BUS_ADDRESS"
}

// environment is what a command sees: of the worker's own variables those that are allowed by name (* at the end stands
// for anything), and what is said of the task.
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
