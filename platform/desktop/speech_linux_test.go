package desktop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// voiceOf creates a PATH of scripts and a Speech that uses it. Each script may use $DIR, $DIR/tone.wav (0.1 s),
// $DIR/long.wav (2 s) and log.
func voiceOf(t *testing.T, scripts map[string]string) (s *Speech, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, length := range map[string]time.Duration{"tone.wav": 100 * time.Millisecond, "long.wav": 2 * time.Second} {
		if err := os.WriteFile(filepath.Join(dir, name), tone(length, 9000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", toolbox(t, dir, scripts))
	run := t.TempDir()
	return &Speech{dir: func() (string, error) { return run, nil }, grace: watchdog, patience: watchdog}, dir
}

// toolbox writes the scripts into a folder of their own and returns its path.
func toolbox(t *testing.T, dir string, scripts map[string]string) string {
	t.Helper()
	tools := filepath.Join(dir, "bin")
	if err := os.MkdirAll(tools, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, body := range scripts {
		text := "#!/bin/sh\nDIR='" + dir + "'\nlog() { echo \"" + name + " $*\" >>$DIR/log; }\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return tools
}

// Parts of fake tools. A synthesizer's last argument is its output file.
const (
	synth  = `for out; do :; done; log "$@"; /bin/cat >$DIR/text; /bin/cp $DIR/tone.wav "$out"`
	longer = `for out; do :; done; log "$@"; /bin/cp $DIR/long.wav "$out"`
	plays  = `log "$@"; [ -s "$1" ] && exec /bin/sleep 0.1`
	early  = `log "$@"`
	broken = `log "$@"; echo "Connection refused" >&2; exit 1`
	hangs  = `log "$@"; /bin/sleep 1000 & echo $! >$DIR/grandchild; wait`
	takes  = `log "$@"; for text; do :; done; printf %s "$text" >$DIR/text`
)

func logged(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "log"))
	var names []string
	for line := range strings.Lines(string(text)) {
		names = append(names, strings.Fields(line)[0])
	}
	return strings.Join(names, " ")
}

func TestSayFallsThrough(t *testing.T) {
	for _, c := range []struct {
		name    string
		scripts map[string]string
		result  string // "" for an error
		order   string
		says    string
	}{
		{"usual", map[string]string{"espeak-ng": synth, "paplay": plays, "spd-say": takes}, Spoken, "espeak-ng paplay", "paplay took"},
		{"pw-play first", map[string]string{"espeak-ng": synth, "aplay": plays, "paplay": plays, "pw-play": plays}, Spoken, "espeak-ng pw-play", "pw-play"},
		{"player fails", map[string]string{"espeak-ng": synth, "pw-play": broken, "paplay": plays}, Spoken, "espeak-ng pw-play paplay", "paplay"},
		{"plays into nothing", map[string]string{"espeak-ng": longer, "paplay": early}, Sent, "espeak-ng paplay", "for 2.0 s"},
		{"then a real one", map[string]string{"espeak-ng": longer, "paplay": early, "aplay": `log; exec /bin/sleep 1.1`}, Spoken, "espeak-ng paplay aplay", "aplay"},
		{"silent success", map[string]string{"espeak-ng": "log", "paplay": plays}, "", "espeak-ng", "wrote no sound"},
		{"silent, then espeak", map[string]string{"espeak-ng": "log", "espeak": synth, "paplay": plays}, Spoken, "espeak-ng espeak paplay", "paplay"},
		{"crash", map[string]string{"espeak-ng": "log; kill -SEGV $$", "spd-say": takes}, Sent, "espeak-ng spd-say", "speech-dispatcher took"},
		{"all players fail", map[string]string{"espeak-ng": synth, "paplay": broken, "aplay": broken}, "", "espeak-ng paplay aplay", "Connection refused"},
		{"dispatcher alone", map[string]string{"spd-say": takes}, Sent, "spd-say", ""},
		{"dispatcher fails", map[string]string{"spd-say": broken}, "", "spd-say", "Connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := voiceOf(t, c.scripts)
			proof, err := s.Say(t.Context(), "hello", false)
			words := proof.Detail
			if err != nil {
				words = err.Error()
			}
			if proof.Result != c.result || (err == nil) != (c.result != "") || !strings.Contains(words, c.says) || strings.Contains(words, "\n") {
				t.Errorf("%+v, %v", proof, err)
			}
			var e *Error
			if err != nil && (errors.Is(err, ErrUnavailable) || !errors.As(err, &e) || e.Hint == "" || e.Op != "speak") {
				t.Errorf("%#v", err)
			}
			if got := logged(dir); got != c.order {
				t.Errorf("order %q, want %q", got, c.order)
			}
		})
	}
}

func TestNoVoice(t *testing.T) {
	for name, scripts := range map[string]map[string]string{
		"nothing": {}, "no player": {"espeak-ng": synth}, "no synthesizer": {"aplay": plays},
	} {
		s, _ := voiceOf(t, scripts)
		_, err := s.Say(t.Context(), "hello", true)
		for _, err := range []error{err, s.Probe(t.Context())} {
			var e *Error
			if !errors.Is(err, ErrUnavailable) || !errors.As(err, &e) || e.Hint == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	s, dir := voiceOf(t, map[string]string{"espeak-ng": synth})
	toolbox(t, dir, map[string]string{"paplay": plays}) // installed later
	if err := s.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHangingTools: a hanging tool is killed at its deadline with its children, and the next tool speaks.
func TestHangingTools(t *testing.T) {
	for name, c := range map[string]struct {
		scripts map[string]string
		result  string
		grace   time.Duration
	}{
		"player":      {map[string]string{"espeak-ng": synth, "pw-play": hangs, "paplay": plays}, Spoken, 2 * time.Second},
		"synthesizer": {map[string]string{"espeak-ng": hangs, "espeak": synth, "paplay": plays}, Spoken, 2 * time.Second},
		"everything":  {map[string]string{"espeak-ng": synth, "paplay": hangs}, "", time.Second},
		"dispatcher":  {map[string]string{"spd-say": hangs}, "", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := voiceOf(t, c.scripts)
			s.grace = c.grace
			proof, err := s.Say(t.Context(), "x", false)
			if proof.Result != c.result || (err != nil) != (c.result == "") {
				t.Errorf("%+v, %v", proof, err)
			}
			if err != nil && !errors.Is(err, errDeadline) {
				t.Error(err)
			}
			eventually(t, "the end of the grandchild", func() bool { return over(grandchild(t, dir)) })
		})
	}
}

// TestCallersDeadline: the caller's deadline ends everything, and no further tool is started.
func TestCallersDeadline(t *testing.T) {
	s, dir := voiceOf(t, map[string]string{"espeak-ng": synth, "pw-play": hangs, "paplay": plays, "spd-say": takes})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the player runs", func() bool {
			_, err := os.Stat(filepath.Join(dir, "grandchild"))
			return err == nil
		})
		cancel()
	}()
	if _, err := s.Say(ctx, "hello", false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := logged(dir); got != "espeak-ng pw-play" {
		t.Error(got)
	}
}

// TestLeftovers: a tool that succeeds must not leave processes behind either.
func TestLeftovers(t *testing.T) {
	s, dir := voiceOf(t, map[string]string{"espeak-ng": synth, "paplay": "/bin/sleep 1000 & echo $! >$DIR/grandchild; " + plays})
	if proof, err := s.Say(t.Context(), "hello", false); err != nil || proof.Result != Spoken {
		t.Error(proof, err)
	}
	eventually(t, "the end of the grandchild", func() bool { return over(grandchild(t, dir)) })
}

func TestHostileSpeech(t *testing.T) {
	for in, want := range map[string]string{
		"it's \"quoted\" `id` $(id) ; rm": "it's \"quoted\" `id` $(id) ; rm",
		"--version":                       "--version",
		"a\x00b\nc":                       "ab. c",
		"[[volm 0]]":                      "[ [volm 0]]",
	} {
		for _, tools := range []map[string]string{{"espeak-ng": synth, "paplay": plays}, {"spd-say": takes}} {
			s, dir := voiceOf(t, tools)
			if _, err := s.Say(t.Context(), in, true); err != nil {
				t.Fatal(err)
			}
			got, _ := os.ReadFile(filepath.Join(dir, "text"))
			if strings.TrimSuffix(string(got), "\n") != want {
				t.Errorf("%q was spoken as %q", in, got)
			}
			args, _ := os.ReadFile(filepath.Join(dir, "log"))
			if tools["spd-say"] != "" && !strings.Contains(string(args), "-w -P important -- "+want) {
				t.Errorf("arguments: %s", args)
			}
		}
	}
	s, _ := voiceOf(t, map[string]string{"spd-say": takes})
	if _, err := s.Say(t.Context(), " \x00\n", false); err == nil {
		t.Error("nothing was spoken")
	}
}

func TestEnvironmentIsSmall(t *testing.T) {
	t.Setenv("STEWARD_SECRET", "x")
	t.Setenv("PULSE_SERVER", "unix:/x")
	s, dir := voiceOf(t, map[string]string{"espeak-ng": synth, "paplay": "/usr/bin/env >$DIR/env; " + plays})
	if _, err := s.Say(t.Context(), "hello", false); err != nil {
		t.Fatal(err)
	}
	env, _ := os.ReadFile(filepath.Join(dir, "env"))
	if strings.Contains(string(env), "STEWARD_SECRET") || !strings.Contains(string(env), "PULSE_SERVER=unix:/x") {
		t.Errorf("%s", env)
	}
}

// TestOneVoice: two stewards (two Speech values have separate locks) never speak at the same time, and leave no sound
// file behind.
func TestOneVoice(t *testing.T) {
	alone := `/bin/mkdir $DIR/talking || log overlap; /bin/sleep 0.1; /bin/rmdir $DIR/talking`
	s, dir := voiceOf(t, map[string]string{"espeak-ng": synth, "paplay": alone})
	other := *s
	var all sync.WaitGroup
	for _, voice := range []*Speech{s, &other, s, &other} {
		all.Go(func() {
			if proof, err := voice.Say(t.Context(), "hello", false); err != nil || proof.Result != Spoken {
				t.Error(proof, err)
			}
		})
	}
	all.Wait()
	if strings.Contains(logged(dir), "paplay") {
		t.Error("two voices at once")
	}
	run, _ := s.dir()
	if left, _ := filepath.Glob(filepath.Join(run, "*.wav")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUrgentFirst(t *testing.T) {
	dir := t.TempDir()
	release, err := takeTurn(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan string, 4)
	wait := func(name string, urgent bool) {
		release, err := takeTurn(t.Context(), dir, urgent)
		if err != nil {
			t.Error(err)
			return
		}
		order <- name
		release()
	}
	for range 3 {
		go wait("usual", false)
	}
	go wait("urgent", true)
	pass, _ := openLock(dir, "urgent.lock")
	defer pass.Close()
	eventually(t, "the urgent line waits", func() bool {
		free, _ := lock(pass, unix.LOCK_EX)
		_ = unix.Flock(int(pass.Fd()), unix.LOCK_UN)
		return !free
	})
	release()
	if got := <-order; got != "urgent" {
		t.Errorf("%s went first", got)
	}
	for range 3 {
		<-order
	}
}

func TestStaleLine(t *testing.T) {
	s, dir := voiceOf(t, map[string]string{"spd-say": takes})
	run, _ := s.dir()
	release, err := takeTurn(t.Context(), run, true)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	s.patience = short
	if _, err := s.Say(t.Context(), "hello", false); !errors.Is(err, context.DeadlineExceeded) || logged(dir) != "" {
		t.Error(err, logged(dir))
	}
}

func TestVoiceDir(t *testing.T) {
	base := t.TempDir()
	_ = os.Chmod(base, 0o700)
	t.Setenv("XDG_RUNTIME_DIR", base)
	if dir, err := voiceDir(); err != nil || dir != filepath.Join(base, "steward") {
		t.Error(dir, err)
	}
	_ = os.Chmod(filepath.Join(base, "steward"), 0o777)
	if dir, err := voiceDir(); err == nil {
		t.Errorf("%s is open to everybody", dir)
	}
	t.Setenv("XDG_RUNTIME_DIR", "relative")
	t.Setenv("TMPDIR", base)
	if dir, err := voiceDir(); err != nil || !filepath.IsAbs(dir) {
		t.Error(dir, err)
	}
}

// over reports whether a process has ended; a zombie counts as ended.
func over(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func grandchild(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "grandchild"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
