package keep

import (
	"slices"
	"strings"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
)

// The variables that identify an agent's processes, also to themselves.
const (
	envKeeper  = "STEWARD_KEEPER" // the same for all agents of one state folder
	envKept    = "STEWARD_KEPT"   // the same for all lives of one agent
	envAgent   = "STEWARD_AGENT"
	envProject = "STEWARD_PROJECT"
	envLog     = "STEWARD_LOG" // the file that gets the agent's output
)

// marks identify the life that a process belongs to. A daemon started by hand from within an agent has that agent's
// marks.
var marks = []string{proc.MarkName, envKept, envKeeper}

// situationVariables describe the service, agent, task or lock in which the daemon was started. They do not apply to the
// agents that the daemon starts.
var situationVariables = []string{"STEWARD_SERVICE", "STEWARD_TRIAL", envAgent, envProject, envLog, "STEWARD_ROLE", "STEWARD_PROTOCOL", "STEWARD_TASK_ID", "STEWARD_TASK_TYPE", "STEWARD_REQUEST", "STEWARD_DRY_RUN",
	"STEWARD_LOCK", "STEWARD_LOCK_FENCE"}

// Unmarked returns an environment without the marks of a kept agent's life, so that a process started with it does not
// belong to that life.
func Unmarked(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(marks, name)
	})
}

// environ is an agent's environment except for the life's mark: the daemon's own, without what is between it and its service
// manager and without situationVariables, then the row's, then steward's.
func environ(own []string, row Row, mark, keeper, log string) []string {
	env := slices.DeleteFunc(Unmarked(own), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return run.IsManagerVariable(name) || slices.Contains(situationVariables, name)
	})
	identity := []string{"PWD=" + row.folder(), envAgent + "=" + row.Name, envProject + "=" + row.Dir, envKept + "=" + mark, envKeeper + "=" + keeper, envLog + "=" + log}
	for _, entry := range slices.Concat(row.Environment, identity) {
		name, value, _ := strings.Cut(entry, "=")
		env = run.WithVariable(env, name, value)
	}
	return env
}
