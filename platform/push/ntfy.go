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

// NtfyConfig says where the human's ntfy server is.
type NtfyConfig struct {
	URL   string // of the server alone, such as https://ntfy.sh
	Topic string // what the human has subscribed to
	Token string // an access token of the server ("tk_…"); empty: none
	// ReplyTopic is where presses come back; empty: messages have no buttons. Phones post there without the token, so
	// that everybody must be allowed to write to it, and only the token's user needs to read it.
	ReplyTopic string
	// Key is this installation's secret of at least 32 bytes, which proves that a press is of a button of ours. It is
	// needed with ReplyTopic, and must be the same after a restart.
	Key []byte
}

const minKey = 32

// What a server's regular expression takes.
func isTopic(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// Validate reports the first setting that cannot work. No secret is part of what it says.
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

// server reads the URL. What it says about a bad one does not quote it: a password may stand in it.
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
		// A message posted to https://ntfy.sh/topic would be taken, and shown as the JSON that it is.
		return nil, errors.New("it must end with the server's name or port: the topic has a setting of its own")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// Caution is what the operator should know about a configuration that works; empty when there is nothing.
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

// Ntfy sends messages to one topic of one server, and hears presses. Its methods may be called at the same time.
type Ntfy struct {
	server       *url.URL
	topic, token string
	reply        string
	key          []byte
	client       *http.Client

	mu      sync.Mutex
	hearing Hearing
}

// NewNtfy checks the configuration (see Validate) and reaches out to nobody yet.
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

// newTransport is http.DefaultTransport for few calls with long rests between them.
func newTransport() *http.Transport {
	// HTTP/1 alone: with HTTP/2 all share one connection, and after a sleep of the machine a message would wait on the
	// dead one that the stream of presses keeps.
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
		DisableCompression:    true, // what is read is bounded; packed it would not be
		// Headers of megabytes are no answer either.
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// stay follows no redirect: a POST would become a GET, and the token would go where the operator did not send it.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close drops idle connections. Calls under way go on, and so may new ones.
func (n *Ntfy) Close() { n.client.CloseIdleConnections() }

// Probe asks whether the server is there and well. It proves nothing about topic and token. ctx bounds it.
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

// What an operator can do.
const (
	hintURL     = "look at the url: an ntfy server answers otherwise"
	hintNetwork = "look at the url and the network; a proxy is taken from the environment"
	hintToken   = "look at the token, and what the server lets it do: write to the topic, read the reply topic"
	hintNoToken = "the server wants a token, or lets nobody use this topic"
	hintLater   = "the server is busy or its limit is reached; it is tried again"
)

var (
	errNoServer = errors.New("the answer is not that of an ntfy server")
	errLong     = errors.New("the answer is far too long")
)

// maxAnswer bounds what a server may answer, in bytes. A message comes back with it, at most six times as long.
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
		n.client.CloseIdleConnections() // they lead where this one led; the next try begins afresh
	}
	return resp, err
}

// answer reads the whole body, so that the connection can be used again.
func answer(resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = errLong
	}
	return body, err
}

// failure words a call without an answer. The url.Error around it would show the topic, which on a public server is
// as good as a password.
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

// refusal words an answer other than 200.
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

// said is the server's own sentence about an error.
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

// retryAfter reads the header: seconds, or a date.
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
