package mailbox

import (
	"fmt"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// reader turns the project's files into values.
type reader struct {
	*folder.Folder
	dir  string
	opts Options
	readings
}

// readings are everything that was read. They are lost when the folder is recreated.
type readings struct {
	layouts      [2]layout // queue in Base, and queue in Base/tasks
	pid          jsonfile.Reading[int]
	attempts     *folder.Attempts
	claims       map[string]*jsonfile.Reading[workClaim] // by open task
	orchestrator orchestrator
	history      history
	silences     map[string]silence // by role
	sent         map[topic]sent
	begun        bool // the first scan is over: anything new has appeared since then
	unusable     map[string]*protocol.Fault
}

func newReader(dir string, opts Options) *reader {
	r := &reader{dir: dir, opts: opts}
	r.Folder = folder.New(folder.Options{Dir: dir, Base: Base, Own: own, Guard: opts.Guard,
		Sweep: []string{".", "messages", "tasks", "tasks/messages", attemptsDir, claimsDir, own}, Forget: r.forget})
	return r
}

// forget discards all readings, because the folder was recreated.
func (r *reader) forget() {
	r.readings = readings{layouts: [2]layout{newLayout(""), newLayout("tasks")}, attempts: folder.NewAttempts(attemptsDir), history: newHistory()}
}

// read reads all files and decides whether the orchestrator lives.
func (r *reader) read() {
	r.readFiles()
	used, _ := r.inUse()
	r.history.follow(&r.Clock, &used.queue, r.attempts)
	st := r.status()
	r.orchestrator.judge(r.Folder, &r.pid, st)
	r.sort()
	r.silences = heard(&r.Clock, st, r.silences)
	r.begun = true
}

// readFiles brings all readings up to date. An unchanged file costs one stat.
func (r *reader) readFiles() {
	for i := range r.layouts {
		r.layouts[i].read(r.Folder, r.begun)
	}
	jsonfile.LoadText(r.Root, &r.Patience, &r.pid, pidFile, 4<<10, decodePID)
	r.attempts.Refresh(r.Root, &r.Patience, r.Now)
	r.readClaims()
}

// inUse returns the layout in use and the other: in use is the one that contains queue.json. If both do, or neither does,
// it is the program's.
func (r *reader) inUse() (used, other *layout) {
	if !r.layouts[0].queue.There && r.layouts[1].queue.There {
		return &r.layouts[1], &r.layouts[0]
	}
	return &r.layouts[0], &r.layouts[1]
}

// status is the status.json that counts.
type status struct {
	*jsonfile.Reading[board]
	file string
}

// status returns the status.json of the layout in use, or else that of the other layout.
func (r *reader) status() status {
	used, other := r.inUse()
	if !used.board.There && other.board.There {
		used = other
	}
	return status{&used.board, used.boardFile()}
}

// mail lists all mailboxes: those of the layout in use first, sorted by name within each folder.
func (r *reader) mail() []located {
	used, other := r.inUse()
	return append(used.mail(true), other.mail(false)...)
}

// queueView is one scan as values.
type queueView struct {
	*reader
	used, other *layout
	queue       *queue
	shown       []*record // the tasks of the snapshot
	status      status
	mail        []located
	firstBox    map[string]located // by task: the first mailbox that contains a message about it
}

// view returns what the tasks, agents, questions and findings are derived from.
func (r *reader) view() *queueView {
	used, other := r.inUse()
	v := &queueView{reader: r, used: used, other: other, queue: &used.queue.Value, status: r.status(), mail: r.mail(), firstBox: map[string]located{}}
	keep := map[string]bool{}
	for m, l := range allMessages(v.mail) {
		if l.task != "" && !keep[l.task] {
			v.firstBox[l.task], keep[l.task] = m, true
		}
	}
	for id, t := range r.history.tracks {
		if !t.changed.IsZero() && !t.changed.Before(r.Since) {
			keep[id] = true
		}
	}
	v.shown = v.queue.shown(r.Since, keep)
	return v
}

// unusableIDs reports ids that cannot be used as faults. A fault keeps the time at which it began.
func (r *reader) unusableIDs(ids []string) (faults []protocol.Fault) {
	used, _ := r.inUse()
	now := map[string]*protocol.Fault{}
	for _, id := range ids {
		if now[id] == nil {
			now[id] = r.Fault(r.unusable[id], used.queueFile(), fmt.Errorf("%q is not an id for a task: it cannot be used as a file name", id))
			now[id].Hint = "use a plain id for the task"
			faults = append(faults, *now[id])
		}
	}
	r.unusable = now
	return faults
}
