package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/platform/push"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// channels delivers incidents to the operator through the currently configured channels, and handles presses of their
// buttons.
type channels struct {
	*reports
	popups    *desktop.Popups
	state     *jsonfile.Root
	answers   *answers                     // takes presses as answers
	delivered func(channel, result string) // counts delivery attempts
	changed   wakeup                       // the configuration has changed

	mu    sync.Mutex // guards the fields below
	voice *escalate.Dispatcher
	set   *channelSet
	known map[string]status.Channel
	test  *testMessage
}

// Run delivers incidents through the configured channels until ctx ends.
func (a *channels) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.runConfigured(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runConfigured delivers incidents until the configuration changes or ctx ends.
func (a *channels) runConfigured(ctx context.Context) error {
	var helpers sync.WaitGroup
	defer helpers.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	set, dispatcher := a.assemble()
	if set.Ntfy != nil {
		defer set.Ntfy.Close()
		helpers.Go(func() { set.Ntfy.Hear(ctx, func(p push.Press) { a.pressedPush(ctx, p) }) })
	}
	helpers.Go(func() { a.probe(ctx, set) })
	helpers.Go(func() {
		select {
		case <-ctx.Done():
		case <-a.changed:
			end()
		}
	})
	return dispatcher.Run(ctx)
}

// assemble sets up the configured channels and their dispatcher.
func (a *channels) assemble() (*channelSet, *escalate.Dispatcher) {
	cfg := a.settings.escalation()
	var key []byte
	if cfg.Ntfy.ReplyTopic != "" {
		var err error
		if key, err = answerKey(a.state); err != nil {
			a.log.Error("messages go out without buttons", "error", err)
			cfg.Ntfy.ReplyTopic = ""
		}
	}
	set := ConnectChannels(a.popups, cfg, key)
	set.incident = a.incident
	var list []escalate.Channel
	for _, c := range set.List {
		list = append(list, a.counted(c.Channel))
	}
	dispatcher := escalate.NewDispatcher(a.ledger, cfg, list, time.Now, a.log)
	dispatcher.Told = a.answers.noteDelivery
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set, a.voice = set, dispatcher
	return set, dispatcher
}

// say has a sentence about a task spoken.
func (a *channels) say(s decide.Saying) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.voice != nil {
		a.voice.Say(s.Subject.String(), s.Subject.Project, s.Text)
	}
}

// incident returns the incident as the ledger has it; nil for a summary.
func (a *channels) incident(key string) *escalate.Incident {
	i, err := a.ledger.Find(key)
	if err != nil || i.Key != key {
		return nil
	}
	return &i
}

// counted wraps a channel: the metrics count every delivery, and the status shows the latest result.
func (a *channels) counted(c escalate.Channel) escalate.Channel {
	deliver := c.Deliver
	c.Deliver = func(ctx context.Context, n escalate.Notice) (string, error) {
		result, err := deliver(ctx, n)
		a.record(c.Name, err)
		if err != nil {
			a.delivered(c.Name, escalate.ResultFailed)
		} else {
			a.delivered(c.Name, result)
		}
		return result, err
	}
	return c
}

// record keeps the latest result of a channel.
func (a *channels) record(name string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := status.Channel{Name: name, OK: err == nil, At: time.Now().UTC()}
	if err != nil {
		c.Problem = err.Error()
	}
	a.known[name] = c
}

// list reports the state of each configured channel.
func (a *channels) list() (list []status.Channel) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.set == nil {
		return nil // not set up yet
	}
	for _, ch := range a.set.List {
		c := a.known[ch.Name]
		c.Name = ch.Name
		if c.Name == escalate.ChannelNtfy && c.OK && a.set.replies {
			if h := a.set.Ntfy.Hearing(); !h.Open && h.Err != nil {
				c.OK, c.Problem = false, "presses do not come back: "+h.Err.Error()
			}
		}
		list = append(list, c)
	}
	return list
}

// probeLimit bounds the check of one channel.
const probeLimit = 5 * time.Second

// probe checks, without sending anything, which channels work now.
func (a *channels) probe(ctx context.Context, set *channelSet) {
	var absent []any
	for _, c := range set.List {
		limited, cancel := context.WithTimeout(ctx, probeLimit)
		err := c.Probe(limited)
		cancel()
		if ctx.Err() != nil {
			return
		}
		a.record(c.Name, err)
		switch {
		case err == nil:
		case c.Name == escalate.ChannelDesktop, c.Name == escalate.ChannelSpeech: // the default channels: a machine may have neither
			absent = append(absent, c.Name, err)
		default:
			a.log.Warn("a channel to the human does not work now", "channel", c.Name, "error", err)
		}
	}
	if len(absent) > 0 {
		a.log.Info("popups or voice are not available here now; steward incidents lists what needs you", absent...)
	}
}

// Retries of a press from the network while steward is not ready for it. The sender sees no result, so steward must
// retry. Meanwhile later presses wait: the first one counts.
const (
	pressRetry = 2 * time.Second
	pressTries = 30
)

func (a *channels) pressedPush(ctx context.Context, p push.Press) {
	for range pressTries {
		err := a.pressed(ctx, p.Key, escalate.Reply{Option: p.Option, Rev: p.Rev, Via: escalate.ViaPush})
		if err == nil || final(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pressRetry):
		}
	}
}

// final reports whether a press was rejected for good.
func final(err error) bool {
	return slices.ContainsFunc([]error{escalate.ErrUnknown, escalate.ErrResolved, escalate.ErrStale, escalate.ErrNoOption,
		escalate.ErrDangerous, supervisor.ErrRefused, protocol.ErrUnsupported}, func(known error) bool { return errors.Is(err, known) })
}

// pressed takes a press as an answer. Presses of an earlier run arrive again, and are rejected like any other late
// press.
func (a *channels) pressed(ctx context.Context, key string, r escalate.Reply) error {
	if a.ofTest(key, r) {
		return nil
	}
	_, err := a.answers.accept(ctx, key, r)
	if err != nil {
		level := slog.LevelWarn
		if r.Via == escalate.ViaPush && final(err) { // each start receives the presses of the last half day again
			level = slog.LevelDebug
		}
		a.log.Log(ctx, level, "a press was not taken", "key", key, "option", r.Option, "via", r.Via, "error", err)
	}
	return err
}

// hearPopups handles the popups' events: a press is an answer. It shows popups again that a restarted notification
// server lost, and those of an earlier run, because their buttons no longer work.
// See docs/decisions.md, "Open popups are shown again after a restart".
func (a *channels) hearPopups(ctx context.Context) error {
	due := map[string]bool{} // popups to show again or to withdraw
	for _, key := range escalate.Popups(a.ledger.List()) {
		due[key] = true
	}
	timer := time.NewTimer(showAgainAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-a.popups.Events():
			if !ok {
				<-ctx.Done()
				return nil
			}
			switch e.Kind {
			case desktop.Pressed:
				// A rejected press: show the popup again in its present state.
				if rev, option, ok := pressOf(e.Action); ok && a.pressed(ctx, e.Key, escalate.Reply{Option: option, Rev: rev, Via: escalate.ViaPopup}) != nil {
					a.repost(ctx, e.Key)
				}
			case desktop.Lost:
				due[e.Key] = true
				timer.Reset(repostEvery)
			}
		case <-timer.C:
			for key := range due {
				if a.repost(ctx, key) {
					delete(due, key)
				}
			}
			if len(due) > 0 {
				timer.Reset(repostEvery)
			}
		}
	}
}

// repostEvery is the interval at which a popup is offered again to a server that may be restarting. showAgainAfter
// leaves the first scans of the projects time to resolve incidents that are over.
const (
	repostEvery    = 2 * time.Second
	showAgainAfter = time.Second
)

// repost shows the popup of an open incident again if it was shown before, and withdraws a popup that belongs to no
// open incident. It returns true when nothing is left to do.
func (a *channels) repost(ctx context.Context, key string) bool {
	ctx, cancel := context.WithTimeout(ctx, popupDeadline)
	defer cancel()
	n, stands := a.ledger.Standing(key)
	switch {
	case stands:
		n.Hushed = true // it made its sound when it was first shown
		_, err := (&channelSet{popups: a.popups}).popup(ctx, n)
		if a.ledger.Shows(key) {
			return err == nil
		}
		// The incident was settled in the meantime, and the popup is back after the dispatcher withdrew it: withdraw it
		// again.
	case a.ledger.Shows(key):
		return true // a summary has no buttons; a delivery that is still due replaces its popup itself
	}
	return a.popups.Withdraw(ctx, key) == nil
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
	a.test = a.set.Begin(context.Background(), a.settings.config().Human.Name)
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
		from := escalate.ChannelDesktop
		if r.Via == escalate.ViaPush {
			from = escalate.ChannelNtfy
		}
		t.Pressed(from)
	}
	return true
}
