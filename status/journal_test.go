package status

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

var errEnough = errors.New("seen enough")

// line is a numbered entry about a task.
func line(task string, n int) supervisor.Entry {
	return supervisor.Entry{At: noon.Add(time.Duration(n)), Kind: "note", Subject: subject(protocol.KindTask, task), Text: fmt.Sprint(n)}
}

func texts(entries []Entry) string {
	var list []string
	for _, e := range entries {
		list = append(list, e.Text)
	}
	return strings.Join(list, " ")
}

func TestLog(t *testing.T) {
	w := newWorld(t, scene())
	for _, id := range []string{"old-7a11", "old-9c22"} { // no file contains them any more
		w.note(t, supervisor.Entry{At: noon.Add(-time.Hour), Kind: "note", Subject: subject(protocol.KindTask, id), Text: id})
	}
	for n := range 120 {
		w.note(t, line([]string{"T-1", "T-2"}[n%2], n))
	}
	w.note(t, supervisor.Entry{At: noon, Kind: "alert", Subject: subject(protocol.KindAgent, "planner"), Incident: "aaaa111122223333", Text: "dead"})
	for _, tc := range []struct{ query, want string }{
		{"n=3", "118 119 dead"},
		{"n=0", ""},
		{"n=2&subject=T-1", "116 118"},
		{"n=2&subject=" + url.QueryEscape("shop:task/T-2"), "117 119"},
		{"subject=site:agent/codex-cursor", ""},
		{"subject=project/site", ""},
		{"subject=old-9c22", "old-9c22"},
		{"subject=task/old-7", "old-7a11"},
		{"subject=" + url.QueryEscape("shop:task/old-7a11"), "old-7a11"},
		{"subject=incident/aaaa", "dead"},
		{"subject=aaaa111122223333", "dead"},
		{"subject=planner", "dead"},
	} {
		var doc struct{ Log []Entry }
		if err := w.client.Get(t.Context(), "/v1/log?"+tc.query, &doc); err != nil {
			t.Errorf("%s: %v", tc.query, err)
		} else if got := texts(doc.Log); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.query, got, tc.want)
		}
	}
	wantError(t, "two old tasks that begin so", w.client.Get(t.Context(), "/v1/log?subject=old-", nil), 409, CodeAmbiguous)
	for _, query := range []string{"subject=nobody", "n=0&subject=nobody", "subject=site:task/T-2", "subject=old", "subject=incident/ffff", "subject=project/nowhere"} {
		wantError(t, query, w.client.Get(t.Context(), "/v1/log?"+query, nil), 404, CodeNoSubject)
		wantError(t, query+", followed", w.client.Stream(t.Context(), "/v1/log?"+query, nil), 404, CodeNoSubject)
	}
	var doc struct{ Log []Entry }
	if err := w.client.Get(t.Context(), "/v1/log", &doc); err != nil || len(doc.Log) != 100 {
		t.Errorf("by itself it gives %d entries (%v), want 100", len(doc.Log), err)
	}
}

// watch follows a log and passes on the text of each entry.
func watch(ctx context.Context, t *testing.T, w *world, path string) (entries <-chan string, ended <-chan error) {
	t.Helper()
	seen, end := make(chan string), make(chan error, 1)
	go func() {
		end <- w.client.Stream(ctx, path, func(data []byte) error {
			var e Entry
			if err := json.Unmarshal(data, &e); err != nil {
				return err
			}
			select {
			case seen <- e.Text:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	return seen, end
}

func next(t *testing.T, entries <-chan string, ended <-chan error) string {
	t.Helper()
	select {
	case text := <-entries:
		return text
	case err := <-ended:
		t.Fatalf("the stream ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("nothing comes")
	}
	return ""
}

func TestFollow(t *testing.T) {
	w := newWorld(t, scene())
	for n := range 5 {
		w.note(t, line("T-1", n))
		w.note(t, line("T-2", 100+n))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	entries, ended := watch(ctx, t, w, "/v1/log?n=2&subject=T-1")
	var got []string
	for range 2 {
		got = append(got, next(t, entries, ended))
	}
	for n := 5; n < 8; n++ { // the past has arrived, so it is following by now
		w.note(t, line("T-2", 100+n))
		w.note(t, line("T-1", n))
		got = append(got, next(t, entries, ended))
	}
	if want := []string{"3", "4", "5", "6", "7"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

func TestNothingIsLostOrDoubledBetweenPastAndPresent(t *testing.T) {
	w := newWorld(t, scene())
	const all = 200 // fewer than a follower's buffer holds
	written := make(chan struct{})
	go func() {
		defer close(written)
		for n := range all {
			if err := w.journal.Write(line("T-1", n)); err != nil {
				t.Error(err)
			}
		}
	}()
	n := -1
	err := w.client.Stream(t.Context(), fmt.Sprintf("/v1/log?n=%d", all), func(data []byte) error {
		var e Entry
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		if n++; e.Text != fmt.Sprint(n) {
			return fmt.Errorf("entry %d is %s", n, e.Text)
		}
		if n == all-1 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
	<-written
}

func TestUnseen(t *testing.T) {
	entries := func(from, to int) (list []supervisor.Entry) {
		for n := from; n < to; n++ {
			list = append(list, line("T-1", n))
		}
		return list
	}
	for _, tc := range []struct {
		past, live []supervisor.Entry
		want       int
	}{
		{entries(0, 5), entries(5, 7), 2}, // all of it new
		{entries(0, 5), entries(3, 7), 2}, // some of it already read
		{entries(0, 5), entries(0, 5), 0},
		{nil, entries(0, 3), 3},
		{entries(0, 5), nil, 0},
	} {
		live := make(chan supervisor.Entry, 10)
		for _, e := range tc.live {
			live <- e
		}
		if got := unseen(live, tc.past); len(got) != tc.want {
			t.Errorf("%d in the past, %d live: %d unseen, want %d", len(tc.past), len(tc.live), len(got), tc.want)
		}
	}
}

func TestStreamEndsWithTheDaemon(t *testing.T) {
	w := newWorld(t, scene())
	w.note(t, line("T-1", 1))
	entries, ended := watch(t.Context(), t, w, "/v1/log")
	next(t, entries, ended)
	w.stop()
	if err := <-ended; !errors.Is(err, ErrNoDaemon) {
		t.Errorf("it ended with %v", err)
	}
}

func TestStreamIsLetGoWithItsClient(t *testing.T) {
	w := newWorld(t, scene())
	w.note(t, line("T-1", 1))
	for range 20 {
		if err := w.client.Stream(t.Context(), "/v1/log", func([]byte) error { return errEnough }); !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
	}
	wantError(t, "a refused stream", w.client.Stream(t.Context(), "/v1/log?n=x", nil), 400, CodeBadRequest)
}

func TestStreamFormat(t *testing.T) {
	w := newWorld(t, scene())
	w.note(t, line("T-1", 1))
	c := w.raw(t, "GET /v1/log HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
	var got []string
	for lines := bufio.NewScanner(c); lines.Scan(); {
		got = append(got, lines.Text())
		if lines.Text() == ": live" {
			break
		}
	}
	text := strings.Join(got, "\n")
	if !strings.Contains(text, "Content-Type: text/event-stream") || !strings.Contains(text, "\n\ndata: {\"at\":\"2026-03-01T12:00:00.000000001Z\"") {
		t.Errorf("got %s", text)
	}
}

func TestReadEvents(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"data: a\n\ndata: b\n\n", "a|b"},
		{"data:a\r\n\r\n: note\n\ndata: b\n\n", "a|b"},
		{"data: a\ndata: b\n\n", "a\nb"},
		{"event: x\nid: 7\ndata: a\n\n", "a"},
		{"data: a\n\ndata: cut short", "a"},
		{"data:\n\n", ""},
		{"\n\n\n", ""},
	} {
		var got []string
		if err := readEvents(strings.NewReader(tc.text), func(b []byte) error { got = append(got, string(b)); return nil }); err != nil {
			t.Errorf("%q: %v", tc.text, err)
		}
		if strings.Join(got, "|") != tc.want {
			t.Errorf("%q: got %q, want %q", tc.text, got, tc.want)
		}
	}
	endless := strings.NewReader("data: " + strings.Repeat("x", maxEvent+1))
	if err := readEvents(endless, func([]byte) error { return nil }); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("an endless line: %v", err)
	}
}

// Data sent as events is received unchanged, whatever it is.
func FuzzReadEvents(f *testing.F) {
	for _, text := range []string{"", "data: a\n\n", "data", ":\n\n\n", "a\r\nb", "{\"at\":\"2026\"}", "\x00\xff\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		readEvents(strings.NewReader(text), func([]byte) error { return nil })
		text = strings.NewReplacer("\r", "").Replace(text)
		var sent strings.Builder
		for part := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&sent, "data: %s\n", part)
		}
		var got []string
		if err := readEvents(strings.NewReader(sent.String()+"\n"), func(b []byte) error { got = append(got, string(b)); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0] != text {
			t.Errorf("sent %q, got %q", text, got)
		}
	})
}
