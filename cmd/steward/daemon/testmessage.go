package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

// testKey is the key of the test message; no incident has it.
const testKey = "test"

// TestTime is how long the operator has to press the button of a test message.
const TestTime = 30 * time.Second

// testMessage is a test of all channels. Its results can be read while it runs.
type testMessage struct {
	mu    sync.Mutex
	list  []status.Trial
	rev   int // revision of its buttons: presses on an earlier test do not count
	ended bool
	Done  chan struct{} // closed at its end
	press chan struct{}
}

// testNotice is the notice that the test sends.
func testNotice(human string) escalate.Notice {
	return escalate.Notice{Key: testKey, Severity: protocol.High, Title: "steward can reach you here",
		Text:   "This is a test. Press the button, so that steward knows that you can answer, too.",
		Spoken: human + ", this is steward. If you hear this, I can reach you by voice.", Options: []rules.Option{{ID: "seen", Label: "I see it"}}}
}

// Begin sends the test through all channels at once. The test ends when every result is known or TestTime is over.
func (o *channelSet) Begin(ctx context.Context, names []string, human string) *testMessage {
	t := &testMessage{rev: int(time.Now().UnixMilli()), Done: make(chan struct{}), press: make(chan struct{}, 1)}
	for _, name := range names {
		asks := name == escalate.ChannelDesktop || name == escalate.ChannelNtfy && o.replies
		t.list = append(t.list, status.Trial{Channel: name, Asks: asks})
	}
	go t.run(ctx, o, human)
	return t
}

func (t *testMessage) run(ctx context.Context, o *channelSet, human string) {
	defer close(t.Done)
	defer t.end()
	ctx, cancel := context.WithTimeout(ctx, TestTime)
	defer cancel()
	var senders sync.WaitGroup
	for at, entry := range t.Entries() {
		senders.Go(func() {
			c := o.Channel(entry.Channel)
			limited, cancel := context.WithTimeout(ctx, c.Deadline)
			defer cancel()
			n := testNotice(human)
			n.Rev = t.rev
			result, err := c.Deliver(limited, n)
			t.sent(at, result, err)
		})
	}
	senders.Wait()
	for !t.over() {
		select {
		case <-ctx.Done():
			t.end()
		case <-t.press:
		}
	}
	if slices.ContainsFunc(t.Entries(), func(e status.Trial) bool { return e.Channel == escalate.ChannelDesktop }) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), popupDeadline)
		defer cancel()
		_ = o.popups.Withdraw(last, testKey) // harmless if it stays
	}
}

func (t *testMessage) sent(n int, result string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.list[n]
	e.Result, e.OK = result, err == nil
	if err != nil {
		e.Error = err.Error()
	}
	if e.Result == "" {
		e.Result = escalate.ResultFailed
	}
}

func (t *testMessage) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// Pressed records a press of the button on a channel.
func (t *testMessage) Pressed(channel string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.list {
		t.list[n].Pressed = t.list[n].Pressed || t.list[n].Channel == channel
	}
	select {
	case t.press <- struct{}{}:
	default:
	}
}

func (t *testMessage) Entries() []status.Trial {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}

// over reports whether no further result is expected.
func (t *testMessage) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended || !slices.ContainsFunc(t.list, func(e status.Trial) bool { return !e.Over() })
}

// reach starts a test of the daemon's channels, one at a time.
func (a *channels) reach() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.test != nil {
		select {
		case <-a.test.Done:
		default:
			return status.ErrTrial
		}
	}
	if a.set == nil {
		return context.Canceled // the channels are not set up yet
	}
	a.test = a.set.Begin(context.Background(), a.names, a.settings.human())
	return nil
}

// reached returns the results of the last test.
func (a *channels) reached() []status.Trial {
	a.mu.Lock()
	t := a.test
	a.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.Entries()
}

// ofTest reports whether a press belongs to a test message, and records it if that test is the current one.
func (a *channels) ofTest(key string, r escalate.Reply) bool {
	if key != testKey {
		return false
	}
	a.mu.Lock()
	t := a.test
	a.mu.Unlock()
	if t != nil && r.Rev == t.rev {
		t.Pressed(channelOf(r.Via))
	}
	return true
}

// channelOf returns the channel that a press came from.
func channelOf(via string) string {
	if via == escalate.ViaPush {
		return escalate.ChannelNtfy
	}
	return escalate.ChannelDesktop
}
