package supervisor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// Where steward only observes, the incident about orphans says how a person ends them.
func TestObservedOrphansSayHowToEndThem(t *testing.T) {
	now := time.Now()
	for _, act := range []bool{false, true} {
		snap := protocol.Snapshot{At: now, Agents: []protocol.Agent{{Name: "w", Presence: protocol.PresenceHere, Processes: protocol.Processes{Orphans: []protocol.Identity{{PID: 4711}}}}},
			Findings: []protocol.Finding{{Subject: protocol.Subject{Kind: protocol.KindAgent, ID: "w"}, Code: "orphans", Severity: protocol.High, Text: "its leader is gone"}}}
		snap.Name("shop", "ralph", act)
		plan := supervisor.Decide(decide.View{Now: now, Snapshots: []protocol.Snapshot{snap}, Looked: []string{"shop"}}, decide.Memory{}, settings())
		said := false
		for _, a := range plan.Alerts {
			said = said || strings.Contains(a.Detail, "To end them: kill 4711.") && strings.Contains(a.Detail, `ralph = "act"`)
		}
		if said == act {
			t.Errorf("act %v: %+v", act, plan.Alerts)
		}
	}
}
