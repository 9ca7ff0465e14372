package desktop

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestServerIsNamed(t *testing.T) {
	b := startBus(t)
	p := popupsOn(t, b.address(), 0)
	if label, _, err := p.Server(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a server: %q, %v", label, err)
	}
	n := (&notifyd{name: "board", abilities: []string{"body"}}).serve(t, b)
	label, muted, err := p.Server(t.Context())
	if err != nil || label == "" || muted {
		t.Errorf("with a server: %q, muted %v, %v", label, muted, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.open) > 0 {
		t.Errorf("asking for the server has opened %d popups", len(n.open))
	}
}

func TestServerOfASilentBus(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(shortDir(t), "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, _, err := popupsOn(t, "unix:path="+l.Addr().String(), short).Server(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a bus that never answers: %v", err)
	}
}

func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestVoiceIsNamed(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	t.Setenv("PULSE_SERVER", "")
	for _, c := range []struct {
		name  string
		tools map[string]string
		file  string
		want  Voice
	}{
		{name: "no sound server", tools: map[string]string{"espeak-ng": synth, "paplay": plays}, want: Voice{Tool: "espeak-ng, played by paplay"}},
		{name: "its own server", tools: map[string]string{"espeak": synth, "pw-play": plays, "paplay": plays}, file: "pulse/native",
			want: Voice{Tool: "espeak, played by paplay", Sink: filepath.Join(run, "pulse/native")}},
		{name: "the dispatcher alone", tools: map[string]string{"spd-say": takes}, file: "pulse/native", want: Voice{Tool: "spd-say", Sink: filepath.Join(run, "pulse/native")}},
		{name: "no voice", tools: map[string]string{"paplay": plays}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := voiceOf(t, c.tools)
			if c.file != "" {
				os.MkdirAll(filepath.Join(run, filepath.Dir(c.file)), 0o700)
				os.WriteFile(filepath.Join(run, c.file), nil, 0o600)
			}
			got, err := s.Voice(t.Context())
			if got != c.want || (err != nil) != (c.want == Voice{}) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}
