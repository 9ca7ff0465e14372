package escalate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// room is the operator's environment: a screen, a voice, incidents and the dispatcher between them.
type room struct {
	t         *testing.T
	dir       string
	incidents *Incidents
	desktop   *fake
	speech    *fake
	stop      func()
	cfg       Config
	push      *fake
	courier   *Dispatcher
}

// plainLadders returns a configuration without reminders: each incident is announced once.
func plainLadders() map[string]Ladder {
	now := []time.Duration{0}
	return map[string]Ladder{"critical": {Desktop: now, Speech: now}, "high": {Desktop: now}, "medium": {Desktop: now}}
}

// fake is a channel whose behaviour the test sets.
type fake struct {
	mu       sync.Mutex
	do       func(ctx context.Context, n Notice) (string, error) // nil: instant success
	notices  []Notice
	at       []time.Time
	windows  map[string]Notice
	withdraw func(ctx context.Context, key string) error
	gone     []string
	word     string
}

func (f *fake) set(do func(ctx context.Context, n Notice) (string, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.do = do
}

func (f *fake) deliver(ctx context.Context, n Notice) (string, error) {
	f.mu.Lock()
	do := f.do
	f.mu.Unlock()
	if do != nil {
		if word, err := do(ctx, n); err != nil {
			return word, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notices, f.at, f.windows[n.Key] = append(f.notices, n), append(f.at, time.Now()), n
	return f.word, nil
}

func (f *fake) takeAway(ctx context.Context, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.withdraw != nil {
		if err := f.withdraw(ctx, key); err != nil {
			return err
		}
	}
	f.gone = append(f.gone, key)
	delete(f.windows, key)
	return nil
}

func (f *fake) count() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.notices) }

// up returns the number of windows on the screen; taken returns how many were withdrawn.
func (f *fake) up() int                 { f.mu.Lock(); defer f.mu.Unlock(); return len(f.windows) }
func (f *fake) shown(key string) Notice { f.mu.Lock(); defer f.mu.Unlock(); return f.windows[key] }
func (f *fake) open(key string) bool    { return f.shown(key).Key != "" }
func (f *fake) taken() int              { f.mu.Lock(); defer f.mu.Unlock(); return len(f.gone) }

func (f *fake) titles() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, n := range f.notices {
		list = append(list, n.Title)
	}
	return list
}

func (f *fake) said() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, n := range f.notices {
		list = append(list, n.Spoken)
	}
	return list
}

func (f *fake) keys() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := map[string]bool{}
	for _, n := range f.notices {
		keys[n.Key] = true
	}
	return keys
}

// hang blocks until the deadline, as a suspended notification server does.
func hang(ctx context.Context, _ Notice) (string, error) { <-ctx.Done(); return "", ctx.Err() }

func refuse(context.Context, Notice) (string, error) { return "", errors.New("no server") }

func takes(d time.Duration) func(context.Context, Notice) (string, error) {
	return func(ctx context.Context, _ Notice) (string, error) {
		select {
		case <-time.After(d):
			return "", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// inRoom runs a test in virtual time with a running dispatcher.
func inRoom(t *testing.T, f func(t *testing.T, r *room)) {
	inRoomWith(t, Config{Ladder: plainLadders()}, f)
}

func inRoomWith(t *testing.T, cfg Config, f func(t *testing.T, r *room)) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{t: t, dir: t.TempDir(), cfg: cfg, desktop: &fake{windows: map[string]Notice{}, word: "shown"},
			speech: &fake{windows: map[string]Notice{}, word: "spoken"}, push: &fake{windows: map[string]Notice{}, word: "pushed"}}
		r.start()
		defer func() { r.stop() }()
		f(t, r)
	})
}

func (r *room) channels() []Channel {
	all := []Channel{
		{Name: ChannelDesktop, Deliver: r.desktop.deliver, Withdraw: r.desktop.takeAway, Deadline: 5 * time.Second},
		{Name: ChannelSpeech, Deliver: r.speech.deliver, Deadline: 40 * time.Second},
	}
	if len(r.cfg.Channels) > 2 {
		all = append(all, Channel{Name: ChannelNtfy, Deliver: r.push.deliver, Deadline: 10 * time.Second})
	}
	return all
}

func (r *room) start() {
	r.t.Helper()
	l, faults, err := Open(r.dir)
	if err != nil || len(faults) > 0 {
		r.t.Fatalf("Open: %v, faults %v", err, faults)
	}
	r.incidents = l
	r.stop = runWith(l, r.cfg, r.channels(), &r.courier)
}

// run starts a dispatcher and returns a function that stops it.
func run(l *Incidents, channels []Channel) (stop func()) {
	var c *Dispatcher
	return runWith(l, Config{Ladder: plainLadders()}, channels, &c)
}

func runWith(l *Incidents, cfg Config, channels []Channel, to **Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c := NewDispatcher(l, cfg, channels, time.Now, slog.New(slog.DiscardHandler))
	*to = c
	go func() { defer close(ended); c.Run(ctx) }()
	return func() { cancel(); <-ended }
}

func (r *room) restart() { r.t.Helper(); r.stop(); r.start() }

func (r *room) raise(a rules.Alert) Incident {
	r.t.Helper()
	i, _, err := r.incidents.Raise(a, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return i
}

// after advances the time and waits until everything due has happened.
func (r *room) after(d time.Duration) { time.Sleep(d); synctest.Wait() }

func (r *room) incident(key string) Incident {
	r.t.Helper()
	i, err := r.incidents.Find(key)
	if err != nil {
		r.t.Fatal(err)
	}
	return i
}

func (r *room) results(key string) string {
	var list []string
	for _, d := range r.incident(key).Deliveries {
		list = append(list, d.Channel+" "+d.Result)
	}
	return strings.Join(list, ", ")
}

// trouble returns an alert for a failed task.
func trouble(id string, s protocol.Severity) rules.Alert {
	return rules.Alert{Kind: "task_failed", Code: "X", Severity: s, Lasting: true, Occurrence: "1", Summary: id + " failed",
		Spoken: "Jesse, " + id + " failed.", Subject: protocol.Subject{Project: "p", Protocol: "agentstatus", Kind: protocol.KindTask, ID: id}}
}

func dead(agent string) rules.Alert {
	return rules.Alert{Kind: "agent_dead", Severity: protocol.High, Agent: agent, Summary: agent + " is dead",
		Subject: protocol.Subject{Project: "p", Protocol: "agentstatus", Kind: protocol.KindAgent, ID: agent}}
}

func over(a rules.Alert) rules.Alert {
	a.Resolve, a.Detail = true, "the files say so"
	return a
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestWhoGetsWhatAtOnce(t *testing.T) {
	for _, c := range []struct {
		name            string
		severity        protocol.Severity
		silent          bool
		desktop, speech func(context.Context, Notice) (string, error)
		popups, voices  int
		results         string
	}{
		{"critical is shown and said", protocol.Critical, false, nil, nil, 1, 1, "desktop shown, speech spoken"},
		{"high is shown", protocol.High, false, nil, nil, 1, 0, "desktop shown"},
		{"medium is shown", protocol.Medium, false, nil, nil, 1, 0, "desktop shown"},
		{"low is listed", protocol.Low, false, nil, nil, 0, 0, ""},
		{"info is listed", protocol.Info, false, nil, nil, 0, 0, ""},
		{"silent critical", protocol.Critical, true, nil, nil, 1, 0, "desktop shown"},
		{"a refused popup is said", protocol.Medium, false, refuse, nil, 0, 1, "desktop failed, speech spoken"},
		{"a hanging popup is said", protocol.High, false, hang, nil, 0, 1, "desktop timeout, speech spoken"},
		{"a panic is a failure", protocol.High, false, func(context.Context, Notice) (string, error) { panic("bug") }, nil, 0, 1,
			"desktop failed, speech spoken"},
		{"silent and refused", protocol.High, true, refuse, nil, 0, 0, "desktop failed"},
		{"critical without a voice", protocol.Critical, false, nil, refuse, 1, 0, "speech failed, desktop shown"},
		{"nothing works", protocol.High, false, refuse, refuse, 0, 0, "desktop failed, speech failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRoom(t, func(t *testing.T, r *room) {
				r.desktop.set(c.desktop)
				r.speech.set(c.speech)
				a := trouble("7", c.severity)
				a.Silent = c.silent
				i := r.raise(a)
				r.after(10 * time.Second)
				want(t, "popups", r.desktop.count(), c.popups)
				want(t, "sentences", r.speech.count(), c.voices)
				want(t, "state", r.incident(i.Key).State, rules.Raised)
				if got := r.results(i.Key); got != c.results && !(strings.HasPrefix(c.name, "critical") && len(got) == len(c.results)) {
					t.Errorf("deliveries: %s, want %s", got, c.results)
				}
			})
		})
	}
}

func TestChannelsDoNotWaitForEachOther(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.desktop.set(hang)
		start := time.Now()
		r.raise(trouble("7", protocol.Critical))
		r.after(10 * time.Second)
		want(t, "the voice came after", r.speech.at[0].Sub(start), 0)
	})
	inRoom(t, func(t *testing.T, r *room) {
		r.speech.set(hang)
		r.raise(trouble("7", protocol.Critical))
		start := time.Now()
		r.after(5 * time.Second)
		r.raise(trouble("8", protocol.High))
		r.after(time.Second)
		want(t, "popups", r.desktop.count(), 2)
		want(t, "the second one came after", r.desktop.at[1].Sub(start), 5*time.Second)
	})
}

// TestChannelThatNeverComesBack checks that a channel that ignores its deadline is abandoned, and is used again once
// it returns.
func TestChannelThatNeverComesBack(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		release := make(chan struct{})
		r.desktop.set(func(context.Context, Notice) (string, error) { <-release; return "", errors.New("late") })
		r.raise(trouble("7", protocol.High))
		r.after(10 * time.Second)
		want(t, "sentences", r.speech.count(), 1)
		r.raise(trouble("8", protocol.High))
		r.after(time.Second)
		want(t, "sentences", r.speech.count(), 2)
		close(release)
		r.desktop.set(nil)
		r.after(time.Second)
		r.raise(trouble("9", protocol.High))
		r.after(time.Second)
		want(t, "popups", r.desktop.count(), 1)
	})
}

func TestRepeatsAreCountedNotTold(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		var key string
		for n := range 100 {
			a := trouble("7", protocol.Critical)
			a.Occurrence = fmt.Sprint("attempt ", n)
			key = r.raise(a).Key
			r.raise(a) // the same occurrence, found by the next scan
			r.after(100 * time.Millisecond)
		}
		r.after(time.Minute)
		want(t, "popups", r.desktop.count(), 1)
		want(t, "sentences", r.speech.count(), 1)
		want(t, "count", r.incident(key).Count, 100)
	})
}

func TestRisingSeverityIsTold(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		i := r.raise(trouble("7", protocol.Medium))
		r.after(time.Minute)
		r.raise(trouble("7", protocol.Critical))
		r.raise(trouble("7", protocol.Low))
		r.after(time.Minute)
		want(t, "popups", r.desktop.count(), 2)
		want(t, "windows", r.desktop.up(), 1)
		want(t, "sentences", r.speech.count(), 1)
		want(t, "severity", r.incident(i.Key).Severity, protocol.Critical)
		want(t, "count", r.incident(i.Key).Count, 1)
	})
}

func TestRecovery(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		i := r.raise(dead("codex-cursor"))
		r.after(time.Minute)
		r.raise(over(dead("codex-cursor")))
		r.after(time.Minute)
		want(t, "withdrawn", strings.Join(r.desktop.gone, ","), i.Key)
		want(t, "notices", strings.Join(r.desktop.titles(), ", "), "codex-cursor is dead, codex-cursor is back")
		want(t, "quiet", r.desktop.notices[1].Quiet, true)
		want(t, "sentences", r.speech.count(), 0)
		r.restart()
		r.after(time.Minute)
		want(t, "notices after a restart", r.desktop.count(), 2)

		r.raise(dead("codex-cursor"))
		r.after(time.Minute)
		want(t, "notices", strings.Join(r.desktop.titles()[2:], ", "), "codex-cursor is dead")
		want(t, "count", r.incident(i.Key).Count, 2)
	})
}

func TestNoRecoveryNotice(t *testing.T) {
	for _, c := range []struct {
		name  string
		alert rules.Alert
		by    rules.By
	}{
		{"medium", trouble("7", protocol.Medium), rules.ByFiles},
		{"by the operator", trouble("7", protocol.Critical), rules.ByOperator},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRoom(t, func(t *testing.T, r *room) {
				i := r.raise(c.alert)
				r.after(time.Minute)
				if _, err := r.incidents.Resolve(i.Key, c.by, "", time.Now()); err != nil {
					t.Fatal(err)
				}
				r.after(time.Minute)
				want(t, "notices", r.desktop.count(), 1)
				want(t, "withdrawn", r.desktop.taken(), 1)
			})
		})
	}
	inRoom(t, func(t *testing.T, r *room) { // the failure was never delivered
		r.desktop.set(refuse)
		r.speech.set(refuse)
		r.raise(dead("a"))
		r.after(time.Second)
		r.desktop.set(nil)
		r.raise(over(dead("a")))
		r.after(time.Hour)
		want(t, "notices", r.desktop.count(), 0)
	})
}

// TestResolvedWhileBeingDelivered checks that a popup that appears while its incident is being resolved does not
// stay.
func TestResolvedWhileBeingDelivered(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.desktop.set(takes(3 * time.Second))
		r.raise(dead("a"))
		r.after(time.Second)
		r.raise(over(dead("a")))
		r.after(time.Minute)
		want(t, "notices", r.desktop.count(), 1)
		want(t, "windows", r.desktop.up(), 0)
	})
}

func TestAck(t *testing.T) {
	cfg := Config{AckBlocking: 30 * time.Minute, Ack: 4 * time.Hour}
	inRoom(t, func(t *testing.T, r *room) {
		a := trouble("7", protocol.Critical)
		a.Blocking = true
		i := r.raise(a)
		r.after(time.Second)
		if _, err := r.incidents.Ack(i.Key, cfg, time.Now()); err != nil {
			t.Fatal(err)
		}
		r.after(29 * time.Minute)
		want(t, "windows", r.desktop.up(), 0)
		want(t, "state", r.incident(i.Key).State, rules.Acked)
		a.Occurrence = "2"
		r.raise(a)
		r.after(30 * time.Second)
		want(t, "popups while it is acknowledged", r.desktop.count(), 1)
		r.after(time.Minute)
		want(t, "state", r.incident(i.Key).State, rules.Raised)
		want(t, "popups", r.desktop.count(), 2)
		want(t, "sentences", r.speech.count(), 2)
	})
}

// TestAckOfWhatWaits checks that an acknowledgement also stops notices that are still queued.
func TestAckOfWhatWaits(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.speech.set(takes(10 * time.Second))
		r.raise(trouble("7", protocol.Critical))
		i := r.raise(trouble("8", protocol.Critical))
		r.after(time.Second)
		if _, err := r.incidents.Ack(i.Key, Config{Ack: time.Hour}, time.Now()); err != nil {
			t.Fatal(err)
		}
		r.after(time.Second)
		want(t, "windows", r.desktop.up(), 1)
		r.after(30 * time.Minute)
		want(t, "sentences", r.speech.count(), 1)
	})
}

func TestSpeechOrderAndStaleness(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.desktop.set(refuse) // so that medium incidents are spoken, too
		r.speech.set(takes(30 * time.Second))
		r.raise(trouble("first", protocol.Medium))
		r.after(time.Second)
		r.raise(trouble("medium", protocol.Medium))
		r.after(time.Second)
		r.raise(trouble("critical", protocol.Critical))
		r.after(2 * time.Minute)
		want(t, "sentences", strings.Join(r.speech.said(), " "), "Jesse, first failed. Jesse, critical failed. Jesse, medium failed.")
	})
	inRoom(t, func(t *testing.T, r *room) {
		r.speech.set(func(ctx context.Context, n Notice) (string, error) {
			if strings.Contains(n.Spoken, "long") {
				return takes(39*time.Second)(ctx, n)
			}
			return "", nil
		})
		for n := range 5 { // five long sentences keep the voice busy for more than two minutes
			r.raise(trouble(fmt.Sprint("long", n), protocol.Critical))
			r.after(11 * time.Second)
		}
		a := r.raise(trouble("a", protocol.Critical))
		r.after(10 * time.Minute)
		want(t, "sentences", r.speech.count(), 5)
		want(t, "deliveries", r.results(a.Key), "desktop shown, speech dropped")
		want(t, "windows", r.desktop.up(), 6)
		want(t, "owed", len(r.incidents.owed()), 0)
	})
}

// TestBrokenNotifier checks that if every channel fails, the incident stays open, retries become less frequent, and
// one incident reports the failure.
func TestBrokenNotifier(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		var at []time.Duration
		start := time.Now()
		r.desktop.set(func(ctx context.Context, n Notice) (string, error) {
			at = append(at, time.Since(start))
			return "", errors.New("no server")
		})
		r.speech.set(refuse)
		i := r.raise(trouble("7", protocol.Critical))
		r.after(time.Hour)
		want(t, "attempts", fmt.Sprint(at), "[0s 30s 1m30s 3m30s 7m30s 15m30s 30m30s 45m30s]")
		want(t, "state", r.incident(i.Key).State, rules.Raised)
		want(t, "incidents", len(r.incidents.List()), 2)
		b := r.incident(brokenKey)
		want(t, "its count", b.Count, 1)
		want(t, "its deliveries", len(b.Deliveries), 0)
		want(t, "entries", len(r.incident(i.Key).Deliveries), 2)

		r.desktop.set(nil)
		r.restart()
		r.after(time.Second)
		want(t, "popups after a restart", r.desktop.count(), 1)
		want(t, "notifier_broken", r.incident(brokenKey).State, rules.Resolved)
		want(t, "owed", len(r.incidents.owed()), 0)
	})
}

func TestPopupThatCannotBeWithdrawn(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		asked := 0
		r.desktop.withdraw = func(context.Context, string) error { asked++; return errors.New("no server") }
		i := r.raise(dead("a"))
		r.after(time.Second)
		r.raise(over(dead("a")))
		r.after(time.Hour)
		want(t, "asked", asked, withdrawMost)
		want(t, "deliveries", r.results(i.Key), "desktop shown, desktop stuck, desktop shown")
	})
}

func TestNoChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer run(l, nil)()
		l.Raise(trouble("7", protocol.Critical), time.Now())
		time.Sleep(time.Hour)
		want(t, "owed", len(l.owed()), 0)
		want(t, "open", len(l.List()), 1)
	})
}

// TestStopping checks that a delivery that completes while the dispatcher stops is recorded.
func TestStopping(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.desktop.set(func(ctx context.Context, _ Notice) (string, error) { <-ctx.Done(); return "", nil })
		i := r.raise(trouble("7", protocol.High))
		synctest.Wait()
		r.desktop.set(nil)
		r.restart()
		r.after(time.Minute)
		want(t, "deliveries", r.results(i.Key), "desktop shown")
		want(t, "popups", r.desktop.count(), 1)
	})
	inRoom(t, func(t *testing.T, r *room) { // shown, but not spoken yet
		r.speech.set(hang)
		r.raise(trouble("7", protocol.Critical))
		r.after(time.Second)
		r.speech.set(nil)
		r.restart()
		r.after(time.Minute)
		want(t, "popups", r.desktop.count(), 1)
		want(t, "sentences", r.speech.count(), 1)
	})
}
