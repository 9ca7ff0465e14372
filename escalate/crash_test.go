package escalate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

var errKilled = errors.New("killed")

// life is one run of the program, which is killed at a given step: before or after any effect on the disk or the
// operator. After the kill it has no further effect.
type life struct {
	mu    sync.Mutex
	left  int // steps until the kill; negative: never killed
	steps int
}

func (l *life) step() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return errKilled
	}
	l.left--
	l.steps++
	return nil
}

func (l *life) dead() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.left == 0 }

// around makes an effect two steps, so that the run can be killed before and after it.
func (l *life) around(effect func() error) error {
	if err := l.step(); err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	return l.step()
}

// scene is a stage of a drama: the alerts that the files show, and what the operator acknowledges.
type scene struct {
	truth []rules.Alert
	ack   string
}

// drama runs the scenes in its own room. A run that is killed is followed by one that is not.
type drama struct {
	t      *testing.T
	dir    string
	screen *fake
	voice  *fake
	scenes []scene
	acked  map[string]bool // acknowledgements that returned without an error
}

func (s *drama) begin(l *life) (*Incidents, func()) {
	s.t.Helper()
	led, faults, err := Open(s.dir)
	if err != nil || len(faults) > 0 {
		s.t.Fatalf("Open: %v, faults %v", err, faults)
	}
	led.put = func(dir, name string, b []byte) error {
		return l.around(func() error { return put(dir, name, b) })
	}
	deliver := func(f *fake) func(context.Context, Notice) (string, error) {
		return func(ctx context.Context, n Notice) (word string, err error) {
			err = l.around(func() error { word, err = f.deliver(ctx, n); return err })
			return word, err
		}
	}
	stop := run(led, []Channel{
		{Name: ChannelDesktop, Deliver: deliver(s.screen), Deadline: time.Second, Withdraw: func(ctx context.Context, key string) error {
			return l.around(func() error { return s.screen.takeAway(ctx, key) })
		}},
		{Name: ChannelSpeech, Deliver: deliver(s.voice), Deadline: time.Second},
	})
	return led, stop
}

// look stands in for a scan by the supervisor: it raises the alerts that do not exist yet and resolves those that the
// files no longer show.
func look(l *Incidents, truth []rules.Alert) {
	heads, present := l.Heads(), map[string]bool{}
	for _, a := range truth {
		a = a.Tidy()
		present[a.Key] = true
		if h, ok := heads[a.Key]; !ok || !h.Has(a) {
			l.Raise(a, time.Now())
		}
	}
	for key, h := range heads {
		if h.State != rules.Resolved && !present[key] && !h.Foreign && !h.Lasting {
			l.Raise(rules.Alert{Key: key, Resolve: true}, time.Now())
		}
	}
}

func (s *drama) tell(l *life) {
	led, stop := s.begin(l)
	for _, sc := range s.scenes {
		if l.dead() {
			break
		}
		look(led, sc.truth)
		synctest.Wait()
		if sc.ack != "" {
			_, err := led.Ack(sc.ack, Config{Ack: 100 * time.Hour}, time.Now())
			s.acked[sc.ack] = err == nil
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
	}
	stop()
	if !l.dead() {
		return
	}
	led, stop = s.begin(&life{left: -1})
	// The dispatcher takes up the notices that are due before the first scan ends. A popup that was shown, not recorded, and
	// whose incident that scan resolves is left to the desktop channel, which removes popups without an open incident.
	synctest.Wait()
	look(led, s.scenes[len(s.scenes)-1].truth)
	time.Sleep(time.Hour)
	synctest.Wait()
	want(s.t, "owed in the end", len(led.owed()), 0)
	stop()
}

// times returns how often the channel notified the operator of an incident.
func (f *fake) times(summary string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, notice := range f.notices {
		if notice.Title == summary || strings.Contains(notice.Text, summary) {
			n++
		}
	}
	return n
}

func dramas() map[string][]scene {
	critical, agent := trouble("critical", protocol.Critical), dead("agent")
	medium, seen := trouble("medium", protocol.Medium), trouble("seen", protocol.High)
	again := critical
	again.Occurrence = "2"
	risen := medium
	risen.Severity = protocol.High
	var heap []rules.Alert
	for n := range 7 {
		heap = append(heap, trouble(fmt.Sprint("task", n), protocol.Critical))
	}
	return map[string][]scene{
		"one by one": {
			{truth: []rules.Alert{critical, agent}},
			{truth: []rules.Alert{critical, agent, seen}, ack: seen.Tidy().Key},
			{truth: []rules.Alert{again, medium, seen}},
			{truth: []rules.Alert{again, risen, seen}},
		},
		"a heap": {{truth: heap}},
	}
}

// TestCrashAnywhere kills the program at every step: no incident is lost, none has more than one duplicate notice,
// and the screen is correct in the end.
func TestCrashAnywhere(t *testing.T) {
	for name, scenes := range dramas() {
		t.Run(name, func(t *testing.T) {
			whole := play(t, scenes, -1)
			if whole.steps < 30 {
				t.Fatalf("only %d steps", whole.steps)
			}
			for at := 1; at <= whole.steps; at++ {
				s := play(t, scenes, at)
				if t.Failed() {
					t.Fatalf("killed at step %d of %d", at, whole.steps)
				}
				s.compare(t, whole)
				if t.Failed() {
					t.Fatalf("killed at step %d of %d", at, whole.steps)
				}
			}
		})
	}
}

type ending struct {
	*drama
	steps int
	heads map[string]rules.Head
}

func play(t *testing.T, scenes []scene, killAt int) (e ending) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &drama{t: t, dir: dir, scenes: scenes, acked: map[string]bool{}, screen: &fake{windows: map[string]Notice{}, word: "shown"},
			voice: &fake{windows: map[string]Notice{}, word: "spoken"}}
		l := &life{left: killAt}
		s.tell(l)
		led, _, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		e = ending{drama: s, steps: l.steps, heads: led.Heads()}
	})
	return e
}

// compare compares a run that was killed with one that was not.
func (e ending) compare(t *testing.T, whole ending) {
	t.Helper()
	for key, ok := range e.acked {
		if ok && e.heads[key].State != rules.Acked {
			t.Errorf("the acknowledgement is lost: %s", e.heads[key].State)
		}
	}
	last := e.scenes[len(e.scenes)-1].truth
	for _, a := range last {
		a = a.Tidy()
		h, ok := e.heads[a.Key]
		if !ok || h.State == rules.Resolved || h.Severity != a.Severity {
			t.Errorf("%s is %+v", a.Summary, h)
		}
		told := e.screen.times(a.Summary)
		if told < 1 || told > whole.screen.times(a.Summary)+1 {
			t.Errorf("%s was shown %d times, and %d times without a crash", a.Summary, told, whole.screen.times(a.Summary))
		}
		said := e.voice.times(a.Summary)
		if a.Severity == protocol.Critical && said < 1 || said > whole.voice.times(a.Summary)+1 {
			t.Errorf("%s was said %d times, and %d times without a crash", a.Summary, said, whole.voice.times(a.Summary))
		}
		standing := e.screen.windows[a.Key].Key != "" || strings.Contains(fmt.Sprint(e.screen.windows), a.Summary)
		if want := h.State == rules.Raised; standing != want {
			t.Errorf("%s is %s, and its popup stands: %v", a.Summary, h.State, standing)
		}
	}
	for key := range e.heads {
		n := e.screen.windows[key]
		if h := e.heads[key]; h.State == rules.Resolved && n.Key != "" && !n.Quiet {
			t.Errorf("the popup of a resolved incident stands: %s", n.Title)
		}
	}
}
