//go:build linux

package ralph

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol/protocoltest"
)

func TestTrees(t *testing.T) { protocoltest.Trees(t, "testdata/*.txtar", time.Now, adapter) }
