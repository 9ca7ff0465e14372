package envelope

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// notice says why an assignment is kept from its agent, and how anybody can free it.
type notice struct {
	TaskID    string    `json:"task_id"`
	Reason    string    `json:"reason"` // protocol.Hold*
	Why       string    `json:"why"`
	HeldAt    time.Time `json:"held_at,omitzero"`
	ReleaseBy time.Time `json:"release_by,omitzero"`
	Release   string    `json:"release"` // the command
	Files     []string  `json:"files"`   // where the assignments belong, relative to the project
}

type noticeReading = jsonfile.Reading[protocol.Hold]

func noticeFile(id string) string { return holdsDir + "/" + id + messageExt }

// decodeNotice reads a notice.
func decodeNotice(o jsonfile.Object) protocol.Hold {
	var h protocol.Hold
	h.Reason, _ = o.String("reason")
	h.Reason = clean(h.Reason, maxText)
	h.Since, _ = o.Time("held_at")
	h.ReleaseBy, _ = o.Time("release_by")
	return h
}

// readNotices reads every notice.
func (p *Project) readNotices() {
	names, _, err := p.Root.List(holdsDir)
	if err != nil && !folder.Missing(err) {
		p.Patience.Unreadable(holdsDir, err)
		return
	}
	p.Patience.Clear(holdsDir)
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, messageExt); ok && p.shelf.notices[id] == nil {
			p.readNotice(id)
		}
	}
	for id := range p.shelf.notices {
		p.readNotice(id)
	}
}

func (p *Project) readNotice(id string) {
	if !plain(id) {
		return
	}
	n := p.shelf.notices[id]
	if n == nil {
		n = &noticeReading{}
		p.shelf.notices[id] = n
	}
	if jsonfile.Load(p.Root, &p.Patience, n, noticeFile(id), maxFile, decodeNotice); !n.There {
		delete(p.shelf.notices, id)
	}
}

// soon is the lease that is shown of a hold with more to keep: it is to be renewed at once, and the renewal keeps the
// rest too. To show no hold at all would look as if somebody had released the task by hand.
const soon = 500 * time.Millisecond

// holdOf says how the task is held. Half is a notice without any held message: what a crash leaves between two steps,
// or a file that somebody took away. Messages that lie beside a held one leave it held, but Visible. A held assignment
// without its notice is held all the same: to free it would open the gate.
func (p *Project) holdOf(t *taskState) *protocol.Hold {
	n := p.shelf.notices[t.id]
	if n == nil && !t.kept() {
		return nil
	}
	h := protocol.Hold{Reason: protocol.HoldBlocked}
	if n != nil && n.Good {
		h = n.Value
	}
	h.Half = !t.kept()
	if by := p.Now.Add(soon); !h.Half && t.bare() && by.Before(h.ReleaseBy) && p.block(t) != "" {
		h.ReleaseBy = by
	}
	return &h
}

// hold keeps a task from its agents, with all its open assignments: the notice first, so that nobody finds a held one
// without a word why; then the renames; then a look whether the agent was quicker. It also goes on where another hold
// was cut short, and takes in what was assigned since.
func (p *Project) hold(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	switch {
	case t == nil || t.assigned == nil:
		return folder.Moved("the assignment is gone")
	case len(t.open) == 0:
		return folder.Moved(protocol.AgentFirst)
	case t.held() && !t.bare():
		return nil
	case !t.bare():
		return fmt.Errorf("%s: the assignment cannot be held, it stands in a log: %w", c.Verb, protocol.ErrUnsupported)
	case !t.assigned.inLog() && p.fileSum(t.assigned.file) != c.Ref.Sum:
		return folder.Moved("the assignment is not the one that was judged")
	}
	if err := p.putNotice(c, t); err != nil {
		return err
	}
	return p.keep(t)
}

// keep takes every open assignment of the task out of sight. Its notice is there.
func (p *Project) keep(t *taskState) error {
	id := t.id
	for _, m := range t.open {
		if m.held || m.inLog() {
			continue
		}
		if err := p.keepFile(t, m.file); err != nil {
			if t = p.fresh(id); t == nil || !t.kept() {
				_ = p.Root.Remove(noticeFile(id))
			}
			return err
		}
	}
	if t = p.fresh(t.id); t != nil && len(t.open) == 0 {
		// It was answered in the very moment of the rename: what is in hand is never held.
		if err := p.show(t); err != nil {
			return err
		}
		return folder.Moved(protocol.AgentFirst)
	}
	return nil
}

// keepFile takes one assignment out of sight. Where one is held under its name already, that one was written anew by
// its sender: the newer one counts, the older is put on record, as when it is released.
func (p *Project) keepFile(t *taskState, file string) error {
	sum := jsonfile.Sum(p.fileSum(file))
	err := p.Root.RenameIf(file, file+".held", sum)
	if !isTaken(err) {
		return err
	}
	owner := t.id
	if s := p.shelf.slots[path.Base(file)+".held"]; s != nil && s.message != nil && plain(s.message.task) {
		owner = s.message.task
	}
	if err := p.putAside(file+".held", owner); err != nil {
		return err
	}
	return p.Root.RenameIf(file, file+".held", sum)
}

// putAside puts a held message on record whose name belongs to another one by now.
func (p *Project) putAside(file, id string) error {
	if err := p.Root.Mkdir(holdsDir, 0o755); err != nil {
		return err
	}
	p.shelf.unrest[path.Base(file)] = true
	err := jsonfile.ErrExist
	for n := 1; isTaken(err) && n < 1000; n++ {
		err = p.Root.Rename(file, fmt.Sprintf("%s/%s.%d.held", holdsDir, id, n))
	}
	return err
}

// fileSum is the sum of a message file as it was last read. That of a file that is gone is none.
func (p *Project) fileSum(file string) string {
	if s := p.shelf.slots[strings.TrimPrefix(file, p.opts.Messages+"/")]; s != nil {
		return string(s.reading.Sum)
	}
	return string(jsonfile.Absent)
}

// putNotice writes the notice of a hold.
func (p *Project) putNotice(c protocol.Change, t *taskState) error {
	if err := p.Root.Mkdir(holdsDir, 0o755); err != nil {
		return err
	}
	doc, err := jsonfile.Encode(notice{TaskID: c.Subject.ID, Reason: c.Hold, Why: c.Why, HeldAt: p.Now.UTC(), ReleaseBy: c.ReleaseBy.UTC(),
		Release: "steward release " + c.Subject.ID, Files: t.files()})
	if err != nil {
		return err
	}
	late, err := p.Root.Replace(noticeFile(c.Subject.ID), doc, jsonfile.Any)
	_ = late.Close()
	return err
}

// release lets the agent see the assignment again. It compares nothing: releasing is right whatever it says by now.
func (p *Project) release(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	if t == nil {
		t = &taskState{id: c.Subject.ID}
	}
	return p.show(t)
}

// show brings every held message of the task back, and then takes the notice away, so that a crash in between leaves
// a visible task with an old notice, which the next look takes back.
func (p *Project) show(t *taskState) error {
	for _, m := range t.messages {
		if !m.held {
			continue
		}
		err := p.Root.Rename(m.file, openName(m.file))
		if isTaken(err) {
			err = p.putAside(m.file, t.id) // a message that was written anew under the name wins
		}
		if err != nil {
			return err
		}
	}
	if err := p.Root.Remove(noticeFile(t.id)); err != nil && !folder.Missing(err) {
		return err
	}
	return nil
}

// renew prolongs the lease in the notice, and keeps what was assigned since the hold.
func (p *Project) renew(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	if t == nil || !t.kept() {
		return folder.Moved("it is no longer held")
	}
	err := p.renewNotice(c, t)
	if err == nil && t.bare() && p.block(t) != "" {
		err = p.keep(t)
	}
	return err
}

func (p *Project) renewNotice(c protocol.Change, t *taskState) error {
	if n := p.shelf.notices[t.id]; n == nil || !n.Good {
		c.Hold, c.Why = protocol.HoldBlocked, p.block(t)
		return p.putNotice(c, t)
	}
	late, err := p.Root.Update(noticeFile(t.id), maxFile, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old, jsonfile.Set{Path: []string{"release_by"}, Value: jsonfile.FormatTime(c.ReleaseBy)},
			jsonfile.Set{Path: []string{"files"}, Value: t.files()})
	})
	_ = late.Close()
	return err
}

// files are the places of the task's open assignments, held or not.
func (t *taskState) files() []string {
	var list []string
	for _, m := range t.open {
		if file := openName(m.file); !m.inLog() && !slices.Contains(list, file) {
			list = append(list, file)
		}
	}
	slices.Sort(list)
	return list
}

// sweep takes away the notices whose held message is gone. It runs guarded: none of ours is in the middle of a hold.
func (p *Project) sweep() {
	for _, id := range sortedKeys(p.shelf.notices) {
		if n := p.shelf.notices[id]; !n.Good || p.tasks[id] != nil && p.tasks[id].kept() {
			continue
		}
		if t := p.fresh(id); t != nil && t.kept() || p.Patience.Has(p.opts.Messages) || p.heldUnknown() {
			continue
		}
		_ = p.Root.Remove(noticeFile(id)) // what cannot be removed now is tried again
		p.readNotice(id)
	}
}

// heldUnknown reports whether there is a held file of which nobody knows whose it is, because it cannot be read.
func (p *Project) heldUnknown() bool {
	for name, s := range p.shelf.slots {
		if s.message == nil && strings.HasSuffix(name, heldExt) {
			return true
		}
	}
	return false
}
