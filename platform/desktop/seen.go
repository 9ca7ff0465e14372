package desktop

import "context"

// Server returns the label of the server that would show a popup now; "" if the first popup would start one. muted
// means that the server accepts popups but shows none (do not disturb), if the server reports that. Server shows and
// starts nothing.
func (p *Popups) Server(ctx context.Context) (label string, muted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	label, muted, err = p.screen.who(ctx)
	return label, muted, wrap("find the notification server", err)
}

// Voice is the tool that would speak, as far as that can be determined without a sound.
type Voice struct {
	Tool string
	Sink string // where the sound would go; "" if no output was found
}

// Voice returns the voice without making a sound. A sound server with only a dummy sink is an error; whether a real
// loudspeaker is loud enough is not known.
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
