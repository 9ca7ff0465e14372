package decide

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/livhana/steward/escalate/rules"
)

// Heard is what was said aloud of a task's progress.
type Heard struct {
	// Percent was said last, or let pass unsaid. At is when something was said in this run; zero: nothing was.
	Percent int       `json:"percent,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// remarkEvery is how often the progress of one task is spoken of at the most.
const remarkEvery = 30 * time.Second

// isNews reports whether what the task shows has come about in our sight: nobody wants to hear what happened while
// steward was away, or the machine asleep.
func (k *taskLook) isNews() bool {
	last := k.before
	if last.IsZero() {
		if last = k.d.old.LastLook; k.t.Appeared.Before(last.Add(-k.d.cfg.LookEvery)) {
			return false
		}
	}
	return k.at.Sub(last) <= 4*k.d.cfg.LookEvery && !k.d.resuming()
}

// speaks reports whether the progress of this task is to be heard (protocol 000, Progressive Updates).
func (k *taskLook) speaks() bool { return k.t.Progress.Every > 0 && !k.t.Silent }

// remarkProgress says how far a task is: "Deployment 40% complete".
func (k *taskLook) remarkProgress() {
	p := k.t.Progress
	if !k.speaks() || p.At.IsZero() {
		return
	}
	heard, percent := &k.mem.Heard, int(min(max(p.Percent, 0), 100))
	if !k.isNews() || k.d.view.Once || !k.d.cfg.speaksProgress() {
		heard.Percent = percent
		return
	}
	if percent >= 100 || !k.d.cfg.worthSaying(heard.Percent, percent) {
		return // whether it is complete, its result says
	}
	if due := heard.At.Add(remarkEvery); !heard.At.IsZero() && k.d.now.Before(due) {
		k.d.wake(due)
		return
	}
	heard.Percent, heard.At = percent, k.d.now
	k.remark(fmt.Sprintf("%s %d%% complete", k.d.aloud(k), percent))
}

// remarkEnd says that a task is complete of whose progress was spoken.
func (k *taskLook) remarkEnd() {
	heard := &k.mem.Heard
	if heard.At.IsZero() || heard.Percent >= 100 {
		return
	}
	heard.Percent = 100
	if k.speaks() && k.isNews() && !k.d.view.Once && k.d.cfg.speaksProgress() && !k.old() {
		k.remark(k.d.aloud(k) + " complete")
	}
}

func (k *taskLook) remark(text string) {
	k.d.plan.Remarks = append(k.d.plan.Remarks, rules.Remark{Key: "progress " + k.subject.Full(), Text: text, Subject: k.subject})
}

func (c *Config) speaksProgress() bool {
	return c.Progress == rules.ProgressQuarters || c.Progress == rules.ProgressEach
}

// worthSaying compares what was said with what could be.
func (c *Config) worthSaying(said, percent int) bool {
	if c.Progress == rules.ProgressQuarters {
		return percent/25 > said/25
	}
	return percent != said
}

// spokenTypes are the document's words for its types of tasks, where only one of a type goes on.
var spokenTypes = map[string]string{"deploy": "Deployment", "research": "Research", "validate": "Validation", "execute": "Execution"}

// aloud names a task for the ear.
func (d *decision) aloud(k *taskLook) string {
	name := spokenTypes[k.t.Type]
	if name == "" || k.d.hasTwin(k) {
		name = title(k.t)
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, name)
	return Clip(strings.Join(strings.Fields(name), " "), MaxSummary)
}

// hasTwin reports whether another task of the same type is open whose progress is spoken of, too.
func (d *decision) hasTwin(k *taskLook) bool {
	for i := range d.view.Snapshots {
		s := &d.view.Snapshots[i]
		for j := range s.Tasks {
			t := &s.Tasks[j]
			if t != k.t && t.Type == k.t.Type && t.Outcome == nil && t.Progress.Every > 0 && !t.Silent {
				return true
			}
		}
	}
	return false
}
