package handoffs

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol/protocoltest"
)

// The trees' clock is ahead of their files, so that recent events are already reported.
func TestTrees(t *testing.T) {
	protocoltest.Trees(t, "testdata/*.txtar", func() time.Time { return time.Now().Truncate(time.Second).Add(7 * time.Second) }, open)
}
