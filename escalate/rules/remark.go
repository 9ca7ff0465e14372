package rules

import (
	"fmt"

	"github.com/livhana/steward/protocol"
)

// Remark is a passing message for the voice only. It is not an incident, is never repeated, and is dropped when the
// voice is busy.
type Remark struct {
	// Key identifies the topic: a newer remark replaces a waiting one with the same key.
	Key     string           `json:"key"`
	Text    string           `json:"text"`
	Subject protocol.Subject `json:"subject"`
}

// Progress sets how much task progress is spoken (protocol 000, Pattern 3: "Deployment 40% complete").
type Progress string

// The settings of Progress.
const (
	ProgressOff      Progress = "off"
	ProgressQuarters Progress = "25%"
	ProgressEach     Progress = "each"
)

// Validate reports an unknown setting.
func (p Progress) Validate() error {
	switch p {
	case ProgressOff, ProgressQuarters, ProgressEach:
		return nil
	}
	return fmt.Errorf("progress: there is no %q; there are %q, %q and %q", p, ProgressOff, ProgressQuarters, ProgressEach)
}
