package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// pause makes steward only observe a project (or all) until it is resumed. Holds are released first.
func (s *loop) pause(q protocol.Query, pause bool, why string) error {
	wanted := cmp.Or(q.ID, q.Project)
	found := false
	var failed error
	for _, name := range s.names() {
		if wanted != "" && wanted != name {
			continue
		}
		found = true
		d := s.projects[name]
		var err error
		if pause {
			err = s.order(d, cmp.Or(why, "paused by you"))
		} else {
			err = s.resume(d, "")
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("record the order about %s: %w", name, err))
		}
	}
	if !found {
		return fmt.Errorf("project %q: %w", wanted, ErrNoSubject)
	}
	for _, d := range s.projects {
		if !d.busy {
			d.changes = append(d.changes, s.failOpen(d, nil, s.now())...)
		}
		d.full = true
	}
	s.decide()
	return failed
}

// order records the order to pause a project. It is on disk before the orders that it replaces are removed.
func (s *loop) order(d *projectState, why string) error {
	p, err := s.deps.Orders.pause(Pause{Project: d.project.Name, Why: why, At: s.now().UTC()}, d.place())
	if err != nil {
		return err
	}
	return s.resume(d, p.file)
}

// resume removes the orders that keep a project paused, except the one in the given file.
func (s *loop) resume(d *projectState, except string) error {
	if d.unidentified != nil && except == "" && len(s.deps.Orders.pauses) > 0 {
		return fmt.Errorf("it is not known which folder %s is: %w", d.project.Path, d.unidentified)
	}
	for _, p := range s.ordersAbout(d) {
		if p.file == except {
			continue
		}
		if err := s.deps.Orders.resume(p); err != nil {
			return err
		}
		over := orderAlert(p)
		over.Resolve, over.Detail = true, "another order took its place"
		_ = s.deps.Tell(over)
	}
	return nil
}

// pausedWhy is why a person's order restricts a project to observation; "": no order exists.
func (s *loop) pausedWhy(d *projectState) string {
	why := pausedBy(s.ordersAbout(d))
	if why == "" && len(s.deps.Orders.pauses) > 0 && d.unidentified != nil {
		return "there are paused projects, and it is not known which folder this one is: " + d.unidentified.Error()
	}
	return why
}

func pausedBy(orders []Pause) string {
	if len(orders) == 0 {
		return ""
	}
	return cmp.Or(orders[0].Why, "paused by you")
}

func (s *loop) ordersAbout(d *projectState) []Pause {
	if len(s.deps.Orders.pauses) == 0 {
		return nil
	}
	var others []Folder
	for _, other := range s.projects {
		if other != d {
			others = append(others, other.folder)
		}
	}
	return s.deps.Orders.about(d.place(), d.project.Path, others)
}

// place is the folder of a project; before the first scan only its path is known.
func (d *projectState) place() Folder {
	if d.folder.Path == "" {
		return Folder{Path: d.project.Path}
	}
	return d.folder
}

// identified records which folder a full scan found. A person's orders follow the folder: the order of a folder that was
// moved gets the new path.
func (s *loop) identified(d *projectState, r *report) {
	switch {
	case r.folderErr == nil:
		d.folder, d.unidentified = r.folder, nil
	case errors.Is(r.folderErr, fs.ErrNotExist):
		d.unidentified = nil // steward does not act on a missing folder
		return
	case d.folder.Path == "":
		d.unidentified = r.folderErr
		return
	default:
		return // keep the folder that was known
	}
	for _, p := range s.ordersAbout(d) {
		if err := s.deps.Orders.follow(p, d.folder); err != nil {
			s.log.Error("record a person's order; it stays in force", "project", d.project.Name, "error", err)
		}
	}
}

// tell raises incidents for order files that cannot be used, and resolves those that can be used again.
func (o *Orders) tell(tell func(rules.Alert) error) {
	for _, p := range o.pauses {
		alert := orderAlert(p)
		if p.problem == nil {
			alert.Resolve, alert.Detail = true, "it can be read again"
		}
		_ = tell(alert)
	}
}

// orderAlert is the incident about an unusable order file.
func orderAlert(p Pause) rules.Alert {
	file := path.Join(ordersFolder, p.file)
	a := rules.Alert{Kind: "order_unreadable", Severity: protocol.Medium, Foreign: true, Code: p.file, Options: decide.CareOptions(),
		Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "orders"},
		Summary: "an order to pause a project cannot be read, and stays in force"}
	a.Key = decide.KeyOf(a)
	if p.problem != nil {
		a.Detail = fmt.Sprintf("%s in the state folder: %v. Its project is only observed until: steward resume PROJECT", file, p.problem)
		a.Occurrence = p.problem.Error()
	}
	return a
}

// orderFault shows an unusable order file as a fault of its project.
func orderFault(orders []Pause, project string, since time.Time) *protocol.Fault {
	for _, p := range orders {
		if p.problem != nil {
			return &protocol.Fault{Path: path.Join(ordersFolder, p.file), Problem: fmt.Sprintf("the order to pause this project cannot be read, and stays in force: %v", p.problem),
				Hint: "to act here again: steward resume " + project, Since: since}
		}
	}
	return nil
}

// Paused returns, for a command that only observes, why each project is paused.
func (o *Orders) Paused(folders map[string]Folder) map[string]string {
	paused := map[string]string{}
	for name, f := range folders {
		var others []Folder
		for other, g := range folders {
			if other != name {
				others = append(others, g)
			}
		}
		if why := pausedBy(o.about(f, f.Path, others)); why != "" {
			paused[name] = why
		}
	}
	return paused
}

// toPublish returns the capacity document if it is due for this project.
func (s *loop) toPublish(d *projectState, now time.Time) []byte {
	if now.Sub(d.published) < publishEvery || s.plan.Agents.Len() == 0 {
		return nil
	}
	d.published = now
	return s.document(d.project.Name)
}

// publishEvery is how old capacity.json may become while agents are registered.
const publishEvery = 4 * time.Second
