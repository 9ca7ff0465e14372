package mailbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// orchestratorState is what is known of the orchestrator's process. A pid alone proves nothing: the process is the
// orchestrator only if it started before the pid was written.
type orchestratorState struct {
	pid      int // the pid that the verdict is about; 0 if no file names one
	verdict  verdict
	evidence string
	id       proc.Identity // of the process that was last proved to be the orchestrator
	by       time.Time     // the orchestrator was running by then; zero if no file says so

	named claim // the pid file's claim that was last found to be true

	ended time.Time // when the process proved to be the orchestrator was found gone; else zero

	children []proc.Process // the processes that it left running
	counted  time.Time      // when children was last searched for
}

type verdict uint8

const (
	unnamed verdict = iota // no file names a process
	gone                   // proved: there is no process, or a younger one
	unsure                 // the system does not show it: treated as living
	here
)

// lives reports whether the orchestrator is running, or must be treated as running.
func (c *orchestratorState) lives() bool { return c.verdict >= unsure }

// yield says why nothing may be changed now; "" if changes are allowed.
func (c *orchestratorState) yield() string {
	switch c.verdict {
	case here:
		return fmt.Sprintf("its orchestrator runs (pid %d)", c.pid)
	case unsure:
		return "its orchestrator may run: " + c.evidence
	}
	return ""
}

// presence returns the evidence for the roles that work under the orchestrator.
func (c *orchestratorState) presence() string {
	if c.verdict == here {
		return fmt.Sprintf("its orchestrator (pid %d) lives", c.pid)
	}
	return c.yield()
}

// claim is a pid that a file names as the orchestrator's.
type claim struct {
	pid  int
	by   time.Time // the process was running by then
	file string
	// fresh means that the file may still be being written.
	fresh bool
}

// clockStep is the tolerance between two clock readings: file systems and start times are coarse.
const clockStep = 2 * time.Second

// claims lists the processes that may be the orchestrator. A truncated number is also a number: while the pid file may
// still be being written, its content proves no process gone, and the previously named process remains a candidate.
func (p *Project) claims(b *board, boardFile string, touched time.Time) (list []claim) {
	if p.pid.Good && p.pid.Value > 0 {
		list = append(list, claim{p.pid.Value, p.pid.Stamp.ModTime(), pidFile, !p.pid.Rest})
	}
	if k := p.chief.named; p.pid.There && !p.pid.Rest && k.pid != 0 && k.pid != p.pid.Value {
		list = append(list, k)
	}
	if b.pid > 0 {
		c := claim{b.pid, b.started, boardFile, false}
		if c.by.IsZero() {
			c.by = touched
		}
		list = append(list, c)
	}
	return list
}

// watchChief judges every claim and keeps the strongest verdict.
func (p *Project) watchChief(b *board, boardFile string, touched time.Time) {
	best := orchestratorState{}
	if r, _ := p.statusBoard(); r.There && !r.Good {
		best = orchestratorState{verdict: unsure, evidence: boardFile + " cannot be read"}
	}
	if p.pid.There && !p.pid.Good {
		best = orchestratorState{verdict: unsure, evidence: pidFile + " cannot be read"}
	}
	for _, c := range p.claims(b, boardFile, touched) {
		v, why, id := c.judge(p.chief.id)
		if c.fresh && v == gone {
			v, why = unsure, fmt.Sprintf("%s was written just now and names process %d", c.file, c.pid)
		}
		if v > best.verdict {
			best = orchestratorState{pid: c.pid, verdict: v, evidence: why, id: id, by: c.by, named: best.named}
		}
		if v == here && c.file == pidFile {
			best.named = c
		}
	}
	if p.pid.There && !p.pid.Rest {
		p.Patience.RetryAt(p.Now.Add(100 * time.Millisecond))
	}
	if best.verdict != here {
		best.id = p.chief.id
	}
	if best.named.pid == 0 {
		best.named = p.chief.named
	}
	p.awaitSignOff(&best, b)
	best.children, best.counted = p.chief.children, p.chief.counted
	if best.pid != p.chief.pid || best.verdict != gone {
		best.children, best.counted = nil, time.Time{}
	}
	p.chief = best
}

// signOff is how long after the end of its process the orchestrator's files may still be updated to say so.
const signOff = 2 * time.Second

// awaitSignOff delays the verdict on a process that has just been seen to end: if the program's files say so within two
// seconds, it has left; otherwise it is dead. A process that was never seen alive is judged at once.
func (p *Project) awaitSignOff(c *orchestratorState, b *board) {
	last := &p.chief
	if c.verdict != gone {
		return
	}
	switch {
	case last.verdict == gone && last.pid == c.pid, last.id.PID != c.pid:
		c.ended = last.ended
		return
	case last.verdict == unsure && !last.ended.IsZero():
		c.ended = last.ended
	default:
		c.ended = p.Now
	}
	due := c.ended.Add(signOff)
	if p.signedOff(c, b) || !p.Now.Before(due) {
		return
	}
	p.Patience.RetryAt(due)
	c.verdict, c.evidence = unsure, fmt.Sprintf("process %d ended a moment ago, and may still sign off", c.pid)
}

// signedOff reports whether the orchestrator's own files say that it has left: it does not run, or its pid file is gone.
func (p *Project) signedOff(c *orchestratorState, b *board) bool {
	unlisted := c.named.pid != 0 && (c.named.pid == c.pid || c.pid == 0) && !p.pid.There
	return c.verdict <= gone && b.there && (!b.running || unlisted)
}

// judge decides what became of the process. A process that was already proved to be the orchestrator still is, even if the
// clock has been changed since.
func (c claim) judge(proved proc.Identity) (verdict, string, proc.Identity) {
	id, err := proc.Inspect(c.pid)
	if errors.Is(err, proc.ErrGone) {
		return gone, fmt.Sprintf("%s names process %d, and there is none", c.file, c.pid), proc.Identity{}
	}
	if err != nil {
		return unsure, fmt.Sprintf("%s names process %d, of which the system says nothing", c.file, c.pid), proc.Identity{}
	}
	if id.Start != proved.Start || id.PID != proved.PID || id.Boot != proved.Boot {
		switch began, err := proc.Started(id); {
		case err != nil || c.by.IsZero():
			return unsure, fmt.Sprintf("%s names process %d, whose age cannot be told", c.file, c.pid), proc.Identity{}
		case began.After(c.by.Add(clockStep)):
			return gone, fmt.Sprintf("process %d is younger than the number in %s", c.pid, c.file), proc.Identity{}
		}
	}
	return here, fmt.Sprintf("process %d of %s runs", c.pid, c.file), id
}

// countEvery is how often the process table is searched for processes that a dead orchestrator left running.
const countEvery = 5 * time.Second

// countChildren finds the processes of the dead orchestrator's session or group that work inside the project. The system
// does not reuse a pid while a group or session has that number, so they belong to no other session. If a younger process
// has the pid, none of the orchestrator's processes are left.
func (p *Project) countChildren() {
	c := &p.chief
	if c.verdict != gone {
		return
	}
	defer func() { p.Patience.RetryAt(c.counted.Add(countEvery)) }()
	if !c.counted.IsZero() && p.Now.Sub(c.counted) < countEvery {
		return
	}
	c.counted, c.children = p.Now, nil
	if _, err := proc.Inspect(c.pid); !errors.Is(err, proc.ErrGone) {
		return
	}
	table, err := proc.Table()
	if err != nil {
		return // not available on this system
	}
	for _, k := range table {
		if k.Session != c.pid && k.Group != c.pid || k.Zombie || k.PID == c.pid || k.PID == os.Getpid() {
			continue
		}
		if dir, err := proc.Cwd(k.PID); err == nil && p.inside(dir) {
			c.children = append(c.children, k)
		}
	}
	slices.SortFunc(c.children, func(a, b proc.Process) int { return cmp.Compare(a.PID, b.PID) })
}

// inside reports whether a folder lies in the project.
func (p *Project) inside(dir string) bool {
	for _, top := range []string{p.dir, p.realDir()} {
		if rel, err := filepath.Rel(top, dir); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// realDir is the project's path without links, as the kernel names it.
func (p *Project) realDir() string {
	if real, err := filepath.EvalSymlinks(p.dir); err == nil {
		return real
	}
	return p.dir
}

// chiefAgent returns the orchestrator as an agent. It sets Ref only if the running flag must be corrected. After the
// correction, Recorded says so and no further change is requested.
func (p *Project) chiefAgent(b *board) (protocol.Agent, bool) {
	c := &p.chief
	if !b.there && c.verdict == unnamed {
		return protocol.Agent{}, false
	}
	a := protocol.Agent{Name: orchestrator, Status: "stopped", Recorded: "error", PID: c.pid, Evidence: c.evidence}
	if b.running && !p.signedOff(c, b) {
		a.Status, a.Recorded = "running", "running"
	}
	switch {
	case c.verdict == here:
		a.Presence, a.Process = protocol.PresenceHere, protocol.Identity(c.id) // its end is detected at once
	case c.verdict == unsure && c.id.PID != 0:
		a.Presence = protocol.PresenceHere // it was seen alive, and nothing proves yet that it died
	case p.signedOff(c, b):
		a.Idle, a.Left = true, "its files say that it does not run any more"
	case c.verdict == gone && b.running:
		a.Presence, a.Evidence = protocol.PresenceGone, c.evidence+p.waiting()
		a.Tasks = p.inHand()
		_, file := p.statusBoard()
		a.Ref = protocol.Ref{Path: file, Sum: string(b.sum)}
	default:
		a.Idle = true
	}
	return a, true
}

// inHand lists the tasks in progress: without the orchestrator no process continues them.
func (p *Project) inHand() (ids []string) {
	for _, r := range p.living().queue.Value.tasks {
		if r.status == inProgress {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// waiting says how many tasks wait for an orchestrator.
func (p *Project) waiting() string {
	n := map[string]int{}
	for _, r := range p.living().queue.Value.tasks {
		n[r.status]++
	}
	var parts []string
	for _, k := range []struct{ status, word string }{{inProgress, "in progress"}, {pending, "pending"}, {awaitingReview, "awaiting review"}, {rejected, "rejected"}} {
		if n[k.status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[k.status], k.word))
		}
	}
	if len(parts) == 0 {
		return "; no task waits for it"
	}
	return "; tasks that wait for it: " + strings.Join(parts, ", ")
}
