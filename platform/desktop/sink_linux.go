package desktop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/text"
)

// A sound server without a sound card creates a sink that discards everything, so that players keep working.
// PulseAudio (module-always-sink) and PipeWire (the fallback sink) call it dummySink. A null sink with another name
// was configured by the user, to record or forward the sound: it counts as a loudspeaker while a program listens to
// its monitor. See docs/decisions.md, "A dummy sink is no loudspeaker".
const (
	dummySink    = "auto_null"
	nullDriver   = "module-null-sink.c"      // PulseAudio
	nullFactory  = "support.null-audio-sink" // PipeWire
	sinkTime     = 3 * time.Second           // timeout of a sound server query
	sinkHint     = "connect a loudspeaker for the user who runs steward, or leave \"speech\" out of [escalate] channels"
	dummyDriver  = "snd_dummy" // the kernel's dummy sound card
	pulseSinks   = "Sink #"
	pulseSource  = "Source #"
	pulseListens = "Source Output #"
)

// checkSpeaker returns an error if the sound server reports that played sound would not be heard. If the server
// cannot be queried, checkSpeaker returns nil and leaves the check to the player. Unless start is set, only a running
// server is queried.
func checkSpeaker(ctx context.Context, start bool) error {
	ctx, cancel := context.WithTimeout(ctx, sinkTime)
	defer cancel()
	pulse := os.Getenv("PULSE_SERVER") != "" || runtimeFile("pulse/native") != ""
	pipewire := runtimeFile("pipewire-0") != ""
	if pulse || start && !pipewire { // paplay would start the server, too
		info, known := askSound(ctx, "pactl", "info")
		if list, listed := askSound(ctx, "pactl", "list"); known && listed {
			return judgePulse(info, list)
		}
	}
	if pipewire {
		if dump, known := askSound(ctx, "pw-dump"); known {
			return judgePipeWire(dump)
		}
	}
	return nil
}

// askSound returns the output of a sound server's tool.
func askSound(ctx context.Context, tool string, args ...string) (out []byte, ok bool) {
	path, ok := find(tool)
	if !ok {
		return nil, false
	}
	var b bytes.Buffer
	c := toolRun{path: path, args: args, env: []string{"LC_ALL=C"}, limit: sinkTime, stdout: &b}
	_, err := c.run(ctx)
	return b.Bytes(), err == nil
}

func noSpeaker(format string, args ...any) error {
	return hinted(unavailable("no loudspeaker: "+format, args...), sinkHint)
}

// sink is a sound output.
type sink struct {
	name   string
	null   bool // it has no sound card
	listen bool // a program records or forwards its monitor
}

func (s sink) check() error {
	switch {
	case s.name == dummySink || strings.Contains(s.name, dummyDriver):
		return noSpeaker("the default sink %s is a dummy", s.name)
	case s.null && !s.listen:
		return noSpeaker("the default sink %s is a null sink, and nothing listens to it", s.name)
	}
	return nil
}

// judgePulse parses pactl's output for a PulseAudio server, or for PipeWire in its place.
func judgePulse(info, list []byte) error {
	name := os.Getenv("PULSE_SINK")
	if name == "" {
		name = pulseField(bytes.Split(info, []byte("\n")), "Default Sink: ")
	}
	if name == "" || name == "n/a" || name == "@DEFAULT_SINK@" {
		return noSpeaker("the sound server has no sink")
	}
	s := sink{name: text.Line(name, keyLimit)}
	blocks := pulseBlocks(list)
	monitor := ""
	for _, b := range blocks {
		if b.named(pulseSinks, name) {
			s.null = pulseField(b.lines, "Driver: ") == nullDriver || pulseField(b.lines, "factory.name = ") == `"`+nullFactory+`"`
			monitor = pulseField(b.lines, "Monitor Source: ")
		}
	}
	source := slices.IndexFunc(blocks, func(b pulseBlock) bool { return b.named(pulseSource, monitor) })
	s.listen = source >= 0 && slices.ContainsFunc(blocks, func(b pulseBlock) bool {
		return strings.HasPrefix(b.head, pulseListens) && pulseField(b.lines, "Source: ") == strings.TrimPrefix(blocks[source].head, pulseSource)
	})
	return s.check()
}

// pulseBlock is one object in pactl's output: a head like "Sink #1" and indented lines.
type pulseBlock struct {
	head  string
	lines [][]byte
}

func (b pulseBlock) named(head, name string) bool {
	return strings.HasPrefix(b.head, head) && pulseField(b.lines, "Name: ") == name
}

func pulseBlocks(list []byte) []pulseBlock {
	var all []pulseBlock
	lines := bufio.NewScanner(bytes.NewReader(list))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := bytes.Clone(lines.Bytes()); {
		case len(line) == 0:
		case line[0] != '\t' && line[0] != ' ':
			all = append(all, pulseBlock{head: string(line)})
		case len(all) > 0:
			last := &all[len(all)-1]
			last.lines = append(last.lines, line)
		}
	}
	return all
}

func pulseField(lines [][]byte, label string) string {
	for _, line := range lines {
		if value, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(label)); ok {
			return string(value)
		}
	}
	return ""
}

// pipeObject is the part of an object in pw-dump's list that concerns sound outputs.
type pipeObject struct {
	ID       int    `json:"id"`
	Type     string `json:"type"`
	Metadata []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	} `json:"metadata"`
	Info struct {
		From  int `json:"output-node-id"`
		Props struct {
			Class   string `json:"media.class"`
			Name    string `json:"node.name"`
			Factory string `json:"factory.name"`
		} `json:"props"`
	} `json:"info"`
}

// judgePipeWire parses pw-dump's output for a PipeWire server without PulseAudio support.
func judgePipeWire(dump []byte) error {
	var all []pipeObject
	if json.Unmarshal(dump, &all) != nil {
		return nil // an unknown format: leave the check to the player
	}
	chosen, fed := "", map[int]bool{}
	for _, o := range all {
		for _, m := range o.Metadata {
			var value struct{ Name string }
			if m.Key == "default.audio.sink" && json.Unmarshal(m.Value, &value) == nil {
				chosen = value.Name
			}
		}
		if strings.HasSuffix(o.Type, ":Link") {
			fed[o.Info.From] = true
		}
	}
	err := noSpeaker("PipeWire has no sink")
	for _, o := range all {
		props := o.Info.Props
		if props.Class != "Audio/Sink" && props.Class != "Audio/Duplex" {
			continue
		}
		s := sink{name: text.Line(props.Name, keyLimit), null: props.Factory == nullFactory, listen: fed[o.ID]}
		if err = s.check(); err == nil && chosen == "" || props.Name == chosen {
			return err
		}
	}
	return err
}
