package capacity

import (
	"slices"

	"github.com/livhana/steward/protocol"
)

// ConsumersShown is how many consumers a deferral names.
const ConsumersShown = 3

func (r *readings) admit(w Waiter) Verdict {
	v := Verdict{Subject: w.Subject, Admit: true, Cause: protocol.Cause{Reason: protocol.ReasonRoom, Phrase: protocol.PhraseNothingRead}}
	dimension, most := "", -1.0
	for _, d := range allDimensions {
		if used, known := r.used(w, d); known && used > most {
			dimension, most = d, used
		}
	}
	if dimension != "" {
		v.Phrase, v.Facts = protocol.PhraseHighest, r.facts(w, dimension)
		v.Facts.Line = r.limitOn(w, dimension)
	}
	return v
}

func (r *round) hold(w Waiter, held Held, b blocker, behind bool) Verdict {
	dimension, cause := r.keeps(w, held)
	switch {
	case behind && !r.overLimit(w, held):
		dimension = b.dimension
		cause = protocol.Cause{Phrase: protocol.PhraseBehind, Facts: protocol.Facts{Task: b.subject.String(), Name: called(w, dimension)}}
	case dimension == "":
		dimension, cause.Phrase = r.fullest(w, held), protocol.PhraseOnePerRead
	}
	cause.Reason = protocol.ReasonCapacity
	v := Verdict{Subject: w.Subject, RetryAfter: r.forecast(w, held), Cause: cause}
	v.Gate = protocol.Gate{Dimension: dimension, Used: r.share(w, dimension), Limit: r.limitOn(w, dimension)}
	if used, known := r.used(w, dimension); known {
		v.Gate.Used = protocol.Used(used)
	}
	if users := Largest(r.load.Consumers, dimension, ConsumersShown); len(users) > 0 {
		v.Gate.Consumers = users
	}
	return v
}

// keeps returns the dimension that holds a task by itself, the fullest one first, and the cause; "" if only the queue
// holds the task. The cause must not change with time alone, because its sentence is written to files.
func (r *readings) keeps(w Waiter, held Held) (dimension string, c protocol.Cause) {
	var above, others Held
	for _, s := range held.Shut {
		due, any := r.dueOf(s)
		if !any {
			above.Shut = append(above.Shut, s)
		} else if due.After(r.now) {
			others.Shut = append(others.Shut, s)
		}
	}
	if d := r.fullest(w, above); d != "" {
		return d, r.tooFull(w, d)
	}
	d := r.fullest(w, others)
	switch {
	case d == "":
	case !r.share(w, d).Known():
		c = protocol.Cause{Phrase: protocol.PhraseUnreadable, Facts: protocol.Facts{Name: called(w, d), Limit: r.cfg.RetryAfter}}
	default:
		c = protocol.Cause{Phrase: protocol.PhraseMustStay, Facts: protocol.Facts{Name: called(w, d), Line: r.line(w, d), Limit: r.calm(d)}}
	}
	return d, c
}

func (r *readings) tooFull(w Waiter, dimension string) protocol.Cause {
	c := protocol.Cause{Phrase: protocol.PhraseMustFall, Facts: r.facts(w, dimension)}
	c.Facts.Text, c.Facts.Line = r.load.Because[dimension], r.line(w, dimension)
	if limit := r.limitOn(w, dimension); c.Facts.Share > limit+tiny {
		c.Phrase, c.Facts.Line = protocol.PhraseTooFull, limit
	}
	return c
}

// facts returns a share, split into what is in use and what is reserved for admitted tasks where something is.
func (r *readings) facts(w Waiter, dimension string) protocol.Facts {
	used, _ := r.used(w, dimension)
	f := protocol.Facts{Name: called(w, dimension), Share: used}
	if reading := r.share(w, dimension).Or(0); used > reading+0.005 {
		f.Reading, f.Reserved = reading, used-reading
	}
	return f
}

// overLimit reports whether any dimension that holds the task exceeds its limit (and not only its line).
func (r *readings) overLimit(w Waiter, held Held) bool {
	return slices.ContainsFunc(held.Shut, func(s Shut) bool {
		used, _ := r.used(w, s.Dimension)
		return used > r.limitOn(w, s.Dimension)+tiny
	})
}

// called is the display name of a dimension.
func called(w Waiter, dimension string) string {
	if dimension == DimAgent && w.Agent.ID != "" {
		return "agent " + w.Agent.ID
	}
	return dimension
}

// fullest returns the dimension with the largest share among those that have held the task; an unreadable one comes
// last.
func (r *readings) fullest(w Waiter, held Held) string {
	name, most := "", -2.0
	for _, s := range held.Shut {
		used, known := r.used(w, s.Dimension)
		if !known {
			used = -1
		}
		if used > most {
			name, most = s.Dimension, used
		}
	}
	return name
}
