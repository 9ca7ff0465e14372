package handoffs

import (
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// handoff is a message still of interest: it is open, or ended recently.
type handoff struct {
	file string
	box  box
	jsonfile.Reading[handoffMessage]
	appeared time.Time // when it arrived in this place, by the file system's clock
	noticed  time.Time // the same, by steward's clock
	early    bool      // it was there at the first scan
	reopened bool      // it was closed before: its past events are not news
}

// counts reports whether the file is usable and a message at all: other tools may keep files in handoffs/ itself.
func (h *handoff) counts() bool { return h.Good && !h.foreign() }

func (h *handoff) foreign() bool { return h.box == flat && h.Value.foreign }

// where returns the place that counts: the folder, or the status of a message directly in handoffs/.
func (h *handoff) where() box {
	if h.box != flat {
		return h.box
	}
	switch h.Value.status {
	case "accepted", "in_progress", "active", "working":
		return accepted
	case "completed", "complete", "done", "finished", "rejected", "failed", "cancelled":
		return completed
	}
	return pending
}

// ended returns when the handoff ended, by its own timestamp or else by the file system's.
func (h *handoff) ended() time.Time {
	if at := h.Value.completedAt.By(h.appeared); !at.IsZero() {
		return at
	}
	if h.box == flat {
		return h.Stamp.ModTime()
	}
	return h.appeared
}

// accepted returns when the handoff was accepted, by its own timestamp or else by the file system's.
func (h *handoff) accepted() time.Time {
	if at := h.Value.acceptedAt.By(h.appeared); !at.IsZero() {
		return at
	}
	return h.appeared
}
