package heartbeat

import "github.com/livhana/steward/protocol"

// ProcessState is the state in which a process was found.
type ProcessState string

// The process states. Unknown means that the state could not be determined. A process that must not be inspected counts
// as alive. Gone covers absent, zombie, another start token and another boot.
const (
	ProcessUnknown ProcessState = ""
	ProcessAlive   ProcessState = "alive"
	ProcessStopped ProcessState = "stopped"
	ProcessGone    ProcessState = "gone"
)

// beatsToProve is how many heartbeat changes a claimed process must live through in sight.
const beatsToProve = 2

// Watch returns the process that Facts should describe at the next Judge. An identity that does not Prove is a claimed
// pid: look up the process that has it now and report that Identity (or the bare pid as gone). The zero identity means
// that there is no process to look up.
func Watch(a protocol.Agent, m Memory) protocol.Identity {
	switch {
	case a.Process.Proves() && !same(a.Process, m.Void):
		return a.Process
	case m.Proven.Proves() && (a.PID == 0 || a.PID == m.Proven.PID):
		return m.Proven
	case a.PID == 0 || a.PID == m.Spent:
		return protocol.Identity{}
	case a.PID == m.Candidate.PID:
		return m.Candidate
	}
	return protocol.Identity{PID: a.PID}
}

// same compares processes. It ignores the user, which a process may change.
func same(a, b protocol.Identity) bool {
	return a.PID == b.PID && a.Start == b.Start && a.Boot == b.Boot
}

// identify determines which process is the agent's, and its state.
func (m *Memory) identify(f *Facts, beat bool) {
	// A beat that steward writes may have been written in the moment before the process died.
	if beat && m.Process == ProcessGone && !f.Agent.Beat.Kept {
		m.Void, m.Spent = m.Proven, m.Proven.PID
		m.trust(protocol.Identity{})
	}
	recorded := f.Agent.Process
	switch usable := recorded.Proves() && !same(recorded, m.Void); {
	case usable && !same(recorded, m.Proven):
		m.trust(recorded)
	case !usable && f.Agent.PID != 0 && m.Proven.PID != 0 && m.Proven.PID != f.Agent.PID:
		m.trust(protocol.Identity{}) // the agent names another process now
	}
	if !m.Proven.Proves() {
		m.earn(f, beat)
	}
	if m.Proven.Proves() {
		m.report(f)
	}
	if f.Agent.Left != "" && m.Process == ProcessGone {
		// The end is settled. When the agent starts again, its files may not name the new process at once.
		// See docs/decisions.md, "The process of an agent that left is forgotten".
		m.Void, m.Spent = m.Proven, m.Proven.PID
		m.trust(protocol.Identity{})
	}
}

func (m *Memory) trust(id protocol.Identity) {
	m.Owner = Owner{Proven: id, Void: m.Void, Spent: m.Spent}
	m.Still, m.Pace = 0, Pace{}
	m.Ground = "" // rebuild the Cause: it names the old process
}

// earn tracks the process behind a claimed pid until it counts as evidence. If it exits earlier, only the evidence
// ends, not the agent: boot scripts register their own pid and exit. See docs/decisions.md, "A pid in a file proves nothing".
func (m *Memory) earn(f *Facts, beat bool) {
	pid := f.Agent.PID
	if pid != m.Candidate.PID {
		m.Candidate, m.Through = protocol.Identity{}, 0
	}
	if pid != 0 && pid != m.Spent {
		m.Spent = 0
	}
	known := m.Candidate.Proves()
	switch {
	case pid == 0 || pid == m.Spent || f.Identity.PID != pid:
	case f.Process == ProcessGone || known && f.Identity.Proves() && !same(f.Identity, m.Candidate):
		m.Spent = pid
		m.Candidate, m.Through = protocol.Identity{}, 0
	case f.Process == ProcessUnknown || !f.Identity.Proves():
	case !known:
		m.Candidate, m.Through = f.Identity, 0
	case beat:
		if m.Through++; m.Through >= beatsToProve {
			m.trust(m.Candidate)
		}
	}
}

// report records the state of the proven process. Gone is final.
func (m *Memory) report(f *Facts) {
	number := f.Identity.PID == m.Proven.PID
	switch {
	case m.Process == ProcessGone:
	case same(f.Identity, m.Proven):
		m.Process = f.Process
	case number && !f.Identity.Proves() && f.Process == ProcessGone: // no process has the pid
		m.Process = ProcessGone
	case number && f.Identity.Proves() && (f.Process == ProcessAlive || f.Process == ProcessStopped):
		m.Process = ProcessGone // another process has the pid
	default:
		m.Process = ProcessUnknown
	}
}
