package desktop

import "context"

// Server names who would show a popup now; "" where one is started by the first popup. Muted tells that it takes popups
// and shows none (do not disturb), as far as it says so. Server shows and starts nothing.
func (p *Popups) Server(ctx context.Context) (label string, muted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	label, muted, err = p.screen.who(ctx)
	return label, muted, wrap("find the notification server", err)
}

// Voice is what would speak, as far as that can be seen without a sound.
type Voice struct {
	Tool string
	Sink string // where the sound would go; "" when no way out is to be seen
}

// Voice finds the voice. It makes no sound. A sound server that has only a dummy for a loudspeaker is an error; whether
// a real one is loud enough is not known.
func (s *Speech) Voice(ctx context.Context) (Voice, error) {
	err := probeVoice()
	if err == nil {
		err = checkSpeaker(ctx, false)
	}
	if err != nil {
		return Voice{}, wrap("find the voice", err)
	}
	return seenVoice(), nil
}
