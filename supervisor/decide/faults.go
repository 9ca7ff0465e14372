package decide

import (
	"cmp"
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
	CodeFiles = "files" // steward may open no more files: the user is told once
	CodeWatch = "watch" // the kernel provides no more watches
)

// TooManyFiles marks the trouble as one of those for which there are too few open files, whatever the path.
func (t *Trouble) TooManyFiles() { t.Code, t.Title, t.Fault.Severity = CodeFiles, "", protocol.High }

// manyFaults is how many incidents of a project may each be about a single fault. listedFaults bounds how many faults an
// incident names.
const (
	manyFaults   = 5
	listedFaults = 20
)

// ProjectOf is a project as the subject of a trouble.
func ProjectOf(name string) protocol.Subject {
	return protocol.Subject{Project: name, Kind: protocol.KindProject, ID: name}
}

// blind reports whether files could not be read for lack of descriptors: an agent that seems silent then may only be unread.
func blind(s *protocol.Snapshot) bool {
	return slices.ContainsFunc(s.Faults, func(f protocol.Fault) bool { return f.ManyFiles() })
}

// judgeFaults tells the user of faults that last: once per path, and of many together. A grave fault has an incident of its
// own. It returns what stands, beside what is carried over from before.
func judgeFaults(e *env, carried map[string]Standing) (r ruling, stand map[string]Standing) {
	stand = maps.Clone(carried)
	byProject := troubles(&e.view)
	for _, project := range slices.Sorted(maps.Keys(byProject)) {
		var lasting []rules.Alert
		for _, t := range byProject[project] {
			a := aboutFault(e, t, time.Time{})
			s := standing(e, a.Key, a.Subject, t.Fault.Since)
			stand[a.Key] = s
			if due := s.Since.Add(e.cfg.FaultAfter); e.now.Before(due) {
				r.wakeAt(due, e.now)
			} else {
				lasting = append(lasting, aboutFault(e, t, s.Since))
			}
		}
		for _, a := range grouped(e, project, lasting, stand) {
			r.conditions = append(r.conditions, condition{Alert: a})
		}
	}
	filesShort(e, &r, stand)
	return r, stand
}

// filesShort keeps the lack of open files standing for a while after its last sign: between two scans some are often free,
// and each time would be told again. It also tells of what could not be written while the lack lasted.
func filesShort(e *env, r *ruling, stand map[string]Standing) {
	for key, s := range e.last.Standing {
		t := Trouble{Project: s.Subject.Project}
		t.TooManyFiles()
		a, age := aboutFault(e, t, s.Since), e.now.Sub(s.Looked)
		if _, known := stand[key]; known || s.Subject != ProjectOf(t.Project) || a.Key != key || age < 0 || age >= exhaustionHolds {
			continue
		}
		stand[key] = s
		r.wakeAt(s.Looked.Add(exhaustionHolds), e.now)
		if s.Looked.Sub(s.Since) >= e.cfg.FaultAfter {
			r.conditions = append(r.conditions, condition{Alert: a})
		}
	}
}

// grouped combines what would be too many incidents. Faults with an incident of their own, or that the user has settled,
// stay as they are. The combined incident lasts until none of its faults is left.
func grouped(e *env, project string, lasting []rules.Alert, stand map[string]Standing) (told []rules.Alert) {
	var rest []rules.Alert
	single := 0 // about a single fault each, and open
	for _, a := range lasting {
		head, known := e.view.Incidents[a.Key]
		open := known && head.State != rules.Resolved
		if open {
			single++
		}
		if open || known && head.Has(a) || a.Severity.Rank() > protocol.Medium.Rank() {
			told = append(told, a)
		} else {
			rest = append(rest, a)
		}
	}
	many := rules.Alert{Kind: "faults", Severity: protocol.Medium, Subject: ProjectOf(project)}
	many.Key = KeyOf(many)
	head, known := e.view.Incidents[many.Key]
	open := known && head.State != rules.Resolved
	if _, stood := e.last.Standing[many.Key]; stood && known && head.ResolvedBy != rules.ByFiles {
		open = true // the user has settled it, and some of it lasts
	}
	if len(rest) > 0 && (open || single+len(rest) > manyFaults) {
		return append(told, together(e, many, rest, stand))
	}
	return append(told, rest...)
}

// troubles collects all faults by project, sorted by code. Of two with one code the graver counts, then the older.
func troubles(v *View) map[string][]Trouble {
	all := map[string][]Trouble{}
	add := func(t Trouble) {
		t.Code = cmp.Or(t.Code, t.Fault.Path, t.Fault.Problem)
		t.Fault.Severity = cmp.Or(t.Fault.Severity, protocol.Medium)
		all[t.Project] = append(all[t.Project], t)
	}
	for i := range v.Snapshots {
		for _, f := range v.Snapshots[i].Faults {
			t := Trouble{Project: v.Snapshots[i].Project, Fault: f}
			if f.ManyFiles() {
				t.TooManyFiles()
			}
			add(t)
		}
	}
	for _, t := range v.Troubles {
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

// aboutFault is the alert of a fault that lasts since then.
func aboutFault(e *env, t Trouble, since time.Time) rules.Alert {
	f := &t.Fault
	text := cmp.Or(t.Title, f.Problem)
	if t.Code == CodeFiles {
		text = CodeFiles // whatever file could not be opened
	}
	a := rules.Alert{Kind: "fault", Code: t.Code, Severity: f.Severity, Subject: ProjectOf(t.Project), Occurrence: occurrence(since, text)}
	a.Key = KeyOf(a)
	a.Notice = &rules.Notice{Phrase: protocol.PhraseFault, Facts: protocol.Facts{Text: inShort(&t), Name: t.Project, At: since, Base: protocol.PhraseTooManyFiles},
		Names: slices.DeleteFunc([]string{f.Path, f.Problem, f.Hint}, func(line string) bool { return line == "" })}
	return a
}

// inShort says what is wrong in few words, with the name of the file but without its folder; "" for too many open files.
func inShort(t *Trouble) string {
	f := &t.Fault
	switch name := path.Base(f.Path); {
	case t.Code == CodeFiles:
		return ""
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

// together makes one alert of many. A fault that is gone is no news; a new one is.
func together(e *env, a rules.Alert, list []rules.Alert, stand map[string]Standing) rules.Alert {
	s := standing(e, a.Key, a.Subject, time.Time{})
	var lines []string
	for i, f := range list {
		if since := stand[f.Key].Since; since.After(s.Newest) {
			s.Newest = since
		}
		if i < listedFaults {
			lines = append(lines, a.Subject.Project+": "+f.Notice.Text)
		}
	}
	stand[a.Key] = s
	a.Notice = &rules.Notice{Phrase: protocol.PhraseFaults, Facts: protocol.Facts{Name: a.Subject.Project, Count: len(list), Of: len(list) - len(lines)}, List: lines}
	a.Occurrence = stamp(s.Since) + " " + stamp(s.Newest)
	return a
}

// Standing is what is remembered of a condition that the user is told of, or will be if it lasts.
type Standing struct {
	Subject protocol.Subject `json:"subject"`
	// Since distinguishes this period from another one in which the same condition holds.
	Since  time.Time `json:"since"`
	Looked time.Time `json:"looked"`
	// Offered are the repairs that the user was offered with it.
	Offered []string `json:"offered,omitempty"`
	// Newest is since when the last part of a combined condition holds.
	Newest time.Time `json:"newest,omitzero"`
}

// standing is what is known of a condition that holds now. from is since when it is known to hold; zero: since it was first
// seen.
func standing(e *env, key string, subject protocol.Subject, from time.Time) Standing {
	s := e.last.Standing[key]
	if s.Since.IsZero() {
		s.Since = e.now
	}
	if !from.IsZero() && plain(from).Before(s.Since) {
		s.Since = plain(from)
	}
	s.Subject, s.Looked = subject, e.now
	return s
}
