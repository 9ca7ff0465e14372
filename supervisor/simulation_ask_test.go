package supervisor_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// TestSimulationAsk plays the worlds of TestSimulation, with their faults, clocks and crashes, where steward asks: no change is
// made without a person's word, and each word is carried out once.
func TestSimulationAsk(t *testing.T) {
	seeds := uint64(24)
	if testing.Short() {
		seeds = 8
	}
	pressed := 0
	for seed := range seeds {
		m := newSimulation(seed + 1)
		m.words = map[string]bool{}
		n, broken := askIn(m)
		if pressed += n; broken != "" {
			t.Errorf("seed %d: %s\n%s", seed+1, broken, tail(m.log.String(), 12))
		}
	}
	if pressed < int(seeds) {
		t.Errorf("only %d answers in %d worlds", pressed, seeds)
	}
}

func askIn(m *simulation) (pressed int, broken string) {
	defer func() {
		switch why := recover().(type) {
		case nil:
		case lost:
			broken = why.why
		default:
			panic(why)
		}
	}()
	m.assign()
	m.brain.start()
	if m.kind == mixed {
		m.after(20*time.Second, m.disasters)
	}
	for end := m.lasting(); m.awake < end; {
		m.run(min(m.between(5*time.Second, 90*time.Second), end-m.awake))
		for _, o := range m.brain.plan.Offers {
			if m.odds(50) && m.press(o) {
				pressed++
			}
		}
	}
	return pressed, ""
}

// mode is the mode of all projects of a world.
func (m *simulation) mode() protocol.Mode {
	if m.words != nil {
		return protocol.ModeAsk
	}
	return protocol.ModeAct
}

// press answers an incident with what it offers, if it is open.
func (m *simulation) press(o decide.Offer) bool {
	b, head := m.brain, m.brain.heads[o.Key]
	if !b.up || b.stopping || head.State == rules.Resolved || head.Occurrence != o.Occurrence {
		return false
	}
	for _, c := range o.Changes {
		m.giveWord(c)
	}
	var err error
	b.do(func() (jobs []supervisor.Job) {
		jobs, err = b.driver.Command(supervisor.Command{Verb: "answer", Subject: protocol.Query(head.Subject), Occurrence: o.Occurrence,
			Answer: &protocol.Answer{Key: o.Key, Option: o.Option, Label: o.Option, By: "jesse", At: m.now()}})
		return jobs
	})
	if errors.Is(err, supervisor.ErrRefused) { // another answer made it superfluous
		return false
	}
	m.note("pressed %s of %s", o.Option, head.Subject.ID)
	head.State, head.ResolvedBy = rules.Resolved, rules.ByAnswer
	b.heads = withHead(b.heads, o.Key, head)
	return true
}

func withHead(heads map[string]rules.Head, key string, h rules.Head) map[string]rules.Head {
	next := map[string]rules.Head{key: h}
	for k, old := range heads {
		if k != key {
			next[k] = old
		}
	}
	return next
}

func wordFor(c protocol.Change) string { return fmt.Sprint(c.Verb, " ", c.Subject) }

// giveWord notes that a person ordered a change.
func (m *simulation) giveWord(c protocol.Change) {
	if m.words != nil {
		m.words[wordFor(c)] = true
	}
}

// checkWord is the law that where steward asks, no change is made without a person's word.
func (m *simulation) checkWord(c protocol.Change) {
	if m.words != nil && !m.words[wordFor(c)] {
		m.Fatalf("unasked: %s of %s (%s): %s", c.Verb, c.Subject, c.Reason, c.Why)
	}
}

// spendWord: a word is carried out once.
func (m *simulation) spendWord(c protocol.Change, err error) {
	if m.words != nil && err == nil {
		delete(m.words, wordFor(c))
	}
}
