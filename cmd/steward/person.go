package main

import (
	"os"

	"github.com/livhana/steward/status/terminal"
)

// agentMarks are environment variables that agents set for the processes they start.
var agentMarks = []string{"STEWARD_AGENT", "STEWARD_TASK_ID", "AI_AGENT", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "CODEX_THREAD_ID",
	"CURSOR_AGENT", "GEMINI_CLI", "OPENCODE"}

// byPerson reports whether a user starts this command: standard input and standard error are a terminal, and no
// environment variable shows that an agent drives that terminal.
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
