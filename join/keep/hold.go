package keep

import (
	"errors"
	"io/fs"
	"path"

	"github.com/livhana/steward/protocol/jsonfile"
)

// heldFile is the file of an operator's hold on an agent whose protocol cannot record one. It is apart from the record, so
// that a damaged record cannot end the hold. Its existence is the hold; its content says why.
func heldFile(row Row) string { return path.Join(Folder, row.fileName()+".held") }

// held reports whether the operator holds the agent, in the project's files or here.
func (k *Keeper) held(row Row) bool {
	_, err := k.Root.Stat(heldFile(row))
	return err == nil || k.Deps.Held(row)
}

// Held reports whether the operator holds an agent that is kept.
func (k *Keeper) Held(project, agent string) bool {
	l := k.find(project, agent)
	return l != nil && k.held(l.desired.Load().row)
}

// Hold keeps an agent from being started until Release. A program that runs already continues.
func (k *Keeper) Hold(project, agent, why string) error {
	l := k.find(project, agent)
	if l == nil {
		return ErrNotKept
	}
	late, err := k.Root.Replace(heldFile(l.desired.Load().row), []byte(why+"\n"), jsonfile.Any)
	_ = late.Close()
	l.wake.set()
	return err
}

// Release ends a Hold; without one it does nothing.
func (k *Keeper) Release(project, agent string) error {
	l := k.find(project, agent)
	if l == nil {
		return ErrNotKept
	}
	err := k.Root.Remove(heldFile(l.desired.Load().row))
	l.wake.set()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// find returns the agent of a row that is still wanted; nil if none exists.
func (k *Keeper) find(project, agent string) *life {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lives {
		if shown := l.public.Load(); shown.Project == project && shown.Agent == agent && l.desired.Load().wanted {
			return l
		}
	}
	return nil
}

// Wake makes the agents that run WhenDue ask again whether work waits for them.
func (k *Keeper) Wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lives {
		if state := l.public.Load().State; l.desired.Load().row.Restart == WhenDue && (state == "waiting" || state == "held") {
			l.wake.set()
		}
	}
}
