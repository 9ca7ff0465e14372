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

// notice explains why an assignment is held, and how to release it.
type notice struct {
	TaskID    string    `json:"task_id"`
	Reason    string    `json:"reason"` // protocol.Hold*
	Why       string    `json:"why"`
	HeldAt    time.Time `json:"held_at,omitzero"`
	ReleaseBy time.Time `json:"release_by,omitzero"`
	Release   string    `json:"release"` // the command
	Files     []string  `json:"files"`   // paths of the assignments once released, relative to the project
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

// soon is the remaining lease reported for a hold that must cover more assignments. It causes an immediate renewal, which
// holds the others too. Reporting no hold at all would look like a manual release.
const soon = 500 * time.Millisecond

// holdOf returns how the task is held, or nil. Half means a notice without a held message: a crash between two steps, or
// a held file that was removed. Unheld messages beside a held one leave the task held, but Visible. A held assignment
// without its notice is still held: releasing it would open the gate.
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

// hold hides a task, with all its open assignments, from its agents. It writes the notice first, so that no held file is
// without an explanation, then renames the files, then checks whether the agent answered first. It also completes an
// interrupted hold, and includes later assignments.
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

// keep hides every open assignment of the task. The notice already exists.
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
		// The agent answered during the rename. A task in hand is never held.
		if err := p.show(t); err != nil {
			return err
		}
		return folder.Moved(protocol.AgentFirst)
	}
	return nil
}

// keepFile hides one assignment. If an assignment is already held under this name, the sender has rewritten it: the newer
// file counts, and the older one is moved to holdsDir, as on release.
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

// putAside moves a held message to holdsDir, because another message now uses its name.
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

// fileSum returns the sum of a message file as last read, or Absent for an unknown file.
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

// release makes the assignment visible to its agent again. It compares nothing: the release is right whatever the
// assignment says now.
func (p *Project) release(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	if t == nil {
		t = &taskState{id: c.Subject.ID}
	}
	return p.show(t)
}

// show renames every held message of the task back, and then removes the notice. A crash in between leaves a visible task
// with a stale notice, which is removed later.
func (p *Project) show(t *taskState) error {
	for _, m := range t.messages {
		if !m.held {
			continue
		}
		err := p.Root.Rename(m.file, openName(m.file))
		if isTaken(err) {
			err = p.putAside(m.file, t.id) // a newer message under the name wins
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

// renew extends the lease in the notice, and holds assignments that arrived since the hold.
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

// files returns the paths of the task's open assignments, without the extension of a held file.
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

// sweep removes notices whose held message is gone. It runs under the guard, so no steward process is in the middle of a
// hold.
func (p *Project) sweep() {
	for _, id := range sortedKeys(p.shelf.notices) {
		if n := p.shelf.notices[id]; !n.Good || p.tasks[id] != nil && p.tasks[id].kept() {
			continue
		}
		if t := p.fresh(id); t != nil && t.kept() || p.Patience.Has(p.opts.Messages) || p.heldUnknown() {
			continue
		}
		_ = p.Root.Remove(noticeFile(id)) // a failed removal is retried
		p.readNotice(id)
	}
}

// heldUnknown reports whether the task of a held file is unknown, because the file cannot be read.
func (p *Project) heldUnknown() bool {
	for name, s := range p.shelf.slots {
		if s.message == nil && strings.HasSuffix(name, heldExt) {
			return true
		}
	}
	return false
}
