package proc

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// MarkName is the environment variable that marks the processes of one run: STEWARD_RUN=<mark>.
const MarkName = "STEWARD_RUN"

// descendants returns the living processes that descend from root, sorted by pid, including root if it lives: the
// processes with the mark in their environment, and, starting from these, root and the known processes (which an earlier
// scan found in the tree and which may have lost their parents), all children and all members of sessions that they lead. root may be gone or the zero value, and mark may be empty. Process 1 and zombies are never
// included. A process that has cleared its environment, created its own session and lost its parent is found only
// while an ancestor in the tree is its subreaper. This process and its descendants are excluded, even if it was
// started within the tree, unless it is root itself.
func descendants(root Identity, mark string, known map[Identity]bool) ([]Process, error) {
	all, err := census()
	if err != nil {
		return nil, fmt.Errorf("read process tree: %w", err)
	}
	marked := bearing(MarkName, mark)
	return climb(all, os.Getpid(), root, mark, known, func(p Process) bool { return marked(p.PID) }), nil
}

// Marked returns the living processes that were started with key=value in their environment, sorted by pid. It covers
// only processes that this process may inspect: those of this user, or all for root. A program may have overwritten
// its environment. Linux and macOS (where system programs do not expose it); elsewhere the error is
// errors.ErrUnsupported.
func Marked(key, value string) ([]Process, error) {
	if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(value, "\x00") {
		return nil, fmt.Errorf("look for marked processes: %q is not an environment entry", key+"="+value)
	}
	all, err := census()
	if err != nil {
		return nil, fmt.Errorf("look for marked processes: %w", err)
	}
	return markedAmong(all, key, value), nil
}

// MarkedAmong returns the processes of list whose environment has key=value, without a scan of all processes.
func MarkedAmong(list []Process, key, value string) []Process {
	return markedAmong(slices.Clone(list), key, value)
}

// markedAmong overwrites list.
func markedAmong(list []Process, key, value string) []Process {
	marked := bearing(key, value)
	return slices.DeleteFunc(list, func(p Process) bool { return p.Zombie || !marked(p.PID) })
}

// climb finds the tree in one snapshot of the process table.
func climb(all []Process, self int, root Identity, mark string, known map[Identity]bool, marked func(Process) bool) []Process {
	all = slices.DeleteFunc(all, func(p Process) bool { return p.Zombie || p.PID <= 1 })
	found := grow(all, root, mark, known, marked)
	within := func(p Process) bool { return p.PID == self && !p.is(root) }
	if slices.ContainsFunc(found, within) {
		found = grow(withoutOwn(all, self, root), root, mark, known, marked)
	}
	return found
}

// withoutOwn removes process self and its descendants: a program started by hand from within a tree inherits the
// mark, and so does everything that it starts. It keeps root, the process whose tree is requested.
func withoutOwn(all []Process, self int, root Identity) []Process {
	t := newTree(all)
	for i, p := range all {
		t.in[i] = p.PID == self
	}
	for grown := true; grown; {
		grown = false
		for i, p := range all {
			if !t.in[i] && !p.is(root) && t.descends(p, p.Parent) {
				t.in[i], grown = true, true
			}
		}
	}
	var rest []Process
	for i, p := range all {
		if !t.in[i] {
			rest = append(rest, p)
		}
	}
	return rest
}

// is reports whether the process is provably root.
func (p Process) is(root Identity) bool {
	return root.proves() && p.PID == root.PID && p.Start == root.Start && p.Boot == root.Boot
}

// grow adds relatives first, because that costs no system calls; it then reads the environment only of processes that
// are not yet in the tree.
func grow(all []Process, root Identity, mark string, known map[Identity]bool, marked func(Process) bool) []Process {
	t := newTree(all)
	for i, p := range all {
		t.in[i] = known[p.Identity] || p.is(root)
	}
	t.spread()
	if mark != "" {
		for i, p := range all {
			t.in[i] = t.in[i] || marked(p)
		}
		t.orphans(root)
		t.spread()
	}
	var found []Process
	for i, p := range all {
		if t.in[i] {
			found = append(found, p)
		}
	}
	return found
}

// tree is a process tree under construction over one snapshot of the process table.
type tree struct {
	all   []Process
	byPID map[int]int
	in    []bool // by index into all
}

func newTree(all []Process) *tree {
	t := &tree{all: all, byPID: make(map[int]int, len(all)), in: make([]bool, len(all))}
	for i, p := range all {
		t.byPID[p.PID] = i
	}
	return t
}

// spread adds children and members of led sessions until the tree stops growing.
func (t *tree) spread() {
	for grown := true; grown; {
		grown = false
		for i, p := range t.all {
			if !t.in[i] && (t.descends(p, p.Parent) || t.descends(p, p.Session)) {
				t.in[i], grown = true, true
			}
		}
	}
}

// descends reports whether the process with pid from is in the tree and not younger than p. The table is not read at
// one instant, and a pid reused meanwhile must not make unrelated processes part of the tree.
func (t *tree) descends(p Process, from int) bool {
	i, ok := t.byPID[from]
	return ok && t.in[i] && t.all[i].Start <= p.Start
}

// orphans adds the session that root led, if root is gone, its pid is not in use, and a member bears the mark: then
// unrelated processes cannot be in that session. Other sessions without a leader are left out; they may belong to a
// closed terminal and run other work.
func (t *tree) orphans(root Identity) {
	if _, taken := t.byPID[root.PID]; taken || !root.proves() {
		return
	}
	var members []int
	known := false
	for i, p := range t.all {
		if p.Session == root.PID && p.Start >= root.Start {
			members = append(members, i)
			known = known || t.in[i]
		}
	}
	for _, i := range members {
		t.in[i] = t.in[i] || known
	}
}
