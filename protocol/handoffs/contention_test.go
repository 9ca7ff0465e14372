package handoffs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// The environment tells the child processes of TestLockContention who they are.
const (
	envName  = "HANDOFFS_CLIENT"
	envDir   = "HANDOFFS_DIR"
	envUntil = "HANDOFFS_UNTIL"
)

// Protocol 001, Lock Protocol and Same-File Conflicts: processes follow the document's snippet (read the state, rewrite
// it in place) while steward releases the expired locks of dead holders. No living holder's lock is released, and no
// client's write is lost. The clients lock each other out, because the snippet alone loses writes: any loss in this test
// is steward's fault.
func TestLockContention(t *testing.T) {
	if name := os.Getenv(envName); name != "" {
		if err := contend(name, os.Getenv(envDir), os.Getenv(envUntil)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	long := 2 * time.Second
	if os.Getenv("STEWARD_LONG") != "" {
		long = 30 * time.Second
	}
	s := newSite(t, file(statePath, stateDocOf("", "")))
	var clients []*exec.Cmd
	for i := range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLockContention$")
		cmd.Env = append(os.Environ(), envName+"=client"+strconv.Itoa(i), envDir+"="+s.Path(Base),
			envUntil+"="+strconv.FormatInt(time.Now().Add(long).UnixMilli(), 10), "GORACE=atexit_sleep_ms=0")
		out := &strings.Builder{}
		cmd.Stdout, cmd.Stderr = out, out
		s.Do(cmd.Start())
		clients = append(clients, cmd)
	}
	done := make(chan int)
	go func() {
		failed := 0
		for _, cmd := range clients {
			if cmd.Wait() != nil {
				failed++
				t.Errorf("%s", cmd.Stdout)
			}
		}
		done <- failed
	}()
	unlocked, conflicts := 0, 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			time.Sleep(time.Millisecond)
		}
		u, c := s.reap()
		unlocked, conflicts = unlocked+u, conflicts+c
	}
	t.Logf("%d locks of dead holders released, %d conflicts", unlocked, conflicts)
	if unlocked < 3 {
		t.Error("hardly anything was released: the test proves nothing")
	}
	for line := range strings.Lines(s.Read(Base + "/" + releasesFile)) {
		if !strings.Contains(line, `"agent":"dead-`) {
			t.Errorf("a living holder's lock was taken: %s", line)
		}
	}
}

// reap is the policy: it releases the expired locks of holders that are not among the agents.
func (s *site) reap() (unlocked, conflicts int) {
	s.Now = time.Now()
	snap := s.at([]string{statePath})
	if len(snap.Faults) > 0 {
		s.T.Errorf("%+v", snap.Faults)
	}
	for _, l := range snap.Locks {
		if strings.HasPrefix(l.Holder, "dead-") && l.Expires.Before(s.Now) {
			if s.apply(unlockChange(snap, l.Resource)) == nil {
				unlocked++
			} else {
				conflicts++
			}
		}
	}
	return unlocked, conflicts
}

// contend repeatedly takes its own lock, leaves a dead holder's lock, releases its own lock, and counts its rounds in the
// state file.
func contend(name, dir, until string) error {
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil {
		return err
	}
	mine, rounds := "file-of-"+name, 0
	for ; time.Now().UnixMilli() < end; rounds++ {
		err := change(dir, func(st map[string]any) error {
			if n, _ := entryOf(st, "agents", name)["rounds"].(float64); int(n) != rounds {
				return fmt.Errorf("%s: round %d was lost, the state says %v", name, rounds, n)
			}
			at := time.Now()
			part(st, "agents")[name] = map[string]any{"status": "active", "last_active": jsonfile.FormatTime(at), "rounds": rounds + 1}
			part(st, "locks")[mine] = claimOf(name, at, 30*time.Minute)
			part(st, "locks")["shared-"+strconv.Itoa(rounds%3)] = claimOf("dead-"+name, at.Add(-time.Hour), time.Minute)
			return nil
		})
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(4+rounds%5*4) * time.Millisecond) // simulated work
		err = change(dir, func(st map[string]any) error {
			if holder := entryOf(st, "locks", mine)["agent"]; holder != name {
				return fmt.Errorf("%s: its lock is gone, %v holds it", name, holder)
			}
			delete(part(st, "locks"), mine)
			return nil
		})
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(4+rounds%3*4) * time.Millisecond)
	}
	if rounds < 3 {
		return fmt.Errorf("only %d rounds", rounds)
	}
	return nil
}

func claimOf(name string, at time.Time, ttl time.Duration) map[string]any {
	return map[string]any{"agent": name, "acquired": at.UTC().Format(time.RFC3339Nano), "expires": at.Add(ttl).UTC().Format(time.RFC3339Nano)}
}

func part(st map[string]any, key string) map[string]any {
	m, ok := st[key].(map[string]any)
	if !ok {
		m = map[string]any{}
		st[key] = m
	}
	return m
}

func entryOf(st map[string]any, key, name string) map[string]any {
	m, _ := part(st, key)[name].(map[string]any)
	return m
}

// change reads the state, and rewrites it in place, as fs.writeFileSync does. If check rejects the state, change retries
// for a while: a late write is restored by steward's next scan.
func change(dir string, check func(map[string]any) error) error {
	f, err := os.OpenFile(filepath.Join(dir, "clients.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	var last error
	for range 100 {
		text, err := os.ReadFile(filepath.Join(dir, stateFile))
		if err != nil {
			return err
		}
		st := map[string]any{}
		if last = json.Unmarshal(text, &st); last == nil {
			if last = check(st); last == nil {
				text, err = json.MarshalIndent(st, "", "  ")
				if err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(dir, stateFile), text, 0o644)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return last
}
