//go:build linux

package main

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
)

// mount mounts a small disk, or a read-only view, on a folder; without the permission it skips the test.
func (r *rig) mount(source, folder, kind string, flags uintptr, options string) {
	r.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		r.Fatal(err)
	}
	if err := syscall.Mount(source, folder, kind, flags, options); err != nil {
		r.Skipf("mount: %v", err)
	}
	r.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
}

// fill fills a disk to the last block, and returns a function that frees the space.
func (r *rig) fill(folder string) (free func()) {
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

// outcome writes a task's result by rename; with a full disk the bytes must be there already: see stage.
func (r *rig) outcome(project, id, outcome string) {
	r.put(r.task(project, id, ".result.json"), resultOf(id, outcome))
}

// askAnew writes the request of a task again: the next result is the first one of a new request.
func (r *rig) askAnew(project, id string, n int) {
	r.Helper()
	d := requestOf(id, 1)
	d["created_at"] = time.Now().UTC().Format(time.RFC3339Nano)
	d["payload"].(doc)["parameters"].(doc)["again"] = n
	r.put(r.task(project, id, ".request.json"), d)
}

// stage writes a document to a temporary file, and returns a function that renames it into place.
func (r *rig) stage(file string, d doc) (reveal func()) {
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

// beats keeps a project's agent heartbeat with the given free capacity until the test ends or stop is called.
func (r *rig) beats(project string, free float64) (stop func()) {
	c := codexClient{dir: r.at(project), manner: "naming", free: free}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c.beat()
			select {
			case <-end:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	done := false
	stop = func() {
		if !done {
			done = true
			close(end)
			<-ended
		}
	}
	r.Cleanup(stop)
	return stop
}

// retried reports whether the first attempt's result is filed and the task is visible again.
func (r *rig) retried(project, id string) bool {
	return there(r.attempts(project, id+".1.result.json")) && there(r.task(project, id, ".request.json")) &&
		!there(r.task(project, id, ".deferred.json")) && !there(r.task(project, id, ".request.json.held"))
}

// held reports whether the task is hidden from its agent, with a notice of the reason.
func (r *rig) held(project, id string) bool {
	return there(r.task(project, id, ".request.json.held")) && there(r.task(project, id, ".deferred.json")) && !there(r.task(project, id, ".request.json"))
}

// TestFullProjectDisk: no room for a hold's notice and a retry's record. Both are made once there is room.
func TestFullProjectDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t, quickRules)
	r.mount("tmpfs", r.at("p"), "tmpfs", 0, "size=1m")
	r.boot("p")
	stop := r.beats("p", 0.1)
	r.put(r.task("p", taskID(1), ".request.json"), requestOf(taskID(1), 1))
	p := r.start("p")
	r.shows(`"codex-cursor"[^}]*"state": *"alive"`)
	stop() // a beat that is written anew in place would leave room for somebody else for a moment
	fail := r.stage(r.task("p", taskID(1), ".result.json"), resultOf(taskID(1), "FILE_NOT_FOUND"))
	ask := r.stage(r.task("p", taskID(2), ".request.json"), requestOf(taskID(2), 0.8))
	free := r.fill(r.at("p"))
	fail()
	r.shows(`"faults": *\[[^\]]*no space left`)
	ask()
	r.pause(time.Second)
	if !p.alive() || r.retried("p", taskID(1)) || r.held("p", taskID(2)) {
		t.Errorf("on a full disk: alive %v, retried %v, held %v", p.alive(), r.retried("p", taskID(1)), r.held("p", taskID(2)))
	}
	if there(r.task("p", taskID(2), ".request.json.held")) {
		t.Error("held without a notice that says why")
	}
	free()
	r.until("the retry, once there is room", func() bool { return r.retried("p", taskID(1)) })
	r.put(r.task("p", taskID(3), ".request.json"), requestOf(taskID(3), 0.8))
	r.until("a hold, once there is room", func() bool { return r.held("p", taskID(3)) })
	r.until("the fault is gone", func() bool { s, err := r.status(); return err == nil && !strings.Contains(s.raw, "no space left") })
}

// TestFullStateDisk: nothing is changed until the memory can be saved.
func TestFullStateDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t, quickRules)
	r.mount("tmpfs", r.state, "tmpfs", 0, "size=1m,mode=700")
	r.boot("p")
	r.beats("p", 0.9)
	p := r.start("p")
	r.put(r.task("p", taskID(1), ".request.json"), requestOf(taskID(1), 1))
	r.shows(taskID(1))
	free := r.fill(r.state)
	r.outcome("p", taskID(1), "FILE_NOT_FOUND")
	r.put(r.task("p", taskID(2), ".request.json"), requestOf(taskID(2), 1))
	r.outcome("p", taskID(2), "GIT_CONFLICT:fatal")
	r.shows(`[Nn]o space left|cannot be saved`)
	if !p.alive() || !there(r.task("p", taskID(1), ".result.json")) || there(r.attempts("p", taskID(1)+".1.sched.json")) {
		t.Errorf("alive %v; something was changed that is not in memory", p.alive())
	}
	free()
	r.until("the retry", func() bool { return r.retried("p", taskID(1)) })
	r.shows(`Git conflict detected. Your input needed`)
}

// TestReadOnlyProject: faults, no spin, and on it goes once the folder can be written again.
func TestReadOnlyProject(t *testing.T) {
	t.Parallel()
	r := newRig(t, quickRules)
	r.boot("p")
	r.put(r.task("p", taskID(1), ".request.json"), requestOf(taskID(1), 1))
	r.outcome("p", taskID(1), "FILE_NOT_FOUND")
	r.mount(r.at("p"), r.at("p"), "", syscall.MS_BIND, "")
	remount := func(flags uintptr) {
		if err := syscall.Mount("", r.at("p"), "", syscall.MS_BIND|syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Skipf("remount: %v", err)
		}
	}
	remount(syscall.MS_RDONLY)
	p := r.start("p")
	r.shows(`[Rr]ead-only`)
	before := p.cpu(t)
	r.pause(3 * time.Second)
	if used := p.cpu(t) - before; used > 500*time.Millisecond {
		t.Errorf("in 3 s the daemon used %v of a processor: it spins", used)
	}
	remount(0)
	r.until("the retry, once the folder can be written", func() bool { return r.retried("p", taskID(1)) })
	if !p.alive() {
		t.Error("the daemon has ended")
	}
}

// cpu is the CPU time that a process has used according to the kernel, not the elapsed time.
func (p *child) cpu(t *testing.T) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestStoppedDaemon: a daemon that was stopped for twice the limit declares nobody dead for the time it did not see.
// Protocol 000 has no locks; heartbeat's own tests have the same for locks.
func TestStoppedDaemon(t *testing.T) {
	t.Parallel()
	const grace = 3 * time.Second
	r := newRig(t, "[supervisor]\nlook_every = \"200ms\"\n[heartbeat]\nlate = \"1s\"\ndead = \"2s\"\nresume_grace = \"3s\"\n[escalate]\nchannels = []\n")
	r.boot("p")
	r.beats("p", 0.9)
	p := r.start("p")
	r.shows(`"codex-cursor"[^}]*"state": *"alive"`)
	r.put(r.at("p/tmp/agent_status/livhana_status/heartbeat.json"), doc{"agent_name": "livhana-layer1.1", "status": "active", "last_heartbeat": stamp(), "uptime_seconds": 1})
	r.shows(`"livhana-layer1.1"[^}]*"state": *"alive"`)
	stop := r.signal(p, syscall.SIGSTOP)
	r.pause(4 * time.Second)
	resumed := r.signal(p, syscall.SIGCONT)
	// livhana, which wrote one heartbeat, is finally dead, but not because of the time while the daemon was stopped.
	r.shows(`"livhana-layer1.1"[^}]*"state": *"dead"`, `"codex-cursor"[^}]*"state": *"alive"`)
	for _, e := range r.journal() {
		switch {
		case e.State != "dead" || e.At.Before(stop):
		case strings.Contains(e.Subject, "codex-cursor"):
			t.Errorf("codex-cursor beat all the time, and was declared dead at %v: %s", e.At, e.Text)
		case e.At.Before(resumed.Add(grace)):
			t.Errorf("%s was declared dead %v after the daemon went on, within the grace of %v", e.Subject, e.At.Sub(resumed), grace)
		}
	}
}

// signal gives the moment before the signal.
func (r *rig) signal(p *child, s syscall.Signal) time.Time {
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

func (r *rig) journal() []journalEntry {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.state, "journal.jsonl"))
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
		// a writer that reads again before that builds on what it finds, and without locks nobody can help that.
		"in place": {func(file string, data []byte) error { return os.WriteFile(file, data, 0o644) }, 0.002},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); contend(t, w.write, w.may) })
	}
}

var counter = regexp.MustCompile(`"counter": *\d+`)

func contend(t *testing.T, write func(string, []byte) error, may float64) {
	r := newRig(t, "[supervisor]\nlook_every = \"100ms\"\n[heartbeat]\nlate = \"200ms\"\ndead = \"400ms\"\nstart_grace = \"400ms\"\nresume_grace = \"1ms\"\n[escalate]\nchannels = []\n")
	r.boot("p")
	registry := r.at("p/tmp/agent_status/shared/agent_registry.json")
	data, _ := os.ReadFile(registry)
	if err := os.WriteFile(registry, bytes.Replace(data, []byte("{"), []byte(`{"counter": 0,`), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	r.start("p")
	agents := make(chan struct{})
	go func() {
		defer close(agents)
		for range 4 { // a second of beats, a second of silence, and at last silence
			stop := r.beats("p", 0.9)
			r.pause(600 * time.Millisecond)
			stop()
			r.pause(600 * time.Millisecond)
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
		r.pause(time.Millisecond)
	}
	r.until("our status is in the registry", func() bool {
		return reads(registry, `"codex-cursor": *\{[^}]*"status": *"error"`)
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
	r := newRig(t, quickRules)
	r.boot("p")
	r.beats("p", 0.1)
	r.start("p")
	r.shows(`"codex-cursor"[^}]*"state": *"alive"`)
	const loops = 200
	for n := range loops {
		hold, retry := taskID(2*n), taskID(2*n+1)
		r.put(r.task("p", hold, ".request.json"), requestOf(hold, 0.8))
		r.put(r.task("p", retry, ".request.json"), requestOf(retry, 1))
		r.pause(rand.N(3 * time.Millisecond))
		r.outcome("p", hold, "completed")
		r.outcome("p", retry, "FILE_NOT_FOUND")
		r.pause(rand.N(3 * time.Millisecond))
		r.outcome("p", retry, "completed")
	}
	r.until("all are at rest", func() bool {
		left, _ := filepath.Glob(r.task("p", "*", ".request.json"))
		s, err := r.status()
		if err != nil || len(left) < 2*loops {
			return false
		}
		for n := range loops {
			if s.state("p", taskID(2*n)) != "done" {
				return false
			}
		}
		return true
	})
	for n := range loops {
		hold, retry := taskID(2*n), taskID(2*n+1)
		if !reads(r.task("p", hold, ".result.json"), `"completed"`) || there(r.task("p", hold, ".deferred.json")) {
			t.Errorf("%s: its result is lost, or it is still held", hold)
		}
		if !r.onRecord("p", retry, `"status": "completed"`) {
			t.Errorf("%s: its second result is lost", retry)
		}
		if there(r.task("p", retry, ".deferred.json")) {
			t.Errorf("%s is still held", retry)
		}
	}
}

// onRecord reports whether such a result lies in its place or in the ledger.
func (r *rig) onRecord(project, id, pattern string) bool {
	files, _ := filepath.Glob(r.attempts(project, id+".*.json"))
	for _, file := range append(files, r.task(project, id, ".result.json")) {
		if reads(file, pattern) {
			return true
		}
	}
	return false
}

// TestFolderDeletedWhileWatched: the protocol's folder goes away and comes back.
func TestFolderDeletedWhileWatched(t *testing.T) {
	t.Parallel()
	r := newRig(t, quickRules)
	r.boot("p")
	p := r.start("p")
	for n := range 3 {
		if err := os.RemoveAll(r.at("p/tmp")); err != nil {
			t.Log(err) // the daemon put something into it meanwhile
		}
		r.until("it is noticed", func() bool { s, err := r.status(); return err == nil && len(s.Agents) == 0 })
		r.boot("p")
		id := taskID(n)
		r.put(r.task("p", id, ".request.json"), requestOf(id, 1))
		r.outcome("p", id, "FILE_NOT_FOUND")
		r.until("a task of the new folder is looked after", func() bool { return r.retried("p", id) })
	}
	if !p.alive() {
		t.Error("the daemon has ended")
	}
}

// TestBadFiles lays every kind of broken file into one project: each is named, and a valid task beside them runs.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, quickRules)
	r.boot("p")
	r.beats("p", 0.9)
	good, _ := json.Marshal(requestOf("good", 1))
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
		r.write(filepath.Join("p/tmp/agent_status/codex_tasks", "task_"+id+".request.json"), text)
	}
	request := func(id string) string { return r.task("p", id, ".request.json") }
	r.write("outside.json", edit("bad-out", "", ""))
	r.write("p/tmp/agent_status/inside.json", edit("link-in", "", ""))
	err := errors.Join(os.Symlink(r.at("outside.json"), request("bad-out")), os.Symlink("../inside.json", request("link-in")),
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
	p := r.start("p")
	r.put(request(taskID(1)), requestOf(taskID(1), 1))
	r.outcome("p", taskID(1), "FILE_NOT_FOUND")
	r.until("the valid task is looked after", func() bool { return r.retried("p", taskID(1)) })
	missing := named
	t.Cleanup(func() { t.Log("not named:", missing) })
	r.until("every bad file is named", func() bool {
		s, err := r.status()
		missing = s.unnamed(named)
		return err == nil && len(missing) == 0
	})
	if !p.alive() {
		t.Error("the daemon has ended")
	}
}

// unnamed lists the ids that neither a fault nor a finding speaks of.
func (p statusPage) unnamed(ids []string) []string {
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
