package protocol

import "time"

// Agent is an AI coding agent as its files show it. Verdicts about it belong to package heartbeat.
type Agent struct {
	Name string `json:"name"`
	Beat Beat   `json:"beat"`
	// Status is its own word from the heartbeat; the enum is open.
	Status string `json:"status"`
	// Complaint is what its heartbeat says is wrong with it (health.*_ok false, last_error); "" is well.
	Complaint string `json:"complaint,omitempty"`
	// Failed: by its own word it can do no more by itself, rather than that something about it is not well.
	Failed bool `json:"failed,omitempty"`
	// Registered is when it announced itself; a beat older than that does not count.
	Registered time.Time `json:"registered,omitzero"`
	// Recorded is the word the registry holds for it.
	Recorded string `json:"recorded,omitempty"`
	// PID is what a file claims. It is no evidence until it has lived through two beats in our sight.
	PID int `json:"pid,omitempty"`
	// Process was recorded by one of our own commands while the process was alive; zero if none.
	Process Identity `json:"process,omitzero"`
	// Others speak for the same agent, recorded likewise (workers of one name): it lives as long as one of them does.
	Others []Identity `json:"others,omitempty"`
	// Keeper starts the agent again when its process ends: while the Keeper lives, such an end is no death.
	Keeper Identity `json:"keeper,omitzero"`
	// Kept: steward keeps its heartbeat for it while its process lives.
	Kept bool `json:"kept,omitempty"`
	// Claims: it takes its tasks by claims (Task.Workers), so that one without is not in its hands.
	Claims bool `json:"claims,omitempty"`
	// Left says how it left on purpose, which makes it Idle; Ending how its last process ended otherwise, for good.
	Left   string `json:"left,omitempty"`
	Ending string `json:"ending,omitempty"`
	// Told: whoever kept it tells the human of that end.
	Told bool `json:"told,omitempty"`
	// Used is 1 − the free share that its heartbeat reports (000: current_capacity).
	Used Share `json:"used"`
	// Tasks are the ids that the agent itself names as being worked on.
	Tasks []string `json:"tasks,omitempty"`
	// Signs fingerprints every other sign of life (progress, current task, its own log lines). Our own writes never count.
	Signs string `json:"signs,omitempty"`
	// Presence is what the adapter itself can prove of an agent whose protocol has no heartbeat, and Evidence by what.
	// PresenceUnproved leaves it to beat and silence.
	Presence Presence `json:"presence,omitempty"`
	Evidence string   `json:"evidence,omitempty"`
	// Limit is how long the protocol's own rules let this agent be silent in what it does now; 0: as configured.
	Limit time.Duration `json:"limit,omitempty"`
	// Idle: nothing is expected of it at this moment, so that its silence means nothing.
	Idle bool `json:"idle,omitempty"`
	// Orphans are processes proved to be this agent's own that outlived their leader, which is proved to be gone.
	Orphans []Identity `json:"orphans,omitempty"`
	// Held is the operator's reason for holding the agent; "" when it is not held.
	Held string `json:"held,omitempty"`
	Ref  Ref    `json:"ref"`
}

// Beat is an agent's heartbeat file. A zero Mark means that there is none yet.
type Beat struct {
	// Mark changes whenever content or inode change; Touched is the file's mtime alone.
	Mark    string    `json:"mark,omitempty"`
	Touched time.Time `json:"touched,omitzero"`
	// At is the time the beat claims, capped at the moment of the look.
	At time.Time `json:"at,omitzero"`
	// Stated is the time that the beat claims, word for word. Zoneless: it names no zone. Then At is the latest time
	// that it can mean.
	Stated   time.Time `json:"stated,omitzero"`
	Zoneless bool      `json:"zoneless,omitempty"`
	// Kept: steward wrote it, because the agent's process lived. It says no more than that.
	Kept bool `json:"kept,omitempty"`
	// Booted: steward boot wrote it. The agent itself has not beaten yet.
	Booted bool `json:"booted,omitempty"`
	// Fresh: it says what a boot script writes. The agent may have been set up without ever running.
	Fresh bool `json:"fresh,omitempty"`
}

// Last is the newer of the claimed time and the file's mtime. A claimed time without a zone is no measure where the
// file has an mtime.
func (b Beat) Last() time.Time {
	if b.Zoneless && !b.Touched.IsZero() || b.Touched.After(b.At) {
		return b.Touched
	}
	return b.At
}

// Absence is why nothing is heard of an agent although nothing is wrong. It is empty for all other agents.
type Absence string

// The kinds of Absence.
const (
	AbsenceExpected Absence = "expected" // it registered or was booted; its first heartbeat is still to come
	AbsenceAbsent   Absence = "absent"   // it was expected, and neither a heartbeat nor a process came
	AbsenceGone     Absence = "gone"     // it was last heard of more than a day before steward came
	AbsenceLeft     Absence = "left"     // it ended on purpose, or its own file says so
)

// Presence is whether an agent's own processes are there.
type Presence string

// The kinds of Presence.
const (
	PresenceUnproved Presence = ""
	PresenceHere     Presence = "here" // its process or session lives
	PresenceGone     Presence = "gone" // proved to be over: nobody of it lives
)
