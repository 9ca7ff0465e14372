package supervisor

import (
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// keepEvery is how old a heartbeat may become that steward keeps (protocol 000, Heartbeat Updates: 30 s).
const keepEvery = 25 * time.Second

// toKeep lists the agents to beat for, by protocol: those whose process is known to live and that leave it to steward.
func (s *Supervisor) toKeep(d *desk, now time.Time) map[string]map[string]time.Duration {
	var keep map[string]map[string]time.Duration
	for i := range d.snapshots {
		snap := &d.snapshots[i]
		for j := range snap.Agents {
			a := &snap.Agents[j]
			if !a.Kept || !snap.Act || now.Sub(a.Beat.Last()).Abs() < keepEvery || d.processes[a.Process] != heartbeat.ProcessAlive {
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

// keep beats for agents.
func (l *looker) keep(agents map[string]map[string]time.Duration, r *report) {
	if len(agents) == 0 {
		return
	}
	defer l.guard("keep heartbeats", r)
	for _, name := range l.names() {
		if s := l.speakers[name]; s.Keep != nil && s.Act && len(agents[name]) > 0 {
			_ = s.Keep(agents[name], l.now()) // a failure shows as silence, and is tried again at the next look
		}
	}
}
