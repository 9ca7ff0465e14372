package handoffs

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The files and folders inside Base. Those under own are steward's. The document names no location for its events log.
const (
	boxDir          = "handoffs"
	stateFile       = "state.json"
	logFile         = "agent_events.jsonl"
	own             = "steward"
	attemptsDir     = "steward/attempts"
	releasesFile    = "steward/tombstones.jsonl"
	oldReleasesFile = "steward/tombstones.1.jsonl"
)

// maxFile bounds the size of one file. A larger file is a Fault.
const maxFile = 1 << 20

// source is what the readers share.
type source struct {
	*folder.Folder
	began time.Time // the first scan of this folder; zero before it
}

// box is where a message lies (protocol 001, Handoff Storage), in the order of its progress.
type box uint8

const (
	flat box = iota // directly in handoffs/, as some clients do: the status replaces the folder
	pending
	accepted
	completed
)

// places are read in this order, so that a message moved during a scan is seen at least once.
var places = [...]box{flat, pending, accepted, completed}

func (at box) String() string { return [...]string{"", "pending", "accepted", "completed"}[at] }

// dir returns the folder, relative to Base.
func (at box) dir() string { return path.Join(boxDir, at.String()) }

// placeOf splits the path of a message, relative to Base.
func placeOf(file string) (at box, name string, ok bool) {
	dir, name := path.Split(file)
	for _, at := range places {
		if dir == at.dir()+"/" && isMessage(name) {
			return at, name, true
		}
	}
	return 0, "", false
}

func isMessage(name string) bool {
	return strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".") && name != ".json"
}

// arrived returns when a file arrived in its place: a rename updates the change time, where the system has one.
func arrived(st jsonfile.Stamp) time.Time {
	if st.CtimeNs != 0 {
		return time.Unix(0, st.CtimeNs)
	}
	return st.ModTime()
}

// capped returns a stated time, at most now.
func capped(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// The events of protocol 001, Agent Events Log.
const (
	eventStarted   = "agent_started"
	eventCompleted = "agent_completed"
	eventCreated   = "handoff_created"
	eventAccepted  = "handoff_accepted"
	eventError     = "error_occurred"
	eventEscalated = "escalation_triggered"
)

// eventOrder is the order of events with the same time. It lists all events.
var eventOrder = []string{eventStarted, eventCreated, eventAccepted, eventEscalated, eventError, eventCompleted}
