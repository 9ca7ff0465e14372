package service

import "time"

// Unit is a transient service: it exists while it runs, and until Stop has cleared it away.
type Unit struct {
	Name        string // ends in ".service"
	Description string
	Path        string   // absolute path of the program
	Argv        []string // its arguments, its own name first
	Dir         string   // absolute
	Env         []string // KEY=value, over the manager's own; what is no plain line of text is left out
	Log         string   // absolute path of a file that both outputs are appended to
	Stop        time.Duration
}

// UnitExit is how the main process of a unit ended.
type UnitExit struct {
	Code   int // -1 when a signal ended it
	Signal int // its number; 0: none
}

// UnitSlice is where the units of agents stand among the machine's services.
const UnitSlice = "steward-agents.slice"
