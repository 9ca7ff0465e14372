package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// pausedWhy is why an order restricts a project to observation; "": no order exists.
func (o *Orders) pausedWhy(d *projectState, all projects) string {
	why := pausedBy(o.aboutProject(pauseOrder, d, all))
	if why == "" && o.any(pauseOrder) && d.unidentified != nil {
		return "there are paused projects, and steward cannot tell whether this folder is one of them: " + d.unidentified.Error()
	}
	return why
}

func pausedBy(orders []standingOrder) string {
	if len(orders) == 0 {
		return ""
	}
	return cmp.Or(orders[0].Why, "paused by you")
}

// pauseProject records the order to pause a project. It is on disk before the orders that it replaces are removed.
func (o *Orders) pauseProject(d *projectState, all projects, why string, deps *Deps, now time.Time) error {
	p, err := o.give(standingOrder{about: pauseOrder, Project: d.project.Name, Why: why, At: now.UTC()}, d.place())
	if err != nil {
		return err
	}
	return o.resumeProject(d, all, p.file, deps)
}

// resumeProject removes the orders that keep a project paused, except the one in the given file.
func (o *Orders) resumeProject(d *projectState, all projects, except string, deps *Deps) error {
	return o.takeBackAll(pauseOrder, d, all, except, deps)
}

// takeBackAll removes the orders about something of a project, except the one in the given file.
func (o *Orders) takeBackAll(about string, d *projectState, all projects, except string, deps *Deps) error {
	if d.unidentified != nil && except == "" && o.any(about) {
		return fmt.Errorf("the identity of the folder %s cannot be read: %w", d.project.Path, d.unidentified)
	}
	for _, p := range o.aboutProject(about, d, all) {
		if p.file == except {
			continue
		}
		if err := o.takeBack(p); err != nil {
			return err
		}
		over := orderAlert(p)
		over.Resolve, over.Detail = true, "another order took its place"
		_ = deps.Tell(over)
	}
	return nil
}

// any reports whether there is an order about something, of any project.
func (o *Orders) any(about string) bool {
	return slices.ContainsFunc(o.list, func(p standingOrder) bool { return p.about == about })
}

// setMode records the order about a protocol's mode, or takes it back. It is on disk before the orders that it replaces are
// removed.
func (o *Orders) setMode(d *projectState, all projects, c Command, deps *Deps, now time.Time) error {
	p := standingOrder{about: modeOrder + c.Subject.Protocol, Project: d.project.Name, Why: c.Why, At: now.UTC(), Mode: c.Mode}
	if c.Mode != "" {
		var err error
		if p, err = o.give(p, d.place()); err != nil {
			return err
		}
	}
	return o.takeBackAll(p.about, d, all, p.file, deps)
}

// modes are the ordered modes of a project, by protocol. While it is not known which folder the project is, it may be the one
// of an order.
func (o *Orders) modes(d *projectState, all projects) map[string]protocol.Mode {
	if len(o.list) == 0 {
		return nil
	}
	ordered := modesBy(o.aboutProject("", d, all))
	for _, p := range o.list {
		if name, ok := strings.CutPrefix(p.about, modeOrder); ok && ordered[name] == "" && d.unidentified != nil {
			ordered[name] = protocol.ModeObserve
		}
	}
	return ordered
}

// ModeOrder is a person's order about the mode of a protocol.
// See docs/decisions.md, "An order about a mode that cannot be read means observe".
type ModeOrder struct {
	Mode protocol.Mode
	At   time.Time
	Why  string
}

// modesBy are the modes that orders set.
func modesBy(orders []standingOrder) map[string]protocol.Mode {
	ordered := map[string]protocol.Mode{}
	for name, o := range modeOrders(orders) {
		ordered[name] = o.Mode
	}
	return ordered
}

// modeOrders are the orders about modes, by protocol. Of several for one protocol, which a crash can leave, the newest holds.
func modeOrders(orders []standingOrder) map[string]ModeOrder {
	ordered := map[string]ModeOrder{}
	for _, p := range orders {
		name, ok := strings.CutPrefix(p.about, modeOrder)
		if old, known := ordered[name]; ok && (!known || p.At.After(old.At)) {
			ordered[name] = ModeOrder{p.Mode, p.At, p.Why}
		}
	}
	return ordered
}

// Paused returns, for a command that only observes, why each project is paused.
func (o *Orders) Paused(folders map[string]Folder) map[string]string {
	paused := map[string]string{}
	o.each(pauseOrder, folders, func(name string, orders []standingOrder) {
		if why := pausedBy(orders); why != "" {
			paused[name] = why
		}
	})
	return paused
}

// Modes returns, for a command, the orders about the modes of each project by protocol.
func (o *Orders) Modes(folders map[string]Folder) map[string]map[string]ModeOrder {
	all := map[string]map[string]ModeOrder{}
	o.each("", folders, func(name string, orders []standingOrder) { all[name] = modeOrders(orders) })
	return all
}

// each calls f with the orders about each of some projects.
func (o *Orders) each(about string, folders map[string]Folder, f func(project string, orders []standingOrder)) {
	for name, folder := range folders {
		var others []Folder
		for other, g := range folders {
			if other != name {
				others = append(others, g)
			}
		}
		f(name, o.about(about, folder, folder.Path, others))
	}
}
