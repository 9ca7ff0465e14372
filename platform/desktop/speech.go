package desktop

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"
)

const (
	pace     = time.Second / 13 // per character, measured with espeak at its usual speed
	grace    = 3 * time.Second  // on top of twice the estimate: start of the tool, a sleeping sound card
	patience = time.Minute      // in the queue; an older line is stale
)

// Speech says sentences aloud, one at a time for all stewards of this user on this machine. It is safe for
// concurrent use. Nothing is opened or started before the first call, and nothing runs between calls.
type Speech struct {
	dir      func() (string, error)
	grace    time.Duration
	patience time.Duration
}

// NewSpeech prepares the voice of this user's desktop.
func NewSpeech() *Speech {
	return &Speech{dir: voiceDir, grace: grace, patience: patience}
}

// Say speaks text, at most 500 characters of it, and returns when it has been spoken. It waits its turn for a minute
// at most; urgent lines go before others. Spoken means that a player took at least half as long as the sound lasts
// and reported no error; Sent that a tool took the text and ended well, but too early, or without saying what became
// of it. Each tool has twice the estimated time and 3 s, is then killed with all its children, and the next one is
// tried. A sound server whose default sink is a dummy is an error. Muted loudspeakers are not noticed.
func (s *Speech) Say(ctx context.Context, text string, urgent bool) (Proof, error) {
	const op = "speak"
	text = sentence(bounded(text, spokenLimit))
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

// Probe says whether a voice is installed, and whether a running sound server has a loudspeaker. It makes no sound.
func (s *Speech) Probe(ctx context.Context) error {
	err := probeVoice()
	if err == nil {
		err = checkSpeaker(ctx, false)
	}
	return wrap("probe speech", err)
}

// limit is the deadline of a tool that works on a sound of the given length.
func (s *Speech) limit(length time.Duration) time.Duration { return 2*length + s.grace }

// estimate is how long the text takes to speak.
func estimate(text string) time.Duration {
	return time.Duration(utf8.RuneCountInString(text)) * pace
}
