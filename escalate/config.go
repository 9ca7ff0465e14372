package escalate

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/escalate/rules"
)

// The names of the channels.
const (
	ChannelDesktop = "desktop"
	ChannelSpeech  = "speech"
	ChannelNtfy    = "ntfy"
	ChannelCommand = "command"
)

var channelNames = []string{ChannelDesktop, ChannelSpeech, ChannelNtfy, ChannelCommand}

// Config is the part of [escalate] that concerns incidents and their delivery.
type Config struct {
	// Channels in the order in which they are tried; none: incidents are only listed.
	Channels []string `toml:"channels"`
	// Progress says how much of tasks' progress is spoken.
	Progress rules.Progress `toml:"progress"`
	// QuietHours silence everything but critical incidents, which are then shown and pushed, but not spoken.
	QuietHours rules.Hours `toml:"quiet_hours"`
	// Digest is the time of day ("09:00") at which all that is open is listed in one notice; "" is never.
	Digest string `toml:"digest"`
	// AckBlocking and Ack are how long an acknowledgement holds, for incidents that block work and others.
	AckBlocking time.Duration `toml:"ack_blocking"`
	Ack         time.Duration `toml:"ack"`
	// Keep is how long resolved incidents are kept.
	Keep time.Duration `toml:"keep"`
	// FaultAfter is how long a file may be bad, or a change fail, before it is an incident.
	FaultAfter time.Duration `toml:"fault_after"`
	// Dangerous are words: an option that has one in its id or its label can be given on the command line only.
	Dangerous []string `toml:"dangerous"`
	// Command is a program and its arguments, which gets each notice as JSON on its standard input.
	Command []string   `toml:"command"`
	Ntfy    NtfyConfig `toml:"ntfy"`
	// Ladder is by severity.
	Ladder map[string]Ladder `toml:"ladder"`
}

// NtfyConfig says where push messages go (https://ntfy.sh, or a server of one's own).
type NtfyConfig struct {
	URL   string `toml:"url"`
	Topic string `toml:"topic"`
	// TokenFile holds an access token; "" is none.
	TokenFile string `toml:"token_file"`
	// ReplyTopic is where buttons of a message send the answer; "": messages have none.
	ReplyTopic string `toml:"reply_topic"`
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	for n, name := range c.Channels {
		if !slices.Contains(channelNames, name) {
			return fmt.Errorf("channels: there is no channel %q; there are %q", name, channelNames)
		}
		if slices.Contains(c.Channels[:n], name) {
			return fmt.Errorf("channels: %q stands there twice", name)
		}
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"ack_blocking", c.AckBlocking}, {"ack", c.Ack}, {"keep", c.Keep}, {"fault_after", c.FaultAfter}} {
		if d.value <= 0 {
			return fmt.Errorf("%s: %s is not a length of time above 0", d.key, d.value)
		}
	}
	if err := c.Progress.Validate(); err != nil {
		return err
	}
	if err := c.QuietHours.Validate(); err != nil {
		return fmt.Errorf("quiet_hours: %w", err)
	}
	if _, err := rules.MinuteOfDay(c.Digest); c.Digest != "" && err != nil {
		return fmt.Errorf("digest: %q is not a time of day; write it like \"09:00\"", c.Digest)
	}
	if slices.ContainsFunc(c.Dangerous, func(word string) bool { return len(wordsIn(word)) == 0 }) {
		return fmt.Errorf("dangerous: a word has letters or digits")
	}
	if err := c.validateUsed(); err != nil {
		return err
	}
	return validateLadders(c.Ladder)
}

// validateUsed reports a channel that is to be used without being set up.
func (c Config) validateUsed() error {
	switch {
	case slices.Contains(c.Channels, ChannelNtfy) && (c.Ntfy.URL == "" || c.Ntfy.Topic == ""):
		return fmt.Errorf("channels: \"ntfy\" needs [escalate.ntfy] url and topic")
	case slices.Contains(c.Channels, ChannelCommand) && len(c.Command) == 0:
		return fmt.Errorf("channels: \"command\" needs a command, such as command = [\"/usr/local/bin/page-me\"]")
	case len(c.Command) > 0 && c.Command[0] == "":
		return fmt.Errorf("command: names no program")
	}
	return nil
}

func (c Config) peace(i Incident) time.Duration {
	if i.Blocking {
		return c.AckBlocking
	}
	return c.Ack
}

// ladder is the incident's own; none for what is only listed.
func (c Config) ladder(i Incident) Ladder { return c.Ladder[string(i.Severity)] }

// Mark gives the options with those marked dangerous that are named so.
func (c Config) Mark(options []rules.Option) []rules.Option {
	marked := slices.Clone(options)
	for n, o := range marked {
		words := strings.Join(wordsIn(o.ID+" "+o.Label), " ")
		marked[n].Dangerous = o.Dangerous || slices.ContainsFunc(c.Dangerous, func(word string) bool {
			return strings.Contains(" "+words+" ", " "+strings.Join(wordsIn(word), " ")+" ")
		})
	}
	return marked
}

func wordsIn(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
