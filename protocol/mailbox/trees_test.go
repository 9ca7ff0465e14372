package mailbox

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

func TestTrees(t *testing.T) {
	protocoltest.Trees(t, "testdata/*.txtar", time.Now, func(t testing.TB, dir string) protocol.Adapter {
		p := New(dir, limits)
		t.Cleanup(p.Close)
		return p
	})
}
