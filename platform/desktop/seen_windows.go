package desktop

import "context"

func (s *screen) who(ctx context.Context) (label string, muted bool, err error) {
	return "PowerShell", false, s.probe(ctx)
}

func seenVoice() Voice { return Voice{Tool: "PowerShell", Sink: "the system's sound output"} }
