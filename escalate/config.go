package escalate

import (
	"errors"
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

// Config is the part of [escalate] that controls incidents and their delivery.
type Config struct {
	// Channels are tried in this order. Without channels, incidents are only listed.
	Channels []string `toml:"channels"`
	// QuietHours hold back every notice except those of critical incidents, which are shown and pushed but not
	// spoken.
	QuietHours rules.Hours `toml:"quiet_hours"`
	// Digest is the time of day ("09:00") of the daily notice that lists all open incidents; "" disables it.
	Digest string `toml:"digest"`
	// AckBlocking and Ack are how long an acknowledgement lasts, for incidents that block work and for all others.
	AckBlocking time.Duration `toml:"ack_blocking"`
	Ack         time.Duration `toml:"ack"`
	// Keep is how long resolved incidents are kept.
	Keep time.Duration `toml:"keep"`
	// FaultAfter is how long a file may be unusable, or a change may fail, before it becomes an incident.
	FaultAfter time.Duration `toml:"fault_after"`
	// Results (off, blocking, all) and Progress (off, 25%, each) say what is spoken of tasks whose request says that the
	// operator listens.
	Results  string `toml:"results"`
	Progress string `toml:"progress"`
	// Dangerous lists words. An option whose id or label contains one can be chosen on the command line only.
	Dangerous []string `toml:"dangerous"`
	// Command is a program and its arguments; it receives each notice as JSON on standard input.
	Command []string   `toml:"command"`
	Ntfy    NtfyConfig `toml:"ntfy"`
	// Ladder is keyed by severity.
	Ladder map[string]Ladder `toml:"ladder"`
}

// NtfyConfig sets where push messages go (https://ntfy.sh or a self-hosted server).
type NtfyConfig struct {
	URL   string `toml:"url"`
	Topic string `toml:"topic"`
	// TokenFile contains an access token; "" means no token.
	TokenFile string `toml:"token_file"`
	// ReplyTopic is the topic to which a message's buttons send the answer; "" means messages have no buttons.
	ReplyTopic string `toml:"reply_topic"`
}

// Validate reports every invalid setting, one per line.
func (c Config) Validate() error {
	var errs []error
	for n, name := range c.Channels {
		if !slices.Contains(channelNames, name) {
			errs = append(errs, fmt.Errorf("channels: there is no channel %q; there are %q", name, channelNames))
		}
		if slices.Contains(c.Channels[:n], name) {
			errs = append(errs, fmt.Errorf("channels: %q is listed twice", name))
		}
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"ack_blocking", c.AckBlocking}, {"ack", c.Ack}, {"keep", c.Keep}, {"fault_after", c.FaultAfter}} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: %s is not a length of time above 0", d.key, d.value))
		}
	}
	for _, s := range []struct {
		key, value string
		words      []string
	}{{"results", c.Results, []string{"", "off", "blocking", "all"}}, {"progress", c.Progress, []string{"", "off", "25%", "each"}}} {
		if !slices.Contains(s.words, s.value) {
			errs = append(errs, fmt.Errorf("%s: %q must be one of %q", s.key, s.value, s.words[1:]))
		}
	}
	if err := c.QuietHours.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("quiet_hours: %w", err))
	}
	if _, err := rules.MinuteOfDay(c.Digest); c.Digest != "" && err != nil {
		errs = append(errs, fmt.Errorf("digest: %q is not a time of day; write it like \"09:00\"", c.Digest))
	}
	if slices.ContainsFunc(c.Dangerous, func(word string) bool { return len(wordsIn(word)) == 0 }) {
		errs = append(errs, fmt.Errorf("dangerous: a word has letters or digits"))
	}
	errs = append(errs, c.validateUsed())
	return errors.Join(append(errs, validateLadders(c.Ladder))...)
}

// validateUsed reports a channel that is enabled but not configured.
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

func (c Config) ackTime(i Incident) time.Duration {
	if i.Blocking {
		return c.AckBlocking
	}
	return c.Ack
}

// ladder returns the ladder for the incident's severity. Severities that are only listed have none.
func (c Config) ladder(i Incident) Ladder { return c.Ladder[string(i.Severity)] }

// Mark returns the options, and marks as dangerous those whose id or label contains a word from Dangerous.
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
