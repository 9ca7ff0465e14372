//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
)

// phone is an ntfy server with a phone that shows its messages; it forwards posts to the reply topic.
type phone struct {
	mu       sync.Mutex
	messages []pushed
	replies  []string // lines of the reply topic's stream
	down     bool
}

type pushed struct {
	Topic, Title, Message string
	Priority              int
	Actions               []struct{ Label, URL, Body string }
}

func (p *phone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	down := p.down
	p.mu.Unlock()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	switch {
	case down:
		http.Error(w, "{}", http.StatusBadGateway)
	case r.URL.Path == "/v1/health":
		fmt.Fprintln(w, `{"healthy":true}`)
	case r.Method == http.MethodPost && r.URL.Path == "/":
		var m pushed
		_ = json.Unmarshal(body, &m)
		p.mu.Lock()
		p.messages = append(p.messages, m)
		fmt.Fprintf(w, `{"id":"m%d","event":"message","topic":%q}`, len(p.messages), m.Topic)
		p.mu.Unlock()
	case r.Method == http.MethodPost:
		p.reply(string(body))
		fmt.Fprintln(w, `{"id":"r","event":"message","topic":"replies"}`)
	case strings.HasSuffix(r.URL.Path, "/json"):
		p.stream(w, r)
	}
}

func (p *phone) reply(body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line, _ := json.Marshal(map[string]any{"id": fmt.Sprint("r", len(p.replies)), "event": "message", "topic": "replies", "message": body})
	p.replies = append(p.replies, string(line))
}

// stream sends all replies, from the first one on, to each subscriber.
func (p *phone) stream(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, `{"id":"o","event":"open","topic":"replies"}`)
	w.(http.Flusher).Flush()
	for sent := 0; ; {
		p.mu.Lock()
		lines := p.replies[sent:]
		p.mu.Unlock()
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
		sent += len(lines)
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *phone) got(words string) []pushed {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []pushed
	for _, m := range p.messages {
		if strings.Contains(m.Title, words) {
			all = append(all, m)
		}
	}
	return all
}

func (p *phone) fail(down bool) { p.mu.Lock(); defer p.mu.Unlock(); p.down = down }

func readText(h *rig.Rig, name string) string {
	data, err := os.ReadFile(h.At(name))
	if err != nil {
		h.Fatal(err)
	}
	return string(data)
}

// newPushed is a rig with push and command as its only channels.
func newPushed(t *testing.T) (*rig.Rig, *phone) {
	p := &phone{}
	srv := httptest.NewServer(p)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	h := rig.New(t, "")
	if err := os.MkdirAll(h.At("home"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.Write("token", "tk_secret\n")
	if err := os.Chmod(h.At("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Write("pager.sh", "#!/bin/sh\ncat >>\"$HOME/paged\"\n")
	if err := os.Chmod(h.At("pager.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.Write("config.toml", fmt.Sprintf(`[supervisor]
look_every = "200ms"
[escalate]
channels = ["ntfy", "command"]
command = [%q]
dangerous = ["drop"]
[escalate.ntfy]
url = %q
topic = "alerts"
token_file = %q
reply_topic = "replies"
[escalate.ladder.critical]
ntfy = ["0s"]
command = ["0s"]
`, h.At("pager.sh"), srv.URL, h.At("token")))
	return h, p
}

// TestPush: an incident is pushed to a phone and passed to a command; pressing the phone's button answers it, once.
func TestPush(t *testing.T) {
	t.Parallel()
	h, p := newPushed(t)
	h.Boot("p")
	h.Beats("p", 0.9)
	h.Start("p")
	h.Put(h.Task("p", rig.TaskID(1), ".request.json"), rig.RequestOf(rig.TaskID(1), 1))
	h.Outcome("p", rig.TaskID(1), "GIT_CONFLICT:fatal")
	const words = "Critical error: Git conflict detected. Your input needed."
	h.Until("the push", func() bool { return len(p.got(words)) == 1 })
	m := p.got(words)[0]
	if m.Topic != "alerts" || m.Priority != 5 || len(m.Actions) != 2 || m.Actions[0].Label != "Run it again" || !strings.Contains(m.Message, "steward answer") {
		t.Fatalf("pushed: %+v", m)
	}
	var page daemon.PageDocument
	h.Until("the command's page", func() bool {
		data, _ := os.ReadFile(h.At("home/paged"))
		return json.Unmarshal(data, &page) == nil
	})
	if !strings.HasPrefix(page.Title, words) || page.Incident == nil || page.Incident.About != "p:task/"+rig.TaskID(1) || len(page.Options) != 2 || page.Event != "incident" {
		t.Errorf("the command read %+v", page)
	}
	forged := strings.Replace(m.Actions[1].Body, m.Actions[1].Body[len(m.Actions[1].Body)-4:], "0000", 1)
	for _, body := range []string{forged, "", "retry", page.Key + " 1 retry", strings.Repeat("x", 5000)} {
		p.reply(body)
	}
	p.reply(m.Actions[1].Body)
	p.reply(m.Actions[0].Body)
	incident := func() escalate.Incident { return (&rig.Room{Rig: h}).IncidentOf("Git conflict") }
	h.Until("the answer", func() bool { return incident().State == rules.Resolved })
	i := incident()
	if i.Answer == nil || i.Answer.Option != "leave" || i.Answer.Via != escalate.ViaPush {
		t.Errorf("the answer is %+v", i.Answer)
	}
	h.Until("the decision", func() bool {
		data, _ := os.ReadFile(h.Task("p", rig.TaskID(1), ".decision.json"))
		return strings.Contains(string(data), "leave")
	})
}

// TestPushRestart: a press while steward was down counts, and no message is lost while the server is down.
func TestPushRestart(t *testing.T) {
	t.Parallel()
	h, p := newPushed(t)
	p.fail(true)
	h.Boot("p")
	h.Beats("p", 0.9)
	d := h.Start("p")
	h.Put(h.Task("p", rig.TaskID(1), ".request.json"), rig.RequestOf(rig.TaskID(1), 1))
	h.Outcome("p", rig.TaskID(1), "GIT_CONFLICT:fatal")
	incident := func() escalate.Incident { return (&rig.Room{Rig: h}).IncidentOf("Git conflict") }
	h.Until("the command has it", func() bool { return rig.Carried(incident(), "command", true) })
	h.Until("the push has failed", func() bool { return rig.Carried(incident(), "ntfy", false) })
	h.Shows(`"name": *"ntfy",[^}]*"problem": *"[^"]*502`)
	d.Kill()
	p.fail(false)
	h.Write("config.toml", strings.Replace(readText(h, "config.toml"), `ntfy = ["0s"]`, `ntfy = ["0s", "1s"]`, 1))
	d = h.Start("p")
	h.Until("the ladder's next rung is pushed", func() bool { return len(p.got("Git conflict")) == 1 })
	d.Kill()
	p.reply(p.got("Git conflict")[0].Actions[1].Body)
	h.Start("p")
	h.Until("the press of meanwhile counts", func() bool { return incident().State == rules.Resolved })
	if a := incident().Answer; a == nil || a.Option != "leave" {
		t.Errorf("the answer is %+v", a)
	}
}
