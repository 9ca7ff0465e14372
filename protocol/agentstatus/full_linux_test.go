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
	"github.com/livhana/steward/protocol/protocoltest"
)

// On a full disk a change fails as a whole: no file is lost or half written, and the change succeeds once there is
// room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no tmpfs can be mounted (%v): skipped", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s := &site{Site: &protocoltest.Site{T: t, Dir: dir, Clock: time.Now, Now: time.Now()}}
	for name, text := range map[string]string{requestPath: requestText, resultPath: resultText, Base + "/" + registry: registryText} {
		s.Write(name, text)
	}
	s.reopen()
	s.Do(os.MkdirAll(s.Path(Base+"/"+attemptsDir), 0o755))
	fill := filepath.Join(dir, "fill")
	_ = os.WriteFile(fill, bytes.Repeat([]byte("x"), 1<<20), 0o644) // fill the disk
	k := only(t, s.look())
	for _, c := range []protocol.Change{retryChange(k, s.Now, time.Hour),
		{Verb: protocol.VerbMark, Subject: protocol.Subject{Kind: protocol.KindAgent, ID: codex}, Judged: protocol.Judged{Ref: protocol.Ref{Sum: "active"}}, Status: "error"}} {
		if err := s.apply(c); !errors.Is(err, jsonfile.ErrNoSpace) {
			t.Errorf("%s on a full disk: %v", c.Verb, err)
		}
	}
	if s.Read(requestPath) != requestText || s.Read(resultPath) != resultText || s.Read(Base+"/"+registry) != registryText {
		t.Error("a file changed")
	}
	s.Do(os.Remove(fill))
	s.Do(s.apply(retryChange(only(t, s.look()), s.Now, time.Hour)))
	if k = only(t, s.look()); k.Hold == nil || k.Attempt() != 2 {
		t.Errorf("with room again: %+v", k)
	}
}
