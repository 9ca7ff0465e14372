package proc

import (
	"slices"
	"testing"
)

func TestClimb(t *testing.T) {
	p := func(pid, parent, session int, start uint64) Process {
		return Process{Identity: Identity{PID: pid, Start: start, Boot: "b"}, Parent: parent, Session: session}
	}
	root := p(10, 1, 10, 50).Identity
	for _, c := range []struct {
		name   string
		root   Identity
		marked []int
		all    []Process
		want   []int
	}{
		{"children of children", root, nil, []Process{p(1, 0, 1, 1), p(10, 1, 10, 50), p(11, 10, 10, 51), p(12, 11, 12, 52), p(20, 1, 20, 40)}, []int{10, 11, 12}},
		{"a lower number, found later", root, nil, []Process{p(5, 11, 5, 60), p(10, 1, 10, 50), p(11, 10, 10, 51)}, []int{5, 10, 11}},
		{"an orphan in the session", root, nil, []Process{p(10, 1, 10, 50), p(12, 1, 10, 52), p(13, 12, 13, 53)}, []int{10, 12, 13}},
		{"a session led by a descendant", root, nil, []Process{p(10, 1, 10, 50), p(12, 10, 12, 52), p(13, 1, 12, 53)}, []int{10, 12, 13}},
		{"root in the session of a terminal", root, nil, []Process{p(9, 1, 9, 20), p(10, 9, 9, 50), p(12, 9, 9, 52)}, []int{10}},
		{"the number has passed to another", root, nil, []Process{p(10, 1, 10, 55), p(11, 10, 10, 56)}, nil},
		{"an older child is none", root, nil, []Process{p(10, 1, 10, 50), p(11, 10, 11, 49)}, []int{10}},
		{"another boot", Identity{PID: 10, Start: 50, Boot: "a"}, nil, []Process{p(10, 1, 10, 50)}, nil},
		{"marked ones and their children", Identity{}, []int{12}, []Process{p(10, 1, 10, 50), p(12, 1, 12, 52), p(13, 12, 13, 53)}, []int{12, 13}},
		{"the session of a root that is gone", root, []int{12}, []Process{p(12, 1, 10, 52), p(13, 1, 10, 53), p(14, 13, 14, 54)}, []int{12, 13, 14}},
		{"such a session without a marked one", root, nil, []Process{p(12, 1, 10, 52)}, nil},
		{"a number that leads again", root, []int{12}, []Process{p(10, 1, 10, 70), p(12, 1, 10, 72), p(13, 1, 10, 73)}, []int{12}},
		{"a marked one in the session of a closed terminal", root, []int{12}, []Process{p(12, 1, 9, 52), p(13, 1, 9, 53)}, []int{12}},
		{"the one that looks, marked", Identity{}, []int{12, 30, 32}, []Process{p(12, 1, 12, 52), p(30, 12, 30, 60), p(31, 30, 31, 61), p(32, 31, 32, 62), p(33, 1, 33, 63)}, []int{12}},
		{"the one that looks, in the session", root, []int{12}, []Process{p(12, 1, 10, 52), p(30, 12, 10, 60), p(31, 30, 10, 61), p(32, 31, 10, 62)}, []int{12}},
		{"the one that looks, marked by another root", Identity{PID: 31, Start: 61, Boot: "b"}, []int{30, 31}, []Process{p(30, 1, 30, 60), p(31, 30, 31, 61), p(32, 31, 32, 62), p(33, 30, 33, 63)}, []int{31, 32}},
		{"the one that looks is root", Identity{PID: 30, Start: 60, Boot: "b"}, []int{30}, []Process{p(30, 1, 30, 60), p(31, 30, 31, 61)}, []int{30, 31}},
		{"the parent of the tree looks", root, []int{10}, []Process{p(30, 1, 30, 40), p(10, 30, 10, 50), p(11, 10, 11, 51), p(33, 30, 33, 63)}, []int{10, 11}},
		{"process 1", Identity{PID: 1, Start: 1, Boot: "b"}, []int{1}, []Process{p(1, 0, 1, 1), p(10, 1, 10, 50)}, nil},
		{"zombies", root, []int{11}, []Process{{Identity: root, Zombie: true}, {Identity: p(11, 10, 10, 51).Identity, Zombie: true}}, nil},
	} {
		var got []int
		for _, p := range climb(c.all, 30, c.root, "m", nil, func(p Process) bool { return slices.Contains(c.marked, p.PID) }) {
			got = append(got, p.PID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMarkedWantsAnEntry(t *testing.T) {
	for _, bad := range [][2]string{{"", "x"}, {"a=b", "x"}, {"a\x00", "x"}, {"a", "\x00"}} {
		if _, err := Marked(bad[0], bad[1]); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
