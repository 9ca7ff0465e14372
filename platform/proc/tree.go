package proc

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// MarkName is the environment entry by which the processes of one run are known: STEWARD_RUN=<mark>.
const MarkName = "STEWARD_RUN"

// Tree returns the living processes that descend from root, by number, root included if it lives: those that bear the
// mark in their environment, and from these and root on all children and all members of the sessions that they lead.
// root may be gone or the zero value, and mark may be empty. Process 1 is never among them. Ended ones that nobody has
// asked for are left out. A process that has cleared its environment, has made its own session and has lost its parent
// is found only while an ancestor in the tree is its subreaper. This process, unless it is root itself, and what it has
// started are none of the tree, though it may have been started within it. Linux and macOS; else errors.ErrUnsupported.
func Tree(root Identity, mark string) ([]Process, error) {
	return treeWith(root, mark, nil)
}

// treeWith is Tree with further roots: processes that were found in the tree before, and may have lost their parents.
func treeWith(root Identity, mark string, known map[Identity]bool) ([]Process, error) {
	all, err := census()
	if err != nil {
		return nil, fmt.Errorf("read process tree: %w", err)
	}
	marked := bearing(MarkName, mark)
	return climb(all, os.Getpid(), root, mark, known, func(p Process) bool { return marked(p.PID) }), nil
}

// Marked returns the living processes with key=value in the environment they were started with, by number, as far as
// this one may look into them: those of this user, for root all. A program may have written over its environment.
// Linux and macOS (where the system's own programs do not show it); else errors.ErrUnsupported.
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

// MarkedAmong narrows a list of processes down to those whose environment has key=value, without a look at all others.
func MarkedAmong(list []Process, key, value string) []Process {
	return markedAmong(slices.Clone(list), key, value)
}

// markedAmong uses up the list.
func markedAmong(list []Process, key, value string) []Process {
	marked := bearing(key, value)
	return slices.DeleteFunc(list, func(p Process) bool { return p.Zombie || !marked(p.PID) })
}

// climb finds the tree in one picture of the process table.
func climb(all []Process, self int, root Identity, mark string, known map[Identity]bool, marked func(Process) bool) []Process {
	all = slices.DeleteFunc(all, func(p Process) bool { return p.Zombie || p.PID <= 1 })
	found := grow(all, root, mark, known, marked)
	within := func(p Process) bool { return p.PID == self && !p.is(root) }
	if slices.ContainsFunc(found, within) {
		found = grow(withoutOwn(all, self, root), root, mark, known, marked)
	}
	return found
}

// withoutOwn leaves out the process with the number and its descendants: what was started by hand from within a tree is
// marked as part of it, and so is all that it starts. Of the tree that it is asked to look for, root stays.
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

// is reports whether the process is root, proved.
func (p Process) is(root Identity) bool {
	return root.proves() && p.PID == root.PID && p.Start == root.Start && p.Boot == root.Boot
}

// grow takes in relatives first: they cost nothing, and the environment is read only of those that are not
// found yet.
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

// tree is a picture of the process table, in the making.
type tree struct {
	all   []Process
	byPID map[int]int
	in    []bool // by place in all
}

func newTree(all []Process) *tree {
	t := &tree{all: all, byPID: make(map[int]int, len(all)), in: make([]bool, len(all))}
	for i, p := range all {
		t.byPID[p.PID] = i
	}
	return t
}

// spread takes in children and members of led sessions until there are no more.
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

// descends reports whether the process with the number is in the tree and older: the table is not read at one moment,
// and a number that was given away meanwhile must not make strangers relatives.
func (t *tree) descends(p Process, from int) bool {
	i, ok := t.byPID[from]
	return ok && t.in[i] && t.all[i].Start <= p.Start
}

// orphans takes in the session that root once led, if root is gone, no other process has its number, and one of the
// members bears the mark: nobody else can be in that session. Other sessions without a leader may be those of a
// terminal that has been closed, with other work in it.
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
