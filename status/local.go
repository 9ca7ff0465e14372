package status

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Local answers a request in this process, as the daemon would on its socket. Errors: *Error.
func (s *Server) Local(ctx context.Context, path string) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://steward"+path, nil)
	if err != nil {
		return nil, err
	}
	a := &localAnswer{header: http.Header{}, code: http.StatusOK}
	s.Handler().ServeHTTP(a, req)
	if a.code != http.StatusOK {
		return nil, refusal(&http.Response{StatusCode: a.code, Status: http.StatusText(a.code), Body: io.NopCloser(&a.body)})
	}
	return a.body.Bytes(), nil
}

// localAnswer collects what a handler writes.
type localAnswer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *localAnswer) Header() http.Header         { return a.header }
func (a *localAnswer) WriteHeader(code int)        { a.code = code }
func (a *localAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }
