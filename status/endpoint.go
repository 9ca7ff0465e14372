package status

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// handler answers a request with a document, or with an error that is sent as an error document.
type handler func(*Server, *http.Request) (any, error)

// of returns the handler of one server, which writes the answer as JSON.
func (h handler) of(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		doc, err := h(s, r)
		if err != nil {
			fail(w, err)
			return
		}
		reply(w, http.StatusOK, doc)
	}
}

func fail(w http.ResponseWriter, err error) {
	e := answerFor(err)
	reply(w, e.Status, errorDocument{e})
}

// reply encodes before writing, so that an encoding failure yields an error and not half a document.
func reply(w http.ResponseWriter, code int, doc any) {
	body, err := encode(doc)
	if err != nil {
		code = http.StatusInternalServerError
		body, _ = encode(errorDocument{&Error{Code: CodeInternal, Message: "write the answer: " + err.Error()}})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // otherwise it is chunked, and the reader cannot allocate once
	w.WriteHeader(code)
	w.Write(body) // an error means that the client has gone
}

func encode(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // keep "> 0.95" readable
	err := enc.Encode(doc)
	return b.Bytes(), err
}

// documented gives errors of the router, which would be plain text, the form of all other errors.
func documented(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r) // not h: only the mux sets the path values
			return
		}
		var plain headersOnly
		h.ServeHTTP(&plain, r)
		if allow := plain.Header().Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			fail(w, &Error{Code: CodeNoMethod, Status: http.StatusMethodNotAllowed, Hint: "use " + allow,
				Message: r.Method + " is not for " + r.URL.Path})
			return
		}
		fail(w, noSubject("see /v1/status", "there is nothing at %s", r.URL.Path))
	})
}

// headersOnly keeps the headers of a response and discards the rest.
type headersOnly struct{ header http.Header }

// Header returns the headers to be set.
func (v *headersOnly) Header() http.Header {
	if v.header == nil {
		v.header = http.Header{}
	}
	return v.header
}

// Write discards the body.
func (v *headersOnly) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader discards the code.
func (v *headersOnly) WriteHeader(int) {}
