package protocol

import "time"

// Rival is somebody's lock that stands in the way of another one.
type Rival struct {
	Lock
	// Alive: its holder shows life.
	Alive bool
	// Why says in a few words for people what is waited for.
	Why string
	// Again is when another look is worth it even if no file changes; zero: nobody knows.
	Again time.Time
}
