package run

import (
	"slices"
	"strings"
)

// Variable returns a variable of an environment; the last entry counts.
func Variable(env []string, name string) (value string, ok bool) {
	for _, entry := range slices.Backward(env) {
		if value, ok = strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// IsManagerVariable reports variables for a daemon's communication with its service manager. A command that inherited
// them would act as the daemon.
func IsManagerVariable(name string) bool {
	return slices.Contains([]string{"NOTIFY_SOCKET", "JOURNAL_STREAM", "INVOCATION_ID", "SYSTEMD_EXEC_PID"}, name) ||
		slices.ContainsFunc([]string{"WATCHDOG_", "LISTEN_", "MEMORY_PRESSURE_"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// WithVariable returns an environment with one variable set.
func WithVariable(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, name+"="+value)
}
