//go:build linux

package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"
)

// mountDisk mounts a small disk, or a read-only view, on a folder; without the permission it skips the test.
func mountDisk(r *rig.Rig, source, folder, kind string, flags uintptr, options string) {
	r.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		r.Fatal(err)
	}
	if err := syscall.Mount(source, folder, kind, flags, options); err != nil {
		r.Skipf("mount: %v", err)
	}
	r.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
}

// fillDisk fills a disk to the last block, and returns a function that frees the space.
func fillDisk(r *rig.Rig, folder string) (free func()) {
	r.Helper()
	file := filepath.Join(folder, "filler")
	f, err := os.Create(file)
	if err != nil {
		r.Fatal(err)
	}
	for size := 1 << 20; size > 0; size /= 16 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if f.Close(); !errors.Is(err, syscall.ENOSPC) {
		r.Fatal(err)
	}
	return func() { _ = os.Remove(file) }
}

// stageFile writes a document to a temporary file, and returns a function that renames it into place.
func stageFile(r *rig.Rig, file string, d rig.Doc) (reveal func()) {
	r.Helper()
	data, _ := json.Marshal(d)
	aside := filepath.Join(filepath.Dir(filepath.Dir(file)), filepath.Base(file)+".aside")
	if err := os.WriteFile(aside, data, 0o644); err != nil {
		r.Fatal(err)
	}
	return func() {
		if err := os.Rename(aside, file); err != nil {
			r.Fatal(err)
		}
	}
}

// isRetried reports whether the first attempt's result is filed and the task is visible again.
func isRetried(r *rig.Rig, project, id string) bool {
	return rig.There(r.Attempts(project, id+".1.result.json")) && rig.There(r.Task(project, id, ".request.json")) &&
		!rig.There(r.Task(project, id, ".deferred.json")) && !rig.There(r.Task(project, id, ".request.json.held"))
}

// isHeld reports whether the task is hidden from its agent, with a notice of the reason.
func isHeld(r *rig.Rig, project, id string) bool {
	return rig.There(r.Task(project, id, ".request.json.held")) && rig.There(r.Task(project, id, ".deferred.json")) && !rig.There(r.Task(project, id, ".request.json"))
}

// TestFullProjectDisk: no room for a hold's notice and a retry's record. Both are made once there is room.
func TestFullProjectDisk(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quickRules)
	mountDisk(r, "tmpfs", r.At("p"), "tmpfs", 0, "size=1m")
	r.Boot("p")
	stop := r.Beats("p", 0.1)
	r.Put(r.Task("p", rig.TaskID(1), ".request.json"), rig.RequestOf(rig.TaskID(1), 1))
	p := r.Start("p")
	r.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
	stop() // a beat rewritten in place would free a block for a moment
	fail := stageFile(r, r.Task("p", rig.TaskID(1), ".result.json"), rig.ResultOf(rig.TaskID(1), "FILE_NOT_FOUND"))
	ask := stageFile(r, r.Task("p", rig.TaskID(2), ".request.json"), rig.RequestOf(rig.TaskID(2), 0.8))
	free := fillDisk(r, r.At("p"))
	fail()
	r.Shows(`"faults": *\[[^\]]*no space left`)
	ask()
	r.Pause(time.Second)
	if !p.Alive() || isRetried(r, "p", rig.TaskID(1)) || isHeld(r, "p", rig.TaskID(2)) {
		t.Errorf("on a full disk: alive %v, retried %v, held %v", p.Alive(), isRetried(r, "p", rig.TaskID(1)), isHeld(r, "p", rig.TaskID(2)))
	}
	if rig.There(r.Task("p", rig.TaskID(2), ".request.json.held")) {
		t.Error("held without a notice that says why")
	}
	free()
	r.Until("the retry, once there is room", func() bool { return isRetried(r, "p", rig.TaskID(1)) })
	r.Put(r.Task("p", rig.TaskID(3), ".request.json"), rig.RequestOf(rig.TaskID(3), 0.8))
	r.Until("a hold, once there is room", func() bool { return isHeld(r, "p", rig.TaskID(3)) })
	r.Until("the fault is gone", func() bool { s, err := r.Status(); return err == nil && !strings.Contains(s.Raw, "no space left") })
}

// TestFullStateDisk: nothing is changed until the memory can be saved.
func TestFullStateDisk(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quickRules)
	mountDisk(r, "tmpfs", r.State, "tmpfs", 0, "size=1m,mode=700")
	r.Boot("p")
	r.Beats("p", 0.9)
	p := r.Start("p")
	r.Put(r.Task("p", rig.TaskID(1), ".request.json"), rig.RequestOf(rig.TaskID(1), 1))
	r.Shows(rig.TaskID(1))
	free := fillDisk(r, r.State)
	r.Outcome("p", rig.TaskID(1), "FILE_NOT_FOUND")
	r.Put(r.Task("p", rig.TaskID(2), ".request.json"), rig.RequestOf(rig.TaskID(2), 1))
	r.Outcome("p", rig.TaskID(2), "GIT_CONFLICT:fatal")
	r.Shows(`[Nn]o space left|cannot be saved`)
	if !p.Alive() || !rig.There(r.Task("p", rig.TaskID(1), ".result.json")) || rig.There(r.Attempts("p", rig.TaskID(1)+".1.sched.json")) {
		t.Errorf("alive %v; something was changed that is not in memory", p.Alive())
	}
	free()
	r.Until("the retry", func() bool { return isRetried(r, "p", rig.TaskID(1)) })
	r.Shows(`Git conflict detected. Your input needed`)
}

// TestReadOnlyProject: faults, no spin, and on it goes once the folder can be written again.
func TestReadOnlyProject(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quickRules)
	r.Boot("p")
	r.Put(r.Task("p", rig.TaskID(1), ".request.json"), rig.RequestOf(rig.TaskID(1), 1))
	r.Outcome("p", rig.TaskID(1), "FILE_NOT_FOUND")
	mountDisk(r, r.At("p"), r.At("p"), "", syscall.MS_BIND, "")
	remount := func(flags uintptr) {
		if err := syscall.Mount("", r.At("p"), "", syscall.MS_BIND|syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Skipf("remount: %v", err)
		}
	}
	remount(syscall.MS_RDONLY)
	p := r.Start("p")
	r.Shows(`[Rr]ead-only`)
	before := cpuTime(p, t)
	r.Pause(3 * time.Second)
	if used := cpuTime(p, t) - before; used > 500*time.Millisecond {
		t.Errorf("in 3 s the daemon used %v of a processor: it spins", used)
	}
	remount(0)
	r.Until("the retry, once the folder can be written", func() bool { return isRetried(r, "p", rig.TaskID(1)) })
	if !p.Alive() {
		t.Error("the daemon has ended")
	}
}

// cpuTime is the CPU time that a process has used according to the kernel, not the elapsed time.
func cpuTime(p *rig.Child, t *testing.T) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestStoppedDaemon: a daemon that was stopped for twice the limit declares no agent dead for the time it did not see.
// Protocol 000 has no locks; heartbeat's own tests have the same for locks.
func TestStoppedDaemon(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	r := rig.New(t, "[supervisor]\nlook_every = \"200ms\"\n[heartbeat]\nlate = \"1s\"\ndead = \"2s\"\nresume_grace = \"3s\"\n[escalate]\nchannels = []\n")
	r.Boot("p")
	r.Beats("p", 0.9)
	p := r.Start("p")
	r.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
	r.Put(r.At("p/tmp/agent_status/livhana_status/heartbeat.json"), rig.Doc{"agent_name": "livhana-layer1.1", "status": "active", "last_heartbeat": rig.Stamp(), "uptime_seconds": 1})
	r.Shows(`"livhana-layer1.1"[^}]*"state": *"alive"`)
	stop := sendSignal(r, p, syscall.SIGSTOP)
	r.Pause(4 * time.Second)
	resumed := sendSignal(r, p, syscall.SIGCONT)
	// livhana, which wrote one heartbeat, is finally dead, but not because of the time while the daemon was stopped.
	r.Shows(`"livhana-layer1.1"[^}]*"state": *"dead"`, `"codex-cursor"[^}]*"state": *"alive"`)
	for _, e := range readJournal(r) {
		switch {
		case e.State != "dead" || e.At.Before(stop):
		case strings.Contains(e.Subject, "codex-cursor"):
			t.Errorf("codex-cursor beat all the time, and was declared dead at %v: %s", e.At, e.Text)
		case e.At.Before(resumed.Add(grace)):
			t.Errorf("%s was declared dead %v after the daemon went on, within the grace of %v", e.Subject, e.At.Sub(resumed), grace)
		}
	}
}

// sendSignal gives the moment before the signal.
func sendSignal(r *rig.Rig, p *rig.Child, s syscall.Signal) time.Time {
	r.Helper()
	at := time.Now()
	if err := p.Process.Signal(s); err != nil {
		r.Fatal(err)
	}
	return at
}

type journalEntry struct {
	At                         time.Time
	Subject, State, Text, Kind string
}

func readJournal(r *rig.Rig) []journalEntry {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.State, "journal.jsonl"))
	if err != nil {
		r.Fatal(err)
	}
	var list []journalEntry
	for line := range bytes.Lines(data) {
		var e journalEntry
		if err := json.Unmarshal(line, &e); err != nil {
			r.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// TestContendedRegistry: a writer rewrites the registry in a tight loop while agents die and come back.
func TestContendedRegistry(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]struct {
		write func(file string, data []byte) error
		may   float64 // the share of its writes that such a writer may lose
	}{
		"by rename": {func(file string, data []byte) error {
			return errors.Join(os.WriteFile(file+".mine", data, 0o644), os.Rename(file+".mine", file))
		}, 0},
		// Who has the file open while it is replaced writes into the old one. What arrives there is merged at the next look;
		// a writer that reads again before that builds on what it finds, and without locks nothing can prevent that.
		"in place": {func(file string, data []byte) error { return os.WriteFile(file, data, 0o644) }, 0.002},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); contend(t, w.write, w.may) })
	}
}

var counter = regexp.MustCompile(`"counter": *\d+`)

func contend(t *testing.T, write func(string, []byte) error, may float64) {
	r := rig.New(t, "[supervisor]\nlook_every = \"100ms\"\n[heartbeat]\nlate = \"200ms\"\ndead = \"400ms\"\nstart_grace = \"400ms\"\nresume_grace = \"1ms\"\n[escalate]\nchannels = []\n")
	r.Boot("p")
	registry := r.At("p/tmp/agent_status/shared/agent_registry.json")
	data, _ := os.ReadFile(registry)
	if err := os.WriteFile(registry, bytes.Replace(data, []byte("{"), []byte(`{"counter": 0,`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Start("p")
	agents := make(chan struct{})
	go func() {
		defer close(agents)
		for range 4 { // a second of beats, a second of silence, and at last silence
			stop := r.Beats("p", 0.9)
			r.Pause(600 * time.Millisecond)
			stop()
			r.Pause(600 * time.Millisecond)
		}
	}()
	n, lost := 0, 0
	for busy := true; busy; {
		select {
		case <-agents:
			busy = false
		default:
		}
		old, err := os.ReadFile(registry)
		if err != nil || !counter.Match(old) {
			continue // steward's rename is atomic, so this is our own doing or a defect, which the end shows
		}
		if n > 0 && !bytes.Contains(old, fmt.Appendf(nil, `"counter": %d,`, n)) {
			lost++
		}
		n++
		if err := write(registry, counter.ReplaceAll(old, fmt.Appendf(nil, `"counter": %d`, n))); err != nil {
			t.Fatal(err)
		}
		r.Pause(time.Millisecond)
	}
	r.Until("our status is in the registry", func() bool {
		return rig.Reads(registry, `"codex-cursor": *\{[^}]*"status": *"error"`)
	})
	t.Logf("%d rewrites, %d lost on the way", n, lost)
	data, _ = os.ReadFile(registry)
	if !json.Valid(data) || !bytes.Contains(data, fmt.Appendf(nil, `"counter": %d,`, n)) {
		t.Errorf("the writer's last counter %d is gone, or the file is broken:\n%s", n, data)
	}
	if float64(lost) > may*float64(n) {
		t.Errorf("%d of the writer's %d counters were lost", lost, n)
	}
}

// TestResultInTheMoment: results come while their requests are being held, and second results while the first ones
// are being taken for a retry. None is lost, none is left out of sight.
func TestResultInTheMoment(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quickRules)
	r.Boot("p")
	r.Beats("p", 0.1)
	r.Start("p")
	r.Shows(`"codex-cursor"[^}]*"state": *"alive"`)
	const loops = 200
	for n := range loops {
		hold, retry := rig.TaskID(2*n), rig.TaskID(2*n+1)
		r.Put(r.Task("p", hold, ".request.json"), rig.RequestOf(hold, 0.8))
		r.Put(r.Task("p", retry, ".request.json"), rig.RequestOf(retry, 1))
		r.Pause(rand.N(3 * time.Millisecond))
		r.Outcome("p", hold, "completed")
		r.Outcome("p", retry, "FILE_NOT_FOUND")
		r.Pause(rand.N(3 * time.Millisecond))
		r.Outcome("p", retry, "completed")
	}
	r.Until("all are at rest", func() bool {
		left, _ := filepath.Glob(r.Task("p", "*", ".request.json"))
		s, err := r.Status()
		if err != nil || len(left) < 2*loops {
			return false
		}
		for n := range loops {
			if s.State("p", rig.TaskID(2*n)) != "done" {
				return false
			}
		}
		return true
	})
	for n := range loops {
		hold, retry := rig.TaskID(2*n), rig.TaskID(2*n+1)
		if !rig.Reads(r.Task("p", hold, ".result.json"), `"completed"`) || rig.There(r.Task("p", hold, ".deferred.json")) {
			t.Errorf("%s: its result is lost, or it is still held", hold)
		}
		if !onRecord(r, "p", retry, `"status": "completed"`) {
			t.Errorf("%s: its second result is lost", retry)
		}
		if rig.There(r.Task("p", retry, ".deferred.json")) {
			t.Errorf("%s is still held", retry)
		}
	}
}

// onRecord reports whether such a result lies in its place or in the ledger.
func onRecord(r *rig.Rig, project, id, pattern string) bool {
	files, _ := filepath.Glob(r.Attempts(project, id+".*.json"))
	for _, file := range append(files, r.Task(project, id, ".result.json")) {
		if rig.Reads(file, pattern) {
			return true
		}
	}
	return false
}

// TestFolderDeletedWhileWatched: the protocol's folder goes away and comes back.
func TestFolderDeletedWhileWatched(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quickRules)
	r.Boot("p")
	p := r.Start("p")
	for n := range 3 {
		if err := os.RemoveAll(r.At("p/tmp")); err != nil {
			t.Log(err) // the daemon put something into it meanwhile
		}
		r.Until("it is noticed", func() bool { s, err := r.Status(); return err == nil && len(s.Agents) == 0 })
		r.Boot("p")
		id := rig.TaskID(n)
		r.Put(r.Task("p", id, ".request.json"), rig.RequestOf(id, 1))
		r.Outcome("p", id, "FILE_NOT_FOUND")
		r.Until("a task of the new folder is looked after", func() bool { return isRetried(r, "p", id) })
	}
	if !p.Alive() {
		t.Error("the daemon has ended")
	}
}

// TestBadFiles lays every kind of broken file into one project: each is named, and a valid task beside them runs.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	r := rig.New(t, quickRules)
	r.Boot("p")
	r.Beats("p", 0.9)
	good, _ := json.Marshal(rig.RequestOf("good", 1))
	edit := func(id, old, new string) string {
		return strings.Replace(strings.ReplaceAll(string(good), "good", id), old, new, 1)
	}
	for id, text := range map[string]string{
		"bad-big":      edit("bad-big", `"Ship it"`, `"`+strings.Repeat("x", 1<<20)+`"`),
		"bad-deep":     strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"bad-utf8":     edit("bad-utf8", "Ship it", "Ship \xff\xfe it"),
		"bad-twice":    edit("bad-twice", `{`, `{"priority":"low",`),
		"bad-nul":      strings.Repeat("\x00", 512),
		"bad-empty":    "",
		"bad-half":     string(good[:len(good)/2]),
		"bad-types":    edit(edit("bad-types", `"priority":"medium"`, `"priority":7`), `"timeout_seconds":300`, `"timeout_seconds":"soon"`),
		"bad-mismatch": edit("quite-another", "", ""),
		"bad-array":    `["not","an","object"]`,
	} {
		r.Write(filepath.Join("p/tmp/agent_status/codex_tasks", "task_"+id+".request.json"), text)
	}
	request := func(id string) string { return r.Task("p", id, ".request.json") }
	r.Write("outside.json", edit("bad-out", "", ""))
	r.Write("p/tmp/agent_status/inside.json", edit("link-in", "", ""))
	err := errors.Join(os.Symlink(r.At("outside.json"), request("bad-out")), os.Symlink("../inside.json", request("link-in")),
		os.Symlink("nowhere.json", request("bad-dangling")), syscall.Mkfifo(request("bad-fifo"), 0o644), os.Mkdir(request("bad-folder"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	named := []string{"bad-big", "bad-deep", "bad-utf8", "bad-twice", "bad-nul", "bad-empty", "bad-half", "bad-types", "bad-mismatch", "bad-array",
		"bad-out", "link-in", "bad-dangling", "bad-fifo", "bad-folder"}
	if err := syscall.Mknod(request("bad-device"), syscall.S_IFCHR|0o644, 1<<8|5); err == nil { // what /dev/zero is
		named = append(named, "bad-device")
	} else {
		t.Logf("no device node: %v", err)
	}
	p := r.Start("p")
	r.Put(request(rig.TaskID(1)), rig.RequestOf(rig.TaskID(1), 1))
	r.Outcome("p", rig.TaskID(1), "FILE_NOT_FOUND")
	r.Until("the valid task is looked after", func() bool { return isRetried(r, "p", rig.TaskID(1)) })
	missing := named
	t.Cleanup(func() { t.Log("not named:", missing) })
	r.Until("every bad file is named", func() bool {
		s, err := r.Status()
		missing = unnamed(s, named)
		return err == nil && len(missing) == 0
	})
	if !p.Alive() {
		t.Error("the daemon has ended")
	}
}

// unnamed lists the ids that neither a fault nor a finding speaks of.
func unnamed(p rig.StatusPage, ids []string) []string {
	var text strings.Builder
	for _, project := range p.Projects {
		for _, f := range project.Faults {
			fmt.Fprintln(&text, f.Path, f.Problem)
		}
		for _, f := range project.Findings {
			fmt.Fprintln(&text, f.Subject, f.Text)
		}
	}
	var missing []string
	for _, id := range ids {
		if !strings.Contains(text.String(), id) {
			missing = append(missing, id)
		}
	}
	return missing
}
