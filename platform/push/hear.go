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

// Intervals for listening.
const (
	silence    = 90 * time.Second // a server sends a keepalive every 45 s; after two missing ones the stream is dead
	againFirst = time.Second      // first pause, doubled after each failure …
	againMost  = 5 * time.Minute  // … up to this maximum
	steady     = time.Minute      // a stream that lasted this long does not count as a failure
	firstSince = "12h"            // how far back the first stream starts: servers keep messages for this long by default
)

// maxLine limits the length of a parsed line, in bytes. A press is far shorter.
const maxLine = 16 << 10

var (
	errSilent = errors.New("the server has been silent for 90 seconds")
	errEnded  = errors.New("the server has ended the stream")
)

const (
	eventMessage = "message"
	eventOpen    = "open"
)

// streamEvent is one line of a stream, and the response to a published message.
type streamEvent struct {
	ID      string `json:"id"`
	Event   string `json:"event"`
	Topic   string `json:"topic"`
	Message string `json:"message"`
}

// Hearing is the state of Hear.
type Hearing struct {
	Open    bool   // the stream is open
	Err     error  // an *Error: why the stream is not open; nil until the first attempt has failed
	Dropped uint64 // messages in the reply topic that are not valid presses: forged, garbled or far too long
}

// Hearing returns the current state of Hear.
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

// Hear calls press for every press of the last twelve hours and from now on, one at a time, until ctx ends. It
// resumes a broken stream where it stopped, with pauses of 1 s to 5 min. Presses of an earlier run are delivered
// again; the caller must detect duplicates, and the first answer counts. Without a reply topic it only waits for ctx.
// It must not be called concurrently.
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

// pauseAfter returns the wait after that many failures, or the wait that the server requests if that is longer; at
// most againMost.
func pauseAfter(failed int, err error) time.Duration {
	wait := againMost
	if n := failed - 1; n < 10 {
		wait = min(againMost, againFirst<<n)
	}
	// Jitter: listeners of a restarting server must not all reconnect at the same time.
	wait = wait/2 + rand.N(wait/2+1)
	if e := (*Error)(nil); errors.As(err, &e) {
		wait = max(wait, e.After)
	}
	return min(wait, againMost)
}

// listen reads one stream to its end and returns the reason for the end. It sets since to the point to resume from.
func (n *Ntfy) listen(ctx context.Context, since *string, press func(Press)) error {
	const op = "listen to "
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The watchdog also covers the time until the first line.
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
			// Not a press. If this were an error, any writer to the topic could break the stream.
			n.heard(func(h *Hearing) { h.Dropped++ })
			line, err = nil, skipLine(lines)
		}
		if err != nil {
			return n.failure(op, caused(ctx, err))
		}
		watchdog.Stop() // the time that press takes does not count as the server's silence
		if !n.take(line, since, press) {
			return &Error{Op: op + n.server.Host, Hint: hintURL, Err: errNoServer}
		}
		watchdog.Reset(silence)
	}
}

// caused returns the underlying reason for the end of a stream.
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

// take processes one line; it returns false if the line does not come from an ntfy server.
func (n *Ntfy) take(line []byte, since *string, press func(Press)) bool {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return true
	}
	var e streamEvent
	if json.Unmarshal(line, &e) != nil || e.Event == "" {
		return false
	}
	n.heard(func(h *Hearing) { h.Open, h.Err = true, nil })
	if e.Event != eventMessage || e.Topic != n.reply {
		return true // keepalives and the like: the server does not store their ids
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
