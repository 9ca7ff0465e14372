package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
)

func place(dir, file string) string { return filepath.Join(dir, ".claude", "steward", locksDir, file) }

func take(t *testing.T, p *Locks, name string) *Held {
	t.Helper()
	h, err := p.Acquire(t.Context(), Request{Name: name, Agent: "builder", TTL: time.Minute, NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func give(t *testing.T, h *Held) {
	t.Helper()
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"deploy": "deploy", "src/main.go": "src%2Fmain.go", "../../etc/passwd": "%2E.%2F..%2Fetc%2Fpasswd", ".": "%2E", "..": "%2E%2E",
		"100%": "100%25", "%2F": "%252F", "a b": "a b", " a": "%20a", "ä": "ä", `c:\x`: "c%3A%5Cx", "-n": "-n", "a.lock": "a.lock", "$(rm -rf ~)": "$(rm -rf ~)",
	} {
		got, err := fileName(name)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", name, got, err, want)
		}
		if back, ok := nameOf(got); !ok || back != name {
			t.Errorf("%q comes back as %q, %v", name, back, ok)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 101), strings.Repeat("/", 90), "a\nb", "a\x00", "a\x1b[2J", "a\u202eb", "\xff", "a\tb"} {
		if got, err := fileName(name); !errors.Is(err, ErrName) {
			t.Errorf("%q is taken as %q, %v", name, got, err)
		}
	}
	for _, file := range []string{"%2", "%zz", "a%2fb", "%41", ".x", "a/b"} {
		if name, ok := nameOf(file); ok {
			t.Errorf("the file name %q is read as %q", file, name)
		}
	}
}

// TestHostileNamesStayInTheirFolder: whatever the lock's name, no file appears elsewhere.
func TestHostileNamesStayInTheirFolder(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "p")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := locksOf(dir, true)
	defer p.Close()
	for _, name := range []string{"../../../x", "/etc/x", "..", "a/../../b", "guard.lock"} {
		give(t, take(t, p, name))
	}
	var found []string
	err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Dir(path) != filepath.Dir(place(dir, "x")) && path != filepath.Join(dir, own, ignoreFile) {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) > 0 {
		t.Errorf("%v, also found: %q", err, found)
	}
	list, err := p.List(t.Context())
	if err != nil || len(list) != 5 || list[0].Name != ".." {
		t.Errorf("%v, the list: %+v", err, list)
	}
}

// TestNumbersGrow: fencing tokens grow even if the record, its second copy, or both are damaged.
func TestNumbersGrow(t *testing.T) {
	dir := t.TempDir()
	p := locksOf(dir, false)
	defer p.Close()
	begin := uint64(time.Now().UnixMicro())
	h := take(t, p, "it")
	base := h.Fence()
	if base < begin || base > uint64(time.Now().UnixMicro()) {
		t.Errorf("the first number is %d at %d", base, begin)
	}
	give(t, h)
	next := func(want uint64) {
		t.Helper()
		h := take(t, p, "it")
		if h.Fence() != base+want {
			t.Errorf("number %d, want %d", h.Fence(), base+want)
		}
		give(t, h)
	}
	remove := func(file string) {
		t.Helper()
		if err := os.Remove(place(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	next(1)
	remove("it.fence")
	next(2) // the copy is recreated
	remove("it.json")
	next(1002) // above every token that may have been granted
	next(1003)
	write(t, place(dir, "it.fence"), "{")
	next(1004)
	remove("it.fence")
	remove("it.json")
	h = take(t, p, "it")
	if h.Fence() <= base+1004 {
		t.Errorf("number %d after %d and a wipe", h.Fence(), base+1004)
	}
	give(t, h)
}

// TestDamagedRecord: a damaged record is refused until a user breaks the lock. Then the fencing tokens continue above
// every token seen, and nothing is lost.
func TestDamagedRecord(t *testing.T) {
	huge := strings.Repeat(" ", maxRecord) + "{}"
	for what, c := range map[string]struct {
		text, second string
		least        uint64
	}{
		"empty":          {text: "", second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"torn":           {text: `{"name":"it","fen`, second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"no number":      {text: `{"name":"it"}`, second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"negative":       {text: `{"name":"it","fence":-1}`, second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"too large":      {text: `{"name":"it","fence":9007199254740992}`, second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"another's":      {text: `{"name":"other","fence":7}`, second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"twice the key":  {text: `{"name":"it","fence":7,"fence":8}`, second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"huge":           {text: huge, second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"binary":         {text: "\x00\xff\xfe", second: `{"name":"it","ceiling":8000000000000000}`, least: 8_000_000_000_000_001},
		"an old copy":    {text: "x", second: `{"name":"it","ceiling":1000}`, least: 1_700_000_000_000_000},
		"both":           {text: "x", second: "y", least: 1_700_000_000_000_000},
		"and no copy":    {text: "x", least: 1_700_000_000_000_000},
		"another's copy": {text: "x", second: `{"name":"other","ceiling":5}`, least: 1_700_000_000_000_000},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			p := locksOf(dir, false)
			defer p.Close()
			give(t, take(t, p, "it"))
			write(t, place(dir, "it.json"), c.text)
			if err := os.Remove(place(dir, "it.fence")); err != nil {
				t.Fatal(err)
			}
			if c.second != "" {
				write(t, place(dir, "it.fence"), c.second)
			}
			_, err := p.Acquire(t.Context(), Request{Name: "it", Agent: "builder", TTL: time.Minute})
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "steward lock break it") {
				t.Fatalf("got %v", err)
			}
			if got := readText(t, place(dir, "it.json")); got != c.text {
				t.Errorf("the damaged record was changed to %q", got)
			}
			list, err := p.List(t.Context())
			if err != nil || len(list) != 1 || list[0].State != StateDamaged {
				t.Errorf("the list: %+v, %v", list, err)
			}
			s, err := p.Find(t.Context(), "it")
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Break(t.Context(), Breaking{Status: s, By: "jesse", Why: "the disk was full"}); err != nil {
				t.Fatal(err)
			}
			h := take(t, p, "it")
			if h.Fence() < c.least {
				t.Errorf("number %d, want %d or more", h.Fence(), c.least)
			}
			give(t, h)
			kept, _ := filepath.Glob(place(dir, "it.damaged-*"))
			if len(kept) != 1 || readText(t, kept[0]) != c.text {
				t.Errorf("kept: %q", kept)
			}
		})
	}
}

// TestFolders: an unwritable folder is an error before a grant; links do not lead out of the folder.
func TestFolders(t *testing.T) {
	ask := Request{Name: "it", Agent: "builder", TTL: time.Minute, NoWait: true}
	elsewhere := t.TempDir()
	for what, prepare := range map[string]func(dir string) error{
		"a link in the project's place of the folder": func(dir string) error { return os.Symlink(elsewhere, filepath.Join(dir, ".claude")) },
		"a link in the place of the locks": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, own), 0o755), os.Symlink(elsewhere, filepath.Join(dir, own, locksDir)))
		},
		"a file in the place of the locks": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, own), 0o755), os.WriteFile(filepath.Join(dir, own, locksDir), nil, 0o644))
		},
		"a link in the place of the lock": func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(place(dir, "")), 0o755), os.MkdirAll(filepath.Join(dir, own, locksDir), 0o755),
				os.Symlink(filepath.Join(elsewhere, "x"), place(dir, "it.lock")))
		},
	} {
		dir := t.TempDir()
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		p := locksOf(dir, false)
		if h, err := p.Acquire(t.Context(), ask); err == nil {
			t.Errorf("%s: granted, number %d", what, h.Fence())
		}
		p.Close()
	}
	if left, _ := os.ReadDir(elsewhere); len(left) > 0 {
		t.Errorf("%d files appeared elsewhere", len(left))
	}
	for _, agent := range []string{"", " builder", "a\nb", strings.Repeat("x", 101)} {
		p := locksOf(t.TempDir(), false)
		if _, err := p.Acquire(t.Context(), Request{Name: "it", Agent: agent, TTL: time.Minute}); err == nil {
			t.Errorf("%q is taken as an agent", agent)
		}
	}
}

// TestList: held, overdue and free locks; a lock from another machine and a lock whose process is gone.
func TestList(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	p := Open(dir, Options{Now: func() time.Time { return now }})
	defer p.Close()
	if list, err := p.List(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("a project without locks: %+v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".claude")); !errors.Is(err, os.ErrNotExist) {
		t.Error("to list made a folder")
	}
	h := take(t, p, "b")
	give(t, take(t, p, "a"))
	fence := uint64(now.UnixMicro())
	states := func() string {
		t.Helper()
		list, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, s := range list {
			words = append(words, fmt.Sprintf("%s %s %d", s.Name, s.State, s.Fence-fence+1))
			if (s.PID == os.Getpid()) != (s.State != StateFree) {
				t.Errorf("%s: process %d", s.Name, s.PID)
			}
		}
		return strings.Join(words, ", ")
	}
	if _, err := proc.Table(); err != nil {
		t.Skip("a process that gave a lock back and lives on cannot be told from a holder here")
	}
	if got := states(); got != "a free 1, b held 1" {
		t.Error(got)
	}
	now = now.Add(2 * time.Minute)
	if got := states(); got != "a free 1, b overdue 1" {
		t.Error(got)
	}
	give(t, h)
	if got := states(); got != "a free 1, b free 1" {
		t.Error(got)
	}
}

// TestWhereTheKernelDoesNotTell: the recorded processes decide, and only on their own machine.
func TestWhereTheKernelDoesNotTell(t *testing.T) {
	dir := t.TempDir()
	untold := func(string) ([]proc.Identity, error) { return nil, errors.ErrUnsupported }
	p := Open(dir, Options{Now: time.Now, Holders: untold})
	defer p.Close()
	give(t, take(t, p, "it"))
	me, gone := p.procs.self, p.procs.self
	gone.Start++
	for _, c := range []struct {
		what           string
		process, child proc.Identity
		host           string
		state          State
		kernel         bool
	}{
		{"the process lives", me, proc.Identity{}, p.procs.host, StateHeld, true},
		{"only its command lives", gone, me, p.procs.host, StateHeld, true},
		{"both are gone", gone, gone, p.procs.host, StateFree, false},
		{"on another machine", me, me, "elsewhere", StateFree, false},
	} {
		r := record{Name: "it", Fence: 5, Agent: "builder", Process: c.process, Child: c.child, Host: c.host, Acquired: time.Now(), TTL: 60}
		if err := p.folder.write("it", r, 1000); err != nil {
			t.Fatal(err)
		}
		if s := p.status("it", "it", time.Now()); s.State != c.state {
			t.Errorf("%s: %+v", c.what, s)
		}
		l, ok := p.Granted("it")
		if !ok || l.Kernel != c.kernel || l.Fence != 5 || (c.host != p.procs.host) != (l.Process.PID == 0) {
			t.Errorf("%s: adapters are told %+v, %v", c.what, l, ok)
		}
	}
}

// TestWaiting: the holder is reported once, the time limit is kept, and a cancelled wait says so.
func TestWaiting(t *testing.T) {
	dir := t.TempDir()
	p := locksOf(dir, false)
	defer p.Close()
	h := take(t, p, "it")
	var told []Status
	ask := Request{Name: "it", Agent: "fixer", TTL: time.Minute, Wait: 50 * time.Millisecond, Waiting: func(s Status) { told = append(told, s) }}
	_, err := p.Acquire(t.Context(), ask)
	var held *HeldError
	if !errors.As(err, &held) || len(told) != 1 || told[0].Agent != "builder" || told[0].Fence != h.Fence() {
		t.Fatalf("%v, told %+v", err, told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	ask.Wait = 0
	if _, err := p.Acquire(ctx, ask); !errors.Is(err, context.Canceled) {
		t.Fatalf("called off: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		h, err := p.Acquire(t.Context(), Request{Name: "it", Agent: "fixer", TTL: time.Minute})
		if err == nil {
			err = h.Release(t.Context())
		}
		got <- err
	}()
	time.Sleep(20 * time.Millisecond)
	give(t, h)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestRecordIsForPeopleToo(t *testing.T) {
	dir := t.TempDir()
	p := locksOf(dir, false)
	defer p.Close()
	argv := append([]string{"sh", "\xff", strings.Repeat("x", 999)}, strings.Split(strings.Repeat("y ", 50), " ")...)
	h, err := p.Acquire(t.Context(), Request{Name: "src/a.go", Agent: "builder", Command: argv, TTL: 90 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release(t.Context())
	var doc map[string]any
	if err := json.Unmarshal([]byte(readText(t, place(dir, "src%2Fa.go.json"))), &doc); err != nil {
		t.Fatal(err)
	}
	command, _ := doc["command"].([]any)
	if doc["name"] != "src/a.go" || doc["agent"] != "builder" || doc["ttl_seconds"] != 90.0 || len(command) != 21 {
		t.Errorf("the record: %v", doc)
	}
	if st, err := os.Stat(place(dir, "src%2Fa.go.lock")); err != nil || st.Size() != 0 {
		t.Errorf("the lock file: %v, %v", st, err)
	}
}

// BenchmarkUncontended measures one grant: take the lock, assign a token, write the record, release.
func BenchmarkUncontended(b *testing.B) {
	for _, mirror := range []bool{false, true} {
		b.Run(fmt.Sprintf("mirror=%v", mirror), func(b *testing.B) {
			dir := b.TempDir()
			if mirror {
				seed(b, dir)
			}
			p := locksOf(dir, mirror)
			defer p.Close()
			for b.Loop() {
				h, err := p.Acquire(b.Context(), Request{Name: "it", Agent: "builder", TTL: time.Minute})
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
