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
	// Percent was said last, or skipped. At is when something was last said in this run; zero: nothing was.
	Percent int       `json:"percent,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// remarkEvery is the shortest time between two messages about the progress of one task.
const remarkEvery = 30 * time.Second

// isNews reports whether the progress came while steward watched: nobody wants to hear what happened while steward was away
// or the machine asleep.
func (k *taskJudge) isNews() bool {
	last := k.was.Looked
	if last.IsZero() {
		if last = k.env.old.LastLook; k.t.Appeared.Before(last.Add(-k.env.cfg.LookEvery)) {
			return false
		}
	}
	return k.at.Sub(last) <= 4*k.env.cfg.LookEvery && !k.env.resuming()
}

// speaks reports whether the progress of this task is to be spoken (protocol 000, Progressive Updates).
func (k *taskJudge) speaks() bool { return k.t.Progress.Every > 0 && !k.t.Silent }

// remarkProgress says how far a task is: "Deployment 40% complete".
func (k *taskJudge) remarkProgress() {
	p := k.t.Progress
	if !k.speaks() || p.At.IsZero() {
		return
	}
	heard, percent := &k.next.Heard, int(min(max(p.Percent, 0), 100))
	if !k.isNews() || k.env.view.Once || !k.env.cfg.speaksProgress() {
		heard.Percent = percent
		return
	}
	if percent >= 100 || !k.env.cfg.worthSaying(heard.Percent, percent) {
		return // the result says whether it is complete
	}
	if due := heard.At.Add(remarkEvery); !heard.At.IsZero() && k.env.now.Before(due) {
		k.wake(due)
		return
	}
	heard.Percent, heard.At = percent, k.env.now
	k.remark(fmt.Sprintf("%s %d%% complete", k.aloud(), percent))
}

// remarkEnd says that a task is complete whose progress was spoken.
func (k *taskJudge) remarkEnd() {
	heard := &k.next.Heard
	if heard.At.IsZero() || heard.Percent >= 100 {
		return
	}
	heard.Percent = 100
	if k.speaks() && k.isNews() && !k.env.view.Once && k.env.cfg.speaksProgress() && !k.old() {
		k.remark(k.aloud() + " complete")
	}
}

func (k *taskJudge) remark(text string) {
	k.remarks = append(k.remarks, rules.Remark{Key: "progress " + k.subject.Full(), Text: text, Subject: k.subject})
}

func (c *Config) speaksProgress() bool {
	return c.Progress == rules.ProgressQuarters || c.Progress == rules.ProgressEach
}

// worthSaying compares the last spoken percentage with the present one.
func (c *Config) worthSaying(said, percent int) bool {
	if c.Progress == rules.ProgressQuarters {
		return percent/25 > said/25
	}
	return percent != said
}

// spokenTypes are the document's words for its types of tasks, used while only one task of a type is open.
var spokenTypes = map[string]string{"deploy": "Deployment", "research": "Research", "validate": "Validation", "execute": "Execution"}

// aloud names a task for speech.
func (k *taskJudge) aloud() string {
	name := spokenTypes[k.t.Type]
	if name == "" || k.hasTwin() {
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

// hasTwin reports whether another task of the same type is open whose progress is spoken, too.
func (k *taskJudge) hasTwin() bool {
	for i := range k.env.view.Snapshots {
		s := &k.env.view.Snapshots[i]
		for j := range s.Tasks {
			t := &s.Tasks[j]
			if t != k.t && t.Type == k.t.Type && t.Outcome == nil && t.Progress.Every > 0 && !t.Silent {
				return true
			}
		}
	}
	return false
}
