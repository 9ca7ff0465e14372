package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Held lists the real locks that are held now, by name. It is meant for polling with the same Place: a grant that is
// over is remembered, because it cannot come back, so unused names cost next to nothing.
func (p *Place) Held() ([]Status, error) {
	if _, err := os.Lstat(filepath.Join(p.dir, filepath.FromSlash(own), locksDir)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	now := p.opts.Now()
	names, err := p.names()
	if err != nil {
		return nil, fmt.Errorf("list the locks that are held: %w", err)
	}
	var list []Status
	for _, name := range names {
		file, err := fileName(name)
		if err != nil {
			continue
		}
		on, _ := os.Lstat(p.recordPath(file)) // stat before reading, so that a later change is noticed
		if p.isOver(file, on) {
			continue
		}
		rec, err := p.look(name, file)
		s := p.status(name, file, now)
		if s.Alive {
			list = append(list, s)
			continue
		}
		// A living holder may only have lost its lock file, which retake recreates. A break happens under the kernel
		// lock.
		gone := rec.Broken != nil || rec.Host == p.host && proc.Check(rec.Process) == proc.Gone
		if err == nil && s.Fence == rec.Fence && gone {
			p.noteOver(file, on)
		}
	}
	slices.SortStableFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// names lists the names of all real locks that ever existed.
func (p *Place) names() (names []string, err error) {
	root, err := p.open(false)
	if errors.Is(err, jsonfile.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files, _, err := root.List(locksDir)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		file, is := strings.CutSuffix(file, lockSuffix)
		if name, ok := nameOf(file); is && ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// isOver reports whether the grant in that very record file is known to be over. A new grant writes a new file.
func (p *Place) isOver(file string, on fs.FileInfo) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.over[file]
	return on != nil && old != nil && os.SameFile(on, old) && on.ModTime().Equal(old.ModTime()) && on.Size() == old.Size()
}

func (p *Place) noteOver(file string, on fs.FileInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == nil {
		p.over = map[string]fs.FileInfo{}
	}
	p.over[file] = on
}

func (p *Place) recordPath(file string) string {
	return filepath.Join(p.dir, filepath.FromSlash(own), locksDir, file+recordSuffix)
}

// Waiter is a process that waits for a real lock.
type Waiter struct {
	PID     int      `json:"pid"`
	Command []string `json:"command,omitempty"` // truncated
}

// Waiting lists the processes in the kernel's queue for a real lock. errors.ErrUnsupported where the kernel does not
// tell.
func (p *Place) Waiting(name string) ([]Waiter, error) {
	file, err := fileName(name)
	if err != nil {
		return nil, err
	}
	ids, err := proc.FlockWaiters(p.flockPath(file))
	if err != nil {
		return nil, err
	}
	list := []Waiter{}
	for _, id := range ids {
		argv, _ := proc.Command(id.PID) // the process may have ended, or belong to another user
		list = append(list, Waiter{id.PID, beginning(argv)})
	}
	return list, nil
}
