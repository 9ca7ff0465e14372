package capacity

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// Identity is the protocol's own, named here for the gauges.
type Identity = protocol.Identity

// Usage is what the tree of processes below one identity takes: that process and all that descend from it, also those
// that have changed their session. What cannot be read is zero.
type Usage struct {
	Identity Identity  `json:"identity"`
	At       time.Time `json:"at"`
	// Cores in use since the scan before; -1 before there are two scans.
	Cores float64 `json:"cores"`
	// CPU is the processor time that the tree has spent so far, as far as it can be known: processes that ended and were
	// waited for count with their parents. It may run backwards when one leaves without.
	CPU time.Duration `json:"cpu"`
	// Memory is resident, in bytes; pages that several processes share count for each.
	Memory uint64 `json:"memory"`
	// Processes is how many there are, and Tree a fingerprint of which.
	Processes int    `json:"processes"`
	Tree      string `json:"tree,omitempty"`
	// Files and FileLimit are those of the process nearest its limit, FilesPID; 0 when unknown.
	Files     int `json:"files,omitempty"`
	FileLimit int `json:"file_limit,omitempty"`
	FilesPID  int `json:"files_pid,omitempty"`
	// Written counts the bytes that the processes alive now have written, to whatever.
	Written uint64 `json:"written,omitempty"`
}
