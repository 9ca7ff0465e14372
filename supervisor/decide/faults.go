package decide

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Trouble is a Fault that no snapshot shows: a folder that does not answer, a change that cannot be made.
type Trouble struct {
	Project string `json:"project"`
	// Code groups troubles with one cause, and Title names it in a few words; "": they are grouped by path, in the words of
	// the Fault.
	Code  string         `json:"code,omitempty"`
	Title string         `json:"title,omitempty"`
	Fault protocol.Fault `json:"fault"`
}

// The codes of troubles with one cause, whatever the path.
const (
	CodeDisk  = "disk"  // it is full or read-only
	CodeStuck = "stuck" // the folder does not answer
	codeFiles = "files" // steward may open no more files
	CodeWatch = "watch" // the kernel provides no more watches
)

// TooManyFiles marks the trouble as one of those for which there are too few open files, whatever the path: the user is told
// once.
func (t *Trouble) TooManyFiles() {
	t.Code, t.Title, t.Fault.Severity = codeFiles, "too many open files, so steward cannot see or change some of what is there", protocol.High
}

// manyFaults is how many incidents of a project may each be about a single fault.
const manyFaults = 5

// faults tells the user of faults that last: once per path, and of many together. A grave fault has an incident of its own.
func (d *decision) faults() {
	byProject := d.troubles()
	for _, project := range slices.Sorted(maps.Keys(byProject)) {
		var lasting []rules.Alert
		for _, t := range byProject[project] {
			if a, stays := d.lasting(t); stays {
				lasting = append(lasting, a)
			}
		}
		for _, a := range d.grouped(project, lasting) {
			d.tell(condition{Alert: a})
		}
	}
	d.filesShort()
}

// filesShort keeps the lack of open files standing for a while after its last sign: between two scans some are often free,
// and each time would be told again. It also tells of what could not be written while the lack lasted.
func (d *decision) filesShort() {
	for key, s := range d.old.Standing {
		if s.Subject != ProjectOf(s.Subject.Project) {
			continue
		}
		t := Trouble{Project: s.Subject.Project}
		t.TooManyFiles()
		a, age := d.alertOf(t, s.Since), d.now.Sub(s.Looked)
		if _, known := d.plan.Memory.Standing[key]; known || a.Key != key || age < 0 || age >= exhaustionHolds {
			continue
		}
		d.setStanding(key, s)
		d.wakeAt(s.Looked.Add(exhaustionHolds))
		if s.Looked.Sub(s.Since) >= d.cfg.FaultAfter {
			d.tell(condition{Alert: a})
		}
	}
}

// grouped combines what would be too many incidents. Faults with an incident of their own, or that the user has settled,
// stay as they are. The combined incident lasts until none of its faults is left.
func (d *decision) grouped(project string, lasting []rules.Alert) (told []rules.Alert) {
	var rest []rules.Alert
	stand := 0 // about a single fault each, and open
	for _, a := range lasting {
		head, known := d.view.Incidents[a.Key]
		open := known && head.State != rules.Resolved
		if open {
			stand++
		}
		if open || known && head.Has(a) || a.Severity.Rank() > protocol.Medium.Rank() {
			told = append(told, a)
		} else {
			rest = append(rest, a)
		}
	}
	many := rules.Alert{Kind: "faults", Severity: protocol.Medium, Subject: ProjectOf(project)}
	many.Key = KeyOf(many)
	head, known := d.view.Incidents[many.Key]
	open := known && head.State != rules.Resolved
	if _, stood := d.old.Standing[many.Key]; stood && known && head.ResolvedBy != rules.ByFiles {
		open = true // the user has settled it, and some of it lasts
	}
	if len(rest) > 0 && (open || stand+len(rest) > manyFaults) {
		return append(told, d.together(many, rest))
	}
	return append(told, rest...)
}

// ProjectOf is a project as the subject of a trouble.
func ProjectOf(name string) protocol.Subject {
	return protocol.Subject{Project: name, Kind: protocol.KindProject, ID: name}
}

// troubles collects all faults by project, sorted by code. Of two with one code the graver counts, then the older.
func (d *decision) troubles() map[string][]Trouble {
	var all map[string][]Trouble
	add := func(t Trouble) {
		t.Code = cmp.Or(t.Code, t.Fault.Path, t.Fault.Problem)
		t.Fault.Severity = cmp.Or(t.Fault.Severity, protocol.Medium)
		if all == nil {
			all = map[string][]Trouble{}
		}
		all[t.Project] = append(all[t.Project], t)
	}
	for i := range d.view.Snapshots {
		for _, f := range d.view.Snapshots[i].Faults {
			t := Trouble{Project: d.view.Snapshots[i].Project, Fault: f}
			if f.ManyFiles() {
				t.TooManyFiles()
			}
			add(t)
		}
	}
	for _, t := range d.view.Troubles {
		add(t)
	}
	for project, list := range all {
		slices.SortStableFunc(list, func(a, b Trouble) int {
			return cmp.Or(strings.Compare(a.Code, b.Code), b.Fault.Severity.Rank()-a.Fault.Severity.Rank(), plain(a.Fault.Since).Compare(plain(b.Fault.Since)))
		})
		all[project] = slices.CompactFunc(list, func(a, b Trouble) bool { return a.Code == b.Code })
	}
	return all
}

// blind reports whether files could not be read for lack of descriptors: an agent that seems silent then may only be unread.
func blind(s *protocol.Snapshot) bool {
	return slices.ContainsFunc(s.Faults, func(f protocol.Fault) bool { return f.ManyFiles() })
}

// lasting makes the alert of a fault, and reports whether it has lasted long enough. Its time counts from when it was first
// seen, across restarts.
func (d *decision) lasting(t Trouble) (a rules.Alert, stays bool) {
	since := d.stands(d.alertOf(t, t.Fault.Since), t.Fault.Since).Since
	a = d.alertOf(t, since)
	if due := since.Add(d.cfg.FaultAfter); d.now.Before(due) {
		d.wakeAt(due)
		return a, false
	}
	return a, true
}

// alertOf is the alert of a fault that lasts since then.
func (d *decision) alertOf(t Trouble, since time.Time) rules.Alert {
	f := &t.Fault
	a := rules.Alert{Kind: "fault", Code: t.Code, Severity: f.Severity, Subject: ProjectOf(t.Project)}
	a.Key = KeyOf(a)
	what := t.inShort()
	a.Summary = t.Project + ": " + what
	a.Spoken = fmt.Sprintf("%s, in project %s: %s.", d.cfg.Human, t.Project, what)
	a.Detail = strings.Join(slices.DeleteFunc([]string{f.Path, f.Problem, f.Hint, "It has been so since " + moment(since, d.now) + "."},
		func(line string) bool { return line == "" }), "\n")
	a.Occurrence = occurrence(since, cmp.Or(t.Title, f.Problem))
	return a
}

// inShort says what is wrong in few words, with the name of the file but without its folder.
func (t *Trouble) inShort() string {
	f := &t.Fault
	switch name := path.Base(f.Path); {
	case t.Title != "":
		return t.Title
	case t.Code != f.Path || path.IsAbs(f.Path):
		return f.Problem
	case strings.Contains(f.Problem, name):
		return strings.ReplaceAll(f.Problem, f.Path, name)
	default:
		return name + ": " + f.Problem
	}
}

// listedFaults bounds how many faults an incident names.
const listedFaults = 20

// together makes one alert of many. A fault that is gone is no news; a new one is.
func (d *decision) together(a rules.Alert, list []rules.Alert) rules.Alert {
	s := d.stands(a, time.Time{})
	for _, f := range list {
		if since := d.plan.Memory.Standing[f.Key].Since; since.After(s.Newest) {
			s.Newest = since
		}
	}
	d.setStanding(a.Key, s)
	count := fmt.Sprintf("%d faults stay", len(list))
	if len(list) == 1 {
		count = "one more fault stays"
	}
	a.Summary = a.Subject.Project + ": " + count
	var lines []string
	for _, f := range list[:min(len(list), listedFaults)] {
		lines = append(lines, Clip(f.Summary, 2*MaxSummary))
	}
	if more := len(list) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more; see: steward status", more))
	}
	a.Detail = strings.Join(lines, "\n")
	a.Spoken = fmt.Sprintf("%s, in project %s %s.", d.cfg.Human, a.Subject.Project, count)
	a.Occurrence = stamp(s.Since) + " " + stamp(s.Newest)
	return a
}
