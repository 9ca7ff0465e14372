package protocol

import "time"

// Agent is an AI coding agent as its files show it. Verdicts about it belong to package heartbeat.
type Agent struct {
	Name string `json:"name"`
	Beat Beat   `json:"beat"`
	// Status is the status word in its heartbeat; the enum is open.
	Status string `json:"status"`
	// Complaint is the problem that its heartbeat reports (health.*_ok false, last_error); "" means no problem.
	Complaint string `json:"complaint,omitempty"`
	// Failed: the agent reports that it cannot continue, not merely that something is wrong.
	Failed bool `json:"failed,omitempty"`
	// Registered is when the agent announced itself; a heartbeat older than that does not count.
	Registered time.Time `json:"registered,omitzero"`
	// Recorded is the agent's status in the registry.
	Recorded string `json:"recorded,omitempty"`
	Processes
	// Claims: the agent takes tasks through claims (Task.Workers), so it does not work on a task without a claim.
	Claims bool `json:"claims,omitempty"`
	// Used is 1 − the free share that its heartbeat reports (000: current_capacity).
	Used Share `json:"used"`
	// Tasks are the ids that the agent itself reports as in progress.
	Tasks []string `json:"tasks,omitempty"`
	// Signs fingerprints all other signs of life (progress, current task, its own log lines). Writes by steward never
	// count.
	Signs string `json:"signs,omitempty"`
	// Presence is what the adapter itself can prove about an agent whose protocol has no heartbeat; Evidence names the
	// proof. With PresenceUnproved, heartbeat and silence decide.
	Presence Presence `json:"presence,omitempty"`
	Evidence string   `json:"evidence,omitempty"`
	// Limit is how long the protocol allows this agent to be silent in its current activity; 0: as configured.
	Limit time.Duration `json:"limit,omitempty"`
	// Idle: nothing is expected of the agent now, so its silence means nothing.
	Idle bool `json:"idle,omitempty"`
	// Held is the operator's reason for holding the agent; "" when it is not held.
	Held string `json:"held,omitempty"`
	Ref  Ref    `json:"ref"`
}

// Processes are an agent's processes as files name or record them, and how the last of them ended.
type Processes struct {
	// PID is what a file claims. It is no evidence until the process has stayed alive across two observed heartbeats.
	PID int `json:"pid,omitempty"`
	// Process was recorded by a steward command while the process was alive; zero if none.
	Process Identity `json:"process,omitzero"`
	// Others are further processes of the same agent, recorded the same way (workers that share a name). The agent is
	// alive while any of them is.
	Others []Identity `json:"others,omitempty"`
	// Keeper restarts the agent when its process ends: while the Keeper lives, the end of the process is not the
	// agent's death.
	Keeper Identity `json:"keeper,omitzero"`
	// Kept: steward writes the heartbeat for the agent while its process lives.
	Kept bool `json:"kept,omitempty"`
	// Left says how the agent left on purpose, which makes it Idle; Ending how its last process otherwise ended for
	// good.
	Left   string `json:"left,omitempty"`
	Ending string `json:"ending,omitempty"`
	// Told: the agent's keeper reports that end to the operator.
	Told bool `json:"told,omitempty"`
	// Orphans are processes proved to belong to this agent whose leader is proved to be gone.
	Orphans []Identity `json:"orphans,omitempty"`
}

// Beat is an agent's heartbeat file. A zero Mark means that none exists yet.
type Beat struct {
	// Mark changes whenever content or inode changes; Touched is the file's mtime alone.
	Mark    string    `json:"mark,omitempty"`
	Touched time.Time `json:"touched,omitzero"`
	// At is the time that the heartbeat claims, capped at the time of the scan.
	At time.Time `json:"at,omitzero"`
	// Stated is the claimed time verbatim. Zoneless: it has no zone; At is then the latest time that it can mean.
	Stated   time.Time `json:"stated,omitzero"`
	Zoneless bool      `json:"zoneless,omitempty"`
	// Kept: steward wrote it because the agent's process lived. It proves nothing more.
	Kept bool `json:"kept,omitempty"`
	// Booted: steward boot wrote it. The agent itself has not sent a heartbeat yet.
	Booted bool `json:"booted,omitempty"`
	// Fresh: it has the content that a boot script writes. The agent may have been set up without ever running.
	Fresh bool `json:"fresh,omitempty"`
}

// Last is the newer of the claimed time and the file's mtime. A claimed time without a zone is ignored if the file has
// an mtime.
func (b Beat) Last() time.Time {
	if b.Zoneless && !b.Touched.IsZero() || b.Touched.After(b.At) {
		return b.Touched
	}
	return b.At
}

// Absence is why an agent is silent although nothing is wrong. It is empty for all other agents.
type Absence string

// The kinds of Absence.
const (
	AbsenceExpected Absence = "expected" // the agent registered or was booted; its first heartbeat is still to come
	AbsenceAbsent   Absence = "absent"   // the agent was expected, but neither a heartbeat nor a process appeared
	AbsenceGone     Absence = "gone"     // its last sign of life is more than a day older than steward's start
	AbsenceLeft     Absence = "left"     // the agent ended on purpose, or its own file says so
)

// Presence is whether an agent's own processes exist. See docs/decisions.md, "Adapters may prove presence".
type Presence string

// The kinds of Presence.
const (
	PresenceUnproved Presence = ""
	PresenceHere     Presence = "here" // its process or session lives
	PresenceGone     Presence = "gone" // proved to be over: none of its processes lives
)
