package desktop

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Output of PulseAudio 16.1 and PipeWire 0.3.65, reduced to the relevant parts.
const (
	pulseInfo  = "Server Name: pulseaudio\nDefault Sink: %\nDefault Source: %.monitor\n"
	pulseNull  = "Sink #1\n\tState: IDLE\n\tName: ear\n\tDriver: module-null-sink.c\n\tMonitor Source: ear.monitor\n\nSource #7\n\tName: ear.monitor\n"
	pulseEar   = "\nSource Output #0\n\tDriver: protocol-native.c\n\tClient: 4\n\tSource: 7\n\tProperties:\n\t\tapplication.name = \"parec\"\n"
	pulseOther = "\nSource Output #0\n\tDriver: protocol-native.c\n\tSource: 2\n"
	pulseCard  = "Sink #1\n\tName: alsa_output.pci.stereo\n\tDriver: module-alsa-card.c\n\tMonitor Source: alsa_output.pci.stereo.monitor\n"
	pipeNull   = "Sink #35\n\tName: ear\n\tDriver: PipeWire\n\tMonitor Source: ear.monitor\n\tProperties:\n\t\tfactory.name = \"support.null-audio-sink\"\n"
	pipeNode   = `{"id": 35, "type": "PipeWire:Interface:Node", "info": {"props": {"media.class": "Audio/Sink", "node.name": "%", "factory.name": "&"}}}`
	pipeChosen = `, {"id": 33, "type": "PipeWire:Interface:Metadata", "metadata": [{"subject": 0, "key": "log.level", "value": 2},` +
		`{"subject": 0, "key": "default.audio.sink", "type": "Spa:String:JSON", "value": {"name": "%"}}]}`
	pipeDriver = `{"id": 28, "type": "PipeWire:Interface:Node", "info": {"props": {"node.name": "Dummy-Driver"}}}`
	pipeLink   = `, {"id": 40, "type": "PipeWire:Interface:Link", "info": {"output-node-id": 35}}`
)

func TestDummiesAreNoLoudspeakers(t *testing.T) {
	info := func(name string) string { return strings.ReplaceAll(pulseInfo, "%", name) }
	dump := func(text, name, factory string) string {
		return "[" + strings.NewReplacer("%", name, "&", factory).Replace(text) + "]"
	}
	for _, c := range []struct {
		name, info, list, dump string
		want                   string // "" if the sound may be heard
	}{
		{name: "the dummy of PulseAudio", info: info("auto_null"), want: "the default sink auto_null is a dummy"},
		{name: "the kernel's dummy", info: info("alsa_output.platform-snd_dummy.0.stereo"), want: "is a dummy"},
		{name: "no sink", info: info("n/a"), want: "has no sink"},
		{name: "a card", info: info("alsa_output.pci.stereo"), list: pulseCard},
		{name: "a null sink", info: info("ear"), list: pulseNull, want: "the default sink ear is a null sink, and nothing listens to it"},
		{name: "a null sink, and another source is recorded", info: info("ear"), list: pulseNull + pulseOther, want: "nothing listens"},
		{name: "a null sink that is recorded", info: info("ear"), list: pulseNull + pulseEar},
		{name: "a null sink of PipeWire", info: info("ear"), list: pipeNull, want: "nothing listens"},
		{name: "PipeWire alone, dummy", dump: dump(pipeNode+pipeChosen, "auto_null", "support.null-audio-sink"), want: "auto_null is a dummy"},
		{name: "PipeWire alone, no sink", dump: dump(pipeDriver, "", ""), want: "PipeWire has no sink"},
		{name: "PipeWire alone, a null sink", dump: dump(pipeNode+pipeChosen, "mine", "support.null-audio-sink"), want: "nothing listens"},
		{name: "PipeWire alone, a null sink that is passed on", dump: dump(pipeNode+pipeChosen+pipeLink, "mine", "support.null-audio-sink")},
		{name: "PipeWire alone, a card", dump: dump(pipeNode+pipeChosen, "alsa_output.pci", "api.alsa.pcm.sink")},
		{name: "another version of pw-dump", dump: "{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			scripts := map[string]string{"espeak-ng": synth, "paplay": plays, "spd-say": takes}
			socket := "pulse/native"
			if c.dump != "" {
				socket, scripts["pw-dump"] = "pipewire-0", "/bin/cat $DIR/dump"
			} else {
				scripts["pactl"] = "/bin/cat $DIR/$1"
			}
			s, dir := voiceOf(t, scripts)
			run := t.TempDir()
			t.Setenv("XDG_RUNTIME_DIR", run)
			t.Setenv("PULSE_SERVER", "")
			t.Setenv("PULSE_SINK", "")
			for file, text := range map[string]string{filepath.Join(run, socket): "", filepath.Join(dir, "info"): c.info,
				filepath.Join(dir, "list"): c.list, filepath.Join(dir, "dump"): c.dump} {
				os.MkdirAll(filepath.Dir(file), 0o700)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			proof, said := s.Say(t.Context(), "hello", false)
			_, seen := s.Voice(t.Context())
			for op, err := range map[string]error{"say": said, "probe": s.Probe(t.Context()), "voice": seen} {
				var e *Error
				switch {
				case c.want == "" && err != nil:
					t.Errorf("%s: %v", op, err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), "no loudspeaker: ") || !strings.Contains(err.Error(), c.want)):
					t.Errorf("%s: %v; want %q", op, err, c.want)
				case c.want != "" && (!errors.Is(err, ErrUnavailable) || !errors.As(err, &e) || e.Hint == ""):
					t.Errorf("%s: %#v", op, err)
				}
			}
			if (proof.Result == Spoken) != (c.want == "") {
				t.Errorf("%+v", proof)
			}
			if c.want != "" && logged(dir) != "" {
				t.Errorf("spoken into nothing by %s", logged(dir))
			}
		})
	}
}

// TestRealSoundServerWithoutACard: a real PulseAudio without a sound card. Its own dummy sink is not a loudspeaker; a
// null sink that is being recorded is one.
func TestRealSoundServerWithoutACard(t *testing.T) {
	for _, tool := range []string{"pulseaudio", "pactl", "parec", "paplay", "espeak-ng"} {
		if _, ok := find(tool); !ok {
			t.Skip("skipped: it needs pulseaudio, pactl, parec, paplay and espeak-ng")
		}
	}
	dir := shortDir(t)
	socket := filepath.Join(dir, "s") // not "pulse": the server has a folder of that name
	t.Setenv("HOME", dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("PULSE_SERVER", "unix:"+socket)
	script := filepath.Join(dir, "default.pa")
	text := "load-module module-always-sink\nload-module module-native-protocol-unix auth-anonymous=1 socket=" + socket + "\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(name string, args ...string) {
		c := exec.Command(name, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	}
	until := func(what, tool string, args ...string) {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			out, err := exec.Command(tool, args...).Output()
			if err == nil && strings.Contains(string(out), what) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s never shows %q: %s, %v", tool, what, out, err)
			}
		}
	}
	start("pulseaudio", "-n", "--use-pid-file=0", "--exit-idle-time=-1", "--disable-shm=1", "-F", script)
	until("auto_null", "pactl", "info")
	s := &Speech{dir: func() (string, error) { return dir, nil }, grace: watchdog, patience: watchdog}
	if proof, err := s.Say(t.Context(), "hello", false); err == nil || !strings.Contains(err.Error(), "the default sink auto_null is a dummy") {
		t.Errorf("into the dummy: %+v, %v", proof, err)
	}
	until("", "pactl", "load-module", "module-null-sink", "sink_name=ear")
	until("Default Sink: ear", "pactl", "info")
	if proof, err := s.Say(t.Context(), "hello", false); err == nil || !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("into a null sink: %+v, %v", proof, err)
	}
	start("parec", "-d", "ear.monitor", "--raw", filepath.Join(dir, "ear.raw"))
	until("parec", "pactl", "list", "source-outputs")
	if proof, err := s.Say(t.Context(), "hello", false); err != nil || proof.Result != Spoken {
		t.Errorf("to one who listens: %+v, %v", proof, err)
	}
}
