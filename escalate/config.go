package escalate

import (
	"fmt"
	"slices"
	"time"
)

// The names of the first channels.
const (
	ChannelDesktop = "desktop"
	ChannelSpeech  = "speech"
)

// Config is the part of [escalate] that concerns incidents and their delivery.
type Config struct {
	// Channels in the order in which they are tried; none: incidents are only listed.
	Channels []string `toml:"channels"`
	// AckBlocking and Ack are how long an acknowledgement holds, for incidents that block work and others.
	AckBlocking time.Duration `toml:"ack_blocking"`
	Ack         time.Duration `toml:"ack"`
	// Keep is how long resolved incidents are kept.
	Keep time.Duration `toml:"keep"`
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	known := []string{ChannelDesktop, ChannelSpeech}
	for n, name := range c.Channels {
		if !slices.Contains(known, name) {
			return fmt.Errorf("channels: there is no channel %q; there are %q", name, known)
		}
		if slices.Contains(c.Channels[:n], name) {
			return fmt.Errorf("channels: %q stands there twice", name)
		}
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"ack_blocking", c.AckBlocking}, {"ack", c.Ack}, {"keep", c.Keep}} {
		if d.value <= 0 {
			return fmt.Errorf("%s: %s is no time; it must be above 0", d.key, d.value)
		}
	}
	return nil
}

func (c Config) peace(i Incident) time.Duration {
	if i.Blocking {
		return c.AckBlocking
	}
	return c.Ack
}
