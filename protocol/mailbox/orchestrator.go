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
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// orchestrator is what is known of the orchestrator's process. A pid alone proves nothing: the process is the
// orchestrator only if it started before the pid was written.
type orchestrator struct {
	pid      int // the pid that the verdict is about; 0 if no file names one
	verdict  verdict
	evidence string
	id       proc.Identity // of the process that was last proved to be the orchestrator
	by       time.Time     // the orchestrator was running by then; zero if no file says so

	named    int  // the number in the pid file when it was last proved
	unlisted bool // its pid file is gone

	ended time.Time // when the process proved to be the orchestrator was found gone; else zero
	since time.Time // when the end of its process was first proved; zero unless verdict is gone

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
func (o *orchestrator) lives() bool { return o.verdict >= unsure }

// yield says why nothing may be changed now; "" if changes are allowed.
func (o *orchestrator) yield() string {
	switch o.verdict {
	case here:
		return fmt.Sprintf("its orchestrator runs (pid %d)", o.pid)
	case unsure:
		return "its orchestrator may run: " + o.evidence
	}
	return ""
}

// presence returns the evidence for the roles that work under the orchestrator.
func (o *orchestrator) presence() string {
	if o.verdict == here {
		return fmt.Sprintf("its orchestrator (pid %d) lives", o.pid)
	}
	return o.yield()
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

// pidSettled is how long the pid file must be unchanged before its number can prove a process gone. A truncated number is
// also a number, and the program writes no newline after it.
const pidSettled = 2 * time.Second

// fresh reports whether the pid file may still be being written.
func fresh(pid *jsonfile.Reading[int], now time.Time) bool {
	age := now.Sub(pid.Stamp.ModTime())
	return pid.There && (!pid.Rest || age >= 0 && age < pidSettled)
}

// claims lists the processes that may be the orchestrator. While the pid file may still be being written, its content
// proves no process gone. A number that was proved before is whole.
func (o *orchestrator) claims(pid *jsonfile.Reading[int], st status, now time.Time) (list []claim) {
	if pid.Good && pid.Value > 0 {
		list = append(list, claim{pid.Value, pid.Stamp.ModTime(), pidFile, fresh(pid, now) && (!pid.Rest || pid.Value != o.id.PID)})
	}
	if b := &st.Value; b.pid > 0 {
		by := b.started
		if by.IsZero() {
			by = st.Stamp.ModTime()
		}
		list = append(list, claim{b.pid, by, st.file, false})
	}
	return list
}

// judge judges every claim and keeps the strongest verdict.
func (o *orchestrator) judge(f *folder.Folder, pid *jsonfile.Reading[int], st status) {
	best := orchestrator{}
	if st.There && !st.Good {
		best = orchestrator{verdict: unsure, evidence: st.file + " cannot be read"}
	}
	if pid.There && !pid.Good {
		best = orchestrator{verdict: unsure, evidence: pidFile + " cannot be read"}
	}
	for _, c := range o.claims(pid, st, f.Now) {
		v, why, id := c.judge(o.id)
		if c.fresh && v == gone {
			v, why = unsure, fmt.Sprintf("%s was written just now and names process %d", c.file, c.pid)
		}
		if v > best.verdict {
			best = orchestrator{pid: c.pid, verdict: v, evidence: why, id: id, by: c.by, named: best.named}
		}
		if v == here && c.file == pidFile {
			best.named = c.pid
		}
	}
	switch {
	case pid.There && !pid.Rest:
		f.Patience.RetryAt(f.Now.Add(100 * time.Millisecond))
	case fresh(pid, f.Now):
		f.Patience.RetryAt(pid.Stamp.ModTime().Add(pidSettled))
	}
	if best.verdict != here {
		best.id = o.id
	}
	best.named = cmp.Or(best.named, o.named)
	best.unlisted = best.named != 0 && (best.named == best.pid || best.pid == 0) && !pid.There
	if best.verdict == gone {
		best.awaitSignOff(f, o, &st.Value)
	}
	if best.verdict == gone {
		best.since = f.Now
	}
	if best.pid == o.pid && best.verdict == gone && o.verdict == gone {
		best.children, best.counted, best.since = o.children, o.counted, o.since
	}
	*o = best
}

// signOff is how long after the end of its process the orchestrator's files may still be updated to say so.
const signOff = 2 * time.Second

// awaitSignOff delays the verdict on a process that has just been seen to end: if the program's files say so within two
// seconds, it has left; otherwise it is dead. A process that was never seen alive is judged at once.
func (o *orchestrator) awaitSignOff(f *folder.Folder, last *orchestrator, b *board) {
	o.ended = last.ended
	if last.verdict == gone && last.pid == o.pid || last.id.PID != o.pid {
		return
	}
	if last.verdict != unsure || last.ended.IsZero() {
		o.ended = f.Now
	}
	if !o.signedOff(b) && f.Wait(o.ended.Add(signOff)) {
		o.verdict, o.evidence = unsure, fmt.Sprintf("process %d ended a moment ago, and may still sign off", o.pid)
	}
}

// signedOff reports whether the orchestrator's own files say that it has left: it does not run, or its pid file is gone.
func (o *orchestrator) signedOff(b *board) bool {
	return o.verdict <= gone && b.there && (!b.running || o.unlisted)
}

// judge decides what became of the process. A process that was already proved to be the orchestrator still is, even if the
// clock has been changed since.
func (c claim) judge(proved proc.Identity) (verdict, string, proc.Identity) {
	id, err := proc.Inspect(c.pid)
	if errors.Is(err, proc.ErrGone) {
		return gone, fmt.Sprintf("%s names process %d, which does not exist", c.file, c.pid), proc.Identity{}
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

// findChildren finds the processes of the dead orchestrator's session or group that work inside the project. The system
// does not reuse a pid while a group or session has that number, so they belong to no other session. If a younger process
// has the pid, none of the orchestrator's processes are left.
func (o *orchestrator) findChildren(f *folder.Folder, project string) {
	if o.verdict != gone || !o.counted.IsZero() && f.Wait(o.counted.Add(countEvery)) {
		return
	}
	o.counted, o.children = f.Now, nil
	f.Patience.RetryAt(f.Now.Add(countEvery))
	if _, err := proc.Inspect(o.pid); !errors.Is(err, proc.ErrGone) {
		return
	}
	table, err := proc.Table()
	if err != nil {
		return // not available on this system
	}
	for _, k := range table {
		if k.Session != o.pid && k.Group != o.pid || k.Zombie || k.PID == o.pid || k.PID == os.Getpid() {
			continue
		}
		if dir, err := proc.Cwd(k.PID); err == nil && inside(project, dir) {
			o.children = append(o.children, k)
		}
	}
	slices.SortFunc(o.children, func(a, b proc.Process) int { return cmp.Compare(a.PID, b.PID) })
}

// inside reports whether a folder, as the kernel names it, lies in the project.
func inside(project, dir string) bool {
	if real, err := filepath.EvalSymlinks(project); err == nil {
		project = real
	}
	rel, err := filepath.Rel(project, dir)
	return err == nil && filepath.IsLocal(rel)
}

// orchestratorAgent returns the orchestrator as an agent. It sets Ref only if the running flag must be corrected. After the
// correction, Recorded says so and no further change is requested.
func (v *queueView) orchestratorAgent() (protocol.Agent, bool) {
	o, b := v.orchestrator, &v.status.Value
	if !b.there && o.verdict == unnamed {
		return protocol.Agent{}, false
	}
	a := protocol.Agent{Name: orchestratorName, Status: "stopped", Recorded: "error", Processes: protocol.Processes{PID: o.pid}, Evidence: o.evidence}
	if b.running && !o.signedOff(b) {
		a.Status, a.Recorded = "running", "running"
	}
	switch {
	case o.verdict == here:
		a.Presence, a.Process = protocol.PresenceHere, protocol.Identity(o.id) // its end is detected at once
	case o.verdict == unsure && o.id.PID != 0:
		a.Presence = protocol.PresenceHere // it was seen alive, and nothing proves yet that it died
	case v.abandoned():
		a.Presence, a.Evidence, a.Tasks = protocol.PresenceGone, "it ended after one of its agents had failed"+v.queue.waiting(), v.queue.inHand()
	case o.signedOff(b):
		a.Idle, a.Left = true, "its files say that it does not run any more"
	case o.verdict == gone && b.running:
		a.Presence, a.Evidence, a.Tasks = protocol.PresenceGone, o.evidence+v.queue.waiting(), v.queue.inHand()
		a.Ref = protocol.Ref{Path: v.status.file, Sum: string(b.sum)}
	default:
		a.Idle = true
	}
	return a, true
}

// inHand lists the tasks that no process continues without the orchestrator.
func (q *queue) inHand() (ids []string) {
	for _, r := range q.tasks {
		if r.status == inProgress {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// waiting says how many tasks wait for an orchestrator.
func (q *queue) waiting() string {
	n := map[string]int{}
	for _, r := range q.tasks {
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
