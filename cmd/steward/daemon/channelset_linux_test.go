package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform/desktop"
)

// TestUnprovedSpeechIsNoDelivery: a speech program that only takes the text has delivered nothing; the next channel is
// due.
func TestUnprovedSpeechIsNoDelivery(t *testing.T) {
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "spd-say"), []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("PULSE_SERVER", "")
	if word, err := say(t.Context(), desktop.NewSpeech(), escalate.Notice{Spoken: "hello"}); !errors.Is(err, errUnheard) {
		t.Errorf("%q, %v", word, err)
	}
}
