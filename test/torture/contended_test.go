package torture

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/platform"
)

// increments is a writer like protocol 002's software: flock(1) on the side file, read, rename a new file into place.
const increments = `set -eu
for i in $(seq 50); do
	(
		flock 9
		n=$(sed -n 's/^count: //p' "$1")
		sed "s/^count: .*/count: $((n + 1))/" "$1" >"$1.$$.tmp"
		mv "$1.$$.tmp" "$1"
	) 9>"$1.lock"
done`

// TestContendedKanban: four writers take turns on a kanban by its flock (protocol 002, Concurrent Access) while steward,
// in act mode, marks lost work in it. No increment is lost, and the lock file is never replaced.
func TestContendedKanban(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	for _, tool := range []string{"bash", "flock"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: no %s, so nobody writes the kanban as its own software does", tool)
		}
	}
	rounds := 2
	if os.Getenv("STEWARD_LONG") != "" {
		rounds = 20
	}
	r := rig.New(t, "[supervisor]\nlook_every = \"100ms\"\n[[project]]\npath = \"p\"\n[project.mode]\nralph = \"act\"\n"+
		"[tasks]\nlease = \"2s\"\npresume = \"1s\"\n[capacity]\ndimensions = [\"agent\"]\n[escalate]\nchannels = []\n")
	for round := range rounds {
		contendKanban(t, r, fmt.Sprintf("p%d", round))
	}
}

func contendKanban(t *testing.T, r *rig.Rig, project string) {
	if err := os.MkdirAll(r.At(project, ".ralph"), 0o755); err != nil {
		t.Fatal(err)
	}
	kanban := filepath.Join(project, ".ralph/kanban.md")
	var text strings.Builder
	text.WriteString("# Kanban\ncount: 0\n\n")
	for n := range 8 {
		fmt.Fprintf(&text, "- [=] **[TASK-%03d]** Work\n  - Priority: LOW\n", n)
		worker := filepath.Join(project, fmt.Sprintf(".ralph/workers/worker-TASK-%03d-1700000000", n))
		if err := os.MkdirAll(r.At(worker), 0o755); err != nil {
			t.Fatal(err)
		}
		r.Write(filepath.Join(worker, "agent.pid"), "4999999\n") // no such process; without it, a worker counts as being set up
	}
	r.Write(kanban, text.String())
	r.Write(kanban+".lock", "")
	if err := os.Chmod(r.At(kanban), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Write("config.toml", strings.Replace(string(must(os.ReadFile(r.At("config.toml")))), "path = \""+previous(r)+"\"", "path = \""+project+"\"", 1))
	inode := inodeOf(t, r.At(kanban+".lock"))
	daemon := r.Spawn(r.Command("steward", "run"))
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			if out, err := r.Command("bash", "-c", increments, "-", r.At(kanban)).CombinedOutput(); err != nil {
				t.Errorf("writer: %v\n%s", err, out)
			}
		})
	}
	writers.Wait()
	deadline := time.Now().Add(5 * time.Minute) // retries become rarer, and on a full machine steward suspects itself first
	for strings.Contains(string(must(os.ReadFile(r.At(kanban)))), "[=]") && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	end(t, daemon)
	got := string(must(os.ReadFile(r.At(kanban))))
	want := strings.NewReplacer("[=]", "[*]", "count: 0", "count: 200").Replace(text.String())
	if got != want {
		t.Errorf("the kanban is\n%s\nwant\n%s", got, want)
	}
	if now := inodeOf(t, r.At(kanban+".lock")); now != inode {
		t.Errorf("the lock file is another one: inode %d, was %d", now, inode)
	}
	if st, err := os.Stat(r.At(kanban)); err != nil || st.Mode().Perm() != 0o600 && st.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

// previous is the project that the configuration currently names.
func previous(r *rig.Rig) string {
	return regexp.MustCompile(`path = "(p[0-9]*)"`).FindStringSubmatch(string(must(os.ReadFile(r.At("config.toml")))))[1]
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func inodeOf(t *testing.T, file string) uint64 {
	t.Helper()
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(st.Sys().(*syscall.Stat_t).Ino)
}

// end stops a daemon and waits for it.
func end(t *testing.T, c *rig.Child) {
	t.Helper()
	_ = c.Process.Signal(syscall.SIGINT)
	select {
	case <-c.Ended:
	case <-time.After(20 * time.Second):
		t.Error("the daemon does not stop")
	}
}

// TestContendedLocks: agents take and release locks like document 001's snippet (Lock Protocol), while steward expires
// locks. Some agents overrun the expiry, some die with their locks. Steward never takes a living agent's lock.
func TestContendedLocks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: runs the whole program")
	}
	span := 6 * time.Second
	if os.Getenv("STEWARD_LONG") != "" {
		span = time.Minute
	}
	r := rig.New(t, "[supervisor]\nlook_every = \"100ms\"\n[heartbeat]\nlate = \"500ms\"\ndead = \"1s\"\n[heartbeat.protocols.handoffs]\ndead = \"1500ms\"\n"+
		"[locks]\nwatch = \"500ms\"\n[tasks]\nlease = \"2s\"\n[capacity]\ndimensions = [\"agent\"]\n[escalate]\nchannels = []\n")
	if err := os.MkdirAll(r.At("p/.claude/handoffs/pending"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Write("p/.claude/state.json", `{"schema_version": "1.0.0", "locks": {}, "agents": {}, "keep": [1.50]}`)
	daemon := r.Spawn(r.Command("steward", "run", "--project", "p"))
	file, guard := r.At("p/.claude/state.json"), r.At("agents.lock")
	var agents sync.WaitGroup
	for n := range 6 {
		agents.Go(func() { contender(t, file, guard, n, time.Now().Add(span)) })
	}
	agents.Wait()
	time.Sleep(4 * time.Second) // the last dead agents' locks expire
	end(t, daemon)
	var state struct {
		Locks map[string]struct{ Agent string }
		Keep  []float64
	}
	if err := json.Unmarshal(must(os.ReadFile(file)), &state); err != nil || len(state.Keep) != 1 {
		t.Fatalf("the state file: %v", err)
	}
	tombs := string(must(os.ReadFile(r.At("p/.claude/steward/tombstones.jsonl"))))
	if strings.Count(tombs, "mortal-") < 3 {
		t.Errorf("the locks of dead agents were not released:\n%s\n%+v", tombs, state.Locks)
	}
	if strings.Contains(tombs, "living-") {
		t.Errorf("a living agent's lock was released:\n%s", tombs)
	}
}

// contender is an agent that follows the snippet. Half of the agents live and hold their locks beyond the expiry; the
// others die with their locks and return under another name. The agents serialize their updates, because the snippet
// loses updates: the test checks steward's recorded actions only.
func contender(t *testing.T, file, guard string, n int, until time.Time) {
	for life := 0; time.Now().Before(until); life++ {
		mortal := n%2 == 1
		name := fmt.Sprintf("living-%d", n)
		if mortal {
			name = fmt.Sprintf("mortal-%d-%d", n, life)
		}
		resource := "resource-of-" + name
		rewriteState(t, file, guard, func(s rig.Doc) {
			now := time.Now().UTC()
			s["locks"].(map[string]any)[resource] = rig.Doc{"agent": name, "acquired": now.Format(time.RFC3339Nano), "expires": now.Add(300 * time.Millisecond).Format(time.RFC3339Nano)}
			s["agents"].(map[string]any)[name] = rig.Doc{"status": "active", "last_active": now.Format(time.RFC3339Nano)}
		})
		if mortal {
			time.Sleep(1500 * time.Millisecond)
			continue
		}
		for held := time.Now().Add(2 * time.Second); time.Now().Before(held); time.Sleep(100 * time.Millisecond) {
			rewriteState(t, file, guard, func(s rig.Doc) {
				s["agents"].(map[string]any)[name] = rig.Doc{"status": "active", "last_active": time.Now().UTC().Format(time.RFC3339Nano)}
			})
		}
		rewriteState(t, file, guard, func(s rig.Doc) { delete(s["locks"].(map[string]any), resource) })
	}
}

// rewriteState reads, changes and writes the state file in place. Steward does not take part in the agents' serialization.
func rewriteState(t *testing.T, file, guard string, change func(rig.Doc)) {
	lock, err := platform.LockQueue(t.Context(), guard, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = lock.Unlock() }()
	var state rig.Doc
	if err := json.Unmarshal(must(os.ReadFile(file)), &state); err != nil {
		t.Errorf("read the state file: %v", err)
		return
	}
	change(state)
	data, _ := json.MarshalIndent(state, "", "  ")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Error(err)
	}
}
