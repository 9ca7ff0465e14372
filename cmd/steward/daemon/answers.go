package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/ralph"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// answers takes the operator's answers. Every answer takes the same path, whatever its source: judge it, check that it can be written, record it in the
// ledger (which closes the question for everyone else), then write it where the agent reads it. If a crash occurs
// between the last two steps, the next run writes the recorded answer. See docs/decisions.md, "One way for every answer".
type answers struct {
	*reports
	loop *supervisor.Supervisor
	due  wakeup // an answer waits to be written
	// start starts the program of an agent again (optionStartAgain).
	start func(ctx context.Context, s protocol.Subject, try bool) error
}

// answerTime bounds one write. If a project hangs, the write is retried later.
const answerTime = 10 * time.Second

// accept takes an operator's reply.
func (a *answers) accept(ctx context.Context, key string, r escalate.Reply) (escalate.Incident, error) {
	i, err := a.ledger.Find(key)
	if err != nil {
		return i, err
	}
	r.By = cmp.Or(r.By, a.settings.config().Human.Name)
	if err := i.Judge(r); err != nil {
		return i, fmt.Errorf("answer incident %s: %w", i.Key, err)
	}
	// Reject an answer that cannot be written before it counts as given.
	first := &protocol.Answer{Key: i.Key, Label: r.Option, By: r.By, Stop: r.Stop, Requirements: r.Requirements}
	if at := slices.IndexFunc(i.Options, func(o rules.Option) bool { return o.ID == r.Option || o.Label == r.Option }); at >= 0 {
		first.Option = i.Options[at].ID
	}
	if subject := i.Subject(); first.Steers() && subject.Kind != protocol.KindQuestion {
		return i, fmt.Errorf("answer incident %s: %w: %s; it is about %s, which is no agent's question", i.Key, supervisor.ErrRefused, supervisor.NoSteering, subject)
	}
	if err := a.write(ctx, i, first, true); err != nil {
		return i, err
	}
	i, err = a.ledger.Answer(i.Key, r, time.Now())
	if err != nil {
		return i, err
	}
	a.log.Info("answered", "key", i.Key, "option", i.Answer.Option, "by", i.Answer.By, "via", i.Answer.Via)
	text := i.Why
	if i.Answer.Why != "" {
		text += " (" + i.Answer.Why + ")"
	}
	a.note(supervisor.Entry{At: time.Now(), Kind: "answer", Subject: i.Subject(), Verb: "answer", Reason: i.Answer.Option, Text: text, Incident: i.Key})
	switch err := a.carryOut(ctx, i); {
	case errors.Is(err, ralph.ErrResume):
		return i, fmt.Errorf("the answer is taken and not tried again: %w", err)
	case err != nil:
		a.due.wake()
		return i, fmt.Errorf("the answer is accepted but not written yet; steward keeps trying: %w", err)
	}
	done, err := a.ledger.Find(i.Key)
	return done, err
}

// noteDelivery records the result of a delivery attempt in the journal, and counts spoken messages about tasks.
func (a *answers) noteDelivery(i escalate.Incident, d escalate.Delivery) {
	e := supervisor.Entry{At: d.At, Kind: "delivery", Subject: i.Subject(), Verb: d.Channel, Reason: d.Result, Text: d.Result, Incident: i.Key, Error: d.Error}
	if d.OK && d.Recovery {
		e.Text = d.Result + ", that it is over"
	}
	a.note(e)
	if d.OK && d.Channel == escalate.ChannelSpeech && !d.Recovery && e.Subject.Kind == protocol.KindTask && e.Subject.Protocol == agentstatus.Name {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		if err := a.loop.Spoken(ctx, e.Subject.Project); err != nil && !errors.Is(err, supervisor.ErrStopped) {
			a.log.Error("count a spoken message", "error", err)
		}
	}
}

// write has the loop write an answer. try: only check whether the answer could be written.
func (a *answers) write(ctx context.Context, i escalate.Incident, given *protocol.Answer, try bool) error {
	subject := i.Subject()
	switch subject.Kind {
	case protocol.KindQuestion, protocol.KindTask, protocol.KindAgent:
	default:
		if !decide.IsRepair(given.Option) {
			return nil // no agent waits for this answer, only steward
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if given.Option == optionStartAgain {
		return a.start(ctx, subject, try)
	}
	c := supervisor.Command{Verb: "answer", Subject: protocol.Query(subject), Answer: given, Try: try, Occurrence: i.Occurrence}
	if i.Lasting {
		c.Saw = i.Occurrence
	}
	return a.loop.Do(ctx, c)
}

// carryOut writes a recorded answer to the agent's files. An answer that no agent waits for any more counts as
// written.
func (a *answers) carryOut(ctx context.Context, i escalate.Incident) error {
	given := i.Answer
	err := a.write(ctx, i, &protocol.Answer{Key: i.Key, Option: given.Option, Label: given.Label, Why: given.Why, By: given.By,
		At: given.At, Stop: given.Stop, Requirements: given.Requirements}, false)
	done := err == nil || errors.Is(err, protocol.ErrConflict) && time.Since(given.At) > conflictTime ||
		slices.ContainsFunc(settledBy, func(known error) bool { return errors.Is(err, known) })
	if e := a.ledger.Carry(i.Key, err, done, time.Now()); e != nil {
		a.log.Error("record the answer", "key", i.Key, "error", e)
	}
	if done && err != nil && !errors.Is(err, ralph.ErrResume) {
		a.log.Warn("the answer has no reader any more", "key", i.Key, "error", err)
		return nil
	}
	return err
}

// settledBy lists the errors that a retry cannot fix.
var settledBy = []error{supervisor.ErrNoSubject, supervisor.ErrRefused, protocol.ErrUnsupported, ralph.ErrResume}

// conflictTime is how long an answer is retried while its question keeps changing.
const conflictTime = 10 * time.Minute

// answerRetryInterval is the interval between retries of answers that could not be written.
const answerRetryInterval = 10 * time.Second

// Run writes the answers that an earlier run, or an earlier attempt, could not write. It sleeps while there
// are none.
func (a *answers) Run(ctx context.Context) error {
	timer := time.NewTimer(answerRetryInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.due:
		case <-timer.C:
		}
		left := a.ledger.Uncarried()
		for _, i := range left {
			if err := a.carryOut(ctx, i); err != nil {
				a.log.Warn("the answer cannot be written yet", "key", i.Key, "error", err)
			}
		}
		if len(left) > 0 {
			timer.Reset(answerRetryInterval)
		}
	}
}
