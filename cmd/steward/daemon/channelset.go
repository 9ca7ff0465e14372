package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/platform/push"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/ralph"
	"github.com/livhana/steward/status/terminal"
)

// Time limits for one call of a channel. A spoken sentence may have to wait for another one on this machine.
const (
	popupDeadline   = 6 * time.Second
	SpeechDeadline  = 2 * time.Minute
	pushDeadline    = 20 * time.Second
	commandDeadline = 30 * time.Second
	commandTime     = commandDeadline - 5*time.Second // the rest is for killing a command that does not exit
)

// errUnproved: the notification server accepted the popup but does not show it (do not disturb).
var errUnproved = errors.New("the popup was accepted, but is not shown")

// errUnheard: a speech program took the sentence, and nothing proves that it was played.
var errUnheard = errors.New("the voice took the sentence, but nothing proves that it was played")

// channel is a way to the operator. Probe checks whether it could be used now, without sending anything.
type channel struct {
	escalate.Channel
	Probe func(context.Context) error
}

// channelSet holds this machine's channels to the operator, as configured.
type channelSet struct {
	List    []channel
	popups  *desktop.Popups
	Ntfy    *push.Ntfy // nil if that channel is not configured or cannot be used
	replies bool       // messages have buttons
	// incident returns the incident that the command receives in addition to the notice. If the func is nil, it
	// receives none.
	incident func(key string) *escalate.Incident
}

// ConnectChannels prepares the channels that the configuration names. It sends nothing. If a channel cannot be set up,
// the error affects that channel alone.
func ConnectChannels(popups *desktop.Popups, cfg escalate.Config, key []byte) *channelSet {
	o := &channelSet{popups: popups}
	for _, name := range cfg.Channels {
		c, err := o.connect(name, cfg, key)
		if err != nil {
			c.Deliver = func(context.Context, escalate.Notice) (string, error) { return "", err }
			c.Probe = func(context.Context) error { return err }
		}
		c.Name = name
		o.List = append(o.List, c)
	}
	return o
}

// connect prepares one channel; with an error it has no more than its deadline.
func (o *channelSet) connect(name string, cfg escalate.Config, key []byte) (c channel, err error) {
	switch name {
	case escalate.ChannelDesktop:
		c.Deadline, c.Deliver, c.Withdraw, c.Probe = popupDeadline, o.popup, o.popups.Withdraw, o.popups.Probe
	case escalate.ChannelSpeech:
		voice := desktop.NewSpeech()
		c.Deadline, c.Probe = SpeechDeadline, voice.Probe
		c.Deliver = func(ctx context.Context, n escalate.Notice) (string, error) { return say(ctx, voice, n) }
	case escalate.ChannelNtfy:
		c.Deadline = pushDeadline
		if o.Ntfy, err = connectNtfy(cfg.Ntfy, key); err == nil {
			o.replies = cfg.Ntfy.ReplyTopic != ""
			c.Deliver, c.Probe = o.push, o.Ntfy.Probe
		}
	case escalate.ChannelCommand:
		c.Deadline = commandDeadline
		var command *push.Command
		if command, err = push.NewCommand(cfg.Command); err == nil {
			c.Probe = func(context.Context) error { return command.Probe() }
			c.Deliver = func(ctx context.Context, n escalate.Notice) (string, error) { return o.run(ctx, command, n) }
		}
	}
	return c, err
}

func connectNtfy(cfg escalate.NtfyConfig, key []byte) (*push.Ntfy, error) {
	c := NtfyOf(cfg, key)
	if cfg.TokenFile != "" {
		token, err := readToken(cfg.TokenFile)
		if err != nil {
			return nil, err
		}
		c.Token = token
	}
	return push.NewNtfy(c)
}

func NtfyOf(cfg escalate.NtfyConfig, key []byte) push.NtfyConfig {
	return push.NtfyConfig{URL: cfg.URL, Topic: cfg.Topic, ReplyTopic: cfg.ReplyTopic, Key: key}
}

// readToken reads a secret from a file that only its owner may read.
func readToken(path string) (string, error) {
	home, _ := os.UserHomeDir()
	path, err := config.Expand(path, home, "/")
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the token: %w", err)
	case !st.Mode().IsRegular() || st.Size() > 4096:
		return "", fmt.Errorf("read the token: %s is not a small plain file", path)
	case st.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("read the token: others may read %s; chmod 600 it", path)
	}
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

// CheckPrograms reports the invalid servers and programs of a configuration, one line each.
func CheckPrograms(c config.Config) error {
	var all []error
	add := func(table string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%s%w", table, err))
		}
	}
	add("ralph.", ralph.CheckResume(c.Ralph.Resume))
	if ntfy := c.Escalate.Ntfy; ntfy.URL != "" || ntfy.Topic != "" {
		add("escalate.ntfy.", NtfyOf(ntfy, make([]byte, KeyBytes)).Validate())
	}
	if len(c.Escalate.Command) > 0 {
		_, err := push.NewCommand(c.Escalate.Command)
		add("escalate.command: ", errors.Unwrap(err))
	}
	return errors.Join(all...)
}

const (
	keyFile  = "answer.key"
	KeyBytes = 32
)

// answerKey returns this installation's secret, which authenticates presses that arrive over the network. It is created
// once.
func answerKey(state *jsonfile.Root) ([]byte, error) {
	blob, err := state.Read(keyFile, 1024)
	if err == nil {
		key, err := hex.DecodeString(strings.TrimSpace(string(blob.Data)))
		if err == nil && len(key) >= KeyBytes {
			return key, nil
		}
		_ = state.Remove(keyFile) // damaged: buttons that were already sent stop working
	} else if !errors.Is(err, jsonfile.ErrNotExist) {
		return nil, fmt.Errorf("read the key for answers: %w", err)
	}
	key := make([]byte, KeyBytes)
	rand.Read(key) // never fails
	if err := state.Create(keyFile, []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("keep the key for answers: %w", err)
	}
	return key, nil
}

func (o *channelSet) popup(ctx context.Context, n escalate.Notice) (string, error) {
	proof, err := o.popups.Show(ctx, desktop.Message{Key: n.Key, Title: localTimes(n.Headline()), Text: localTimes(wordsOf(n, shownButtons)),
		Urgency: urgency(n.Severity), Actions: actionsOf(n), Quiet: n.Quiet || n.Hushed})
	if err == nil && proof.Result == desktop.Sent && runtime.GOOS == "linux" {
		// On Linux the server reports when it does not show a popup. Elsewhere "sent" is all the proof there is.
		return proof.Result, errUnproved
	}
	return proof.Result, err
}

func say(ctx context.Context, voice *desktop.Speech, n escalate.Notice) (string, error) {
	proof, err := voice.Say(ctx, localTimes(n.Sentence()), n.Severity == protocol.Critical)
	if err == nil && proof.Result == desktop.Sent {
		return proof.Result, errUnheard
	}
	return proof.Result, err
}

func (o *channelSet) push(ctx context.Context, n escalate.Notice) (string, error) {
	buttons := 0
	if o.replies {
		buttons = shownButtons
	}
	m := push.Message{Key: n.Key, Rev: n.Rev, Title: localTimes(n.Headline()), Text: localTimes(wordsOf(n, buttons)),
		Severity: string(n.Severity), Blocking: n.Blocking, Over: n.Over}
	if n.Hushed { // the phone decides whether it rings at night
		m.Severity = string(protocol.Medium)
	}
	for _, option := range n.Options {
		m.Options = append(m.Options, push.Option{ID: option.ID, Label: option.Label})
	}
	return "pushed", o.Ntfy.Send(ctx, m)
}

// PageDocument is the document that the command reads.
type PageDocument struct {
	Event    string             `json:"event"` // incident, over
	Key      string             `json:"key"`
	Rev      int                `json:"rev,omitempty"`
	Severity protocol.Severity  `json:"severity"`
	Title    string             `json:"title"`
	Text     string             `json:"text"`
	Spoken   string             `json:"spoken"`
	Blocking bool               `json:"blocking"`
	Quiet    bool               `json:"quiet"` // it should make no sound
	Options  []rules.Option     `json:"options"`
	Answer   string             `json:"answer,omitempty"` // the command line that answers the incident
	Incident *escalate.Incident `json:"incident,omitempty"`
}

func (o *channelSet) run(ctx context.Context, command *push.Command, n escalate.Notice) (string, error) {
	doc := PageDocument{Event: "incident", Key: n.Key, Rev: n.Rev, Severity: n.Severity, Title: n.Title, Text: n.Text, Spoken: n.Sentence(),
		Blocking: n.Blocking, Quiet: n.Quiet || n.Hushed, Options: append(append([]rules.Option{}, n.Options...), n.Dangerous...)}
	if n.Over {
		doc.Event = "over"
	}
	if len(doc.Options) > 0 {
		doc.Answer = "steward answer " + n.Handle + " OPTION"
	}
	if o.incident != nil {
		doc.Incident = o.incident(n.Key)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	return "taken", command.Send(ctx, append(b, '\n'))
}

// localTimes shows the times in a text on this machine's clock.
func localTimes(text string) string { return terminal.LocalTimes(text, time.Now()) }

func urgency(s protocol.Severity) desktop.Urgency {
	switch s {
	case protocol.Critical:
		return desktop.Critical
	case protocol.High, protocol.Medium:
		return desktop.Normal
	}
	return desktop.Low
}
