package handoffs

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol/protocoltest"
)

// The clock of the trees is ahead of their files, so that what came into being a moment ago is told already.
func TestTrees(t *testing.T) {
	protocoltest.Trees(t, "testdata/*.txtar", func() time.Time { return time.Now().Truncate(time.Second).Add(7 * time.Second) }, open)
}
