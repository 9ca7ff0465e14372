package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/livhana/steward/platform"
)

// Errors of a Client that callers test for.
var (
	// ErrNoDaemon: no daemon answers on the socket. The socket is missing, or its daemon is gone.
	ErrNoDaemon = errors.New("no steward is running there")
	// ErrNoAnswer: a process listens on the socket but does not answer: steward hangs or is stopped.
	ErrNoAnswer = errors.New("the daemon is not responding; see: steward doctor")
	// ErrForeign: the socket belongs to another user, so its answers are not trusted.
	ErrForeign = errors.New("it belongs to another user")
)

// maxAnswer limits how much of one answer is read.
const maxAnswer = 64 << 20

// Client sends requests to a daemon over its Unix socket. Every request opens its own connection, so there is nothing
// to close.
type Client struct {
	socket string
	trusts func(uid int) bool
	http   *http.Client
}

// NewClient makes a client of the daemon that listens on socket. It does not connect yet.
func NewClient(socket string) *Client {
	me := os.Geteuid()
	// Trust root: it could read everything anyway.
	c := &Client{socket: socket, trusts: func(uid int) bool { return uid == me || uid == 0 }}
	c.http = &http.Client{
		Transport:     &http.Transport{DialContext: c.dial, DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Trusting returns a client that also trusts that user's daemon. It is for root acting on a user's behalf.
func (c *Client) Trusting(uid int) *Client {
	before := c.trusts
	c.trusts = func(other int) bool { return before(other) || other == uid }
	return c
}

// Time limits of an answer: a question is answered from memory, a command may have to wait for a project.
const (
	questionTime = 3 * time.Second
	orderTime    = commandTime + 5*time.Second
)

// Get requests a document, such as "/v1/status", and decodes it into what into points to: nil discards it, a
// *json.RawMessage receives it verbatim. Errors: ErrNoDaemon, ErrForeign, *Error, or an interrupted exchange.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.exchange(ctx, http.MethodGet, path, nil, into)
}

// Post sends a command; body may be nil, otherwise it is sent as JSON. Errors are those of Get.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	if body == nil {
		return c.exchange(ctx, http.MethodPost, path, nil, into)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request for %s: %w", path, err)
	}
	return c.exchange(ctx, http.MethodPost, path, bytes.NewReader(b), into)
}

func (c *Client) exchange(ctx context.Context, method, path string, body io.Reader, into any) error {
	limit, asked := questionTime, ctx
	if method == http.MethodPost {
		// Detect a hanging daemon at once instead of after the command's own time limit.
		if err := c.exchange(ctx, http.MethodGet, healthPath, nil, nil); errors.Is(err, ErrNoAnswer) {
			return err
		}
		limit = orderTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrNoAnswer)
	defer cancel()
	res, err := c.send(ctx, method, path, "application/json", body)
	if err != nil {
		return c.gone(asked, method, path, err)
	}
	defer res.Body.Close()
	b, err := readAnswer(res)
	if err == nil {
		err = decode(b, into)
	}
	if err != nil {
		return c.gone(asked, method, path, fmt.Errorf("read the answer to %s %s: %w", method, path, err))
	}
	return nil
}

// healthPath is answered at once, whatever else the daemon is doing.
const healthPath = "/healthz"

// gone returns ErrNoDaemon if the exchange broke off because the daemon ended: the kernel still accepts connections for
// a process that is being killed. If the daemon is alive and closed the connection early, err is returned unchanged.
func (c *Client) gone(ctx context.Context, method, path string, err error) error {
	if !brokeOff(err) {
		return err
	}
	if path != healthPath && !errors.Is(c.exchange(ctx, http.MethodGet, healthPath, nil, nil), ErrNoDaemon) {
		return err
	}
	if method == http.MethodGet {
		return fmt.Errorf("the daemon ended before it answered: %w; start it with 'steward run'", ErrNoDaemon)
	}
	return fmt.Errorf("the daemon ended before it answered, and may have done it: %w; start it with 'steward run', and see 'steward log'", ErrNoDaemon)
}

// brokeOff reports whether the peer closed the connection during an exchange.
func brokeOff(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

func readAnswer(res *http.Response) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(res.ContentLength, 0), maxAnswer)) + bytes.MinRead)
	_, err := b.ReadFrom(io.LimitReader(res.Body, maxAnswer))
	return b.Bytes(), err
}

func decode(b []byte, into any) error {
	switch into := into.(type) {
	case nil:
		return nil
	case *json.RawMessage:
		*into = b
		return nil
	default:
		return json.Unmarshal(b, into)
	}
}

// send sends the request and returns a successful response.
func (c *Client) send(ctx context.Context, method, path, accept string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://steward"+path, body)
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", path, err)
	}
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		var broken *url.Error
		if errors.As(err, &broken) {
			err = broken.Err // the URL error would show a URL that the user never typed
		}
		if errors.Is(context.Cause(ctx), ErrNoAnswer) {
			err = ErrNoAnswer
		}
		return nil, fmt.Errorf("ask steward: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, refusal(res)
	}
	return res, nil
}

// refusal reads the error document. A response without an error document still yields an error.
func refusal(res *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var doc errorDocument
	if json.Unmarshal(b, &doc) != nil || doc.Error == nil || doc.Error.Code == "" {
		doc.Error = &Error{Code: CodeInternal, Message: fmt.Sprintf("steward answers %s: %.200q", res.Status, b)}
	}
	doc.Error.Status = res.StatusCode
	return doc.Error
}

// dial connects, and refuses an untrusted peer before sending a byte. The file's owner is checked first because that
// gives the clearer message; only the kernel's peer credentials are free of races.
func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := platform.CheckSocketPath(c.socket); err != nil {
		return nil, err
	}
	if err := checkOwner(c.socket, c.trusts); err != nil {
		return nil, c.explain(err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, c.explain(err)
	}
	uid, err := platform.PeerUID(conn.(*net.UnixConn))
	switch {
	case errors.Is(err, errors.ErrUnsupported): // then the folder's permissions decide
		return conn, nil
	case err == nil && !c.trusts(uid):
		err = fmt.Errorf("%w (uid %d)", ErrForeign, uid)
	case err == nil:
		return conn, nil
	}
	conn.Close()
	return nil, c.explain(err)
}

func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("connect to %s: %w; start it with 'steward run'", c.socket, ErrNoDaemon)
	case errors.Is(err, ErrForeign):
		return fmt.Errorf("connect to %s: %w; use --socket with one of your own", c.socket, err)
	}
	return fmt.Errorf("connect to %s: %w", c.socket, err)
}
