package capacity

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// Identity is protocol.Identity, named here for the gauges.
type Identity = protocol.Identity

// Usage is what the process tree below one identity uses: that process and all its descendants, including those that
// have changed their session. Values that cannot be read are zero.
type Usage struct {
	Identity Identity  `json:"identity"`
	At       time.Time `json:"at"`
	// Cores is the number of cores used since the previous scan; -1 until there are two scans.
	Cores float64 `json:"cores"`
	// CPU is the processor time that the tree has used so far, as far as it can be known: processes that ended and were
	// waited for count with their parents. It may decrease when a process exits without being waited for.
	CPU time.Duration `json:"cpu"`
	// Memory is the resident memory in bytes; shared pages count for each process.
	Memory uint64 `json:"memory"`
	// Processes is the number of processes, and Tree is a fingerprint of the set.
	Processes int    `json:"processes"`
	Tree      string `json:"tree,omitempty"`
	// Files and FileLimit are those of the process nearest its limit, FilesPID; 0 if unknown.
	Files     int `json:"files,omitempty"`
	FileLimit int `json:"file_limit,omitempty"`
	FilesPID  int `json:"files_pid,omitempty"`
	// Written is the number of bytes that the processes alive now have written, to any target.
	Written uint64 `json:"written,omitempty"`
}
