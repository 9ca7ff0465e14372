package envelope

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol/protocoltest"
)

// Every paragraph of the document, as a tree of files and the expected snapshot.
func TestTrees(t *testing.T) {
	protocoltest.Trees(t, "testdata/*.txtar", time.Now, open)
}
