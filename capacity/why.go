package capacity

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/livhana/steward/protocol"
)

// ConsumersShown is how many consumers a deferral names.
const ConsumersShown = 3

func (r *readings) admit(w Waiter) Verdict {
	v := Verdict{Subject: w.Subject, Admit: true, Why: "nothing can be read, so nothing is kept waiting"}
	dimension, most := "", -1.0
	for _, d := range allDimensions {
		if used, known := r.used(w, d); known && used > most {
			dimension, most = d, used
		}
	}
	if dimension != "" {
		v.Why = called(w, dimension) + " highest: " + cmp.Or(r.parts(w, dimension), percent(most)) + " (limit " + percent(r.limitOn(w, dimension)) + ")"
	}
	return v
}

func (r *round) hold(w Waiter, held Held, b blocker, behind bool) Verdict {
	dimension, why := r.keeps(w, held)
	switch {
	case behind && !r.overLimit(w, held):
		dimension, why = b.dimension, "waits behind "+b.subject.String()+" for "+called(w, b.dimension)
	case dimension == "":
		dimension, why = r.fullest(w, held), "one goes per sample, and one has gone on this one"
	}
	v := Verdict{Subject: w.Subject, RetryAfter: r.forecast(w, held), Why: why}
	v.Gate = protocol.Gate{Dimension: dimension, Used: r.share(w, dimension), Limit: r.limitOn(w, dimension)}
	if used, known := r.used(w, dimension); known {
		v.Gate.Used = protocol.Used(used)
	}
	if users := Largest(r.load.Consumers, dimension, ConsumersShown); len(users) > 0 {
		v.Gate.Consumers = users
	}
	return v
}

// keeps returns the dimension that holds a task by itself, the fullest one first, and the reason; "" if only the queue
// holds the task. The text must not change with time alone, because it is written to files.
func (r *readings) keeps(w Waiter, held Held) (dimension, why string) {
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
		return "", ""
	case !r.share(w, d).Known():
		return d, called(w, d) + " cannot be read; the task goes when that lasts " + r.cfg.RetryAfter.String()
	}
	return d, called(w, d) + " must stay at " + percent(r.line(w, d)) + " or below for " + r.calm(d).String()
}

func (r *readings) tooFull(w Waiter, dimension string) string {
	used, _ := r.used(w, dimension)
	text, over, under := called(w, dimension)+" is at "+percent(used), ", over the limit of ", " and must fall to "
	if parts := r.parts(w, dimension); parts != "" {
		text, over, under = called(w, dimension)+" "+parts, " > limit ", "; must fall to "
	}
	if cause := r.load.Because[dimension]; cause != "" {
		text += " (" + cause + ")"
	}
	if used > r.limitOn(w, dimension)+tiny {
		return text + over + percent(r.limitOn(w, dimension))
	}
	return text + under + percent(r.line(w, dimension))
}

// parts splits a share into what is in use and what is reserved for admitted tasks; "" when nothing is reserved.
func (r *readings) parts(w Waiter, dimension string) string {
	used, _ := r.used(w, dimension)
	reading := r.share(w, dimension).Or(0)
	if used <= reading+0.005 {
		return ""
	}
	return percent(reading) + " used + " + percent(used-reading) + " reserved"
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

// percent formats a share as "93 %" or "80.3 %".
func percent(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/10, 'f', -1, 64) + " %"
}
