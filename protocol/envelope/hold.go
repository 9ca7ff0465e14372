package envelope

import (
	"cmp"
	"errors"
	"fmt"
	"path"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// hold hides a task, with all its open assignments, from its agents. It writes the notice first, so that no held file is
// without an explanation, then renames the files, then checks whether the agent answered first. It also completes an
// interrupted hold, and includes later assignments.
func (p *Project) hold(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	switch {
	case t == nil || t.assigned == nil:
		return folder.Moved("the assignment is gone")
	case len(t.open) == 0 || t.claim() != nil:
		return folder.Moved(protocol.AgentFirst)
	case t.held() && !t.visible():
		return nil
	case !t.visible():
		return fmt.Errorf("%s: the assignment cannot be held, it stands in a log: %w", c.Verb, protocol.ErrUnsupported)
	case !t.assigned.inLog() && string(t.assigned.fileSum) != c.Ref.Sum:
		return folder.Moved("the assignment is not the one that was judged")
	}
	if err := p.notices.write(t, protocol.Hold{Reason: c.Hold, Since: p.Now, ReleaseBy: c.ReleaseBy}, c.Why); err != nil {
		return err
	}
	return p.hide(t)
}

// hide hides every open assignment of the task. The notice already exists.
func (p *Project) hide(t *task) error {
	for _, m := range t.open {
		if m.held || m.inLog() {
			continue
		}
		if err := p.inbox.hide(m); err != nil {
			if t = p.fresh(t.id); t == nil || !t.anyHeld() {
				_ = p.notices.remove(m.task)
			}
			return err
		}
	}
	if t = p.fresh(t.id); t == nil || len(t.open) > 0 {
		return nil
	}
	// The agent answered during the rename. A task in hand is never held.
	if err := p.show(t); err != nil {
		return err
	}
	return folder.Moved(protocol.AgentFirst)
}

// release makes the assignment visible to its agent again. It compares nothing: the release is right whatever the
// assignment says now.
func (p *Project) release(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	if t == nil {
		t = &task{id: c.Subject.ID}
	}
	return p.show(t)
}

// show renames every held message of the task back, and then removes the notice. A crash in between leaves a visible task
// with a stale notice, which is removed later.
func (p *Project) show(t *task) error {
	for _, m := range t.messages {
		if !m.held {
			continue
		}
		err := p.Root.Rename(m.file, openName(m.file))
		if errors.Is(err, jsonfile.ErrExist) {
			err = p.inbox.setAside(m.file, t.id) // a newer message under the name wins
		}
		if err != nil {
			return err
		}
	}
	return p.notices.remove(t.id)
}

// renew extends the lease in the notice, and holds assignments that arrived since the hold.
func (p *Project) renew(c protocol.Change) error {
	t := p.fresh(c.Subject.ID)
	if t == nil || !t.anyHeld() {
		return folder.Moved("it is no longer held")
	}
	block := p.view().block(t)
	err := p.notices.extend(t, cmp.Or(block, c.Why), c.ReleaseBy)
	if err == nil && t.visible() && block != "" {
		err = p.hide(t)
	}
	return err
}

// hide hides one assignment. If an assignment is already held under this name, the sender has rewritten it: the newer
// file counts, and the older one is set aside, as on release.
func (in *inbox) hide(m *message) error {
	held := m.file + ".held"
	err := in.Root.RenameIf(m.file, held, m.fileSum)
	if !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	owner := m.task
	if f := in.files[path.Base(held)]; f != nil && f.message != nil && plain(f.message.task) {
		owner = f.message.task
	}
	if err := in.setAside(held, owner); err != nil {
		return err
	}
	return in.Root.RenameIf(m.file, held, m.fileSum)
}

// setAside moves a held message of a task to holdsDir, because another message now uses its name.
func (in *inbox) setAside(file, id string) error {
	if err := in.Root.Mkdir(holdsDir, 0o755); err != nil {
		return err
	}
	in.unsettled[path.Base(file)] = true
	err := jsonfile.ErrExist
	for n := 1; errors.Is(err, jsonfile.ErrExist) && n < 1000; n++ {
		err = in.Root.Rename(file, fmt.Sprintf("%s/%s.%d.held", holdsDir, id, n))
	}
	return err
}
