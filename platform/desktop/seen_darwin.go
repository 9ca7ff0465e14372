package desktop

import "context"

func (b *banner) who(ctx context.Context) (label string, muted bool, err error) {
	if err := b.probe(ctx); err != nil {
		return "", false, err
	}
	if _, ok := find(alerter); ok {
		return alerter, false, nil
	}
	return osascript, false, nil
}

func seenVoice() Voice { return Voice{Tool: voice, Sink: "the system's sound output"} }
