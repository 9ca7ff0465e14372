package envelope

import (
	"fmt"
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
	File      string    `json:"file"`    // where the assignment belongs, relative to the project
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

// holdOf says how the task is held. Half is what a crash leaves between two steps, or a message that took the place
// of the held one. A held assignment without its notice is held all the same: to free it would open the gate.
func (p *Project) holdOf(t *life) *protocol.Hold {
	n := p.shelf.notices[t.id]
	switch {
	case n == nil && !t.held() && !t.stray():
		return nil
	case n == nil || !n.Good:
		return &protocol.Hold{Reason: protocol.HoldBlocked, Half: !t.held() || t.stray()}
	}
	h := n.Value
	h.Half = !t.held() || t.stray()
	return &h
}

// hold keeps an assignment from its agent: the notice first, so that nobody finds a held one without a word why; then
// the rename; then a look whether the agent was quicker.
func (p *Project) hold(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	switch {
	case t == nil || t.assigned == nil:
		return folder.Moved("the assignment is gone")
	case t.held() && !t.stray():
		return nil
	case t.assigned.inLog():
		return fmt.Errorf("%s: the assignment cannot be held, it stands in a log: %w", c.Verb, protocol.ErrUnsupported)
	case t.state != stateAssigned:
		return folder.Moved("its agent was quicker")
	}
	file := t.assigned.file
	if p.fileSum(file) != c.Ref.Sum {
		return folder.Moved("the assignment is not the one that was judged")
	}
	if err := p.putNotice(c, file); err != nil {
		return err
	}
	if err := p.Root.RenameIf(file, file+".held", jsonfile.Sum(c.Ref.Sum)); err != nil {
		_ = p.Root.Remove(noticeFile(t.id))
		return err
	}
	if t = p.fresh(t.id); t != nil && t.state != stateAssigned {
		// It was answered in the very moment of the rename: what is in hand is never held.
		if err := p.show(t); err != nil {
			return err
		}
		return folder.Moved("its agent was quicker")
	}
	return nil
}

// fileSum is the sum of a message file as it was last read.
func (p *Project) fileSum(file string) string {
	if s := p.shelf.slots[strings.TrimPrefix(file, p.opts.Messages+"/")]; s != nil {
		return string(s.reading.Sum)
	}
	return ""
}

// putNotice writes the notice of a hold.
func (p *Project) putNotice(c protocol.Change, file string) error {
	if err := p.Root.MkdirAll(holdsDir, 0o755); err != nil {
		return err
	}
	doc, err := jsonfile.Encode(notice{TaskID: c.Subject.ID, Reason: c.Hold, Why: c.Why, HeldAt: p.Now.UTC(), ReleaseBy: c.ReleaseBy.UTC(),
		Release: "steward release " + c.Subject.ID, File: openName(file)})
	if err != nil {
		return err
	}
	late, err := p.Root.Replace(noticeFile(c.Subject.ID), doc, jsonfile.Any)
	_ = late.Close()
	return err
}

// release lets the agent see the assignment again. It compares nothing: letting go is right whatever it says by now.
func (p *Project) release(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	if t == nil {
		t = &life{id: c.Subject.ID}
	}
	return p.show(t)
}

// show brings every held message of the task back, and then takes the notice away, so that a crash in between leaves
// a visible task with an old notice, which the next look takes back.
func (p *Project) show(t *life) error {
	for _, m := range t.messages {
		if !m.held {
			continue
		}
		err := p.Root.Rename(m.file, openName(m.file))
		for n := 1; isTaken(err) && n < 1000; n++ {
			// A message that was written anew under the name wins; the held one is kept on record.
			err = p.Root.Rename(m.file, fmt.Sprintf("%s/%s.%d.held", holdsDir, t.id, n))
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

// renew prolongs the lease in the notice.
func (p *Project) renew(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	if t == nil || !t.held() {
		return folder.Moved("it is no longer held")
	}
	if n := p.shelf.notices[t.id]; n == nil || !n.Good {
		c.Hold = protocol.HoldBlocked
		return p.putNotice(c, t.assigned.file)
	}
	late, err := p.Root.Update(noticeFile(t.id), maxFile, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old, jsonfile.Set{Path: []string{"release_by"}, Value: jsonfile.FormatTime(c.ReleaseBy)})
	})
	_ = late.Close()
	return err
}
