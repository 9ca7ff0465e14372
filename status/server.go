package status

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/supervisor"
)

// Server answers questions from what the loop last knew, and hands it the operator's commands. All fields but
// Metrics must be set. Who may connect is the listener's business (platform.Listen, platform.PeerListener).
type Server struct {
	// Picture is the loop's last picture; nil before the first look.
	Picture func() *supervisor.State
	Ledger  *escalate.Ledger
	Journal *supervisor.Journal
	// Do carries out an operator's command. Reload reads the configuration again.
	Do func(context.Context, supervisor.Command) error
	// The notes say what takes effect only at the next start.
	Reload func(context.Context) (notes []string, err error)
	// Reply takes a human's answer to the incident with that key, and sees it written where the agent reads it.
	Reply func(ctx context.Context, key string, r escalate.Reply) (escalate.Incident, error)
	// Channels tells how the ways to the human do; nil: nobody knows.
	Channels func() []Channel
	// Fresh gives the picture with the load as it is now, for who watches that; nil: the last decision's is shown.
	Fresh func(*supervisor.State) *supervisor.State
	// Admissions admits what starts work by itself.
	Admissions *supervisor.Admissions
	// Lives is false only for a process that is gone; nil: all live.
	Lives func(pid int) bool
	// Kept tells of the agents that this steward starts; nil: none.
	Kept func() []Kept
	// Restart ends one of them and starts it anew, and tells how it is then; nil only if Kept is nil.
	Restart func(ctx context.Context, a Kept, why string) (Kept, error)
	// Granted lists the locks that steward lock run holds in the projects of the picture, as they are now; nil: none. It must
	// be quick: they are looked for whenever the whole picture, the locks or one of them are asked for.
	Granted func(*supervisor.State) []Granted
	// Reach sends a test by every channel, Reached tells what became of it; nil: there are no channels.
	Reach   func() error
	Reached func() []Trial
	// Escalate gives the settings in force, which say how long an acknowledgement holds.
	Escalate func() escalate.Config
	Metrics  http.Handler // GET /metrics; nil: there is none
	Self     Self
	Now      func() time.Time

	written atomic.Pointer[written]
}

// The limits against clients that are slow, greedy or gone.
const (
	headerTime  = 5 * time.Second
	readTime    = 10 * time.Second
	writeTime   = 30 * time.Second
	idleTime    = 15 * time.Second // steward's own clients make one request for each connection
	farewell    = 2 * time.Second
	maxHeader   = 16 << 10
	maxBody     = 64 << 10         // an answer's reason may have 8,000 characters, of any length in JSON
	commandTime = 20 * time.Second // below writeTime, so that the answer still gets out
)

// Handler routes the whole interface, with errors as error documents.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, e := range s.questions() {
		mux.Handle(pattern, e)
	}
	for pattern, e := range s.commands() {
		mux.Handle(pattern, e)
	}
	mux.HandleFunc("GET /v1/log", s.log)
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics)
	}
	return http.MaxBytesHandler(documented(mux), maxBody)
}

func (s *Server) questions() map[string]endpoint {
	return map[string]endpoint{
		"GET /v1/status":    s.status,
		"GET /v1/agents":    s.agents,
		"GET /v1/tasks":     s.tasks,
		"GET /v1/locks":     s.locks,
		"GET /v1/incidents": s.incidents,
		"GET /v1/goals":     s.goals,
		"GET /v1/capacity":  s.capacity,
		"GET /v1/explain":   s.explain,
		"GET /v1/reach":     s.reached,
		"GET /healthz":      s.health,
	}
}

// Serve answers on l until ctx ends, and closes it. Streams end with ctx; other requests get a moment more.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return Serve(ctx, l, s.Handler())
}

// Serve runs a handler on l until ctx ends, within limits that no slow client can outstay, and closes l. It serves
// metrics over TCP too.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ConnState: newConnections().state}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if srv.Shutdown(end) != nil {
		srv.Close() // who has not finished by now is cut off
	}
	<-served
	return nil
}

// health answers whether the loop still looks: no older than three looks and half a minute is its last one.
func (s *Server) health(*http.Request) (any, error) {
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	last := p.Plan.Memory.LastLook
	if age, most := s.Now().Sub(last), 3*p.Config.LookEvery+30*time.Second; age > most {
		return nil, notReady("see the log of the daemon; restart it", "the last look is %s old, more than %s", age.Round(time.Second), most)
	}
	return struct {
		OK       bool       `json:"ok"`
		LastLook *time.Time `json:"last_look"`
		Looks    int        `json:"looks"`
	}{true, instant(last), p.Looks}, nil
}

// picture is the last one, or an error while there is none.
func (s *Server) picture() (*supervisor.State, error) {
	if p := s.Picture(); p != nil {
		return p, nil
	}
	return nil, notReady("ask again in a few seconds", "steward has not looked at anything yet")
}
