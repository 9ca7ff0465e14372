package desktop

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"
)

const (
	pace     = time.Second / 13 // per character, measured with espeak at its default speed
	grace    = 3 * time.Second  // added to twice the estimate: tool start, a sleeping sound card
	patience = time.Minute      // in the queue; after that a text is stale
)

// Speech speaks sentences, one at a time for all stewards of this user on this machine. It is safe for concurrent
// use. It opens and starts nothing before the first call, and nothing runs between calls.
type Speech struct {
	dir      func() (string, error)
	grace    time.Duration
	patience time.Duration
}

// NewSpeech returns the voice of this user's desktop.
func NewSpeech() *Speech {
	return &Speech{dir: voiceDir, grace: grace, patience: patience}
}

// Say speaks text, at most 500 characters, and returns when it has been spoken. It waits for its turn for at most a
// minute; urgent texts go first. Spoken means that a player ran at least half as long as the sound lasts and reported
// no error; Sent means that a tool accepted the text and succeeded, but too early or without reporting the result. A
// tool that runs longer than twice the estimated time plus 3 s is killed with its process group, and the next tool is
// tried. A sound server whose default sink is a dummy is an error. Muted loudspeakers are not detected.
func (s *Speech) Say(ctx context.Context, text string, urgent bool) (Proof, error) {
	const op = "speak"
	text = sentence(text)
	if text == "" {
		return Proof{}, wrap(op, errors.New("the text holds nothing that can be spoken"))
	}
	if err := probeVoice(); err != nil {
		return Proof{}, wrap(op, err)
	}
	dir, err := s.dir()
	if err != nil {
		return Proof{}, wrap(op, err)
	}
	queue, cancel := context.WithTimeout(ctx, s.patience)
	release, err := takeTurn(queue, dir, urgent)
	cancel()
	if err != nil {
		return Proof{}, wrap(op, err)
	}
	defer release()
	proof, err := s.speak(ctx, dir, text, urgent)
	return proof, wrap(op, err)
}

// Probe reports whether a voice is installed, and whether a running sound server has a loudspeaker. It makes no
// sound.
func (s *Speech) Probe(ctx context.Context) error {
	err := probeVoice()
	if err == nil {
		err = checkSpeaker(ctx, false)
	}
	return wrap("probe speech", err)
}

// limit returns the timeout of a tool for a sound of the given length.
func (s *Speech) limit(length time.Duration) time.Duration { return 2*length + s.grace }

// estimate returns how long it takes to speak the text.
func estimate(text string) time.Duration {
	return time.Duration(utf8.RuneCountInString(text)) * pace
}
