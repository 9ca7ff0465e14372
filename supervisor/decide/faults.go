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
	// Code groups those that have one cause, and Title says it in a few words; "": by their path, in the Fault's own words.
	Code  string         `json:"code,omitempty"`
	Title string         `json:"title,omitempty"`
	Fault protocol.Fault `json:"fault"`
}

// The codes of troubles that have one cause whatever the path.
const (
	CodeDisk  = "disk"  // it is full, or may not be written to
	CodeStuck = "stuck" // the folder does not answer
	codeFiles = "files" // steward may open no more of them
	CodeWatch = "watch" // the kernel gives no watches
)

// TooManyFiles makes it one of those for which there are too few open files, whatever the path: they are one thing to the human.
func (t *Trouble) TooManyFiles() {
	t.Code, t.Title, t.Fault.Severity = codeFiles, "too many open files, so steward cannot see or change some of what is there", protocol.High
}

// manyFaults is how many incidents of a project may be about a single fault each.
const manyFaults = 5

// faults tells the human of faults that stay: of each path once, of many together. What is grave stands alone.
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

// filesShort keeps the want of open files standing for a while after the last sign of it: between two looks there are
// often some free, and each time would be told anew. What could not be written while it lasted is told then.
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

// grouped puts into one what would be too many incidents. Those that stand by themselves, or that a human has settled,
// stay as they are; and so does the one of many until nothing is left of it.
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
		open = true // a human has settled it, and not all of it is over
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

// troubles gathers all faults by project, in the order of their codes. Of two with one code the graver counts, then
// the older.
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

// blind reports whether files could not be read for want of descriptors: who is silent then is perhaps only not heard.
func blind(s *protocol.Snapshot) bool {
	return slices.ContainsFunc(s.Faults, func(f protocol.Fault) bool { return f.ManyFiles() })
}

// lasting makes the alert of a fault, and reports whether it has stayed for long enough. Since counts from the first
// sight of it, through any restart.
func (d *decision) lasting(t Trouble) (a rules.Alert, stays bool) {
	since := d.stands(d.alertOf(t, t.Fault.Since), t.Fault.Since).Since
	a = d.alertOf(t, since)
	if due := since.Add(d.cfg.FaultAfter); d.now.Before(due) {
		d.wakeAt(due)
		return a, false
	}
	return a, true
}

// alertOf is the alert of a fault that holds since then.
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

// inShort says what is wrong in few words, with the name of the file, but not the way to it.
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

// listedFaults bounds how many an incident names.
const listedFaults = 20

// together makes one alert of many. That there are fewer than there were is no news; one that has come is.
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
