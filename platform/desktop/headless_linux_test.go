package desktop

import (
	"bufio"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// TestHeadlessDesktop shows a real popup and speaks with a real voice on a headless desktop. The artifacts
// (popup.png, voice.wav) go to $STEWARD_ARTIFACTS if it is set.
func TestHeadlessDesktop(t *testing.T) {
	if os.Getenv("STEWARD_HEADLESS") != "1" {
		t.Skip("STEWARD_HEADLESS is not 1; packaging/ci/test-deps.sh installs what it needs")
	}
	artifacts := os.Getenv("STEWARD_ARTIFACTS")
	if artifacts == "" {
		artifacts = t.TempDir()
	}
	script, _ := filepath.Abs("testdata/headless.sh")
	cmd := exec.CommandContext(t.Context(), script, artifacts, os.Args[0], "-test.run=^TestHeadlessActor$", "-test.v")
	cmd.Env = append(os.Environ(), "STEWARD_HEADLESS_ACTOR=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 3 {
		t.Skip("tools are missing")
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), " "); ok {
			got[name] = value
		}
	}
	if got["popups"] != "1" {
		t.Errorf("popups on the screen: %q, want 1 (the second message replaces the first)", got["popups"])
	}
	var rms float64
	if _, err := fmt.Sscan(got["rms"], &rms); err != nil || rms <= 0.02 {
		t.Errorf("heard RMS %q, want more than 0.02", got["rms"])
	}
	f, err := os.Open(got["shot"])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if shot, err := png.DecodeConfig(f); err != nil || shot.Width != 1024 || shot.Height != 640 {
		t.Errorf("screenshot: %+v, %v", shot, err)
	}
}

// TestHeadlessActor is the part that TestHeadlessDesktop runs on that desktop.
func TestHeadlessActor(t *testing.T) {
	if os.Getenv("STEWARD_HEADLESS_ACTOR") != "1" {
		t.Skip("only on the desktop of TestHeadlessDesktop")
	}
	popups, speech := NewPopups(), NewSpeech() // not closed: the script takes a picture of the popup afterwards
	if err := popups.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := speech.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := Message{Key: "k", Title: "Task 7 failed", Text: "first", Urgency: Critical, Actions: []Action{{"1", "Try again"}, {"2", "Give up"}}}
	first, err := popups.Show(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	m.Title = "Git conflict in <main> & \"tests\""
	m.Text = "codex-cursor stopped: a < b && c > d\nYour input is needed.\x00"
	second, err := popups.Show(t.Context(), m)
	if err != nil || second.Result != Shown || second.ID != first.ID {
		t.Errorf("replaced: %+v after %+v, %v", second, first, err)
	}
	clickButton(t, popups)
	quiet(t, popups, true)
	unseen, err := popups.Show(t.Context(), Message{Key: "l", Title: "unseen", Urgency: Normal})
	if err != nil || unseen.Result != Sent {
		t.Errorf("with do not disturb: %+v, %v; want sent", unseen, err)
	}
	// xfce4-notifyd learns of the switch slightly later than we do and may still have shown the popup.
	if err := popups.Withdraw(t.Context(), "l"); err != nil {
		t.Error(err)
	}
	quiet(t, popups, false)
	spoken, err := speech.Say(t.Context(), "-v Critical error: Git conflict detected. [[volm 0]] Your input needed.", true)
	if err != nil || spoken.Result != Spoken {
		t.Errorf("said: %+v, %v", spoken, err)
	}
	t.Logf("%+v, %+v", second, spoken)
}

// quiet sets xfce4-notifyd's "do not disturb".
func quiet(t *testing.T, p *Popups, on bool) {
	t.Helper()
	err := p.screen.session.call(t.Context(), "org.xfce.Xfconf", "/org/xfce/Xfconf", "org.xfce.Xfconf.SetProperty",
		[]any{"xfce4-notifyd", "/do-not-disturb", dbus.MakeVariant(on)})
	if err != nil {
		t.Fatal(err)
	}
}

// clickButton opens a second popup, clicks the last of its buttons, and expects the press.
func clickButton(t *testing.T, p *Popups) {
	t.Helper()
	m := Message{Key: "b", Title: "Which branch?", Text: "codex-cursor asks", Urgency: Critical, Actions: []Action{{"7:main", "main"}, {"7:dev", "dev"}}}
	stands := windows(t)
	proof, err := p.Show(t.Context(), m)
	if err != nil || !proof.Actions {
		t.Fatalf("%+v, %v", proof, err)
	}
	var fresh []string
	eventually(t, "the popup's window", func() bool {
		fresh = slices.DeleteFunc(windows(t), func(w string) bool { return slices.Contains(stands, w) })
		return len(fresh) == 1
	})
	geometry, err := exec.Command("xdotool", "getwindowgeometry", "--shell", fresh[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	place := map[string]int{}
	for line := range strings.Lines(string(geometry)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		place[name], _ = strconv.Atoi(value)
	}
	// xfce4-notifyd places the buttons at the lower right corner.
	x, y := fmt.Sprint(place["X"]+place["WIDTH"]-57), fmt.Sprint(place["Y"]+place["HEIGHT"]-31)
	begin := time.Now()
	if out, err := exec.Command("xdotool", "mousemove", x, y, "click", "1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wants(t, p, Event{Kind: Pressed, Key: "b", Action: "7:dev"})
	t.Logf("click to event: %v", time.Since(begin))
	eventually(t, "the pressed popup goes", func() bool { return slices.Equal(windows(t), stands) })
	select {
	case e := <-p.Events():
		t.Errorf("after the press: %+v", e)
	case <-time.After(short):
	}
}

// windows returns the popups on the display.
func windows(t *testing.T) []string {
	t.Helper()
	out, _ := exec.Command("xdotool", "search", "--onlyvisible", "--class", "xfce4-notifyd").Output() // fails if there is none
	return strings.Fields(string(out))
}
