package agentstatus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// batch is a project with n requests for codex-cursor.
type batch struct {
	*site
	ids []string
}

func newBatch(t *testing.T, n int) *batch {
	b := &batch{site: newSite(t, "-- "+Base+"/"+logFile+" --\n")}
	for i := range n {
		id := fmt.Sprintf("n%03d", i)
		b.ids = append(b.ids, id)
		b.Write(Base+"/"+tasksDir+"/task_"+id+requestExt, `{"task_id":"`+id+`","request_type":"execute","priority":"medium","source_agent":"a","target_agent":"codex-cursor","timeout_seconds":300,"throttle_capacity":0.8}`)
	}
	return b
}

// changes returns the same change for each task, as judged by the last scan.
func (b *batch) changes(verb protocol.Verb, reason protocol.Reason) (list []protocol.Change) {
	snap := b.look()
	for _, id := range b.ids {
		task := protocol.Task{}
		for _, t := range snap.Tasks {
			if t.ID == id {
				task = t
			}
		}
		list = append(list, protocol.Change{Verb: verb, Reason: reason, Subject: snap.Subject(protocol.KindTask, id), Judged: protocol.Judged{Ref: task.Ref},
			Agent: "codex-cursor", Hold: protocol.HoldCapacity, Why: "the machine is full", ReleaseBy: b.Now.Add(time.Minute)})
	}
	return list
}

// names counts the files of the tasks by their kind.
func (b *batch) names() (open, held, notices int) {
	entries, err := os.ReadDir(filepath.Join(b.Dir, filepath.FromSlash(Base), tasksDir))
	if err != nil {
		b.T.Fatal(err)
	}
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name(), heldExt):
			held++
		case strings.HasSuffix(e.Name(), requestExt):
			open++
		case strings.HasSuffix(e.Name(), noticeExt):
			notices++
		}
	}
	return open, held, notices
}

func (b *batch) want(open, held, notices int) {
	b.T.Helper()
	if o, h, n := b.names(); o != open || h != held || n != notices {
		b.T.Fatalf("%d open, %d held, %d notices; want %d, %d, %d", o, h, n, open, held, notices)
	}
}

// TestManyAtOnce: a batch of holds, renewals or releases ends in the same files as single changes, with one log line
// per change; a task that its agent has started is not held.
func TestManyAtOnce(t *testing.T) {
	b := newBatch(t, 450)
	list := b.changes(protocol.VerbHold, protocol.ReasonCapacity)
	b.Pass(time.Second)
	for _, id := range []string{"n000", "n201"} { // started after they were judged
		b.Write(Base+"/"+tasksDir+"/task_"+id+progressExt, `{"task_id":"`+id+`","status":"in_progress","progress_percent":1}`)
	}
	b.Write(Base+"/"+tasksDir+"/task_n003"+resultExt, `{"task_id":"n003","status":"completed","source_agent":"codex-cursor"}`)
	b.Write(Base+"/"+tasksDir+"/task_n004"+requestExt, `{"task_id":"n004"}`)
	errs := b.p.ApplyAll(t.Context(), list, b.Now)
	for i, err := range errs {
		quicker := i == 0 || i == 3 || i == 4 || i == 201
		if quicker != errors.Is(err, protocol.ErrConflict) || !quicker && err != nil {
			t.Errorf("hold %s: %v", b.ids[i], err)
		}
	}
	b.want(4, 446, 446)
	if lines := strings.Count(b.Read(Base+"/"+logFile), `"task_deferred"`); lines != 446 {
		t.Errorf("%d log lines for 446 holds", lines)
	}
	later := b.Now.Add(time.Hour)
	renew := b.changes(protocol.VerbRenew, protocol.ReasonLease)
	for i := range renew {
		renew[i].ReleaseBy = later
	}
	b.p.ApplyAll(t.Context(), renew, b.Now)
	for _, task := range b.look().Tasks {
		if task.Hold != nil && task.Hold.ReleaseBy.Sub(later).Abs() > time.Second {
			t.Fatalf("%s is held until %v, want %v", task.ID, task.Hold.ReleaseBy, later)
		}
	}
	for i, err := range b.p.ApplyAll(t.Context(), b.changes(protocol.VerbRelease, protocol.ReasonStopping), b.Now) {
		if err != nil {
			t.Errorf("release %s: %v", b.ids[i], err)
		}
	}
	b.want(450, 0, 0)
	if lines := strings.Count(b.Read(Base+"/"+logFile), `"task_released"`); lines != 446 {
		t.Errorf("%d log lines for 446 releases", lines)
	}
}

// TestKilledWhileMany: after a kill at any step of a batch of holds or releases, the next steward releases
// everything: each request is visible, and no notice is left.
func TestKilledWhileMany(t *testing.T) {
	if dir := os.Getenv("BATCH_DIR"); dir != "" {
		holdAndReleaseForEver(t, dir)
	}
	for round := range 12 {
		b := newBatch(t, 150)
		b.p.Close()
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWhileMany$")
		child.Env = append(os.Environ(), "BATCH_DIR="+b.Dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil { // the batch has started
			t.Fatal(err)
		}
		time.Sleep(time.Duration(round*7) * time.Millisecond)
		_ = child.Process.Kill()
		_ = child.Wait()
		b.reopen()
		b.Now = time.Now()
		for i, err := range b.p.ApplyAll(t.Context(), b.changes(protocol.VerbRelease, protocol.ReasonRepair), b.Now) {
			if err != nil {
				t.Errorf("release %s: %v", b.ids[i], err)
			}
		}
		b.want(150, 0, 0)
		b.p.Close()
	}
}

func holdAndReleaseForEver(t *testing.T, dir string) {
	p := New(dir, Options{})
	for first := true; ; first = false {
		for _, verb := range []protocol.Verb{protocol.VerbHold, protocol.VerbRelease} {
			now := time.Now()
			snap := p.Observe(t.Context(), protocol.ScanOrder{Now: now})
			var list []protocol.Change
			for _, task := range snap.Tasks {
				list = append(list, protocol.Change{Verb: verb, Reason: protocol.ReasonStopping, Subject: snap.Subject(protocol.KindTask, task.ID), Judged: protocol.Judged{Ref: task.Ref},
					Agent: task.Agent, Hold: protocol.HoldCapacity, Why: "x", ReleaseBy: now.Add(time.Minute)})
			}
			if first && verb == protocol.VerbHold {
				_, _ = os.Stdout.WriteString("x")
			}
			p.ApplyAll(context.Background(), list, now)
		}
	}
}
