package handoffs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

const envContender = "HANDOFFS_CONTENDER"

// flocked is the guard lock of steward's processes.
func flocked(_ context.Context, own *jsonfile.Root) (func(), error) {
	f, err := os.OpenFile(filepath.Join(own.Dir(), "guard.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	return func() { f.Close() }, err
}

// Protocol 001, Agent Lifecycle, Activation: each handoff is accepted by exactly one of several processes, some of which are
// steward's and some only rename.
func TestAcceptIsExclusive(t *testing.T) {
	if name := os.Getenv(envContender); name != "" {
		contendFor(t, name, os.Getenv(envDir))
		return
	}
	const all = 60
	s := booted(t)
	for i := range all {
		s.Write(boxPath(pending, fmt.Sprint(i)), task(fmt.Sprint(i), "pending"))
	}
	var processes []*exec.Cmd
	var outputs []*strings.Builder
	for _, name := range []string{"steward", "steward", "steward", "steward", "other", "other"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAcceptIsExclusive$", "-test.v")
		cmd.Env = append(os.Environ(), envContender+"="+name, envDir+"="+s.Dir, "GORACE=atexit_sleep_ms=0")
		out := &strings.Builder{}
		cmd.Stdout, cmd.Stderr = out, out
		s.Do(cmd.Start())
		processes, outputs = append(processes, cmd), append(outputs, out)
	}
	takers := map[string]int{}
	for i, cmd := range processes {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, outputs[i])
		}
		for line := range strings.Lines(outputs[i].String()) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(line), "TOOK "); ok {
				takers[id]++
			}
		}
	}
	for id, n := range takers {
		if n != 1 {
			t.Errorf("handoff %s has %d takers", id, n)
		}
	}
	if left, _ := filepath.Glob(s.Path(Base + "/handoffs/pending/*.json")); len(takers) != all || len(left) > 0 {
		t.Errorf("%d taken, %d pending", len(takers), len(left))
	}
}

func contendFor(t *testing.T, name, dir string) {
	c := Connect(dir, Options{Guard: flocked})
	defer c.Close()
	for {
		files, _ := filepath.Glob(filepath.Join(dir, Base, pending.dir(), "*.json"))
		if len(files) == 0 {
			return
		}
		file := files[os.Getpid()%len(files)]
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "handoff-"), ".json")
		var err error
		if name == "steward" {
			_, err = c.Accept(t.Context(), id, protocol.Acceptance{Worker: gone}, time.Now())
		} else {
			err = os.Rename(file, filepath.Join(dir, Base, accepted.dir(), filepath.Base(file)))
		}
		switch {
		case err == nil:
			fmt.Println("TOOK", id)
		case errors.Is(err, protocol.ErrTaken), errors.Is(err, protocol.ErrNoTask), errors.Is(err, os.ErrNotExist), folder.Missing(err):
		default:
			t.Errorf("handoff %s: %v", id, err)
		}
	}
}
