// Package model is a model server for tests. Claude Code and Codex talk to it as to their vendors' servers, so that the
// real programs run without an account. A script says what the model does.
package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rule is what the model does when the newest text of the user matches When: it calls a tool for each step, one after
// the other, and ends its turn with Say. The first rule that matches counts.
type Rule struct {
	When  *regexp.Regexp
	Steps []Step
	Say   string
}

// Step is one tool call: a shell command, or another tool by its name. In both, $1 stands for a group of the rule's
// When.
type Step struct {
	Shell string
	Tool  string
	Input map[string]any
}

// Server is a running model server.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	rules    []Rule
	requests []Request
	limited  time.Time // until then each request is refused; zero: none is
	delay    time.Duration
}

// Request is what the model was shown.
type Request struct {
	Path string
	Text string // the newest text of the user
	Body string
}

// Start starts a model server, which ends with the test.
func Start(t testing.TB, rules ...Rule) *Server {
	s := &Server{rules: rules}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.http.Close)
	return s
}

// URL is the server's address, without a path.
func (s *Server) URL() string { return s.http.URL }

// Limit refuses every request until that moment, as a used up account does (429).
func (s *Server) Limit(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limited = until
}

// Delay makes each answer wait.
func (s *Server) Delay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Requests lists the requests that offered tools, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var answer func(http.ResponseWriter, []byte, turn)
	var read func([]byte) conversation
	switch path := r.URL.Path; {
	case r.Method != http.MethodPost:
		reply(w, `{"data":[],"models":[]}`)
		return
	case strings.HasSuffix(path, "/count_tokens"):
		reply(w, `{"input_tokens":5}`)
		return
	case strings.HasSuffix(path, "/v1/messages"):
		read, answer = readMessages, answerMessages
	case strings.HasSuffix(path, "/responses"):
		read, answer = readResponses, answerResponses
	default:
		reply(w, `{}`)
		return
	}
	c := read(body)
	limited, delay := s.enter(r.URL.Path, c, body)
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return
	}
	if limited > 0 {
		refuse(w, limited)
		return
	}
	answer(w, body, s.next(c))
}

// enter records a request. It returns for how long the account is still limited, and how long the answer waits.
func (s *Server) enter(path string, c conversation, body []byte) (limited, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(c.tools) > 0 {
		s.requests = append(s.requests, Request{path, c.text, string(body)})
	}
	if !s.limited.IsZero() {
		limited = time.Until(s.limited)
	}
	return limited, s.delay
}

// refuse answers as a vendor whose limit is reached.
func refuse(w http.ResponseWriter, left time.Duration) {
	seconds := fmt.Sprint(int(left.Seconds()) + 1)
	w.Header().Set("Retry-After", seconds)
	w.Header().Set("X-Should-Retry", "false")
	w.Header().Set("Anthropic-Ratelimit-Unified-Status", "rejected")
	w.Header().Set("Anthropic-Ratelimit-Unified-Reset", fmt.Sprint(time.Now().Add(left).Unix()))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	fmt.Fprint(w, `{"type":"error","error":{"type":"rate_limit_error","message":"the usage limit of this account is reached"}}`)
}

func reply(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

// conversation is what the model needs of a request.
type conversation struct {
	text    string // the newest text of the user
	results int    // of tools, since that text
	tools   map[string]bool
	stream  bool
}

// turn is the model's answer: a text, or one call of a tool.
type turn struct {
	text  string
	tool  string
	input map[string]any
}

// next decides the model's next turn. The conversation is the whole state.
func (s *Server) next(c conversation) turn {
	if len(c.tools) == 0 {
		return turn{text: "ok"} // a title or a summary
	}
	for _, r := range s.rules {
		m := r.When.FindStringSubmatchIndex(c.text)
		if m == nil {
			continue
		}
		if c.results >= len(r.Steps) {
			return turn{text: fill(r.Say, c.text, m)}
		}
		step := r.Steps[c.results]
		if step.Tool != "" {
			return turn{tool: step.Tool, input: step.Input}
		}
		return c.shell(fill(step.Shell, c.text, m))
	}
	return turn{text: "all done"}
}

// fill replaces $1 to $9 by the groups of a match; other variables are the shell's.
func fill(template, text string, match []int) string {
	for i := 1; i < 10 && 2*i < len(match); i++ {
		if match[2*i] >= 0 {
			template = strings.ReplaceAll(template, fmt.Sprint("$", i), text[match[2*i]:match[2*i+1]])
		}
	}
	return template
}

// shell calls the shell tool that the request offers.
func (c *conversation) shell(command string) turn {
	switch {
	case c.tools["Bash"]:
		return turn{tool: "Bash", input: map[string]any{"command": command, "description": "run a command"}}
	case c.tools["exec_command"]:
		return turn{tool: "exec_command", input: map[string]any{"cmd": command}}
	case c.tools["shell_command"]:
		return turn{tool: "shell_command", input: map[string]any{"command": command}}
	}
	return turn{tool: "shell", input: map[string]any{"command": []string{"bash", "-c", command}}}
}

// event writes one event of a stream.
func event(w io.Writer, name string, data any) {
	doc, _ := json.Marshal(data)
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, doc)
}
