package status

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// Entry is a journal entry as it is shown: GET /v1/log, and the entries that explain cites.
type Entry struct {
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"` // change, verdict, alert, resolve, note
	Subject  string    `json:"subject"`
	Protocol string    `json:"protocol,omitempty"`
	Verb     string    `json:"verb,omitempty"`
	State    string    `json:"state,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Text     string    `json:"text,omitempty"`
	Incident string    `json:"incident,omitempty"`
	Error    string    `json:"error,omitempty"` // why the change failed
	Change   *Change   `json:"change,omitempty"`
}

// Change is the details of a change that its entry does not contain. Durations are in seconds.
type Change struct {
	Protocol  string         `json:"protocol"`
	Agent     string         `json:"agent,omitempty"`
	Until     *time.Time     `json:"until,omitempty"`
	ReleaseBy *time.Time     `json:"release_by,omitempty"`
	Hold      string         `json:"hold,omitempty"`
	Action    string         `json:"action,omitempty"`
	Rule      string         `json:"rule,omitempty"`
	Code      string         `json:"code,omitempty"`
	Attempt   int            `json:"attempt,omitempty"`
	Timeout   float64        `json:"timeout,omitempty"`
	Twice     bool           `json:"twice,omitempty"`
	Status    string         `json:"status,omitempty"`
	Event     string         `json:"event,omitempty"`
	Gate      *protocol.Gate `json:"gate,omitempty"`
}

// ShowEntry converts a journal entry to the form in which it is shown.
func ShowEntry(e supervisor.Entry) Entry {
	shown := Entry{At: e.At.UTC(), Kind: e.Kind, Subject: e.About, Protocol: e.Protocol, Verb: e.Verb, State: e.State, Reason: e.Reason, Text: e.Text,
		Incident: e.Incident, Error: e.Error}
	if c := e.Change; c != nil {
		shown.Change = &Change{Protocol: c.Subject.Protocol, Agent: c.Agent, Until: instant(c.Until), ReleaseBy: instant(c.ReleaseBy),
			Hold: c.Hold, Action: c.Action, Rule: c.Rule, Code: c.Code, Attempt: c.Attempt, Timeout: c.Timeout.Seconds(), Twice: c.Twice,
			Status: c.Status, Event: c.Event, Gate: c.Gate}
	}
	return shown
}

func showEntries(entries []supervisor.Entry) []Entry {
	shown := make([]Entry, 0, len(entries))
	for _, e := range entries {
		shown = append(shown, ShowEntry(e))
	}
	return shown
}

// Limits of ?n=.
const (
	usualEntries = 100
	mostEntries  = 10_000
)

// log returns the last entries, or with Accept: text/event-stream those and all later ones. An unknown ?subject= is
// refused: an empty answer would read as "nothing has happened to it".
func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	n, err := count(r)
	if err != nil {
		fail(w, err)
		return
	}
	match, err := s.concerning(r.URL.Query().Get("subject"))
	if err != nil {
		fail(w, err)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		s.follow(w, r, n, match)
		return
	}
	entries, err := s.Journal.Read(n, match)
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string][]Entry{"log": showEntries(entries)})
}

func count(r *http.Request) (int, error) {
	text := r.URL.Query().Get("n")
	if text == "" {
		return usualEntries, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostEntries {
		return 0, badRequest(fmt.Sprintf("use a number from 0 to %d", mostEntries), "read the log: n is %.20q", text)
	}
	return n, nil
}

// follow streams the last n entries, then each new entry as it is written, until the client or the daemon ends.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, n int, match func(*supervisor.Entry) bool) {
	// Follow before reading, so that no entry is missed between the two.
	live, stop := s.Journal.Follow()
	defer stop()
	past, err := s.Journal.Read(n, match)
	if err != nil {
		fail(w, err)
		return
	}
	out := openStream(w)
	for _, e := range append(past, unseen(live, past)...) {
		if match(&e) && out.entry(e) != nil {
			return
		}
	}
	if out.comment("live") != nil {
		return
	}
	pulse := time.NewTicker(pulseEvery)
	defer pulse.Stop()
	for err == nil {
		select {
		case <-r.Context().Done():
			return
		case e := <-live:
			if match(&e) {
				err = out.entry(e)
			}
		case <-pulse.C:
			err = out.comment("still here")
		}
	}
}

// unseen returns the entries that arrived while the past was read and are not part of it.
func unseen(live <-chan supervisor.Entry, past []supervisor.Entry) []supervisor.Entry {
	var waiting []supervisor.Entry
	for range len(live) {
		waiting = append(waiting, <-live)
	}
	if len(past) == 0 {
		return waiting
	}
	last := past[len(past)-1]
	for i := len(waiting) - 1; i >= 0; i-- {
		if w := waiting[i]; w.At.Equal(last.At) && w.About == last.About && w.Kind == last.Kind && w.Verb == last.Verb && w.Text == last.Text {
			return waiting[i+1:]
		}
	}
	return waiting
}

// Timing of a stream: periodic comments detect that a client has gone; a client that reads nothing is disconnected.
const (
	pulseEvery = 15 * time.Second
	stallTime  = 10 * time.Second
)

// stream is a response of server-sent events.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// openStream starts the response and lifts the limits of an ordinary one: ReadTimeout would end the request, too. Its
// write errors mean that the client has gone; the first entry or comment fails with them again.
func openStream(w http.ResponseWriter) stream {
	out := stream{w, http.NewResponseController(w)}
	out.rc.SetReadDeadline(time.Time{})
	out.rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Connection", "close") // its deadlines no longer match an ordinary connection
	w.WriteHeader(http.StatusOK)
	return out
}

func (s stream) entry(e supervisor.Entry) error {
	line, err := encode(ShowEntry(e))
	if err != nil {
		return err
	}
	return s.send(append([]byte("data: "), append(line, '\n')...))
}

func (s stream) comment(text string) error {
	return s.send(fmt.Appendf(nil, ": %s\n\n", text))
}

func (s stream) send(b []byte) error {
	// Use a timer, not the time of day: this package has no clock of its own.
	cut := time.AfterFunc(stallTime, func() { s.rc.SetWriteDeadline(time.Unix(1, 0)) })
	defer cut.Stop()
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.rc.Flush()
}
