package daemon

import (
	"slices"

	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/envelope"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/handoffs"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/mailbox"
	"github.com/livhana/steward/protocol/ralph"
)

// Messages lists the messages and files of all protocols that have a schema.
func Messages() []folder.Message {
	return slices.Concat(agentstatus.Messages(), handoffs.Messages(), ralph.Messages(), mailbox.Messages(), envelope.Messages())
}

// MessageNamed returns the message of that name, or nil.
func MessageNamed(name string) *folder.Message {
	all := Messages()
	i := slices.IndexFunc(all, func(m folder.Message) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// MessageLike returns the kind of message that an object resembles most; nil if for every kind it lacks half of the required
// fields. Of two kinds that fit equally the later one wins, because it is more specific.
func MessageLike(o jsonfile.Object) (m *folder.Message) {
	all, best := Messages(), 0.5
	for i := range all {
		if likeness := all[i].Likeness(o); likeness >= best {
			m, best = &all[i], likeness
		}
	}
	return m
}
