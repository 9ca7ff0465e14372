package daemon

import (
	"cmp"
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
	rev   int           // revision of its buttons: presses on an earlier test do not count
	Done  chan struct{} // closed at its end
	press wakeup
}

// testNotice is the notice that the test sends.
func testNotice(human string) escalate.Notice {
	return escalate.Notice{Key: testKey, Severity: protocol.High, Title: "steward can reach you here",
		Text:   "This is a test. Press the button, so that steward knows that you can answer, too.",
		Spoken: human + ", this is steward. If you hear this, I can reach you by voice.", Options: []rules.Option{{ID: "seen", Label: "I see it"}}}
}

// Begin sends the test through all channels at once. The test ends when every result is known or TestTime is over.
func (o *channelSet) Begin(ctx context.Context, human string) *testMessage {
	t := &testMessage{rev: int(time.Now().UnixMilli()), Done: make(chan struct{}), press: newWakeup()}
	for _, c := range o.List {
		asks := c.Name == escalate.ChannelDesktop || c.Name == escalate.ChannelNtfy && o.replies
		t.list = append(t.list, status.Trial{Channel: c.Name, Asks: asks})
	}
	go t.run(ctx, o, human)
	return t
}

func (t *testMessage) run(ctx context.Context, o *channelSet, human string) {
	defer close(t.Done)
	ctx, cancel := context.WithTimeout(ctx, TestTime)
	defer cancel()
	var senders sync.WaitGroup
	for at, c := range o.List {
		senders.Go(func() {
			limited, cancel := context.WithTimeout(ctx, c.Deadline)
			defer cancel()
			n := testNotice(human)
			n.Rev = t.rev
			result, err := c.Deliver(limited, n)
			t.change(func() {
				e := &t.list[at]
				e.Result, e.OK = cmp.Or(result, escalate.ResultFailed), err == nil
				if err != nil {
					e.Error = err.Error()
				}
			})
		})
	}
	senders.Wait()
	for ctx.Err() == nil && slices.ContainsFunc(t.Entries(), func(e status.Trial) bool { return !e.Over() }) {
		select {
		case <-ctx.Done():
		case <-t.press:
		}
	}
	if slices.ContainsFunc(o.List, func(c channel) bool { return c.Name == escalate.ChannelDesktop }) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), popupDeadline)
		defer cancel()
		_ = o.popups.Withdraw(last, testKey) // harmless if it stays
	}
}

func (t *testMessage) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
}

// Pressed records a press of the button on a channel.
func (t *testMessage) Pressed(channel string) {
	t.change(func() {
		for n := range t.list {
			t.list[n].Pressed = t.list[n].Pressed || t.list[n].Channel == channel
		}
	})
	t.press.wake()
}

// Entries returns the results so far.
func (t *testMessage) Entries() (list []status.Trial) {
	t.change(func() { list = slices.Clone(t.list) })
	return list
}
