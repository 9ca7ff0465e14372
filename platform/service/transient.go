package service

import "time"

// Unit is a transient service: it exists from its start until Stop removes it.
type Unit struct {
	Name        string // ends in ".service"
	Description string
	Path        string   // absolute path of the program
	Argv        []string // the arguments, the program's name first
	Dir         string   // absolute
	Env         []string // KEY=value, overriding the manager's own; values with control characters or invalid UTF-8 are left out
	Log         string   // absolute path of a file to which both outputs are appended
	Stop        time.Duration
}

// UnitExit is how the main process of a unit ended.
type UnitExit struct {
	Code   int // -1 when a signal ended it
	Signal int // signal number; 0: none
}

// UnitSlice is the slice of the agents' units in systemd.
const UnitSlice = "steward-agents.slice"
