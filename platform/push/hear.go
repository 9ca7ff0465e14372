package push

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// The pace of listening.
const (
	silence    = 90 * time.Second // a server says something each 45 s; after two times nothing the stream is dead
	againFirst = time.Second      // doubles with each failure …
	againMost  = 5 * time.Minute  // … up to this
	steady     = time.Minute      // a stream that lasted so long was no failure
	firstSince = "12h"            // how far back the first stream reaches: as long as servers keep messages by default
)

// maxLine bounds a line that is looked at, in bytes. A press is far shorter.
const maxLine = 16 << 10

var (
	errSilent = errors.New("the server has been silent for 90 seconds")
	errEnded  = errors.New("the server has ended the stream")
)

const (
	eventMessage = "message"
	eventOpen    = "open"
)

// event is one line of a stream, and the answer to a message.
type event struct {
	ID      string `json:"id"`
	Event   string `json:"event"`
	Topic   string `json:"topic"`
	Message string `json:"message"`
}

// Hearing is how Hear does.
type Hearing struct {
	Open    bool   // the stream stands
	Err     error  // an *Error: why it does not; nil until the first try has failed
	Dropped uint64 // messages in the reply topic that are no press of ours: forged, garbled or far too long
}

// Hearing tells how Hear does at this moment.
func (n *Ntfy) Hearing() Hearing {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hearing
}

func (n *Ntfy) heard(change func(*Hearing)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.hearing)
}

// Hear gives every press of the last twelve hours and from now on, one at a time, until ctx ends. A stream that breaks
// is taken up where it was, with pauses of 1 s to 5 min. Presses of an earlier run come again: the first answer wins,
// and that is the caller's to see. Without a reply topic there is nothing to hear, and it only waits. Once at a time.
func (n *Ntfy) Hear(ctx context.Context, press func(Press)) {
	if n.reply == "" {
		<-ctx.Done()
		return
	}
	since, failed := firstSince, 0
	for ctx.Err() == nil {
		begin := time.Now()
		err := n.listen(ctx, &since, press)
		n.heard(func(h *Hearing) { h.Open = false })
		if ctx.Err() != nil {
			return
		}
		n.heard(func(h *Hearing) { h.Err = err })
		if failed++; time.Since(begin) >= steady {
			failed = 1
		}
		pause := time.NewTimer(pauseAfter(failed, err))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// pauseAfter is the wait after so many failures, or what the server asks for, if that is longer; never over againMost.
func pauseAfter(failed int, err error) time.Duration {
	wait := againMost
	if n := failed - 1; n < 10 {
		wait = min(againMost, againFirst<<n)
	}
	// Many listeners of a server that restarts must not come back all at once.
	wait = wait/2 + rand.N(wait/2+1)
	if e := (*Error)(nil); errors.As(err, &e) {
		wait = max(wait, e.After)
	}
	return min(wait, againMost)
}

// listen reads one stream to its end and says why it ended. since is where the next one goes on.
func (n *Ntfy) listen(ctx context.Context, since *string, press func(Press)) error {
	const op = "listen to "
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// It watches over the way to the first line too.
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	resp, err := n.call(ctx, http.MethodGet, "/"+n.reply+"/json?since="+url.QueryEscape(*since), nil, n.token)
	if err != nil {
		return n.failure(op, caused(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := answer(resp)
		return n.refusal(op, resp, body)
	}
	lines := bufio.NewReaderSize(resp.Body, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			// No press of ours. Were it a reason to break off, whoever may write to the topic could deafen us.
			n.heard(func(h *Hearing) { h.Dropped++ })
			line, err = nil, skipLine(lines)
		}
		if err != nil {
			return n.failure(op, caused(ctx, err))
		}
		watchdog.Stop() // what press does with its time is not the server's silence
		if !n.take(line, since, press) {
			return &Error{Op: op + n.server.Host, Hint: hintURL, Err: errNoServer}
		}
		watchdog.Reset(silence)
	}
}

// caused is why a stream really ended.
func caused(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	return err
}

func skipLine(lines *bufio.Reader) error {
	for {
		if _, err := lines.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// take looks at one line; false when no ntfy server wrote it.
func (n *Ntfy) take(line []byte, since *string, press func(Press)) bool {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return true
	}
	var e event
	if json.Unmarshal(line, &e) != nil || e.Event == "" {
		return false
	}
	n.heard(func(h *Hearing) { h.Open, h.Err = true, nil })
	if e.Event != eventMessage || e.Topic != n.reply {
		return true // keepalives and the like: their ids are kept nowhere
	}
	if p, ok := n.open(e.Message); ok {
		press(p)
	} else {
		n.heard(func(h *Hearing) { h.Dropped++ })
	}
	if e.ID != "" {
		*since = e.ID
	}
	return true
}
