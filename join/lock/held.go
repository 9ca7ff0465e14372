package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/livhana/steward/platform/proc"
)

// Held lists the real locks that are held now, by name. It is meant for polling with the same Place: a grant that is
// over is remembered, because it cannot come back, so unused names cost next to nothing.
func (l *Locks) Held() ([]Status, error) {
	if _, err := os.Lstat(l.folder.path("", "")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	now := l.opts.Now()
	names, err := l.folder.names()
	if err != nil {
		return nil, fmt.Errorf("list the locks that are held: %w", err)
	}
	var list []Status
	for file, name := range names {
		on, _ := os.Lstat(l.folder.path(file, recordSuffix)) // stat before reading, so that a later change is noticed
		if l.isOver(file, on) {
			continue
		}
		rec, _, err := l.folder.read(name, file)
		s := l.status(name, file, now)
		if s.Alive {
			list = append(list, s)
			continue
		}
		// A living holder may only have lost its lock file, which lockReplacement recreates. A break happens under the kernel
		// lock.
		gone := rec.Broken != nil || rec.Host == l.procs.host && proc.Check(rec.Process) == proc.Gone
		if err == nil && s.Fence == rec.Fence && gone {
			l.mu.Lock()
			l.over[file] = on
			l.mu.Unlock()
		}
	}
	slices.SortStableFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// isOver reports whether the grant in that very record file is known to be over. A new grant writes a new file.
func (l *Locks) isOver(file string, on fs.FileInfo) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.over[file]
	return on != nil && old != nil && os.SameFile(on, old) && on.ModTime().Equal(old.ModTime()) && on.Size() == old.Size()
}

// Waiter is a process that waits for a real lock.
type Waiter struct {
	PID     int      `json:"pid"`
	Command []string `json:"command,omitempty"` // truncated
}

// Waiting lists the processes in the kernel's queue for a real lock. errors.ErrUnsupported where the kernel does not
// tell.
func (l *Locks) Waiting(name string) ([]Waiter, error) {
	file, err := fileName(name)
	if err != nil {
		return nil, err
	}
	ids, err := proc.FlockWaiters(l.folder.path(file, lockSuffix))
	if err != nil {
		return nil, err
	}
	list := []Waiter{}
	for _, id := range ids {
		argv, _ := proc.Command(id.PID) // the process may have ended, or belong to another user
		list = append(list, Waiter{id.PID, truncated(argv)})
	}
	return list, nil
}
