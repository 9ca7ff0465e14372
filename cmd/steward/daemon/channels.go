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
)

// channels delivers incidents to the operator through the currently configured channels, and handles presses of their
// buttons.
type channels struct {
	ledger   *escalate.Ledger
	popups   *desktop.Popups
	state    *jsonfile.Root
	log      *slog.Logger
	settings *settings
	// answer applies a press as an answer. delivered counts delivery attempts.
	answer    func(ctx context.Context, key string, r escalate.Reply) (escalate.Incident, error)
	delivered func(channel, result string)
	told      func(i escalate.Incident, d escalate.Delivery)
	changed   wakeup // the configuration has changed

	mu         sync.Mutex // guards the fields below
	dispatcher *escalate.Dispatcher
	set        *channelSet
	names      []string
	known      map[string]status.Channel
	test       *testMessage
}

func newChannels(r *reports, s *store, answers *answers, delivered func(channel, result string)) *channels {
	return &channels{ledger: r.ledger, popups: desktop.NewPopups(), state: s.root, log: r.log, settings: r.settings,
		answer: answers.accept, told: answers.noteDelivery, delivered: delivered, changed: newWakeup(), known: map[string]status.Channel{}}
}

// Run delivers incidents through the configured channels until ctx ends.
func (a *channels) Run(ctx context.Context) error {
	for {
		turn, end := context.WithCancel(ctx)
		dispatcher := a.assemble()
		var helpers sync.WaitGroup
		helpers.Go(func() { a.hearPushes(turn) })
		helpers.Go(func() { a.probe(turn) })
		done := make(chan error, 1)
		go func() { done <- dispatcher.Run(turn) }()
		var err error
		select {
		case err = <-done:
			end()
			helpers.Wait()
			return err
		case <-a.changed:
			end()
			err = <-done
			helpers.Wait()
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// assemble sets up the configured channels and their dispatcher.
func (a *channels) assemble() *escalate.Dispatcher {
	cfg := a.settings.escalation()
	var key []byte
	if cfg.Ntfy.ReplyTopic != "" {
		var err error
		if key, err = answerKey(a.state); err != nil {
			a.log.Error("messages go out without buttons", "error", err)
			cfg.Ntfy.ReplyTopic = ""
		}
	}
	o := ConnectChannels(a.popups, cfg, key)
	o.incident = a.incident
	var channels []escalate.Channel
	for _, name := range cfg.Channels {
		channels = append(channels, a.counted(o.Channel(name)))
	}
	dispatcher := escalate.NewDispatcher(a.ledger, cfg, channels, time.Now, a.log)
	dispatcher.Told = a.told
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.set != nil && a.set.Ntfy != nil {
		a.set.Ntfy.Close()
	}
	a.dispatcher, a.set, a.names = dispatcher, o, cfg.Channels
	return dispatcher
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
		a.note(c.Name, err)
		if err != nil {
			a.delivered(c.Name, escalate.ResultFailed)
		} else {
			a.delivered(c.Name, result)
		}
		return result, err
	}
	return c
}

// note records the latest result of a channel.
func (a *channels) note(name string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := status.Channel{Name: name, OK: err == nil, At: time.Now().UTC()}
	if err != nil {
		c.Problem = err.Error()
	}
	a.known[name] = c
}

// channels reports the state of each configured channel.
func (a *channels) channels() []status.Channel {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []status.Channel
	for _, name := range a.names {
		c, tried := a.known[name]
		if !tried {
			c = status.Channel{Name: name}
		}
		if name == escalate.ChannelNtfy && c.OK && a.set.replies {
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
func (a *channels) probe(ctx context.Context) {
	a.mu.Lock()
	o, names := a.set, a.names
	a.mu.Unlock()
	var absent []any
	for _, name := range names {
		limited, cancel := context.WithTimeout(ctx, probeLimit)
		err := o.Probe(limited, name)
		cancel()
		if ctx.Err() != nil {
			return
		}
		a.note(name, err)
		switch {
		case err == nil:
		case name == escalate.ChannelDesktop, name == escalate.ChannelSpeech: // the default channels: a machine may have neither
			absent = append(absent, name, err)
		default:
			a.log.Warn("a channel to the human does not work now", "channel", name, "error", err)
		}
	}
	if len(absent) > 0 {
		a.log.Info("popups or voice are not available here now; steward incidents lists what needs you", absent...)
	}
}

// hearPushes handles the presses that arrive over the network.
func (a *channels) hearPushes(ctx context.Context) {
	a.mu.Lock()
	ntfy := a.set.Ntfy
	a.mu.Unlock()
	if ntfy == nil {
		return
	}
	var presses sync.WaitGroup
	defer presses.Wait()
	ntfy.Hear(ctx, func(p push.Press) { // one at a time: the first press counts
		if !final(a.pressedPush(ctx, p)) {
			presses.Go(func() { a.insist(ctx, p) })
		}
	})
}

// Retries of a press from the network while steward is not ready for it. The sender sees no result, so steward must
// retry.
const (
	insistEvery = 2 * time.Second
	insistTimes = 30
)

func (a *channels) insist(ctx context.Context, p push.Press) {
	for range insistTimes {
		select {
		case <-ctx.Done():
			return
		case <-time.After(insistEvery):
		}
		if final(a.pressedPush(ctx, p)) {
			return
		}
	}
}

func (a *channels) pressedPush(ctx context.Context, p push.Press) error {
	return a.pressed(ctx, p.Key, escalate.Reply{Option: p.Option, Rev: p.Rev, Via: escalate.ViaPush})
}

// final reports whether a press is settled: accepted, or rejected for good.
func final(err error) bool {
	return err == nil || slices.ContainsFunc([]error{escalate.ErrUnknown, escalate.ErrResolved, escalate.ErrStale, escalate.ErrNoOption,
		escalate.ErrDangerous, supervisor.ErrRefused, protocol.ErrUnsupported}, func(known error) bool { return errors.Is(err, known) })
}

// pressed takes a press as an answer. Presses of an earlier run arrive again, and are rejected like any other late
// press.
func (a *channels) pressed(ctx context.Context, key string, r escalate.Reply) error {
	if a.ofTest(key, r) {
		return nil
	}
	_, err := a.answer(ctx, key, r)
	level := slog.LevelWarn
	if r.Via == escalate.ViaPush && final(err) { // each start receives the presses of the last half day again
		level = slog.LevelDebug
	}
	if err != nil {
		a.log.Log(ctx, level, "a press was not taken", "key", key, "option", r.Option, "via", r.Via, "error", err)
	}
	return err
}
