package escalate

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Channel is one means of reaching the operator.
type Channel struct {
	Name string
	// Deliver shows or speaks a notice and returns only once delivery is proved; result is the proof as a word
	// ("shown", "spoken"). Calls do not overlap.
	Deliver func(ctx context.Context, n Notice) (result string, err error)
	// Withdraw removes the popup with that key; nil for a channel that leaves nothing on screen. A popup that is
	// already gone is not an error.
	Withdraw func(ctx context.Context, key string) error
	// Deadline bounds each call; it must be positive.
	Deadline time.Duration
}

// grace is how long a call may take to return after its deadline before it is abandoned.
const grace = time.Second

// caller makes the calls of one channel, one at a time, so that a channel that hangs does not delay the others.
type caller struct {
	Channel
	calls chan call
	// stuck receives the result of a call that ignored its deadline, if it ever returns. Only serve touches it.
	stuck chan deliveryResult
}

// call is one call to make: deliver the notice, or withdraw a popup.
type call struct {
	queued   []*queued
	told     map[string]bool // keys of the incidents in the notice
	notice   Notice
	withdraw bool
	// stop is closed to cut the call short when its news is no longer needed; nil: the call always runs to its end.
	stop chan struct{}
}

// deliveryResult is the outcome of a call.
type deliveryResult struct {
	channel *channelState
	call    call
	word    string
	err     error
	stack   []byte // of a panic
}

// errPanic is a bug in a channel. It counts as a failed delivery, so that the next channel is tried.
var errPanic = errors.New("the channel panicked")

// serve makes the calls of the channel, whose state it passes back with each result.
func (w *caller) serve(ctx context.Context, of *channelState, results chan<- deliveryResult) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-w.calls:
			r := w.attempt(ctx, j)
			r.channel, r.call = of, j
			results <- r
		}
	}
}

// attempt makes one call and returns in time even if the channel does not.
func (w *caller) attempt(ctx context.Context, j call) deliveryResult {
	if w.stuck != nil {
		select {
		case <-w.stuck:
			w.stuck = nil
		default:
			return deliveryResult{word: ResultFailed, err: errors.New("an earlier call has not come back")}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, w.Deadline)
	defer cancel()
	if j.stop != nil {
		go func() { // ends with the call
			select {
			case <-j.stop:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	back := make(chan deliveryResult, 1)
	go func() { back <- w.invoke(ctx, j) }()
	select {
	case r := <-back:
		return r
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case r := <-back: // a call that returns within the grace period may still have delivered
		return r
	case <-patience.C:
		w.stuck = back
		return deliveryResult{word: ResultTimeout, err: fmt.Errorf("it does not come back: %w", ctx.Err())}
	}
}

func (w *caller) invoke(ctx context.Context, j call) (r deliveryResult) {
	defer func() {
		if p := recover(); p != nil {
			r = deliveryResult{word: ResultFailed, err: fmt.Errorf("%w: %v", errPanic, p), stack: debug.Stack()}
		}
	}()
	word, err := ResultWithdrawn, error(nil)
	if j.withdraw {
		err = w.Withdraw(ctx, j.notice.Key)
	} else {
		word, err = w.Deliver(ctx, j.notice)
	}
	switch {
	case err == nil && word == "":
		word = ResultDelivered
	case errors.Is(err, context.DeadlineExceeded):
		word = ResultTimeout
	case err != nil:
		word = ResultFailed
	}
	return deliveryResult{word: word, err: err}
}
