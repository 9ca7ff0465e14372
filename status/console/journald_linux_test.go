//go:build linux

package console

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/livhana/steward/platform"
)

func TestJournalLines(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(newJournalLines(&b))
	log.Info("configuration reloaded", "projects", 2)
	log.Warn("no words")
	log.With("project", "two words").WithGroup("g").Error("read <x>", "error", errors.New("a\nb"), "time", 5)
	log.Debug("not told")
	want := "<6>configuration reloaded projects=2\n<4>no words\n<3>read <x> project=\"two words\" g.error=\"a\\nb\" g.time=5\n"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

// TestToJournal: only the stream that systemd connected is the journal's; a redirected one is not.
func TestToJournal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if !toJournal(w, platform.FileID(w)) {
		t.Error("its own stream is not known")
	}
	if toJournal(w, "1:1") || toJournal(w, "") || toJournal(&bytes.Buffer{}, "") {
		t.Error("another stream is taken for the journal")
	}
}
