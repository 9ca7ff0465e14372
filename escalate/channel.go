package escalate

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Channel is one way to a human.
type Channel struct {
	Name string
	// Deliver brings a notice to the human and returns only once that is proved; result is the proof in a word
	// ("shown", "spoken"). One call at a time.
	Deliver func(ctx context.Context, n Notice) (result string, err error)
	// Withdraw takes away the popup of that key; nil for a channel that leaves nothing standing. A popup that
	// is not there any more is no error.
	Withdraw func(ctx context.Context, key string) error
	// Deadline bounds each call; it must be positive.
	Deadline time.Duration
}

// grace is how long a channel may take to come back after its time is up, before it is left behind.
const grace = time.Second

// worker makes the calls of one channel, one after the other, so that a channel that hangs delays no other.
type worker struct {
	Channel
	jobs chan job
	// stuck is where a call that did not heed its deadline will report, if ever. Only serve touches it.
	stuck chan result

	// The Dispatcher's own.
	queue  []*line
	busy   bool
	now    job       // under way, while it is busy
	rested time.Time // when its last call ended
}

// job is one call to make: deliver the notice, or withdraw a popup.
type job struct {
	lines    []*line
	told     map[string]bool // the incidents that the notice tells of
	notice   Notice
	withdraw bool
	aside    *announcement // told beside the ledger
	// stop is closed when nobody needs to hear it any more; nil: it goes on to its end.
	stop chan struct{}
}

// result is what became of a job.
type result struct {
	worker *worker
	job    job
	word   string
	err    error
	stack  []byte // of a panic
}

// errPanic is a bug in a channel. It counts as a failure to deliver, because the incident matters more.
var errPanic = errors.New("the channel panicked")

func (w *worker) serve(ctx context.Context, results chan<- result) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-w.jobs:
			r := w.attempt(ctx, j)
			r.worker, r.job = w, j
			results <- r
		}
	}
}

// attempt makes one call and comes back in time even if the channel does not.
func (w *worker) attempt(ctx context.Context, j job) result {
	if w.stuck != nil {
		select {
		case <-w.stuck:
			w.stuck = nil
		default:
			return result{word: ResultFailed, err: errors.New("an earlier call has not come back")}
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
	back := make(chan result, 1)
	go func() { back <- w.call(ctx, j) }()
	select {
	case r := <-back:
		return r
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case r := <-back: // what was delivered in the last moment was delivered
		return r
	case <-patience.C:
		w.stuck = back
		return result{word: ResultTimeout, err: fmt.Errorf("it does not come back: %w", ctx.Err())}
	}
}

func (w *worker) call(ctx context.Context, j job) (r result) {
	defer func() {
		if p := recover(); p != nil {
			r = result{word: ResultFailed, err: fmt.Errorf("%w: %v", errPanic, p), stack: debug.Stack()}
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
	return result{word: word, err: err}
}
