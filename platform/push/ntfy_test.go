package push_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/platform/push"
)

const secret = "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestMessageArrives(t *testing.T) {
	s := &standIn{token: secret}
	n := client(t, serve(t, s), push.NtfyConfig{Token: secret})
	err := n.Send(bounded(t), push.Message{Key: "216a33f4", Rev: 3, Title: "Git conflict", Text: "in <main>\nYour input & \"yours\" alone",
		Severity: "critical", Blocking: true, Options: []push.Option{{ID: "retry", Label: "Run it again"}}})
	if err != nil {
		t.Fatal(err)
	}
	kept := s.kept("alerts")
	want := note{Title: "Git conflict", Message: "in <main>\nYour input & \"yours\" alone", Priority: 5,
		Tags: []string{"rotating_light", "blocking"}, Topic: "alerts", Event: "message"}
	if len(kept) != 1 || kept[0].ID == "" {
		t.Fatalf("kept %+v", kept)
	}
	want.ID, want.Time = kept[0].ID, kept[0].Time
	// Without a reply topic there are no presses, so there are no buttons.
	if got := fmt.Sprintf("%+v", kept[0]); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %s\nwant %+v", got, want)
	}
	if got := s.requests()[0]; got.Header.Get("Authorization") != "Bearer "+secret || got.URL.Path != "/" {
		t.Errorf("asked %s with %v", got.URL, got.Header)
	}
}

func TestUrgency(t *testing.T) {
	s := &standIn{}
	n := client(t, serve(t, s), push.NtfyConfig{})
	for _, c := range []struct {
		m        push.Message
		priority int
		tags     string
	}{
		{push.Message{Severity: "critical"}, 5, "[rotating_light]"},
		{push.Message{Severity: "high"}, 4, "[warning]"},
		{push.Message{Severity: "medium"}, 3, "[]"},
		{push.Message{Severity: "low"}, 2, "[]"},
		{push.Message{Severity: "info"}, 2, "[]"},
		{push.Message{Severity: "unheard of"}, 3, "[]"},
		{push.Message{Severity: "critical", Blocking: true, Over: true}, 2, "[white_check_mark]"},
	} {
		c.m.Title, c.m.Text = "title", "text"
		if err := n.Send(bounded(t), c.m); err != nil {
			t.Fatal(err)
		}
		kept := s.kept("alerts")
		if got := kept[len(kept)-1]; got.Priority != c.priority || fmt.Sprint(got.Tags) != c.tags {
			t.Errorf("%+v: priority %d, tags %v; want %d, %s", c.m, got.Priority, got.Tags, c.priority, c.tags)
		}
	}
}

// TestAnyTextArrives: texts come from agents' files; the server must accept any text, and a phone must be able to
// show it.
func TestAnyTextArrives(t *testing.T) {
	s := &standIn{}
	n := client(t, serve(t, s), push.NtfyConfig{ReplyTopic: "replies"})
	for name, text := range map[string]string{
		"none":            "",
		"control":         "a\x00b\x1b[31mc\x7fd\u202ee\u2066f\uffff",
		"long":            strings.Repeat("word ", 10_000),
		"wide":            strings.Repeat("漢", 5000),
		"four bytes":      strings.Repeat("🚨", 5000),
		"quotes":          strings.Repeat(`"`, 9000),
		"backslashes":     strings.Repeat(`\`, 9000),
		"lines":           strings.Repeat("a\r\n", 9000),
		"angles":          strings.Repeat("<", 9000),
		"encoded":         `=?UTF-8?Q?=22=7D,=0A=1B?= ==??UTF-8?B?Ig==?=`,
		"odd ends":        strings.Repeat("\u2028", 9000) + "x",
		"no UTF-8":        strings.Repeat("\xff\xc0", 4000),
		"just below":      strings.Repeat("x", 4095),
		"just above":      strings.Repeat("x", 4096),
		"split at a rune": strings.Repeat("x", 4094) + "漢",
	} {
		options := []push.Option{{ID: text, Label: text}, {ID: "yes", Label: text}, {ID: "no", Label: ""}, {ID: "fourth", Label: "Fourth"}}
		if err := n.Send(bounded(t), push.Message{Key: "k", Rev: 1, Title: text, Text: text, Options: options}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		kept := s.kept("alerts")
		got := kept[len(kept)-1]
		if len(got.Message) >= 4096 || len(got.Title) > 250 || got.Message == "" || strings.Contains(got.Title, "\n") || len(got.Actions) > 3 {
			t.Errorf("%s: title of %d bytes, message of %d, %d actions: %.40q", name, len(got.Title), len(got.Message), len(got.Actions), got.Message)
		}
		for _, s := range []string{got.Title, got.Message} {
			odd := func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }
			if !utf8.ValidString(s) || strings.ContainsFunc(s, odd) {
				t.Errorf("%s: %.60q", name, s)
			}
		}
	}
	for _, n := range s.kept("alerts") {
		if n.Message == "triggered" {
			t.Errorf("the server had to find words of its own: %+v", n)
		}
	}
	if got := s.kept("alerts"); len(got[0].Actions) == 0 {
		t.Error("no buttons at all")
	}
	if err := n.Send(bounded(t), push.Message{Text: "\x00\n"}); err == nil {
		t.Error("a message without any word was sent")
	}
	if got := push.Clean(strings.Repeat("漢", 100), 10); got != "漢漢…" {
		t.Errorf("cut to 10 bytes: %q", got)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		front func(http.ResponseWriter, *http.Request) bool
		want  []string // substrings of the error
		hint  string
		after time.Duration
	}{
		"401": {status(401, "", `{"code":40101,"http":401,"error":"unauthorized `+secret+` alerts"}`), []string{"401", "token", "(unauthorized … …)"}, "token", 0},
		"403": {status(403, "", `{"code":40301,"http":403,"error":"forbidden"}`), []string{"403", "token", "forbidden"}, "token", 0},
		"429": {status(429, "Retry-After: 17", `{"code":42901,"http":429,"error":"limit reached: too many requests"}`),
			[]string{"429", "limit reached"}, "17s", 17 * time.Second},
		"429, silent":    {status(429, "", ""), []string{"429"}, "tried again", 0},
		"503 for ever":   {status(503, "Retry-After: 999999999", ""), []string{"503"}, "rest", 24 * time.Hour},
		"503, odd words": {status(503, "Retry-After: -5", ""), []string{"503"}, "tried again", 0},
		"500":            {status(500, "", "<html>"), []string{"500"}, "tried again", 0},
		"400":            {status(400, "", `{"code":40010,"http":400,"error":"invalid request:\ntopic name is not allowed"}`), []string{"400", "topic name is not allowed"}, "words", 0},
		"no ntfy":        {status(200, "", "<html>welcome</html>"), []string{"not that of an ntfy"}, "url", 0},
		"no id":          {status(200, "", `{"event":"message","topic":"alerts"}`), []string{"not that of an ntfy"}, "url", 0},
		"other topic":    {status(200, "", `{"id":"x","event":"message","topic":"others"}`), []string{"not that of an ntfy"}, "url", 0},
		"no content":     {status(204, "", ""), []string{"204"}, "", 0},
		"megabytes":      {status(200, "", `{"id":"`+strings.Repeat("x", 4<<20)+`"}`), []string{"too long"}, "url", 0},
		"cut": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"id":"x","event":"message","topic":"alerts"}`)
			panic(http.ErrAbortHandler)
		}, []string{"EOF"}, "network", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &standIn{front: c.front}
			n := client(t, serve(t, s), push.NtfyConfig{Token: secret})
			err := n.Send(bounded(t), push.Message{Title: "t", Text: "x"})
			var e *push.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			for _, word := range c.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in %q", word, err)
				}
			}
			if !strings.Contains(e.Hint, c.hint) || e.After != c.after {
				t.Errorf("hint %q, after %s", e.Hint, e.After)
			}
			if all := err.Error() + e.Hint; strings.Contains(all, secret) || strings.Contains(all, "alerts") || strings.Contains(all, "\n") {
				t.Errorf("a secret, or more than a line: %q", all)
			}
		})
	}
}

func TestRetryAfterADate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(40 * time.Second).UTC().Format(http.TimeFormat)
		n, _ := within(t, &standIn{front: status(503, "Retry-After: "+at, "")}, push.NtfyConfig{})
		var e *push.Error
		if err := n.Send(t.Context(), push.Message{Text: "x"}); !errors.As(err, &e) || e.After != 40*time.Second {
			t.Errorf("%v: %+v", err, e)
		}
	})
}

func TestWhoHasNoTokenIsTold(t *testing.T) {
	n := client(t, serve(t, &standIn{token: secret}), push.NtfyConfig{})
	if err := n.Send(bounded(t), push.Message{Text: "x"}); err == nil || !strings.Contains(err.Error(), "there is no token") {
		t.Error(err)
	}
	n = client(t, serve(t, &standIn{token: secret}), push.NtfyConfig{Token: "tk_other"})
	if err := n.Send(bounded(t), push.Message{Text: "x"}); err == nil || !strings.Contains(err.Error(), "the token is not accepted") {
		t.Error(err)
	}
}

func TestTokenGoesNowhereElse(t *testing.T) {
	thief := &standIn{}
	elsewhere := serve(t, thief)
	for _, code := range []int{301, 302, 303, 307, 308} {
		n := client(t, serve(t, &standIn{front: status(code, "Location: "+elsewhere+"/?x", "")}), push.NtfyConfig{Token: secret})
		var e *push.Error
		if err := n.Send(bounded(t), push.Message{Text: "x"}); !errors.As(err, &e) || !strings.Contains(err.Error(), "redirect") || !strings.HasSuffix(e.Hint, elsewhere) {
			t.Errorf("%d: %v, %+v", code, err, e)
		}
	}
	if got := thief.requests(); len(got) != 0 {
		t.Errorf("followed to another server: %v", got)
	}
}

func TestDeadlineIsHeeded(t *testing.T) {
	for name, front := range map[string]func(http.ResponseWriter, *http.Request) bool{"hangs": hang, "drips": drip(" ")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, m := within(t, &standIn{front: front}, push.NtfyConfig{})
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				begin := time.Now()
				err := n.Send(ctx, push.Message{Text: "x"})
				if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 20*time.Second {
					t.Errorf("after %s: %v", took, err)
				}
				synctest.Wait()
				if got := m.connections(); got != 0 {
					t.Errorf("%d connections are kept to a server that hangs", got)
				}
			})
		})
	}
}

// TestAnswerIsBounded: an endless response is not read completely.
func TestAnswerIsBounded(t *testing.T) {
	for _, code := range []int{200, 500} {
		synctest.Test(t, func(t *testing.T) {
			sent := make(chan int, 10)
			s := &standIn{front: func(w http.ResponseWriter, r *http.Request) bool {
				io.Copy(io.Discard, r.Body)
				w.WriteHeader(code)
				total := 0
				for part := make([]byte, 1<<10); total < 64<<20; total += len(part) {
					if _, err := w.Write(part); err != nil {
						break
					}
				}
				sent <- total
				return true
			}}
			n, _ := within(t, s, push.NtfyConfig{})
			if n.Send(t.Context(), push.Message{Text: "x"}) == nil || n.Probe(t.Context()) == nil {
				t.Error("that was an answer")
			}
			for range 2 {
				if got := <-sent; got > 1<<20 {
					t.Errorf("%d: %d bytes were read", code, got)
				}
			}
		})
	}
}

func TestSlowServerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &standIn{front: func(http.ResponseWriter, *http.Request) bool { time.Sleep(19 * time.Second); return false }}
		n, _ := within(t, s, push.NtfyConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := n.Send(ctx, push.Message{Text: "x"}); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingIsLeftWhenIdle: a connection is reused within a burst of messages and closed when idle.
func TestNothingIsLeftWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, m := within(t, &standIn{}, push.NtfyConfig{})
		for range 5 {
			if err := n.Send(t.Context(), push.Message{Text: "x"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := m.connections(); got != 1 {
				t.Fatalf("%d connections", got)
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if got := m.connections(); got != 0 {
			t.Errorf("%d connections after 31 idle seconds", got)
		}
	})
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		front func(http.ResponseWriter, *http.Request) bool
		want  string
	}{
		"well":    {nil, ""},
		"unwell":  {status(200, "", `{"healthy":false}`), "not healthy"},
		"other":   {status(200, "", `<html>`), "not that of an ntfy"},
		"else":    {status(200, "", `{"status":"ok"}`), "not that of an ntfy"},
		"down":    {status(502, "", ""), "502"},
		"no such": {status(404, "", ""), "404"},
	} {
		s := &standIn{front: c.front, token: secret}
		n := client(t, serve(t, s), push.NtfyConfig{Token: secret})
		err := n.Probe(bounded(t))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.requests()[0]; got.URL.Path != "/v1/health" || got.Header.Get("Authorization") != "" {
			t.Errorf("%s: asked %s with %v", name, got.URL, got.Header)
		}
	}
	n := client(t, "http://127.0.0.1:1", push.NtfyConfig{})
	if err := n.Probe(bounded(t)); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	good := push.NtfyConfig{URL: "https://ntfy.sh", Topic: "alerts", Token: secret, ReplyTopic: "replies", Key: key}
	for _, u := range []string{"https://ntfy.sh", "https://ntfy.sh/", "http://localhost:2586", "http://[::1]:80", "https://n.example:8443"} {
		c := good
		c.URL = u
		if _, err := push.NewNtfy(c); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	for want, change := range map[string][]func(*push.NtfyConfig){
		"url: ": {url(""), url("ntfy.sh"), url("ftp://ntfy.sh"), url("https://"), url("https://ntfy.sh/alerts"), url("https://ntfy.sh?x=1"), url("https://ntfy.sh#x"),
			url("https://user:hunter2@ntfy.sh"), url("https://user:hunter2@ntfy.sh:port"), url("https://u:hunter2/x@ntfy.sh"), url("https://ntfy.sh:99999"), url("https:ntfy.sh"), url("https://nt fy.sh"), url("https://ntfy.sh/%zz")},
		"topic: ":       {func(c *push.NtfyConfig) { c.Topic = "" }, func(c *push.NtfyConfig) { c.Topic = "a/b" }, func(c *push.NtfyConfig) { c.Topic = strings.Repeat("a", 65) }, func(c *push.NtfyConfig) { c.Topic = "a\n" }},
		"reply_topic: ": {func(c *push.NtfyConfig) { c.ReplyTopic = "ä" }, func(c *push.NtfyConfig) { c.ReplyTopic = c.Topic }},
		"token: ":       {func(c *push.NtfyConfig) { c.Token = "hunter2\n" }, func(c *push.NtfyConfig) { c.Token = "hunter2 x" }},
		"the key ":      {func(c *push.NtfyConfig) { c.Key = nil }, func(c *push.NtfyConfig) { c.Key = key[:31] }},
	} {
		for i, f := range change {
			c := good
			f(&c)
			err := c.Validate()
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s%d: %v", want, i, err)
			}
			if _, err := push.NewNtfy(c); err == nil {
				t.Errorf("%s%d: taken", want, i)
			}
		}
	}
	for u, warns := range map[string]bool{"https://ntfy.sh": false, "http://127.0.0.1:80": false, "http://localhost": false, "http://ntfy.lan": true, "http://192.168.1.2": true} {
		if got := (push.NtfyConfig{URL: u}).Caution(); (got != "") != warns {
			t.Errorf("%s: %q", u, got)
		}
	}
}

func url(u string) func(*push.NtfyConfig) { return func(c *push.NtfyConfig) { c.URL = u } }

// TestProxyOfTheEnvironment uses a separate process, because the proxy variables are read once per process.
func TestProxyOfTheEnvironment(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "ntfy.invalid" {
			t.Errorf("asked for %s", r.URL)
		}
		json.NewEncoder(w).Encode(map[string]bool{"healthy": true})
	}))
	defer proxy.Close()
	cmd := exec.CommandContext(bounded(t), os.Args[0], "play", "probe", "http://ntfy.invalid")
	cmd.Env = append(os.Environ(), "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
