package main

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/protocol"
)

// How long a call of a channel may take. A sentence may wait for its turn behind another one on this machine.
const (
	popupDeadline  = 6 * time.Second
	speechDeadline = 2 * time.Minute
)

// errUnproved: the notification server took the popup but keeps it to itself (do not disturb).
var errUnproved = errors.New("the popup was accepted, but is not shown")

// speak has the courier deliver through the configured channels, anew whenever these change.
func (h *house) speak(ctx context.Context) error {
	for {
		turn, end := context.WithCancel(ctx)
		courier := escalate.NewCourier(h.ledger, h.channels(), time.Now, h.log)
		done := make(chan error, 1)
		go func() { done <- courier.Run(turn) }()
		select {
		case err := <-done:
			end()
			return err
		case <-h.rewire:
			end()
			if err := <-done; err != nil {
				return err
			}
		}
	}
}

// channels are the configured ways to the human on this machine.
func (h *house) channels() []escalate.Channel {
	all := []escalate.Channel{
		{Name: escalate.ChannelDesktop, Deadline: popupDeadline, Deliver: h.popup, Withdraw: h.popups.Withdraw},
		{Name: escalate.ChannelSpeech, Deadline: speechDeadline, Deliver: h.say},
	}
	var chosen []escalate.Channel
	for _, name := range h.escalation().Channels {
		i := slices.IndexFunc(all, func(c escalate.Channel) bool { return c.Name == name })
		chosen = append(chosen, h.counted(all[i]))
	}
	return chosen
}

// counted has the metrics see every delivery.
func (h *house) counted(c escalate.Channel) escalate.Channel {
	deliver := c.Deliver
	c.Deliver = func(ctx context.Context, n escalate.Notice) (string, error) {
		result, err := deliver(ctx, n)
		if err != nil {
			h.metrics.Delivered(c.Name, escalate.ResultFailed)
		} else {
			h.metrics.Delivered(c.Name, result)
		}
		return result, err
	}
	return c
}

func (h *house) popup(ctx context.Context, n escalate.Notice) (string, error) {
	proof, err := h.popups.Show(ctx, desktop.Message{Key: n.Key, Title: n.Title, Text: wordsOf(n), Urgency: urgency(n.Severity),
		Actions: actionsOf(n)})
	if err == nil && proof.Result == desktop.Sent && runtime.GOOS == "linux" {
		// On Linux the server says when it shows nothing. Elsewhere "sent" is all the proof there is.
		return proof.Result, errUnproved
	}
	return proof.Result, err
}

func (h *house) say(ctx context.Context, n escalate.Notice) (string, error) {
	proof, err := h.speech.Say(ctx, n.Spoken, n.Severity == protocol.Critical)
	return proof.Result, err
}

func urgency(s protocol.Severity) desktop.Urgency {
	switch s {
	case protocol.Critical:
		return desktop.Critical
	case protocol.High, protocol.Medium:
		return desktop.Normal
	}
	return desktop.Low
}
