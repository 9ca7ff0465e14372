package main

import (
	"os"

	"github.com/livhana/steward/status/terminal"
)

// agentMarks are variables that agents set for what they start.
var agentMarks = []string{"STEWARD_AGENT", "STEWARD_TASK_ID", "AI_AGENT", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "CODEX_THREAD_ID",
	"CURSOR_AGENT", "GEMINI_CLI", "OPENCODE"}

// byPerson reports whether a person starts this command: standard input and standard error are a terminal, and no agent
// says that it is behind that terminal.
func byPerson() bool {
	return isPerson(terminal.IsTerminalFile(os.Stdin) && terminal.IsTerminalFile(os.Stderr), os.LookupEnv)
}

func isPerson(terminal bool, lookup func(string) (string, bool)) bool {
	for _, name := range agentMarks {
		if value, set := lookup(name); set && value != "" {
			return false
		}
	}
	return terminal
}
