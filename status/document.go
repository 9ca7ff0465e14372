// Package status serves the supervisor's state and accepts the operator's commands over HTTP on a Unix socket; it
// contains the server and its client.
package status

import (
	"net/http"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/supervisor"
)

// Document is the complete state: GET /v1/status, and status.json in the state folder.
type Document struct {
	// Format is the version of the document; "version" is the program's.
	Format int `json:"format"`
	// Daemon says whether the data is live; nil in the snapshot, which is as old as its file.
	Daemon *Daemon `json:"daemon,omitempty"`
	Self
	supervisor.Report
	// Incidents are the unresolved incidents, the most severe first.
	Incidents []escalate.Incident `json:"incidents"`
	// Channels are the notification channels, in the order in which they are tried.
	Channels []Channel `json:"channels"`
	// Kept are the agents that this steward starts and keeps running.
	Kept []Kept `json:"kept_agents"`
	// Waiting are the clients that were refused at the gate for lack of room.
	Waiting []Waiting `json:"waiting"`
}

// DocumentFormat is the version of the document.
const DocumentFormat = 1

// Daemon says whether a daemon is running behind the data.
type Daemon struct {
	Running bool `json:"running"`
	// Since is when the daemon started, or, if none runs, when the snapshot was taken.
	Since *time.Time `json:"since,omitempty"`
}

// Kept is an agent of an [[agent]] row.
type Kept struct {
	Project  string    `json:"project"`
	Agent    string    `json:"agent"`
	Protocol string    `json:"protocol,omitempty"` // in which steward starts it; "": the default of an [[agent]] row
	Role     bool      `json:"role,omitempty"`     // of a [[role]] row
	Tasks    int       `json:"tasks,omitempty"`    // that wait for the role
	State    string    `json:"state"`              // running, waiting, held, rested, failed, ending
	PID      int       `json:"pid,omitempty"`
	Place    string    `json:"place,omitempty"` // session, service
	Lives    int       `json:"lives"`
	Restarts int       `json:"restarts"` // in a row
	Since    time.Time `json:"since,omitzero"`
	Why      string    `json:"why,omitempty"`
}

// Channel is the state of a notification channel at its last use or probe.
type Channel struct {
	Name    string    `json:"name"`
	OK      bool      `json:"ok"`
	Problem string    `json:"problem,omitempty"`
	At      time.Time `json:"at,omitzero"` // zero: not tried yet
}

// Self is what a running steward reports about itself.
type Self struct {
	Version string `json:"version"`
	// Manager is the service manager that runs it; "" if it was started by hand.
	Manager string `json:"manager,omitempty"`
	// LastEnd is how the previous run ended; nil for the first run.
	LastEnd *Ending `json:"last_end,omitempty"`
}

// Ending is how a run of steward ended.
type Ending struct {
	How     string    `json:"how"` // clean, handed over, failed, crash, killed, watchdog, out of memory, reboot
	Why     string    `json:"why,omitempty"`
	At      time.Time `json:"at,omitzero"` // zero if no process recorded it
	Version string    `json:"version"`
}

// The requested endings.
const (
	EndStopped = "clean"
	EndHanded  = "handed over"
)

// Wanted reports whether the end of the run was requested.
func (e *Ending) Wanted() bool { return e.How == EndStopped || e.How == EndHanded }

// Compose makes the document of a State, which must not be nil. Lists in it are never nil and times are UTC.
func Compose(p *supervisor.State, incidents []escalate.Incident, channels []Channel, self Self) Document {
	return Document{Format: DocumentFormat, Daemon: &Daemon{Running: true, Since: instant(p.Started)}, Self: self, Report: report(p), Incidents: append([]escalate.Incident{}, incidents...),
		Channels: append([]Channel{}, channels...), Kept: []Kept{}, Waiting: []Waiting{}}
}

func getStatus(s *Server, _ *http.Request) (any, error) {
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	doc := Compose(p, s.Incidents.List(), s.channels(), s.Self)
	doc.Locks = WithGranted(doc.Locks, s.granted(p))
	doc.Waiting = s.waiting(p)
	if s.Kept != nil {
		doc.Kept = append(doc.Kept, s.Kept()...)
	}
	return doc, nil
}

// report is the State's Report with all times from files or the local clock in UTC.
func report(p *supervisor.State) supervisor.Report {
	r := p.Report()
	for i := range r.Done {
		r.Done[i].At = r.Done[i].At.UTC()
	}
	for i := range r.Projects {
		for j := range r.Projects[i].Faults {
			r.Projects[i].Faults[j].Since = r.Projects[i].Faults[j].Since.UTC()
		}
	}
	for i := range r.Tasks {
		if progress := r.Tasks[i].Progress; progress != nil {
			progress.At = progress.At.UTC()
		}
	}
	return r
}

// instant is a time for JSON: null if unknown.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
