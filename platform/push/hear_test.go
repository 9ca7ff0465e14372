package push_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/platform/push"
)

// presses collects what Hear delivers.
type presses struct {
	mu  sync.Mutex
	all []push.Press
	got chan push.Press
}

func (p *presses) take(one push.Press) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, one)
	if p.got != nil {
		p.got <- one
	}
}

func (p *presses) list() []push.Press {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// hear listens until the test ends.
func hear(t *testing.T, n *push.Ntfy) *presses {
	p := &presses{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Hear(ctx, p.take) }()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

func press(t testing.TB, n *push.Ntfy, p push.Press) note {
	t.Helper()
	body, ok := n.Seal(p)
	if !ok {
		t.Fatalf("%+v cannot be sealed", p)
	}
	return note{Topic: "replies", Message: body}
}

// TestPressComesBack is end to end: a message with buttons, a phone that posts what the button says, and the press
// arrives.
func TestPressComesBack(t *testing.T) {
	s := &standIn{token: secret}
	n := client(t, serve(t, s), push.NtfyConfig{Token: secret, ReplyTopic: "replies"})
	options := []push.Option{{ID: "Use the staging copy!", Label: "Staging"}, {ID: "日本 \t|:", Label: ""}, {ID: "3", Label: "Three"}, {ID: "4", Label: "Four"}}
	if err := n.Send(bounded(t), push.Message{Key: "9c02d5e1", Rev: 7, Text: "Which database?", Options: options}); err != nil {
		t.Fatal(err)
	}
	buttons := s.kept("alerts")[0].Actions
	if len(buttons) != 3 || buttons[0].Label != "Staging" || buttons[1].Label != "日本 |:" {
		t.Fatalf("buttons %+v", buttons)
	}
	if err := n.Send(bounded(t), push.Message{Key: "9c02d5e1", Rev: 7, Text: "Over", Over: true, Options: options}); err != nil || len(s.kept("alerts")[1].Actions) != 0 {
		t.Errorf("what is over has buttons: %v, %+v", err, s.kept("alerts")[1])
	}
	ctx, cancel := context.WithCancel(bounded(t))
	p, done := &presses{got: make(chan push.Press, 10)}, make(chan struct{})
	go func() { defer close(done); n.Hear(ctx, p.take) }()
	for i, b := range buttons {
		if b.Action != "http" || b.Method != "POST" || !b.Clear || strings.Contains(fmt.Sprint(b), secret) {
			t.Errorf("button %+v", b)
		}
		phone(t, b)
		if got, want := <-p.got, (push.Press{Key: "9c02d5e1", Rev: 7, Option: options[i].ID}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if h := n.Hearing(); !h.Open || h.Err != nil || h.Dropped != 0 {
		t.Errorf("%+v", h)
	}
	cancel()
	<-done
	if n.Hearing().Open {
		t.Error("it seems to listen after its end")
	}
}

// phone does what an app does when a button is pressed.
func phone(t *testing.T, b button) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(b.URL, "", strings.NewReader(b.Body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("press: %s", resp.Status)
	}
}

// TestNoPressIsLost: presses made while the stream was down arrive later, each once per run, whatever happens to the
// stream.
func TestNoPressIsLost(t *testing.T) {
	cutAfter := func(n int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			io.WriteString(w, `{"id":"x","event":"open","topic":"replies"}`+"\n"+strings.Repeat(`{"id":"half`, n))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	for name, front := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"401":       status(401, "", ""),
		"429":       status(429, "Retry-After: 30", ""),
		"500":       status(500, "", "<html>"),
		"no ntfy":   status(200, "", "<html>\n"),
		"empty":     status(200, "", ""),
		"redirect":  status(302, "Location: /login", ""),
		"cut":       cutAfter(0),
		"half line": cutAfter(1),
		"megabytes": status(200, "", strings.Repeat("x", 3<<20)),
		"hangs":     hang,
		"silent": func(w http.ResponseWriter, r *http.Request) bool {
			io.WriteString(w, `{"id":"x","event":"open","topic":"replies"}`+"\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		},
		"no line ends": drip(strings.Repeat("x", 100)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &standIn{}
				n, m := within(t, s, push.NtfyConfig{ReplyTopic: "replies"})
				var want []push.Press
				pressed := func(option string) {
					want = append(want, push.Press{Key: "k", Rev: 1, Option: option})
					s.put(press(t, n, want[len(want)-1]))
				}
				pressed("before the start")
				time.Sleep(11 * time.Hour)
				p := hear(t, n)
				synctest.Wait()
				pressed("live")
				time.Sleep(10 * time.Minute)
				if h := n.Hearing(); !h.Open {
					t.Errorf("no stream: %+v", h)
				}
				s.trouble(front)
				m.breakAll()
				pressed("in the trouble")
				time.Sleep(20 * time.Minute)
				if h := n.Hearing(); h.Err == nil && name != "silent" && name != "cut" && name != "half line" {
					t.Errorf("no word about the trouble: %+v", h)
				}
				s.trouble(nil)
				time.Sleep(7 * time.Minute) // the longest pause, plus the time to detect a dead stream
				pressed("after it")
				synctest.Wait()
				if got := p.list(); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %v\nwant %v", got, want)
				}
				if h := n.Hearing(); !h.Open || h.Err != nil {
					t.Errorf("after the trouble: %+v", h)
				}
			})
		})
	}
}

// TestPausesGrow: the pauses between attempts double from a second to five minutes; a stream that lasted resets them.
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{}
		var tries []time.Time
		s.front = func(w http.ResponseWriter, r *http.Request) bool {
			tries = append(tries, time.Now())
			if len(tries) != 15 {
				return status(503, "", "")(w, r)
			}
			io.WriteString(w, `{"id":"x","event":"open","topic":"replies"}`+"\n")
			http.NewResponseController(w).Flush()
			time.Sleep(61 * time.Second)
			return true
		}
		n, _ := within(t, s, push.NtfyConfig{ReplyTopic: "replies"})
		hear(t, n)
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if len(tries) < 20 {
			t.Fatalf("%d tries", len(tries))
		}
		most, even := time.Second, 0
		for i := 1; i < 20; i++ {
			pause := tries[i].Sub(tries[i-1])
			if i == 15 {
				pause, most = pause-61*time.Second, time.Second
			}
			if pause < most/2 || pause > most+time.Millisecond {
				t.Errorf("pause %d is %s; at most %s", i, pause, most)
			}
			if pause == most {
				even++
			}
			most = min(2*most, 5*time.Minute)
		}
		if even > 10 {
			t.Error("the pauses have no jitter")
		}
	})
}

// TestQuietStreamStands: keepalives keep one stream on one connection open indefinitely.
func TestQuietStreamStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{}
		n, m := within(t, s, push.NtfyConfig{ReplyTopic: "replies"})
		hear(t, n)
		time.Sleep(24 * time.Hour)
		if got := len(s.requests()); got != 1 || m.connections() != 1 {
			t.Errorf("%d requests, %d connections", got, m.connections())
		}
		if got := s.requests()[0].URL.Query().Get("since"); got != "12h" {
			t.Errorf("the first stream begins at %q", got)
		}
	})
}

// TestSlowCallerKeepsTheStream: a slow caller does not lose the stream.
func TestSlowCallerKeepsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{}
		n, _ := within(t, s, push.NtfyConfig{ReplyTopic: "replies"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		p := &presses{}
		go func() {
			defer close(done)
			n.Hear(ctx, func(one push.Press) { time.Sleep(10 * time.Minute); p.take(one) })
		}()
		for _, option := range []string{"1", "2", "3"} {
			s.put(press(t, n, push.Press{Key: "k", Rev: 1, Option: option}))
		}
		time.Sleep(time.Hour)
		if len(p.list()) != 3 || len(s.requests()) != 1 {
			t.Errorf("%d presses, %d streams", len(p.list()), len(s.requests()))
		}
		cancel()
		<-done
	})
}

// TestForgedPresses: any user may write to the reply topic; only sealed presses are delivered, and other messages do
// not block them.
func TestForgedPresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{}
		n, m := within(t, s, push.NtfyConfig{ReplyTopic: "replies"})
		other := client(t, "http://elsewhere", push.NtfyConfig{})
		stranger, err := push.NewNtfy(push.NtfyConfig{URL: "http://ntfy.test", Topic: "alerts", ReplyTopic: "replies", Key: bytes.Repeat([]byte("x"), 32)})
		if err != nil {
			t.Fatal(err)
		}
		p := hear(t, n)
		synctest.Wait()
		const forged = 10_000
		for i := range forged {
			real := push.Press{Key: "216a33f4", Rev: 1 + i%5, Option: "retry"}
			body, _ := n.Seal(real)
			f := strings.Split(body, " ")
			next, _ := n.Seal(push.Press{Key: "216a33f4", Rev: real.Rev + 1, Option: "leave"})
			g := strings.Split(next, " ")
			theirs, _ := stranger.Seal(real)
			keyless, _ := other.Seal(real)
			flip := []byte(body)
			flip[i%len(flip)] ^= byte(1 + i%7)
			bodies := []string{theirs, keyless, string(flip), body[:i%len(body)], body + " ", " " + body + " x", strings.ToUpper(body), "",
				strings.Join([]string{f[0], g[1], f[2], f[3]}, " "), strings.Join([]string{f[0], f[1], g[2], f[3]}, " "),
				strings.Join([]string{f[0], f[1], f[2], g[3]}, " "), strings.Join([]string{f[0], "0" + f[1], f[2], f[3]}, " "),
				strings.Join([]string{f[0], "+" + f[1], f[2], f[3]}, " "), strings.Join([]string{f[0], "-1", f[2], f[3]}, " "),
				strings.Join([]string{f[0], f[1], f[2], ""}, " "), strings.Join([]string{f[0] + "\n", f[1], f[2], f[3]}, " "),
				strings.Join([]string{f[0] + "=", f[1], f[2], f[3]}, " "), strings.ReplaceAll(body, " ", "  "), strings.Repeat("x", i%9000)}
			s.put(note{Topic: "replies", Message: bodies[i%len(bodies)]})
		}
		s.put(note{Topic: "replies", Title: strings.Repeat("deaf ", 1<<20), Message: "x"})
		real := push.Press{Key: "216a33f4", Rev: 1, Option: "retry"}
		elsewhere := press(t, n, real)
		elsewhere.Topic = "alerts"
		s.put(elsewhere)
		synctest.Wait()
		if got := p.list(); len(got) != 0 {
			t.Fatalf("%d forged presses came through: %+v", len(got), got[0])
		}
		if got := n.Hearing().Dropped; got != forged+1 {
			t.Errorf("%d counted", got)
		}
		s.put(press(t, n, real))
		synctest.Wait()
		if got := p.list(); len(got) != 1 || got[0] != real {
			t.Errorf("after the noise: %v", got)
		}
		m.breakAll()
		time.Sleep(time.Minute)
		if got := p.list(); len(got) != 1 || len(s.requests()) != 2 {
			t.Errorf("after a break: %v, %d streams", got, len(s.requests()))
		}
	})
}

// TestOnlyMessagesOfTheTopicAreHeard: a stream contains other events than messages, including kinds of newer servers.
func TestOnlyMessagesOfTheTopicAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{}
		n, _ := within(t, s, push.NtfyConfig{ReplyTopic: "replies"})
		real := press(t, n, push.Press{Key: "k", Rev: 1, Option: "o"}).Message
		s.front = func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprintf(w, "{\"id\":\"1\",\"event\":\"open\",\"topic\":\"replies\"}\n\n{\"id\":\"2\",\"event\":\"message\",\"topic\":\"others\",\"message\":%q}\n"+
				"{\"id\":\"3\",\"event\":\"message_clear\",\"topic\":\"replies\",\"message\":%q}\n", real, real)
			http.NewResponseController(w).Flush()
			return hang(w, r)
		}
		p := hear(t, n)
		synctest.Wait()
		if h := n.Hearing(); len(p.list()) != 0 || h.Dropped != 0 || !h.Open {
			t.Errorf("%v, %+v", p.list(), h)
		}
	})
}

// TestErrorsDoNotNameTheTopic: on a public server a topic's name is as good as a password, so it must not reach a
// log.
func TestErrorsDoNotNameTheTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := within(t, &standIn{}, push.NtfyConfig{ReplyTopic: "replies"})
		m.Close()
		hear(t, n)
		time.Sleep(time.Minute)
		err := n.Hearing().Err
		if err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "replies") {
			t.Error(err)
		}
	})
}

func TestNothingToHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{}
		n, _ := within(t, s, push.NtfyConfig{})
		hear(t, n)
		time.Sleep(24 * time.Hour)
		if len(s.requests()) != 0 {
			t.Error("it asks for a topic that nobody has named")
		}
	})
}

func TestSeal(t *testing.T) {
	n := client(t, "http://ntfy.test", push.NtfyConfig{ReplyTopic: "replies"})
	for _, p := range []push.Press{{Key: "k", Rev: 1, Option: "o"}, {Key: "a b", Rev: 1 << 30, Option: strings.Repeat("日", 80)}, {Key: "\x00", Rev: 2, Option: "\xff"}} {
		body, ok := n.Seal(p)
		if got, read := n.Open(body); !ok || !read || got != p || strings.ContainsFunc(body, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%+v: %q, %+v", p, body, got)
		}
	}
	for _, p := range []push.Press{{}, {Key: "k", Option: "o"}, {Key: "k", Rev: -1, Option: "o"}, {Rev: 1, Option: "o"}, {Key: "k", Rev: 1}, {Key: "k", Rev: 1, Option: strings.Repeat("o", 1000)}} {
		body, ok := n.Seal(p)
		if _, read := n.Open(body); ok || read {
			t.Errorf("%+v: %q", p, body)
		}
	}
	// The seal covers the lengths of the fields.
	a, _ := n.Seal(push.Press{Key: "a1", Rev: 1, Option: "c"})
	b, _ := n.Seal(push.Press{Key: "a", Rev: 11, Option: "c"})
	if a[len(a)-64:] == b[len(b)-64:] {
		t.Error("two presses have one seal")
	}
}

func FuzzOpen(f *testing.F) {
	n, err := push.NewNtfy(push.NtfyConfig{URL: "http://ntfy.test", Topic: "alerts", ReplyTopic: "replies", Key: bytes.Repeat([]byte("k"), 32)})
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range []push.Press{{Key: "216a33f4", Rev: 1, Option: "retry"}, {Key: "k", Rev: 99, Option: "Use the staging copy"}} {
		body, _ := n.Seal(p)
		f.Add(body)
		f.Add(body[1:])
		f.Add(body[:len(body)-64] + strings.ToUpper(body[len(body)-64:]))
	}
	f.Add("a 1 b c")
	f.Fuzz(func(t *testing.T, body string) {
		p, ok := n.Open(body)
		if !ok {
			return
		}
		if again, sealed := n.Seal(p); !sealed || again != body {
			t.Errorf("%q was read as %+v, which is %q", body, p, again)
		}
	})
}
