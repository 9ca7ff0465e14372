package folder

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// A link in the folder's place is detected and refused: the Fault reports it and its start until it is gone.
func TestLinkInsteadOfTheFolder(t *testing.T) {
	r := newRoom(t, `{}`)
	r.do(errors.Join(os.RemoveAll(r.path(".")), os.Mkdir(r.path("../elsewhere"), 0o755)))
	r.do(os.Symlink(r.path("../elsewhere"), r.path(".")))
	if !Is(r.dir, base) || Is(r.dir, base+"/none") {
		t.Error("not detected, so nobody would hear of it")
	}
	first, there := r.look(time.Second)
	if there || len(first.Faults) != 1 || first.Faults[0].Path != base || !strings.Contains(first.Faults[0].Problem, "symbolic link") {
		t.Fatalf("%v, %+v", there, first.Faults)
	}
	if r.Root != nil || r.forgot != 3 {
		t.Errorf("what was read before is trusted: forgot %d times", r.forgot)
	}
	if again, _ := r.look(time.Minute); len(again.Faults) != 1 || again.Faults[0] != first.Faults[0] {
		t.Errorf("%+v, was %+v", again.Faults, first.Faults)
	}
	if err := r.Make(); !errors.Is(err, jsonfile.ErrHostile) {
		t.Errorf("made through the link: %v", err)
	}
	r.do(os.RemoveAll(r.path("../elsewhere")))
	if Is(r.dir, base) {
		t.Error("a link that leads nowhere is no folder")
	}
	r.do(os.Remove(r.path(".")))
	if s, there := r.look(time.Second); there || len(s.Faults) > 0 {
		t.Errorf("removed: %+v", s.Faults)
	}
}

// A FIFO or a file in its place is refused too, and nothing hangs.
func TestNoFolderInItsPlace(t *testing.T) {
	for what, make := range map[string]func(at string) error{
		"FIFO":      func(at string) error { return syscall.Mkfifo(at, 0o644) },
		"something": func(at string) error { return os.WriteFile(at, nil, 0o644) },
	} {
		r := newRoom(t, "")
		r.do(make(r.path(".")))
		if s, there := r.look(time.Second); there || len(s.Faults) != 1 || Is(r.dir, base) {
			t.Errorf("%s: %v, %+v", what, there, s.Faults)
		}
	}
}

// If the path of the folder cannot be examined at the moment, the open folder stays in use.
func TestServesOn(t *testing.T) {
	r := newRoom(t, `{"a": 0}`)
	r.do(os.Rename(r.path("."), r.path("../aside")))
	r.write(`{}`)
	old, forgot := r.Root, r.forgot
	var limit syscall.Rlimit
	r.do(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 3
	r.do(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	first, there := r.look(time.Second)
	again, still := r.look(time.Second)
	is := Is(r.dir, base)
	r.do(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if !is || !there || !still || r.Root != old || r.forgot != forgot {
		t.Errorf("is %v, there %v, forgot %d times", is, there, r.forgot-forgot)
	}
	if len(first.Faults) != 1 || len(again.Faults) != 1 || first.Faults[0] != again.Faults[0] || !strings.Contains(first.Faults[0].Problem, "too many open files") {
		t.Errorf("%+v, then %+v", first.Faults, again.Faults)
	}
	if s, there := r.look(time.Second); !there || len(s.Faults) > 0 || r.Root == old || r.forgot != forgot+1 {
		t.Errorf("with files again: there %v, forgot %d times, %+v", there, r.forgot-forgot, s.Faults)
	}
}
