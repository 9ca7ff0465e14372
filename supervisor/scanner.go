package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// order is one unit of work for a scanner: it applies the changes and commands, then scans.
type order struct {
	changes  []protocol.Change
	commands []command
	hints    []string
	full     bool
	since    time.Time                           // list tasks that ended after this time
	modes    map[string]protocol.Mode            // by protocol: the modes that people ordered; of a full scan
	publish  []byte                              // the capacity document, when it is due
	keep     map[string]map[string]time.Duration // by protocol: agents whose heartbeat steward writes, with their uptime
	project  *Project                            // set when settings changed: reopen all adapters
	release  bool                                // the changes are releases of a stop; no scan follows
}

// command is a change that a person asked for, and the channel for its outcome.
type command struct {
	change protocol.Change
	reply  chan error
}

// report is a scanner's answer to one order.
type report struct {
	project   *projectState // by identity: another project may have the same name by now
	snapshots []protocol.Snapshot
	speaks    []Spoken
	dirs      []string
	folder    Folder
	folderErr error // why the folder is not known
	results   []result
	problem   *protocol.Fault
	stack     string
	watchErr  error
	full      bool
	released  bool // answers releases of a stop: nothing was scanned
	took      time.Duration
}

// result is the outcome of one Change.
type result struct {
	change protocol.Change
	err    error
	took   time.Duration
}

// scanner scans one project and changes its files. Only the scanner touches them, so operations on one project never
// overlap, and a hanging disk blocks no other project.
type scanner struct {
	state     *projectState // only identifies the project in reports
	project   Project
	protocols map[string]*Speaker
	failed    map[string]unopened      // by protocol; "" is the project's folder itself
	modes     map[string]protocol.Mode // by protocol: the modes that people ordered
	now       func() time.Time
	watch     func(project, root string, dirs []string) error
}

func newScanner(d *projectState, now func() time.Time, watch func(project, root string, dirs []string) error) *scanner {
	return &scanner{state: d, project: d.project, protocols: map[string]*Speaker{}, failed: map[string]unopened{}, now: now, watch: watch}
}

func (l *scanner) run(ctx context.Context, orders <-chan order, reports chan<- report) {
	defer l.close()
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-orders:
			r := l.carryOut(ctx, o)
			select {
			case reports <- r:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *scanner) close() {
	for _, name := range l.names() {
		l.closeProtocol(name, &report{})
	}
}

// closeProtocol closes a protocol's adapter.
func (l *scanner) closeProtocol(name string, r *report) {
	defer l.guard("close "+name, r)
	s := l.protocols[name]
	delete(l.protocols, name)
	if s.Close != nil {
		s.Close()
	}
}

func (l *scanner) carryOut(ctx context.Context, o order) report {
	start := l.now()
	r := report{project: l.state, full: o.full}
	l.applyAll(ctx, o.changes, &r)
	if o.release {
		r.released, r.took = true, l.now().Sub(start)
		return r
	}
	for _, c := range o.commands {
		res := l.apply(ctx, []protocol.Change{c.change}, &r)
		r.results = append(r.results, res...)
		c.reply <- res[0].err
	}
	if o.project != nil {
		l.close()
		l.project, l.failed = *o.project, map[string]unopened{}
	}
	if o.full {
		r.folder = Folder{Path: l.project.Path}
		if l.project.Identify != nil {
			r.folder, r.folderErr = l.project.Identify()
		}
		l.modes = o.modes
		l.open(&r)
	}
	l.scan(ctx, o, &r)
	if o.full && l.watch != nil {
		slices.Sort(r.dirs)
		r.watchErr = l.watch(l.project.Name, l.project.Path, slices.Compact(r.dirs))
	}
	l.write(o, &r)
	r.took = l.now().Sub(start)
	return r
}

// unopened is why a protocol is not open. gone: its folder has vanished.
type unopened struct {
	fault protocol.Fault
	gone  bool
}

// fail records why a protocol is not open. The fault lasts since it was first found.
func (l *scanner) fail(name string, gone bool, f protocol.Fault) {
	old := l.failed[name]
	f.Path, f.Since = l.project.Path, l.now()
	if old.fault.Problem == f.Problem {
		f.Since = old.fault.Since
	}
	l.failed[name] = unopened{f, gone || old.gone}
}

// open opens the protocols that appeared since the last full scan, and closes those whose folder is gone.
func (l *scanner) open(r *report) {
	defer l.guard("detect protocols", r)
	found := l.project.Detect()
	for _, name := range l.names() {
		if !slices.Contains(found, name) {
			l.fail(name, true, protocol.Fault{Problem: "the folder of protocol " + name + " is gone",
				Hint: "if that was not meant, put it back or boot an agent again; it will be noticed"})
			l.closeProtocol(name, r)
		}
	}
	maps.DeleteFunc(l.failed, func(name string, u unopened) bool { return !u.gone && !slices.Contains(found, name) })
	for _, name := range found {
		if s := l.protocols[name]; s != nil && s.ordered == l.modes[name] {
			continue
		} else if s != nil {
			l.closeProtocol(name, r)
		}
		s, err := l.project.Open(name, l.modes[name])
		if err != nil {
			l.fail(name, false, protocol.Fault{Problem: fmt.Sprintf("open protocol %s: %v", name, err)})
			continue
		}
		delete(l.failed, name)
		s.ordered = l.modes[name]
		l.protocols[name] = &s
	}
	if l.project.Missing == nil {
		return
	}
	if err := l.project.Missing(); err != nil {
		l.fail("", true, protocol.Fault{Problem: "the project cannot be scanned: " + err.Error(),
			Hint: "put the folder back, or take it out of the configuration", Severity: protocol.High})
	} else {
		delete(l.failed, "")
	}
}

// names lists the open protocols in a fixed order.
func (l *scanner) names() []string { return slices.Sorted(maps.Keys(l.protocols)) }

func (l *scanner) scan(ctx context.Context, o order, r *report) {
	for _, name := range l.names() {
		s := l.protocols[name]
		look := protocol.ScanOrder{Now: l.now(), Since: o.since}
		if !o.full {
			look.Hints = append([]string{}, o.hints...)
		} else {
			s.ask(name, l.project.Path, look.Now)
		}
		if snap, ok := l.observe(ctx, name, s, look, r); ok {
			r.snapshots = append(r.snapshots, snap)
		} else {
			l.closeProtocol(name, r) // its state may be inconsistent; the next full scan reopens it
		}
		r.speaks = append(r.speaks, Spoken{Protocol: name, Mode: s.now(), Why: s.Why})
	}
	for _, name := range slices.Sorted(maps.Keys(l.failed)) {
		r.snapshots = append(r.snapshots, protocol.Snapshot{Project: l.project.Name, Protocol: name, At: l.now(), Gone: l.failed[name].gone,
			Faults: []protocol.Fault{l.failed[name].fault}})
	}
}

func (l *scanner) observe(ctx context.Context, name string, s *Speaker, look protocol.ScanOrder, r *report) (snap protocol.Snapshot, ok bool) {
	defer l.guard("look at "+name, r)
	snap = s.Adapter.Observe(ctx, look)
	r.dirs = append(r.dirs, s.Adapter.Dirs()...)
	snap.Name(l.project.Name, name, s.acts())
	if snap.Mode = s.Mode; s.hindered != nil {
		snap.Faults, snap.Hindered = append(slices.Clip(snap.Faults), *s.hindered), s.hindered.Problem
	}
	d := snap.Divide(s.completed)
	s.completed, snap.Divided = d.List, &d
	return snap, true
}

// applyAll applies changes in their order. Consecutive changes with one verb and protocol go to the adapter as one
// batch, if it supports that.
func (l *scanner) applyAll(ctx context.Context, changes []protocol.Change, r *report) {
	for len(changes) > 0 {
		n := 1
		if s := l.protocols[changes[0].Subject.Protocol]; s != nil {
			_, batches := s.Adapter.(protocol.Batcher)
			for batches && n < len(changes) && together(changes[0], changes[n]) {
				n++
			}
		}
		r.results = append(r.results, l.apply(ctx, changes[:n], r)...)
		changes = changes[n:]
	}
}

// together reports whether two changes may be applied in one batch.
func together(a, b protocol.Change) bool {
	return a.Verb == b.Verb && a.Subject.Protocol == b.Subject.Protocol && a.Subject.Kind == protocol.KindTask && b.Subject.Kind == protocol.KindTask
}

// apply applies one change, or several as one batch.
func (l *scanner) apply(ctx context.Context, changes []protocol.Change, r *report) (results []result) {
	for _, c := range changes {
		results = append(results, result{change: c, err: errPanic})
	}
	first, start := changes[0], l.now()
	defer l.guard(fmt.Sprintf("%s %s", first.Verb, first.Subject), r)
	s := l.protocols[first.Subject.Protocol]
	var errs []error
	switch {
	case s == nil:
		errs = []error{fmt.Errorf("%s %s: the project no longer speaks %s", first.Verb, first.Subject, first.Subject.Protocol)}
	case len(changes) == 1:
		errs = []error{s.Adapter.Apply(ctx, first, start)}
	default:
		errs = s.Adapter.(protocol.Batcher).ApplyAll(ctx, changes, start)
	}
	took := l.now().Sub(start) / time.Duration(len(changes))
	for i, err := range errs {
		results[i].err, results[i].took = err, took
	}
	return results
}

var errPanic = errors.New("the change was interrupted by a defect of steward")

// guard recovers from a panic in an adapter, so that it affects only its own project.
func (l *scanner) guard(doing string, r *report) {
	if p := recover(); p != nil {
		r.stack = string(debug.Stack())
		r.problem = &protocol.Fault{Path: l.project.Path, Problem: fmt.Sprintf("%s: panic: %v", doing, p),
			Hint: "this is a defect of steward; its stack is in the log", Since: l.now()}
	}
}

// write writes what agents read: the capacity document, and the heartbeats that steward keeps for them. A failure shows as a
// fault or as silence at the next scan, and is retried there.
func (l *scanner) write(o order, r *report) {
	defer l.guard("write the capacity and heartbeats", r)
	for _, name := range l.names() {
		s := l.protocols[name]
		if !s.acts() {
			continue
		}
		if o.publish != nil && s.Publish != nil {
			_ = s.Publish(o.publish)
		}
		if agents := o.keep[name]; len(agents) > 0 && s.Keep != nil {
			_ = s.Keep(agents, l.now())
		}
	}
}
