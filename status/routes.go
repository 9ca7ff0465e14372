package status

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/livhana/steward/protocol"
)

// routes are the requests that are answered with one document. GET /v1/log may also be a stream.
var routes = map[string]handler{
	"GET /v1/status":    getStatus,
	"GET /v1/agents":    getAgents,
	"GET /v1/tasks":     getTasks,
	"GET /v1/locks":     getLocks,
	"GET /v1/incidents": getIncidents,
	"GET /v1/goals":     getGoals,
	"GET /v1/capacity":  getCapacity,
	"GET /v1/explain":   getExplanation,
	"GET /v1/reach":     getReach,
	"GET /healthz":      getHealth,

	"POST /v1/tasks/{subject}/retry":    commandOn("retry", protocol.KindTask),
	"POST /v1/tasks/{subject}/cancel":   commandOn("cancel", protocol.KindTask),
	"POST /v1/tasks/{subject}/release":  commandOn("release", protocol.KindTask),
	"POST /v1/agents/{subject}/hold":    commandOn("hold", protocol.KindAgent),
	"POST /v1/agents/{subject}/release": commandOn("release", protocol.KindAgent),
	"POST /v1/agents/{subject}/restart": postRestart,
	"POST /v1/projects/{name}/pause":    commandOnProject("pause"),
	"POST /v1/projects/{name}/resume":   commandOnProject("resume"),
	"POST /v1/projects/{name}/mode":     postMode,
	"POST /v1/release":                  commandOnAll("release"),
	"POST /v1/pause":                    commandOnAll("pause"),
	"POST /v1/resume":                   commandOnAll("resume"),
	"POST /v1/incidents/{key}/ack":      postAck,
	"POST /v1/incidents/{key}/answer":   postAnswer,
	"POST /v1/incidents/{key}/snooze":   postSnooze,
	"POST /v1/reload":                   postReload,
	"POST /v1/reach":                    postReach,
	"POST /v1/admit":                    postAdmit,
}

// Handler routes the whole API and returns errors as error documents.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range routes {
		mux.Handle(pattern, h.of(s))
	}
	mux.HandleFunc("GET /v1/log", s.log)
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics)
	}
	return http.MaxBytesHandler(documented(mux), maxBody)
}

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
