package agentstatus

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// On a full disk a change fails whole: nobody's file is lost or half written, and the change succeeds once there is room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no tmpfs can be mounted (%v): skipped", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s := &site{t: t, dir: dir, now: time.Now()}
	for name, text := range map[string]string{requestPath: requestText, resultPath: resultText, Base + "/" + registry: registryText} {
		s.write(name, text)
	}
	s.reopen()
	s.do(os.MkdirAll(s.path(Base+"/"+attemptsDir), 0o755))
	fill := filepath.Join(dir, "fill")
	_ = os.WriteFile(fill, bytes.Repeat([]byte("x"), 1<<20), 0o644) // as much as there is room for
	k := only(t, s.look())
	for _, c := range []protocol.Change{retryChange(k, s.now, time.Hour),
		{Verb: protocol.VerbMark, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: codex}, Ref: protocol.Ref{Sum: "active"}, Status: "error"}} {
		if err := s.apply(c); !errors.Is(err, jsonfile.ErrNoSpace) {
			t.Errorf("%s on a full disk: %v", c.Verb, err)
		}
	}
	if s.read(requestPath) != requestText || s.read(resultPath) != resultText || s.read(Base+"/"+registry) != registryText {
		t.Error("a file changed")
	}
	s.do(os.Remove(fill))
	s.do(s.apply(retryChange(only(t, s.look()), s.now, time.Hour)))
	if k = only(t, s.look()); k.Hold == nil || k.Attempt() != 2 {
		t.Errorf("with room again: %+v", k)
	}
}
