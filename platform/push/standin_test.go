package push_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/livhana/steward/platform/push"
)

// Limits and event names of a real server.
const (
	messageLimit  = 4096
	documentLimit = 2 * messageLimit
	keepaliveTime = 45 * time.Second
)

var topicPath = regexp.MustCompile(`^/([-_A-Za-z0-9]{1,64})(/json)?$`)

// note is one message or event of the stand-in server.
type note struct {
	ID       string   `json:"id"`
	Time     int64    `json:"time"`
	Event    string   `json:"event"`
	Topic    string   `json:"topic"`
	Title    string   `json:"title,omitempty"`
	Message  string   `json:"message,omitempty"`
	Priority int      `json:"priority,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	Actions  []button `json:"actions,omitempty"`
}

type button struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	URL    string `json:"url"`
	Method string `json:"method"`
	Body   string `json:"body"`
	Clear  bool   `json:"clear"`
}

// standIn is an ntfy server that accepts, stores and streams messages as the real one does.
type standIn struct {
	token string // with the token everything is allowed, without it only writing to the topic "replies"; empty: no restriction

	mu    sync.Mutex
	cache []note
	ears  map[chan note]string
	asked []http.Request // header and URL of each request
	// front may respond instead of the server; it returns true if it did.
	front func(http.ResponseWriter, *http.Request) bool
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, http.Request{Method: r.Method, URL: r.URL, Header: r.Header, Host: r.Host})
	front := s.front
	s.mu.Unlock()
	if front != nil && front(w, r) {
		return
	}
	topic := topicPath.FindStringSubmatch(r.URL.Path)
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/v1/health":
		fmt.Fprintln(w, `{"healthy":true}`)
	case r.Method == http.MethodPost && r.URL.Path == "/":
		s.publishJSON(w, r)
	case r.Method == http.MethodPost && topic != nil && topic[2] == "":
		body, _ := io.ReadAll(io.LimitReader(r.Body, messageLimit))
		s.publish(w, r, note{Topic: topic[1], Title: r.Header.Get("X-Title"), Message: strings.TrimSpace(string(body))})
	case r.Method == http.MethodGet && topic != nil && topic[2] != "":
		s.stream(w, r, topic[1])
	default:
		refuse(w, 404, 40401, "page not found")
	}
}

func refuse(w http.ResponseWriter, status, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"code":%d,"http":%d,"error":%q,"link":"https://ntfy.sh/docs"}`+"\n", code, status, text)
}

func (s *standIn) may(w http.ResponseWriter, r *http.Request, topic string) bool {
	given := r.Header.Get("Authorization")
	switch {
	case s.token == "", given == "Bearer "+s.token, given == "" && r.Method == http.MethodPost && topic == "replies":
		return true
	case given != "":
		refuse(w, 401, 40101, "unauthorized")
	default:
		refuse(w, 403, 40301, "forbidden")
	}
	return false
}

func (s *standIn) publishJSON(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, documentLimit+1))
	var n note
	switch {
	case len(body) >= documentLimit:
		refuse(w, 413, 41303, "JSON body too large")
		return
	case json.Unmarshal(body, &n) != nil:
		refuse(w, 400, 40017, "invalid request: request body must be message JSON")
		return
	case !topicPath.MatchString("/" + n.Topic):
		refuse(w, 400, 40009, "invalid request: topic invalid")
		return
	case n.Priority < 0 || n.Priority > 5:
		refuse(w, 400, 40007, "invalid priority parameter")
		return
	case len(n.Actions) > 3 || slices.ContainsFunc(n.Actions, func(b button) bool { return b.Label == "" || b.URL == "" }):
		refuse(w, 400, 40018, "invalid request: actions invalid")
		return
	case len(n.Message) >= messageLimit:
		refuse(w, 413, 41301, "attachment too large, or bandwidth limit reached")
		return
	}
	// The real server passes these on in HTTP headers and decodes them accordingly.
	words := new(mime.WordDecoder)
	n.Title, _ = words.DecodeHeader(n.Title)
	actions, _ := json.Marshal(n.Actions)
	decoded, _ := words.DecodeHeader(string(actions))
	if n.Actions = nil; json.Unmarshal([]byte(decoded), &n.Actions) != nil {
		refuse(w, 400, 40018, "invalid request: actions invalid")
		return
	}
	n.Message = strings.TrimSpace(n.Message)
	s.publish(w, r, n)
}

func (s *standIn) publish(w http.ResponseWriter, r *http.Request, n note) {
	if !s.may(w, r, n.Topic) {
		return
	}
	if n.Message == "" {
		n.Message = "triggered"
	}
	n = s.put(n)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(n)
}

func (s *standIn) put(n note) note {
	n.ID, n.Event, n.Time = rand.Text()[:12], "message", time.Now().Unix()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache = append(s.cache, n)
	for ear, topic := range s.ears {
		if topic == n.Topic {
			ear <- n
		}
	}
	return n
}

// stream serves a subscription: an "open" event, messages newer than since, then new messages, with keepalives
// between.
func (s *standIn) stream(w http.ResponseWriter, r *http.Request, topic string) {
	if !s.may(w, r, topic) {
		return
	}
	ear := make(chan note, 20_000)
	s.mu.Lock()
	old := s.since(topic, r.URL.Query().Get("since"))
	if s.ears == nil {
		s.ears = map[chan note]string{}
	}
	s.ears[ear] = topic
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ears, ear)
	}()
	w.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
	say := func(n note) {
		json.NewEncoder(w).Encode(n)
		http.NewResponseController(w).Flush()
	}
	event := func(word string) note {
		return note{ID: rand.Text()[:12], Event: word, Topic: topic, Time: time.Now().Unix()}
	}
	say(event("open"))
	for _, n := range old {
		say(n)
	}
	keepalive := time.NewTicker(keepaliveTime)
	defer keepalive.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-keepalive.C:
			say(event("keepalive"))
		case n := <-ear:
			say(n)
		}
	}
}

// since returns the messages newer than a duration or an id; all messages if the id is unknown. The caller holds
// s.mu.
func (s *standIn) since(topic, marker string) []note {
	from, after := int64(0), 0
	if d, err := time.ParseDuration(marker); err == nil {
		from = time.Now().Add(-d).Unix()
	} else if i := slices.IndexFunc(s.cache, func(n note) bool { return n.ID == marker }); i >= 0 {
		after = i + 1
	}
	var all []note
	for _, n := range s.cache[after:] {
		if n.Topic == topic && n.Time >= from {
			all = append(all, n)
		}
	}
	return all
}

func (s *standIn) kept(topic string) []note {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.cache), func(n note) bool { return n.Topic != topic })
}

func (s *standIn) requests() []http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *standIn) trouble(front func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.front = front
}

// inMemory serves without a network, so that it works in a synctest bubble. It ends with stop.
type inMemory struct {
	calls chan net.Conn
	done  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	open  map[*counted]bool // connections that the client has not closed
}

func (m *inMemory) Accept() (net.Conn, error) {
	select {
	case c := <-m.calls:
		return c, nil
	case <-m.done:
		return nil, errors.New("closed")
	}
}
func (m *inMemory) Close() error   { m.once.Do(func() { close(m.done) }); return nil }
func (m *inMemory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (m *inMemory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.calls <- theirs:
	case <-m.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &counted{Conn: ours, m: m}
	m.open[c] = true
	return c, nil
}

func (m *inMemory) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open)
}

// breakAll simulates a short network failure.
func (m *inMemory) breakAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.open {
		c.Conn.Close()
	}
}

type counted struct {
	net.Conn
	m *inMemory
}

func (c *counted) Close() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	delete(c.m.open, c)
	return c.Conn.Close()
}

// within serves the stand-in inside a bubble and returns a client of it.
func within(t *testing.T, s http.Handler, c push.NtfyConfig) (*push.Ntfy, *inMemory) {
	t.Helper()
	m := &inMemory{calls: make(chan net.Conn), done: make(chan struct{}), open: map[*counted]bool{}}
	server := &http.Server{Handler: s}
	go server.Serve(m)
	n := client(t, "http://ntfy.test", c)
	n.DialThrough(m.dial)
	t.Cleanup(func() { n.Close(); server.Close() })
	return n, m
}

// client returns a client with defaults for most tests.
func client(t testing.TB, url string, c push.NtfyConfig) *push.Ntfy {
	t.Helper()
	c.URL, c.Topic = url, "alerts"
	if c.ReplyTopic != "" {
		c.Key = []byte(strings.Repeat("k", 32))
	}
	n, err := push.NewNtfy(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// serve listens on a local port. When the test ends, the client must have left no goroutines.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, others) })
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// status returns a front that responds to every request in this way.
func status(code int, header, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(code)
		io.WriteString(w, body)
		return true
	}
}

// hang never responds. It reads the request first, because only then the server notices that its client has gone.
func hang(_ http.ResponseWriter, r *http.Request) bool {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return true
}

// drip returns a front that responds endlessly, a little each second.
func drip(text string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		for r.Context().Err() == nil {
			io.WriteString(w, text)
			http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
			}
		}
		return true
	}
}
