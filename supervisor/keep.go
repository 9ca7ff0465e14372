package supervisor

import (
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// keepAt is how old a heartbeat must be for steward to write it again. The next full scan may be far away, but a heartbeat
// that steward writes must not cause the next scan.
func (s *loop) keepAt(protocolName string, a *protocol.Agent) time.Duration {
	pace := s.cfg.Heartbeat.Of(protocolName, a).Pace()
	return max(pace-s.cfg.LookEvery, pace/2)
}

// toKeep lists by protocol the agents that steward writes heartbeats for: those that leave it to steward and whose process
// is known to live.
func (s *loop) toKeep(d *projectState, now time.Time) map[string]map[string]time.Duration {
	var keep map[string]map[string]time.Duration
	for i := range d.snapshots {
		snap := &d.snapshots[i]
		for j := range snap.Agents {
			a := &snap.Agents[j]
			if !a.Kept || !snap.Act || now.Sub(a.Beat.Last()).Abs() < s.keepAt(snap.Protocol, a) || d.processes[a.Process] != heartbeat.ProcessAlive {
				continue
			}
			if keep == nil {
				keep = map[string]map[string]time.Duration{}
			}
			if keep[snap.Protocol] == nil {
				keep[snap.Protocol] = map[string]time.Duration{}
			}
			keep[snap.Protocol][a.Name] = upFor(a, now)
		}
	}
	return keep
}

// upFor is how long the agent has been registered; 0 if that is not known.
func upFor(a *protocol.Agent, now time.Time) time.Duration {
	if a.Registered.IsZero() {
		return 0
	}
	return max(0, now.Sub(a.Registered))
}

// keep writes the heartbeats of agents.
func (l *scanner) keep(agents map[string]map[string]time.Duration, r *report) {
	if len(agents) == 0 {
		return
	}
	defer l.guard("keep heartbeats", r)
	for _, name := range l.names() {
		if s := l.protocols[name]; s.Keep != nil && s.acts() && len(agents[name]) > 0 {
			_ = s.Keep(agents[name], l.now()) // a failure shows as silence, and is retried at the next scan
		}
	}
}
