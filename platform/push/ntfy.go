package push

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// NtfyConfig is the configuration of the user's ntfy server.
type NtfyConfig struct {
	URL   string // URL of the server without a topic, such as https://ntfy.sh
	Topic string // the topic that the user has subscribed to
	Token string // the server's access token ("tk_…"); empty: none
	// ReplyTopic receives the presses; empty: messages have no buttons. Phones post to it without the token, so
	// everybody must be allowed to write to it; only the token's user needs to read it.
	ReplyTopic string
	// Key is this installation's secret of at least 32 bytes. It proves that a press belongs to a button that this
	// installation sent. It is required with ReplyTopic and must stay the same after a restart.
	Key []byte
}

const minKey = 32

// isTopic reports whether the server's regular expression accepts the name.
func isTopic(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// Validate returns the first setting that cannot work. Its error contains no secret.
func (c NtfyConfig) Validate() error {
	if _, err := c.server(); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	const form = "%s: a topic has 1 to 64 letters, digits, _ and -"
	switch {
	case !isTopic(c.Topic):
		return fmt.Errorf(form, "topic")
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("token: it holds white space or other characters that no token has")
	case c.ReplyTopic == "":
		return nil
	case !isTopic(c.ReplyTopic):
		return fmt.Errorf(form, "reply_topic")
	case c.ReplyTopic == c.Topic:
		return errors.New("reply_topic: it must be another one than topic, or presses are shown as messages")
	case len(c.Key) < minKey:
		return fmt.Errorf("the key for presses has %d bytes; it must have %d", len(c.Key), minKey)
	}
	return nil
}

// server parses the URL. Its errors do not quote the URL, which may contain a password.
func (c NtfyConfig) server() (*url.URL, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return nil, errors.New("it is no address such as https://ntfy.sh")
	}
	port, err := strconv.Atoi(cmp.Or(u.Port(), "1"))
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("it must begin with https:// or http://")
	case u.User != nil:
		return nil, errors.New("it holds a user or a password; use an access token instead")
	case err != nil || port < 1 || port > 65535:
		return nil, errors.New("there is no such port")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		// The server would accept a message posted to https://ntfy.sh/topic, but show it as raw JSON.
		return nil, errors.New("it must end with the server's name or port: the topic has a setting of its own")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// Caution returns a warning about a valid configuration; empty if none exists.
func (c NtfyConfig) Caution() string {
	u, err := c.server()
	if err != nil || u.Scheme == "https" {
		return ""
	}
	if ip := net.ParseIP(u.Hostname()); ip.IsLoopback() || u.Hostname() == "localhost" {
		return ""
	}
	return "url: http is not encrypted; who is on the way to " + u.Host + " reads the messages and the token"
}

// Ntfy sends messages to one topic of one server and receives presses. Its methods are safe for concurrent use.
type Ntfy struct {
	server       *url.URL
	topic, token string
	reply        string
	key          []byte
	client       *http.Client

	mu      sync.Mutex
	hearing Hearing
}

// NewNtfy checks the configuration (see Validate). It does not connect yet.
func NewNtfy(c NtfyConfig) (*Ntfy, error) {
	if err := c.Validate(); err != nil {
		return nil, &Error{Op: "configure ntfy", Err: err}
	}
	server, err := c.server()
	if err != nil {
		return nil, &Error{Op: "configure ntfy", Err: err}
	}
	return &Ntfy{server: server, topic: c.Topic, token: c.Token, reply: c.ReplyTopic, key: append([]byte(nil), c.Key...),
		client: &http.Client{Transport: newTransport(), CheckRedirect: stay}}, nil
}

// newTransport returns a variant of http.DefaultTransport for few calls with long pauses between them.
func newTransport() *http.Transport {
	// HTTP/1 only: with HTTP/2 all calls share one connection, and after the machine has slept, a message would wait
	// on the dead connection that the stream of presses keeps open.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		Protocols:             &protocols,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          2,
		IdleConnTimeout:       30 * time.Second,
		DisableCompression:    true, // reads are limited; the decompressed size would not be
		// Limit the headers, too.
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// stay rejects redirects: a POST would become a GET, and the token would go to a server that the operator did not
// configure.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes idle connections. Current calls continue, and new calls are still possible.
func (n *Ntfy) Close() { n.client.CloseIdleConnections() }

// Probe checks that the server is reachable and healthy. It does not check the topic or the token. ctx limits it.
func (n *Ntfy) Probe(ctx context.Context) error {
	const op = "ask for the health of "
	resp, err := n.call(ctx, http.MethodGet, "/v1/health", nil, "")
	if err != nil {
		return n.failure(op, err)
	}
	defer resp.Body.Close()
	body, err := answer(resp)
	if err != nil {
		return n.failure(op, err)
	}
	if resp.StatusCode != http.StatusOK {
		return n.refusal(op, resp, body)
	}
	var health struct{ Healthy *bool }
	switch err := json.Unmarshal(body, &health); {
	case err != nil || health.Healthy == nil:
		return &Error{Op: op + n.server.Host, Err: errNoServer, Hint: hintURL}
	case !*health.Healthy:
		return &Error{Op: op + n.server.Host, Err: errors.New("the server says that it is not healthy")}
	}
	return nil
}

// Hints for the operator.
const (
	hintURL     = "look at the url: an ntfy server answers otherwise"
	hintNetwork = "look at the url and the network; a proxy is taken from the environment"
	hintToken   = "look at the token, and what the server lets it do: write to the topic, read the reply topic"
	hintNoToken = "the server wants a token, or does not allow this topic"
	hintLater   = "the server is busy or its limit is reached; it is tried again"
)

var (
	errNoServer = errors.New("the answer is not that of an ntfy server")
	errLong     = errors.New("the answer is far too long")
)

// maxAnswer limits the length of a server's response, in bytes. The response contains the message, at most six times
// as long.
const maxAnswer = 64 << 10

func (n *Ntfy) call(ctx context.Context, method, target string, body []byte, token string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, n.server.String()+target, nil)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(body))), nil }
		req.Body, _ = req.GetBody()
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("User-Agent", "steward")
	resp, err := n.client.Do(req)
	if err != nil {
		n.client.CloseIdleConnections() // they may be broken too; the next attempt opens a new one
	}
	return resp, err
}

// answer reads the whole body, so that the connection can be reused.
func answer(resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = errLong
	}
	return body, err
}

// failure returns the error of a call without a response. It unwraps the url.Error, which would show the topic; on a
// public server a topic is as good as a password.
func (n *Ntfy) failure(op string, err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	hint := hintNetwork
	if errors.Is(err, errLong) {
		hint = hintURL
	}
	return &Error{Op: op + n.server.Host, Hint: hint, Err: err}
}

// refusal returns the error for a response other than 200.
func (n *Ntfy) refusal(op string, resp *http.Response, body []byte) error {
	e := &Error{Op: op + n.server.Host, Hint: hintURL}
	text := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		e.Hint = hintToken
		switch {
		case n.token == "":
			text += ": there is no token"
			e.Hint = hintNoToken
		case code == http.StatusUnauthorized:
			text += ": the token is not accepted"
		default:
			text += ": the token gives no right to the topic"
		}
	case code == http.StatusTooManyRequests, code >= 500:
		e.Hint, e.After = hintLater, retryAfter(resp.Header.Get("Retry-After"))
		if e.After > 0 {
			e.Hint += fmt.Sprintf("; it asks for %s of rest", e.After)
		}
	case code >= 300 && code < 400:
		text += ": redirects are not followed"
		if to, err := resp.Location(); err == nil {
			e.Hint = "if that is the same server, set url to " + oneLine(to.Scheme+"://"+to.Host, maxTitle)
		}
	case code < 500:
		e.Hint = "the server does not take it; its words say why"
	}
	if said := n.said(body); said != "" {
		text += " (" + said + ")"
	}
	e.Err = errors.New(text)
	return e
}

// said returns the server's error message, without secrets.
func (n *Ntfy) said(body []byte) string {
	var doc struct{ Error string }
	if json.Unmarshal(body, &doc) != nil {
		return ""
	}
	words := doc.Error
	for _, secret := range []string{n.token, n.topic, n.reply} {
		if secret != "" {
			words = strings.ReplaceAll(words, secret, "…")
		}
	}
	return oneLine(words, maxTitle)
}

// retryAfter parses the Retry-After header: seconds, or a date.
func retryAfter(value string) time.Duration {
	const most = 24 * time.Hour
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at).Round(time.Second)
	}
	return min(max(wait, 0), most)
}
