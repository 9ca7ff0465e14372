package heartbeat

import (
	"testing"

	"github.com/livhana/steward/protocol"
)

// While the keeper of an agent may live, the end of the agent's process is not its death yet; a keeper that was not
// examined may live.
func TestKeeperNotLookedForYet(t *testing.T) {
	ours := protocol.Identity{PID: 42, Start: 1, Boot: "boot", UID: 1000}
	keeper := protocol.Identity{PID: 7, Start: 1, Boot: "boot", UID: 1000}
	for _, tc := range []struct {
		keeper protocol.Identity
		state  ProcessState
		want   protocol.AgentState
	}{
		{keeper, ProcessUnknown, protocol.AgentStarting},
		{keeper, ProcessAlive, protocol.AgentStarting},
		{keeper, ProcessGone, protocol.AgentDead},
		{protocol.Identity{}, ProcessUnknown, protocol.AgentDead},
	} {
		f := Facts{Agent: beating(1), Process: ProcessGone, Identity: ours, Keeper: tc.state}
		f.Agent.Process, f.Agent.Keeper = ours, tc.keeper
		if v, _ := Judge(f, Memory{}, Clock{Now: epoch, LookEvery: lookEvery}, document().For("", ""), document()); v.State != tc.want {
			t.Errorf("keeper %+v %q: %s (%s), want %s", tc.keeper, tc.state, v.State, said(v.Cause), tc.want)
		}
	}
}
