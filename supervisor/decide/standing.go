package decide

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Standing is what is remembered of a condition that the user is told of, or will be if it lasts.
type Standing struct {
	Subject protocol.Subject `json:"subject"`
	// Since distinguishes this period from another one in which the same condition holds.
	Since  time.Time `json:"since"`
	Looked time.Time `json:"looked"`
	// Newest is since when the last part of a combined condition holds.
	Newest time.Time `json:"newest,omitzero"`
}

// stands records that the condition behind the alert holds, and gives what is known of it. from is since when it is known to
// hold; zero: since it was first seen.
func (d *decision) stands(a rules.Alert, from time.Time) Standing {
	s := d.old.Standing[a.Key]
	if s.Since.IsZero() {
		s.Since = d.now
	}
	if !from.IsZero() && plain(from).Before(s.Since) {
		s.Since = plain(from)
	}
	s.Subject, s.Looked = a.Subject, d.now
	d.setStanding(a.Key, s)
	return s
}

func (d *decision) setStanding(key string, s Standing) {
	if d.plan.Memory.Standing == nil {
		d.plan.Memory.Standing = map[string]Standing{}
	}
	d.plan.Memory.Standing[key] = s
}

// keepStanding keeps what is remembered of a condition that cannot be judged at this scan.
func (d *decision) keepStanding(key string) {
	if s, known := d.old.Standing[key]; known {
		d.setStanding(key, s)
	}
}

// carryStanding carries over what is remembered of conditions in projects that were not scanned.
func (d *decision) carryStanding() {
	for key, s := range d.old.Standing {
		seen := d.snapshotOf(s.Subject) != nil
		if s.Subject.Kind == protocol.KindProject {
			seen = d.scanned(s.Subject.Project)
		}
		if !seen && d.now.Sub(s.Looked) < forgetAfter {
			d.setStanding(key, s)
		}
	}
}

// KeyOf is the key of the incident that an alert belongs to.
func KeyOf(a rules.Alert) string {
	return rules.Key(a.Subject.Project, a.Subject.Protocol, a.Subject.ID, a.Agent, a.Kind, a.Code)
}

// occurrence distinguishes a condition from the same one at another time, and from another one at this time.
func occurrence(since time.Time, text string) string {
	return stamp(since) + " " + rules.Key("", "", "", "", "", text)
}

// stamp is a moment as part of an occurrence.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405.000Z") }
