package protocol

import "time"

// Rival is another party's lock that blocks the requested one.
type Rival struct {
	Lock
	// Alive: its holder shows signs of life.
	Alive bool
	// Why says in a few words for the user what the caller waits for.
	Why string
	// Again is when to check again even if no file changes; zero: unknown.
	Again time.Time
}
