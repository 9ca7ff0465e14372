package service

import (
	"os"
	"testing"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol/jsonfile"
)

func TestForgive(t *testing.T) {
	dir := t.TempDir()
	forgive(dir, service.Account{UID: os.Getuid()}) // nothing to forgive
	root, err := jsonfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	failed := &daemon.RunRecord{Started: time.Now(), How: daemon.EndFailed, Failed: 6, Why: "x"}
	if err := failed.Write(root); err != nil {
		t.Fatal(err)
	}
	forgive(dir, service.Account{UID: os.Getuid()})
	got := daemon.ReadRun(dir)
	if n := got.FailedStarts(time.Now(), false); n != 0 || got.Why != "x" {
		t.Errorf("%d failed starts, %+v", n, got)
	}
}
