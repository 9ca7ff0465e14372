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
	failed    map[string]protocol.Fault // protocols that could not be opened
	vanished  map[string]bool           // the protocols whose folder is gone
	now       func() time.Time
	watch     func(project, root string, dirs []string) error
}

func newScanner(d *projectState, now func() time.Time, watch func(project, root string, dirs []string) error) *scanner {
	return &scanner{state: d, project: d.project, protocols: map[string]*Speaker{}, failed: map[string]protocol.Fault{}, vanished: map[string]bool{}, now: now, watch: watch}
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
		res := l.apply(ctx, c.change, &r)
		r.results = append(r.results, res)
		c.reply <- res.err
	}
	if o.project != nil {
		l.close()
		l.project, l.failed, l.vanished = *o.project, map[string]protocol.Fault{}, map[string]bool{}
	}
	if o.full {
		l.identify(&r)
		l.open(&r)
	}
	l.scan(ctx, o, &r)
	if o.full {
		l.updateWatch(&r)
	}
	if o.publish != nil {
		l.publish(o.publish, &r)
	}
	l.keep(o.keep, &r)
	r.took = l.now().Sub(start)
	return r
}

// identify finds out which folder the project's path leads to.
func (l *scanner) identify(r *report) {
	if l.project.Identify == nil {
		r.folder = Folder{Path: l.project.Path}
		return
	}
	r.folder, r.folderErr = l.project.Identify()
}

// open opens the protocols that appeared since the last full scan, and closes those whose folder is gone.
func (l *scanner) open(r *report) {
	defer l.guard("detect protocols", r)
	found := l.project.Detect()
	l.checkFolder()
	for _, name := range found {
		if l.protocols[name] != nil {
			continue
		}
		s, err := l.project.Open(name)
		if err != nil {
			fault := protocol.Fault{Path: l.project.Path, Problem: fmt.Sprintf("open protocol %s: %v", name, err), Since: l.now()}
			if old, ok := l.failed[name]; ok && old.Problem == fault.Problem {
				fault.Since = old.Since
			}
			l.failed[name] = fault
			continue
		}
		delete(l.failed, name)
		delete(l.vanished, name)
		l.protocols[name] = &s
	}
	for _, name := range l.names() {
		if !slices.Contains(found, name) {
			l.vanished[name] = true
			l.failed[name] = protocol.Fault{Path: l.project.Path, Problem: "the folder of protocol " + name + " is gone",
				Hint: "if that was not meant, put it back or boot an agent again; it will be noticed", Since: l.now()}
			l.closeProtocol(name, r)
		}
	}
	for name := range l.failed {
		if !slices.Contains(found, name) && !l.vanished[name] {
			delete(l.failed, name)
		}
	}
}

// checkFolder keeps a fault while the project's folder itself cannot be used. It belongs to no protocol.
func (l *scanner) checkFolder() {
	since := l.now()
	if old, known := l.failed[""]; known {
		since = old.Since
	}
	delete(l.failed, "")
	delete(l.vanished, "")
	if l.project.Missing == nil {
		return
	}
	if err := l.project.Missing(); err != nil {
		l.vanished[""] = true
		l.failed[""] = protocol.Fault{Path: l.project.Path, Problem: "the project cannot be scanned: " + err.Error(),
			Hint: "put the folder back, or take it out of the configuration", Since: since, Severity: protocol.High}
	}
}

// names lists the open protocols in a fixed order.
func (l *scanner) names() []string { return slices.Sorted(maps.Keys(l.protocols)) }

func (l *scanner) scan(ctx context.Context, o order, r *report) {
	for _, name := range l.names() {
		s := l.protocols[name]
		look := protocol.Look{Now: l.now(), Since: o.since}
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
		r.speaks = append(r.speaks, Spoken{Protocol: name, Act: s.acts(), Why: s.Why})
	}
	for _, name := range slices.Sorted(maps.Keys(l.failed)) {
		r.snapshots = append(r.snapshots, protocol.Snapshot{Project: l.project.Name, Protocol: name, At: l.now(), Gone: l.vanished[name],
			Faults: []protocol.Fault{l.failed[name]}})
	}
}

func (l *scanner) observe(ctx context.Context, name string, s *Speaker, look protocol.Look, r *report) (snap protocol.Snapshot, ok bool) {
	defer l.guard("look at "+name, r)
	snap = s.Adapter.Observe(ctx, look)
	r.dirs = append(r.dirs, s.Adapter.Dirs()...)
	if s.Act && s.hindered != nil {
		snap.Faults = append(slices.Clip(snap.Faults), *s.hindered)
	}
	snap.Name(l.project.Name, name, s.acts())
	return snap, true
}

func (l *scanner) apply(ctx context.Context, c protocol.Change, r *report) (res result) {
	start := l.now()
	res = result{change: c, err: errPanic}
	defer l.guard(fmt.Sprintf("%s %s", c.Verb, c.Subject), r)
	s := l.protocols[c.Subject.Protocol]
	if s == nil {
		res.err = fmt.Errorf("%s %s: the project no longer speaks %s", c.Verb, c.Subject, c.Subject.Protocol)
		return res
	}
	err := s.Adapter.Apply(ctx, c, start)
	res.err, res.took = err, l.now().Sub(start)
	return res
}

// applyAll applies changes in their order. Consecutive changes with one verb and protocol go to the adapter as one
// batch, if it supports that.
func (l *scanner) applyAll(ctx context.Context, changes []protocol.Change, r *report) {
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && together(changes[0], changes[n]) {
			n++
		}
		if batcher := l.batcher(changes[0]); n > 1 && batcher != nil {
			r.results = append(r.results, l.applyTogether(ctx, batcher, changes[:n], r)...)
		} else {
			for _, c := range changes[:n] {
				r.results = append(r.results, l.apply(ctx, c, r))
			}
		}
		changes = changes[n:]
	}
}

// together reports whether two changes may be applied in one batch.
func together(a, b protocol.Change) bool {
	return a.Verb == b.Verb && a.Subject.Protocol == b.Subject.Protocol && a.Subject.Kind == protocol.KindTask && b.Subject.Kind == protocol.KindTask
}

// batcher is the adapter of a change if it supports batches, else nil.
func (l *scanner) batcher(c protocol.Change) protocol.Batcher {
	s := l.protocols[c.Subject.Protocol]
	if s == nil {
		return nil
	}
	b, _ := s.Adapter.(protocol.Batcher)
	return b
}

func (l *scanner) applyTogether(ctx context.Context, b protocol.Batcher, changes []protocol.Change, r *report) (results []result) {
	start := l.now()
	results = make([]result, len(changes))
	for i, c := range changes {
		results[i] = result{change: c, err: errPanic}
	}
	defer l.guard(fmt.Sprintf("%s %d tasks", changes[0].Verb, len(changes)), r)
	errs := b.ApplyAll(ctx, changes, start)
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

// updateWatch watches the folders that the adapters ask for.
func (l *scanner) updateWatch(r *report) {
	slices.Sort(r.dirs)
	if l.watch != nil {
		r.watchErr = l.watch(l.project.Name, l.project.Path, slices.Compact(r.dirs))
	}
}

func (l *scanner) publish(doc []byte, r *report) {
	defer l.guard("publish the capacity", r)
	for _, name := range l.names() {
		if s := l.protocols[name]; s.Publish != nil && s.acts() {
			_ = s.Publish(doc) // a failure shows as a fault at the next scan
		}
	}
}

// keep writes the heartbeats of agents.
func (l *scanner) keep(agents map[string]map[string]time.Duration, r *report) {
	defer l.guard("keep heartbeats", r)
	for _, name := range l.names() {
		if s := l.protocols[name]; s.Keep != nil && s.acts() && len(agents[name]) > 0 {
			_ = s.Keep(agents[name], l.now()) // a failure shows as silence, and is retried at the next scan
		}
	}
}
