package heartbeat

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Memory is what must be remembered about one agent between looks. It is a plain value, survives our own
// restart as JSON, and its zero value is an agent never seen. All times are wall clock, UTC; all
// durations are awake time.
type Memory struct {
	// First is when we first saw the agent, Looked when it was last judged.
	First  time.Time `json:"first,omitzero"`
	Looked time.Time `json:"looked,omitzero"`

	// Mark and Touched are the heartbeat file's as last seen; Last is the newest time that it vouched for.
	Mark    string    `json:"mark,omitempty"`
	Touched time.Time `json:"touched,omitzero"`
	Last    time.Time `json:"last,omitzero"`
	// Silent is the silence observed since the beat changed, or since the registration was seen.
	Silent time.Duration `json:"silent,omitempty"`
	// Extended: a new mtime alone has prolonged this beat; it may do so once.
	Extended bool `json:"extended,omitempty"`
	// Old: the newest evidence was already beyond the limit when we first saw it.
	Old bool `json:"old,omitempty"`
	// Stale: the beat is older than the registration, so it does not count.
	Stale      bool      `json:"stale,omitempty"`
	Registered time.Time `json:"registered,omitzero"`
	// Boots counts the beats in a row, each within the limit of the one before, that say what a boot script writes.
	Boots int `json:"boots,omitempty"`
	// Seen: it was seen alive at some time.
	Seen bool `json:"seen,omitempty"`
	// Off is how far ahead of our clock the last beat's own time was when it changed in our sight; 0: they agree, or
	// nobody can say.
	Off time.Duration `json:"off,omitempty"`

	// Signs fingerprints the other signs of life; Signed: it changed in our sight, SignSilent ago.
	Signs      string        `json:"signs,omitempty"`
	Signed     bool          `json:"signed,omitempty"`
	SignSilent time.Duration `json:"sign_silent,omitempty"`

	// Still is the awake time for which nothing of it moved: no beat of its own, no file, none of its processes. It grows
	// only while somebody can see what those do; Pace is what was seen of them.
	Still time.Duration `json:"still,omitempty"`
	Pace  Pace          `json:"pace,omitzero"`

	// Candidate is the process behind a claimed pid; Through counts the beats that it lived through in our sight.
	Candidate protocol.Identity `json:"candidate,omitzero"`
	Through   int               `json:"through,omitempty"`
	// Proven is the process that speaks for the agent, and Process how it was last found.
	Proven  protocol.Identity `json:"proven,omitzero"`
	Process ProcessState      `json:"process,omitempty"`
	// Void is a dead process that a later beat outlived: no evidence any more. Spent is a claimed pid
	// whose process is gone: whoever carries that number now is somebody else.
	Void  protocol.Identity `json:"void,omitzero"`
	Spent int               `json:"spent,omitempty"`

	// State, Since, Reason and Why are the last verdict; Ground is the kind of evidence behind it.
	State  protocol.AgentState `json:"state,omitempty"`
	Since  time.Time           `json:"since,omitzero"`
	Reason protocol.Reason     `json:"reason,omitempty"`
	Ground string              `json:"ground,omitempty"`
	Why    string              `json:"why,omitempty"`

	// Names: it was seen naming tasks, or takes them by claims: nothing is presumed to be in its hands. Tasks are those that it named last; Dropped those that it named
	// once and then, at a later beat, named no longer (the newest 64), so that a crash between the beat
	// and what follows from it loses nothing.
	Names   bool     `json:"names,omitempty"`
	Tasks   []string `json:"tasks,omitempty"`
	Dropped []string `json:"dropped,omitempty"`

	// Beats counts its own beats in our sight that follow one another, without one of ours, a registration or a pause in
	// between. LastGap and LongestGap are the silences between two of them.
	Beats      int           `json:"beats,omitempty"`
	LastGap    time.Duration `json:"last_gap,omitempty"`
	LongestGap time.Duration `json:"longest_gap,omitempty"`
	// Observed is the time watched, without pauses; Covered the part of it in which the last beat was
	// not older than Dead. Covered ÷ Observed is the heartbeat uptime.
	Observed time.Duration `json:"observed,omitempty"`
	Covered  time.Duration `json:"covered,omitempty"`
}

// Fresh reports whether what the agent's beat says still holds: it counts, and it is not older, in awake
// time, than the limit. Judge must have seen the same Agent first.
func Fresh(a protocol.Agent, m Memory, limits Limits) bool {
	return a.Beat.Mark != "" && a.Beat.Mark == m.Mark && !m.Old && !m.Stale && m.Silent <= limits.Dead
}

// pass lets awake time go by.
func (m *Memory) pass(step, dead time.Duration) {
	leftover := m.Old && m.Beats == 0 // a file from before our time is nobody's downtime
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

// tally counts a beat. The gap before the first one is unknown: it began before we looked. One that steward wrote says
// nothing of the agent's own pace, nor does the gap after it.
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

// droppedMost bounds Dropped: what ended long ago needs no evidence.
const droppedMost = 64

// name takes over the tasks that the agent names. Only a beat can drop one: a side file that vanishes
// between two beats proves nothing. Slices are replaced, never written to, for older Memories share them.
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

// without gives the ids that are not among the others.
func without(ids, others []string) []string {
	var out []string
	for _, id := range ids {
		if !slices.Contains(others, id) {
			out = append(out, id)
		}
	}
	return out
}

func concat(a, b []string) []string {
	if len(a)+len(b) == 0 {
		return nil
	}
	return slices.Concat(a, b)
}

// Same reports whether two memories hold the same.
func (m *Memory) Same(o *Memory) bool {
	return m.Looked == o.Looked && m.Mark == o.Mark && m.Silent == o.Silent && m.Observed == o.Observed && m.Covered == o.Covered &&
		m.First == o.First && m.Touched == o.Touched && m.Last == o.Last && m.Extended == o.Extended && m.Old == o.Old && m.Stale == o.Stale &&
		m.Registered == o.Registered && m.Boots == o.Boots && m.Seen == o.Seen && m.Off == o.Off && m.Signs == o.Signs && m.Signed == o.Signed && m.SignSilent == o.SignSilent &&
		m.Still == o.Still && m.Pace == o.Pace && m.Candidate == o.Candidate && m.Through == o.Through && m.Proven == o.Proven &&
		m.Process == o.Process && m.Void == o.Void && m.Spent == o.Spent && m.State == o.State && m.Since == o.Since &&
		m.Reason == o.Reason && m.Ground == o.Ground && m.Why == o.Why && m.Names == o.Names &&
		slices.Equal(m.Tasks, o.Tasks) && slices.Equal(m.Dropped, o.Dropped) &&
		m.Beats == o.Beats && m.LastGap == o.LastGap && m.LongestGap == o.LongestGap
}
