package proc

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestInspectSelf(t *testing.T) {
	id, err := Inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if id.PID != os.Getpid() || id.UID != os.Getuid() || id.Start == 0 || id.Boot == "" {
		t.Fatalf("got %+v", id)
	}
	if again, err := Inspect(os.Getpid()); again != id || err != nil {
		t.Fatalf("second time %+v, %v", again, err)
	}
	if got := Check(id); got != Alive {
		t.Fatalf("Check: %v", got)
	}
	b, _ := json.Marshal(Identity{1, 2, "b", 3})
	if want := `{"pid":1,"start":2,"boot":"b","uid":3}`; string(b) != want {
		t.Fatalf("json %s, want %s", b, want)
	}
}

func TestLifeOfAProcess(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	if got := Check(id); got != Alive {
		t.Fatalf("running: %v", got)
	}
	syscall.Kill(c.pid(), syscall.SIGSTOP)
	eventually(t, id, Stopped)
	syscall.Kill(c.pid(), syscall.SIGCONT)
	eventually(t, id, Alive)
	c.kill()
	eventually(t, id, Gone) // a zombie: kill(pid, 0) still succeeds
	if err := syscall.Kill(c.pid(), 0); err != nil {
		t.Fatalf("the zombie should still be there: %v", err)
	}
	if _, err := Inspect(c.pid()); !errors.Is(err, ErrGone) {
		t.Fatalf("Inspect of a zombie: %v", err)
	}
	c.reap()
	if got := Check(id); got != Gone {
		t.Fatalf("reaped: %v", got)
	}
	if _, err := Inspect(c.pid()); !errors.Is(err, ErrGone) {
		t.Fatalf("Inspect after reaping: %v", err)
	}
}

func TestCheckNeedsProof(t *testing.T) {
	c := start(t, "quiet")
	id := inspectChild(t, c)
	with := func(change func(*Identity)) Identity {
		other := id
		change(&other)
		return other
	}
	tests := []struct {
		name string
		id   Identity
		want State
	}{
		{"the same", id, Alive},
		{"another user id is no proof", with(func(i *Identity) { i.UID = 4711 }), Alive},
		{"number used again", with(func(i *Identity) { i.Start-- }), Gone},
		{"another boot", with(func(i *Identity) { i.Boot = "11111111-2222-3333-4444-555555555555" }), Gone},
		{"no start", with(func(i *Identity) { i.Start = 0 }), Unknown},
		{"no boot", with(func(i *Identity) { i.Boot = "" }), Unknown},
		{"no start, absent", Identity{PID: 1 << 30, Boot: id.Boot}, Unknown},
		{"number 0", with(func(i *Identity) { i.PID = 0 }), Unknown},
		{"number -1", with(func(i *Identity) { i.PID = -1 }), Unknown},
		{"a process group", with(func(i *Identity) { i.PID = -i.PID }), Unknown},
		{"absent", with(func(i *Identity) { i.PID = 1 << 30 }), Gone},
		{"zero value", Identity{}, Unknown},
	}
	for _, tt := range tests {
		if got := Check(tt.id); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestInspectRefusesWhatIsNoNumber(t *testing.T) {
	for _, pid := range []int{0, -1, -os.Getpid()} {
		if id, err := Inspect(pid); err == nil || errors.Is(err, ErrGone) || id != (Identity{}) {
			t.Errorf("%d: %+v, %v", pid, id, err)
		}
	}
}

func TestStrangeCommandName(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a b", ") Z 1 2 (x", "((( )", "x)\nUid:\t7\t7"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(self, path); err != nil {
			t.Fatal(err)
		}
		c := start(t, "quiet", func(cmd *exec.Cmd) { cmd.Path = path })
		id := inspectChild(t, c)
		plain := inspectChild(t, start(t, "quiet"))
		if Check(id) != Alive || id.UID != os.Getuid() || id.Start > plain.Start {
			t.Errorf("%q: %+v is %v; a younger one is %+v", name, id, Check(id), plain)
		}
		c.reap()
		if Check(id) != Gone {
			t.Errorf("%q: %v after its end", name, Check(id))
		}
	}
}

func TestStateString(t *testing.T) {
	for s, want := range map[State]string{Unknown: "unknown", Alive: "alive", Stopped: "stopped", Gone: "gone", 99: "unknown"} {
		if s.String() != want {
			t.Errorf("%d: %q", s, s)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	id, err := Inspect(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Check(id)
	}
}
