package heartbeat

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Memory is what steward remembers about one agent between scans. It is a plain value, survives a restart of steward as
// JSON, and its zero value is an agent never seen. All times are wall clock, UTC; all durations are awake time.
type Memory struct {
	// First is when steward first saw the agent; Looked is when the agent was last judged.
	First  time.Time `json:"first,omitzero"`
	Looked time.Time `json:"looked,omitzero"`
	Heard
	Moved
	Owner
	Judged
	Named
	Uptime
}

// Heard is what the heartbeat file and the registration have said.
type Heard struct {
	// Mark and Touched are those of the heartbeat file as last seen; Last is the newest time that the file has vouched
	// for.
	Mark    string    `json:"mark,omitempty"`
	Touched time.Time `json:"touched,omitzero"`
	Last    time.Time `json:"last,omitzero"`
	// Silent is the silence observed since the beat changed or since the registration was seen.
	Silent time.Duration `json:"silent,omitempty"`
	// Extended: a new mtime alone has prolonged this beat. That is allowed once per beat.
	Extended bool `json:"extended,omitempty"`
	// Old: the newest evidence was already beyond the limit when steward first saw it.
	Old bool `json:"old,omitempty"`
	// Stale: the beat is older than the registration, so it does not count.
	Stale      bool      `json:"stale,omitempty"`
	Registered time.Time `json:"registered,omitzero"`
	// Boots counts consecutive beats, each within the limit of the previous one, whose content is that of a boot
	// script.
	Boots int `json:"boots,omitempty"`
	// Seen: steward has seen the agent alive at some time.
	Seen bool `json:"seen,omitempty"`
	// Off is how far ahead of steward's clock the last beat's stated time was when the beat changed in sight; 0 if the
	// clocks agree or it cannot be known.
	Off time.Duration `json:"off,omitempty"`
}

// Moved is what else has moved.
type Moved struct {
	// Signs is a fingerprint of the other signs of life. Signed: it changed in sight, SignSilent ago.
	Signs      string        `json:"signs,omitempty"`
	Signed     bool          `json:"signed,omitempty"`
	SignSilent time.Duration `json:"sign_silent,omitempty"`
	// Still is the awake time without any movement of the agent: no beat of its own, no change of a file, no activity
	// of its processes. It grows only while that activity is known. Pace is the recorded activity.
	Still time.Duration `json:"still,omitempty"`
	Pace  Pace          `json:"pace,omitzero"`
}

// Owner is which process is the agent's.
type Owner struct {
	// Candidate is the process behind a claimed pid; Through counts the beats that it lived through in sight.
	Candidate protocol.Identity `json:"candidate,omitzero"`
	Through   int               `json:"through,omitempty"`
	// Proven is the process that is proved to be the agent's, and Process is its last known state.
	Proven  protocol.Identity `json:"proven,omitzero"`
	Process ProcessState      `json:"process,omitempty"`
	// Void is a dead process that a later beat outlived; it is no longer evidence. Spent is a claimed pid whose process
	// is gone: a process that has this number now is a different one.
	Void  protocol.Identity `json:"void,omitzero"`
	Spent int               `json:"spent,omitempty"`
}

// Judged is the last verdict; Ground is the evidence behind it, which the Cause may put more precisely.
type Judged struct {
	State  protocol.AgentState `json:"state,omitempty"`
	Since  time.Time           `json:"since,omitzero"`
	Cause  protocol.Cause      `json:"cause,omitzero"`
	Ground protocol.Phrase     `json:"ground,omitempty"`
}

// Named are the tasks that the agent names.
type Named struct {
	// Names: the agent was seen naming tasks, or takes them by claims, so no task is presumed to be in progress with
	// it. Tasks are the tasks that it named last. Dropped are tasks that it named once and omitted at a later beat (the
	// newest 64); they are kept so that a crash between the beat and its processing loses nothing.
	Names   bool     `json:"names,omitempty"`
	Tasks   []string `json:"tasks,omitempty"`
	Dropped []string `json:"dropped,omitempty"`
}

// Uptime is how regularly the agent beats.
type Uptime struct {
	// Beats counts the agent's consecutive beats in sight, without a beat by steward, a registration or a pause in
	// between. LastGap and LongestGap are the silences between two of them.
	Beats      int           `json:"beats,omitempty"`
	LastGap    time.Duration `json:"last_gap,omitempty"`
	LongestGap time.Duration `json:"longest_gap,omitempty"`
	// Observed is the time watched, without pauses. Covered is the part of it in which the last beat was not older than
	// Dead. Covered ÷ Observed is the heartbeat uptime.
	Observed time.Duration `json:"observed,omitempty"`
	Covered  time.Duration `json:"covered,omitempty"`
}

// Fresh reports whether the content of the agent's beat still holds: the beat counts, and in awake time it is not older
// than the limit. Judge must have seen the same Agent first.
func Fresh(a protocol.Agent, m Memory, limits Limits) bool {
	return a.Beat.Mark != "" && a.Beat.Mark == m.Mark && !m.Old && !m.Stale && m.Silent <= limits.Dead
}

// pass adds elapsed awake time.
func (m *Memory) pass(step, dead time.Duration) {
	leftover := m.Old && m.Beats == 0 // a file from before steward's time is not downtime
	if m.Mark != "" && !leftover && m.State != protocol.AgentPaused {
		m.Observed += step
		if !m.Old && !m.Stale {
			m.Covered += min(step, max(0, dead-m.Silent))
		}
	}
	m.Silent += step
	if m.Signed {
		m.SignSilent += step
	}
}

// tally counts a beat. The gap before the first beat is unknown, because it began before steward watched. A beat that
// steward wrote says nothing about the agent's own pace, nor does the gap after it.
func (m *Memory) tally(gap time.Duration, ours bool) {
	if ours {
		m.Beats = 0
		return
	}
	if m.Beats > 0 {
		m.LastGap = gap
		m.LongestGap = max(m.LongestGap, gap)
	}
	m.Beats++
}

// droppedMost limits Dropped: tasks that ended long ago need no evidence.
const droppedMost = 64

// name records the tasks that the agent names. Only a beat can drop a task: a side file that vanishes between two beats
// proves nothing. Slices are replaced, never modified, because older Memories share them.
func (m *Memory) name(ids []string, beat bool) {
	m.Names = m.Names || len(ids) > 0
	if slices.Equal(ids, m.Tasks) {
		return
	}
	fresh := without(ids, m.Tasks)
	if !beat {
		m.Tasks = concat(m.Tasks, fresh)
		return
	}
	m.Dropped = concat(without(m.Dropped, ids), without(without(m.Tasks, ids), m.Dropped))
	m.Dropped = m.Dropped[max(0, len(m.Dropped)-droppedMost):]
	m.Tasks = concat(nil, ids)
}

// without returns the ids that are not in others.
func without(ids, others []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(others, id) })
}

// concat returns nil for nothing, as a Memory read back from disk has it.
func concat(a, b []string) []string {
	if len(a)+len(b) == 0 {
		return nil
	}
	return slices.Concat(a, b)
}

// Same reports whether two Memories are equal.
func (m *Memory) Same(o *Memory) bool {
	return m.First == o.First && m.Looked == o.Looked && m.Heard == o.Heard && m.Moved == o.Moved && m.Owner == o.Owner &&
		m.Judged == o.Judged && m.Uptime == o.Uptime && m.Names == o.Names && slices.Equal(m.Tasks, o.Tasks) && slices.Equal(m.Dropped, o.Dropped)
}

// Pace is a recorded Activity, to compare with the next one.
type Pace struct {
	Seen    bool          `json:"seen,omitempty"`
	CPU     time.Duration `json:"cpu,omitempty"`
	Tree    string        `json:"tree,omitempty"`
	Written uint64        `json:"written,omitempty"`
	// Age is the awake time since the Activity was recorded.
	Age time.Duration `json:"age,omitempty"`
	// Blind is the awake time for which the activity of the tree has been unknown.
	Blind time.Duration `json:"blind,omitempty"`
	// Tasked: the agent had a task in flight.
	Tasked bool `json:"tasked,omitempty"`
}
