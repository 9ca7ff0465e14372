package rules

import (
	"fmt"

	"github.com/livhana/steward/protocol"
)

// Remark is something said in passing: a voice says it, or nobody does. It is no incident, is never repeated, and is
// dropped when the listener is busy with something else.
type Remark struct {
	// Key names what it is about: a newer remark takes the place of one that still waits to be said.
	Key     string           `json:"key"`
	Text    string           `json:"text"`
	Subject protocol.Subject `json:"subject"`
}

// Progress is how much of tasks' progress is said aloud (protocol 000, Pattern 3: "Deployment 40% complete").
type Progress string

// The settings of Progress.
const (
	ProgressOff      Progress = "off"
	ProgressQuarters Progress = "25%"
	ProgressEach     Progress = "each"
)

// Validate reports a word that is none of the settings.
func (p Progress) Validate() error {
	switch p {
	case ProgressOff, ProgressQuarters, ProgressEach:
		return nil
	}
	return fmt.Errorf("progress: there is no %q; there are %q, %q and %q", p, ProgressOff, ProgressQuarters, ProgressEach)
}
